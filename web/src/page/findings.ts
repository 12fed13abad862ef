/** Findings as cards: resource, evidence, threshold and its source, consequence, what to try. */
import { h } from "../dom";
import { tie } from "../format";
import type { Finding } from "../report";

export function findingsView(findings: Finding[]): HTMLElement | null {
  if (findings.length === 0) return null;
  return h("section", { id: "findings" }, h("h2", {}, "Findings"), h("div", { class: "cards" }, ...findings.map(card)));
}

function card(finding: Finding): HTMLElement {
  const line = (name: string, text: string | null | undefined) => (text ? [h("dt", {}, name), h("dd", {}, tie(text))] : []);
  return h("article", { class: "card" },
    h("h3", {}, finding.resource),
    h("p", { class: "evidence" }, tie(finding.evidence)),
    h("dl", {},
      ...line("Threshold", finding.threshold), ...line("Source", finding.source),
      ...line("Consequence", finding.consequence), ...line("Try", finding.try)));
}
