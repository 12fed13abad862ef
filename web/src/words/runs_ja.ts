/**
 * What the built-in scenarios ask, in Japanese, by their English text: questions and titles of sections. What
 * stands not here is shown in English and marked as such. A test finds each English text in `scenarios/`.
 */
export const runsJa: Record<string, string> = {
  "Does every virtual disk get the service that it was promised?": "すべての仮想ディスクは、保証された性能を得られるか。",
  "What does the array save the hosts?": "ストレージへのオフロードで、ホストの負荷はどれだけ減るか。",
  "How many servers boot and live from one array?": "1 台のストレージで何台のサーバを起動し、運用できるか。",
  "May virtual disks that grow be used in production?": "容量可変の仮想ディスクは実運用に使えるか。",
  "One host": "ホスト 1 台",
  "Cluster, minimums": "クラスタ、下限値の設定",
  "Cluster, maximums": "クラスタ、上限値の設定",
  "Weights": "重み",
  "Hosts and a store that fail": "ホストとポリシーストアの障害",
  "Maximums for all, 90 % together": "全 VM に上限値、合計 90 %",
};
