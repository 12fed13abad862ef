/** Findings as cards: resource, evidence, threshold and its source, consequence, what to try. One finding is said once. */
import { h } from "../dom";
import { tie } from "../format";
import type { Finding } from "../report";
import { say, tell } from "../words/words";
import { tableView } from "./table";

/** The same finding of several resources: it differs in names and numbers only. */
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
  return [...groups.values()];
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
      ...line(say("finding.threshold"), finding.threshold), ...line(say("finding.source"), finding.source),
      ...(group.length === 1 ? line(say("finding.consequence"), finding.consequence) : []), ...line(say("finding.try"), finding.try)));
}

function where(group: Finding[]): HTMLElement {
  const columns = [{ name: say("finding.resource"), numeric: false }, { name: say("finding.evidence"), numeric: false }];
  return tableView({ id: "where", title: "", columns, rows: group.map(({ resource, evidence }) => [resource, evidence]) });
}
