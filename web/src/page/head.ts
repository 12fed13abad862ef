/** The first screen: the question, the answer with its verdict, what is in doubt. */
import { type IconName, h, icon } from "../dom";
import { tie, time } from "../format";
import type { Doubt, Report } from "../report";
import { summaryView } from "./proof";

const VERDICTS: Record<Report["verdict"], { icon: IconName; kind: string; text: string }> = {
  held: { icon: "pass", kind: "good", text: "Held" },
  "not held": { icon: "fail", kind: "bad", text: "Not held" },
  undecided: { icon: "same", kind: "warn", text: "Undecided" },
  "in doubt": { icon: "doubt", kind: "warn", text: "In doubt" },
  "not reproduced": { icon: "differs", kind: "open", text: "Not reproduced" },
  "not judged": { icon: "none", kind: "open", text: "Not judged" },
  compared: { icon: "differs", kind: "open", text: "Compared" },
};

export function headView(report: Report): HTMLElement {
  const verdict = VERDICTS[report.verdict] ?? VERDICTS["not judged"];
  const world = report.verdict === "compared" ? "Two runs" : report.world === "model" ? "Modelled, virtual time" : "Real run";
  return h("header", { class: "head" },
    h("p", { class: "kicker" }, `${report.scenario} · ${time(report.generated)}`),
    h("p", { class: "question" }, report.title),
    h("h1", {}, tie(report.answer)),
    h("div", { class: "badges" },
      h("span", { class: `badge ${verdict.kind}` }, icon(verdict.icon), verdict.text),
      h("span", { class: "badge world" }, world),
      report.counts ? h("span", { class: "counts" }, tie(report.counts)) : null),
    doubtsStrip(report.doubts),
    report.proof ? summaryView(report.proof) : null);
}

function doubtsStrip(doubts: Doubt[]): HTMLElement | null {
  const [first] = doubts;
  if (!first) return null;
  const more = doubts.length > 1 ? h("a", { href: "#doubts" }, `${doubts.length - 1} more`) : null;
  return h("p", { class: "doubt-strip" }, icon("doubt"), h("span", {}, h("b", {}, "Doubt: "), tie(first.text), more ? " " : null, more));
}

export function doubtsView(doubts: Doubt[]): HTMLElement | null {
  if (doubts.length === 0) return null;
  return h("section", { id: "doubts" }, h("h2", {}, "Doubts"),
    h("ul", { class: "doubts" }, ...doubts.map((doubt) =>
      h("li", {}, h("span", {}, tie(doubt.text)), doubt.effect ? h("span", { class: "effect" }, tie(doubt.effect)) : null))));
}
