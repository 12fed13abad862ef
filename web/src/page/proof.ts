/** What the run proves, and what it does not: on the first screen in short, and as a section of its own. */
import { type Child, h } from "../dom";
import { tie } from "../format";
import type { Proof, ProofCounts, ProofLine, PublishedFigure, Report } from "../report";
import { verdictMark } from "./claims";
import type { Figures } from "./figure";

/** So many of a list stand on the first screen. */
const FIRST_MAX = 3;

type Part = [name: string, count: number, kind: string];

function parts(counts: ProofCounts): Part[] {
  const all: Part[] = [
    ["held", counts.held, "good"], ["not held", counts.not_held, "bad"], ["undecided", counts.undecided, "warn"],
    ["in doubt", counts.in_doubt, "warn"], ["not judged", counts.not_judged, "open"],
  ];
  return all.filter(([, count]) => count > 0);
}

function total(counts: ProofCounts): number {
  return parts(counts).reduce((sum, [, count]) => sum + count, 0);
}

/** Who claimed it, what could have failed, what did not hold, what the run cannot say. */
export function summaryView(proof: Proof): HTMLElement {
  const failed = [...proof.not_held, ...proof.open];
  return h("dl", { class: "summary" },
    entry("Claimed by", h("p", {}, tie(proof.claimed_by))),
    entry("Could have failed", bar(proof.emerging)),
    entry("Did not hold", failed.length === 0
      ? h("p", {}, "Nothing that could have failed.")
      : short(failed.map((line) => (line.verdict === "not held" ? line.name : `${line.name} (${line.verdict})`)), "#proof-not")),
    entry("This run cannot say", proof.cannot_say.length === 0
      ? h("p", {}, "Its scenario names no limits of what it shows.")
      : short(proof.cannot_say.map(withoutReason), "#proof-limits")));
}

/** "What other loads get: all VMs write 512 KiB" in short: the section has the reason. */
function withoutReason(text: string): string {
  const [what = text] = text.split(": ");
  return what.replace(/\.$/, "");
}

function entry(name: string, ...content: Child[]): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, ...content));
}

/** The first of a list; the rest is a link. */
function short(all: string[], target: string): HTMLElement {
  const some = all.slice(0, FIRST_MAX).map((text) => h("li", {}, tie(text)));
  const more = all.length - some.length;
  return h("ul", { class: "plain" }, ...some, more > 0 ? h("li", { class: "more" }, h("a", { href: target }, `and ${more} more`)) : null);
}

/** A bar of the verdicts with their numbers: told apart by words, and by more than a colour. */
function bar(counts: ProofCounts): HTMLElement {
  const all = total(counts);
  if (all === 0) return h("p", {}, "No claim.");
  const words = parts(counts).map(([name, count]) => `${count} ${name}`).join(", ");
  return h("div", { class: "tally" },
    h("p", {}, `${all} ${all === 1 ? "claim" : "claims"}: ${words}`),
    h("div", { class: "stack", "aria-hidden": "true" },
      ...parts(counts).map(([, count, kind]) => h("span", { class: kind, style: `flex-grow: ${count}` }))));
}

export function proofView(report: Report, figures: Figures): HTMLElement | null {
  const { proof } = report;
  if (!proof) return null;
  return h("section", { id: "proof" },
    h("h2", {}, "What this run proves, and what it does not"),
    h("div", { class: "sides" },
      h("div", {}, ...shows(proof)), h("div", { id: "proof-not" }, ...showsNot(proof))),
    h("div", { class: "columns" },
      list("Modelled", proof.modelled, "Nothing."), list("Real", proof.real, "Nothing."),
      list("Calibrated, and to what", proof.calibrated, "No input.")),
    h("p", { class: "prose" }, tie(`${proof.inputs} ${proof.scale ? `Scale: ${proof.scale}.` : ""} ${proof.sweep}`)),
    publishedFigures(proof, figures));
}

function shows(proof: Proof): Child[] {
  const all = total(proof.emerging);
  return [
    brief(`Could have failed, and held: ${proof.held.length} of ${all}`, proof.held, "No claim that could have failed is held."),
    proof.put_in.length > 0 ? lines("Put in: an input was calibrated to it, so that it proves nothing", proof.put_in) : null,
    proof.follows.length > 0 ? lines("Follows from the inputs by arithmetic, so that it proves the arithmetic", proof.follows) : null,
  ];
}

function showsNot(proof: Proof): Child[] {
  return [
    lines("Did not hold", proof.not_held, "Nothing that could have failed."),
    proof.open.length > 0 ? lines("Undecided, or in doubt", proof.open) : null,
    proof.not_judged.length > 0 ? lines("Not judged in this run", proof.not_judged) : null,
    h("div", { id: "proof-limits", class: "lines" }, h("h3", {}, "What no run of this kind can say"),
      proof.cannot_say.length > 0
        ? h("ul", { class: "plain" }, ...proof.cannot_say.map((text) => h("li", {}, tie(text))))
        : h("p", { class: "none" }, "The scenario does not say.")),
  ];
}

/** Claims that are held need no more than their numbers: the first table has the rest. */
function brief(title: string, all: ProofLine[], none: string): HTMLElement {
  return h("div", { class: "lines" }, h("h3", {}, title),
    all.length === 0 ? h("p", { class: "none" }, none) : null,
    h("ul", {}, ...all.map((line) => h("li", { class: "brief" },
      h("span", { class: "line-name" }, verdictMark(line.verdict, true), h("span", {}, tie(line.name))),
      h("span", { class: "line-numbers" }, tie(line.numbers))))));
}

function lines(title: string, all: ProofLine[], none = ""): HTMLElement {
  return h("div", { class: "lines" }, h("h3", {}, title),
    all.length === 0 ? h("p", { class: "none" }, none) : null,
    h("ul", {}, ...all.map((line) => h("li", {},
      h("span", { class: "line-name" }, verdictMark(line.verdict, line.verdict !== "held"), h("b", {}, tie(line.name))),
      line.numbers ? h("span", { class: "line-text" }, tie(line.numbers)) : null,
      line.text ? h("span", { class: "line-text" }, tie(line.text)) : null))));
}

function list(title: string, items: string[], none: string): HTMLElement {
  return h("div", {}, h("h3", {}, title),
    items.length === 0 ? h("p", { class: "none" }, none) : h("ul", { class: "plain" }, ...items.map((item) => h("li", {}, tie(item)))));
}

/** Which figure here answers which one of the publication. */
function publishedFigures(proof: Proof, figures: Figures): HTMLElement | null {
  if (proof.figures.length === 0) return null;
  // A run that was stopped, or of a part, does not draw every figure that its scenario names.
  const isDrawn = (one: PublishedFigure) => !!one.figure && figures.titleOf(one.figure) !== undefined;
  const shown = proof.figures.filter(isDrawn).length;
  return h("div", { class: "table-block published-figures" },
    h("h3", {}, `Figures of the publication: ${shown} of ${proof.figures.length} are answered here`),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, "Published"), h("th", {}, "Shows"), h("th", {}, "Here"))),
      h("tbody", {}, ...proof.figures.map((one) => {
        const why = one.figure ? "this run does not draw it" : (one.omitted ?? "no reason is given");
        const here = one.figure && isDrawn(one)
          ? h("a", { href: `#figure-${one.figure}` }, figures.titleOf(one.figure) ?? one.figure)
          : h("span", { class: "absent" }, `none: ${why}`);
        return h("tr", {}, h("td", { "data-label": "Published" }, one.number), h("td", { "data-label": "Shows" }, tie(one.title)), h("td", { "data-label": "Here" }, here));
      })))));
}
