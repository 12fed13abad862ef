/** The first screen: the question, the answer with its verdict, what is in doubt. */
import { type IconName, h, icon } from "../dom";
import { tie, time, worldWords } from "../format";
import type { Doubt, Report } from "../report";
import { capital, say, sayWord, tell } from "../words/words";
import { summaryView } from "./proof";

const VERDICTS: Record<Report["verdict"], { icon: IconName; kind: string }> = {
  held: { icon: "pass", kind: "good" },
  "not held": { icon: "fail", kind: "bad" },
  undecided: { icon: "same", kind: "warn" },
  "in doubt": { icon: "doubt", kind: "warn" },
  "not reproduced": { icon: "differs", kind: "open" },
  "not judged": { icon: "none", kind: "open" },
  compared: { icon: "differs", kind: "open" },
};

export function headView(report: Report): HTMLElement {
  const verdict = VERDICTS[report.verdict] ?? VERDICTS["not judged"];
  return h("header", { class: "head" },
    h("p", { class: "kicker" }, `${report.scenario} · ${time(report.generated)}`),
    h("p", { class: "question" }, tell(report.title)),
    h("h1", {}, tell(tie(report.answer))),
    h("div", { class: "badges" },
      h("span", { class: `badge ${verdict.kind}` }, icon(verdict.icon), capital(sayWord("verdict", report.verdict))),
      h("span", { class: "badge world" }, worldWords(report)),
      report.counts ? h("span", { class: "counts" }, tell(tie(report.counts))) : null),
    doubtsStrip(report.doubts),
    report.proof ? summaryView(report.proof) : null);
}

function doubtsStrip(doubts: Doubt[]): HTMLElement | null {
  const [first] = doubts;
  if (!first) return null;
  const more = doubts.length > 1 ? h("a", { href: "#doubts" }, say("more", { count: doubts.length - 1 })) : null;
  return h("p", { class: "doubt-strip" }, icon("doubt"), h("span", {}, h("b", {}, say("doubt")), " ", tell(tie(first.text)), more ? " " : null, more));
}

export function doubtsView(doubts: Doubt[]): HTMLElement | null {
  if (doubts.length === 0) return null;
  return h("section", { id: "doubts" }, h("h2", {}, say("doubts")),
    h("ul", { class: "doubts" }, ...doubts.map((doubt) =>
      h("li", {}, h("span", {}, tell(tie(doubt.text))), doubt.effect ? h("span", { class: "effect" }, tell(tie(doubt.effect))) : null))));
}
