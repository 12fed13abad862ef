/** Findings as cards, the costliest first: resource, evidence, threshold and its source, consequence, what to try. */
import { h } from "../dom";
import { plain, tie } from "../format";
import type { Cost, Finding } from "../report";
import { say, tell } from "../words/words";
import { tableView } from "./table";

/** The same finding of several resources is one group: it differs in names and numbers only. Costliest first. */
export function grouped(findings: Finding[]): Finding[][] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    const { resource, evidence, threshold, source, consequence } = finding;
    const key = JSON.stringify([resource, evidence, threshold, source, consequence, finding.try].map((text) =>
      (text ?? "").replaceAll(resource, "#").replace(/\d[\d,.]*/g, "#")));
    const group = groups.get(key);
    if (group) group.push(finding);
    else groups.set(key, [finding]);
  }
  const all = [...groups.values()].map((group) => group.toSorted(byCost));
  return all.sort(([a], [b]) => byCost(a!, b!));
}

/** Stable; where the cost is not known, last. */
function byCost(a: Finding, b: Finding): number {
  return (b.cost?.percent ?? -1) - (a.cost?.percent ?? -1);
}

function costWords({ percent, of, at_most }: Cost): string {
  return say(at_most ? `finding.${of} at most` : `finding.${of}`, { percent: plain(percent) });
}

export function findingsView(findings: Finding[]): HTMLElement | null {
  if (findings.length === 0) return null;
  return h("section", { id: "findings" }, h("h2", {}, say("findings")), h("div", { class: "cards" }, ...grouped(findings).map(card)));
}

/** One finding, or one of several resources with a line for each: where, and how much. */
function card(group: Finding[]): HTMLElement {
  const [finding] = group as [Finding, ...Finding[]];
  const line = (name: string, text: string | null | undefined) => (text ? [h("dt", {}, name), h("dd", {}, tell(tie(text)))] : []);
  return h("article", { class: "card" },
    h("h3", {}, group.length === 1 ? tell(finding.resource) : say("finding.on", { count: group.length })),
    h("p", { class: "evidence" }, tell(tie(group.length === 1 ? finding.evidence : finding.consequence))),
    group.length === 1 ? null : where(group),
    h("dl", {},
      ...(finding.cost ? [h("dt", {}, say("finding.cost")), h("dd", { class: "cost" }, tie(costWords(finding.cost)))] : []),
      ...line(say("finding.threshold"), finding.threshold), ...line(say("finding.source"), finding.source),
      ...(group.length === 1 ? line(say("finding.consequence"), finding.consequence) : []), ...line(say("finding.try"), finding.try)));
}

function where(group: Finding[]): HTMLElement {
  const isKnown = group.some(({ cost }) => cost);
  const names = [say("finding.resource"), say("finding.evidence"), ...(isKnown ? [say("finding.cost")] : [])];
  const rows = group.map(({ resource, evidence, cost }) => [resource, evidence, ...(isKnown ? [cost ? costWords(cost) : null] : [])]);
  return tableView({ id: "where", title: "", columns: names.map((name) => ({ name, numeric: false })), rows });
}
