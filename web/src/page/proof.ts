/** What the run proves, and what it does not: on the first screen in short, and as a section of its own. */
import { type Child, h } from "../dom";
import { tie } from "../format";
import type { ClaimVerdict, Proof, ProofCounts, ProofLine, PublishedFigure, Report } from "../report";
import { say, sayWord, tell, told } from "../words/words";
import { verdictMark } from "./claims";
import type { Figures } from "./figure";

/** So many of a list stand on the first screen. */
const FIRST_MAX = 3;

type Part = [verdict: ClaimVerdict, count: number, kind: string];

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
    entry(say("proof.claimed"), h("p", {}, tell(tie(proof.claimed_by)))),
    entry(say("proof.failable"), bar(proof.emerging)),
    entry(say("proof.failed"), failed.length === 0
      ? h("p", {}, say("proof.nothing failed"))
      : short(failed.map((line): [string, string] => [line.name, line.verdict === "not held" ? "" : ` (${sayWord("verdict", line.verdict)})`]), "#proof-not")),
    entry(say("proof.limits"), proof.cannot_say.length === 0
      ? h("p", {}, say("proof.no limits"))
      : short(proof.cannot_say.map((text): [string, string] => [withoutReason(text), ""]), "#proof-limits")));
}

/** "What other loads get: all VMs write 512 KiB" in short: the section has the reason. */
function withoutReason(text: string): string {
  const [what = text] = text.split(": ");
  return what.replace(/\.$/, "");
}

function entry(name: string, ...content: Child[]): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, ...content));
}

/** The first of a list, each a text of the run and what the viewer adds; the rest is a link. */
function short(all: [string, string][], target: string): HTMLElement {
  const some = all.slice(0, FIRST_MAX).map(([text, added]) => h("li", {}, tell(tie(text)), added));
  const more = all.length - some.length;
  return h("ul", { class: "plain" }, ...some, more > 0 ? h("li", { class: "more" }, h("a", { href: target }, say("and more", { count: more }))) : null);
}

/** A bar of the verdicts with their numbers: told apart by words, and by more than a colour. */
function bar(counts: ProofCounts): HTMLElement {
  const all = total(counts);
  if (all === 0) return h("p", {}, say("proof.none"));
  const words = parts(counts).map(([verdict, count]) => say("proof.part", { count, verdict: sayWord("verdict", verdict) })).join(say("proof.joint"));
  return h("div", { class: "tally" },
    h("p", {}, say("proof.count", { count: all, parts: words })),
    h("div", { class: "stack", "aria-hidden": "true" },
      ...parts(counts).map(([, count, kind]) => h("span", { class: kind, style: `flex-grow: ${count}` }))));
}

export function proofView(report: Report, figures: Figures): HTMLElement | null {
  const { proof } = report;
  if (!proof) return null;
  return h("section", { id: "proof" },
    h("h2", {}, say("proof.title")),
    h("div", { class: "sides" },
      h("div", {}, ...shows(proof)), h("div", { id: "proof-not" }, ...showsNot(proof))),
    h("div", { class: "columns" },
      list(say("proof.modelled"), proof.modelled, say("proof.nothing")), list(say("proof.real"), proof.real, say("proof.nothing")),
      list(say("proof.calibrated"), proof.calibrated, say("proof.no input"))),
    h("p", { class: "prose" },
      tell(tie(proof.inputs)), " ", ...(proof.scale ? [say("proof.scale"), " ", tell(tie(`${proof.scale}.`))] : []), " ", tell(tie(proof.sweep))),
    publishedFigures(proof, figures));
}

function shows(proof: Proof): Child[] {
  const all = total(proof.emerging);
  return [
    brief(say("proof.held", { held: proof.held.length, all }), proof.held, say("proof.no held")),
    proof.put_in.length > 0 ? lines(say("proof.put in"), proof.put_in) : null,
    proof.follows.length > 0 ? lines(say("proof.follows"), proof.follows) : null,
  ];
}

function showsNot(proof: Proof): Child[] {
  return [
    lines(say("proof.failed"), proof.not_held, say("proof.nothing failed")),
    proof.open.length > 0 ? lines(say("proof.open"), proof.open) : null,
    proof.not_judged.length > 0 ? lines(say("proof.not judged"), proof.not_judged) : null,
    h("div", { id: "proof-limits", class: "lines" }, h("h3", {}, say("proof.no run")),
      proof.cannot_say.length > 0
        ? h("ul", { class: "plain" }, ...proof.cannot_say.map((text) => h("li", {}, tell(tie(text)))))
        : h("p", { class: "none" }, say("proof.says nothing"))),
  ];
}

/** Claims that are held need no more than their numbers: the first table has the rest. */
function brief(title: string, all: ProofLine[], none: string): HTMLElement {
  return h("div", { class: "lines" }, h("h3", {}, title),
    all.length === 0 ? h("p", { class: "none" }, none) : null,
    h("ul", {}, ...all.map((line) => h("li", { class: "brief" },
      h("span", { class: "line-name" }, verdictMark(line.verdict, true), h("span", {}, tell(tie(line.name)))),
      h("span", { class: "line-numbers" }, tell(tie(line.numbers)))))));
}

function lines(title: string, all: ProofLine[], none = ""): HTMLElement {
  return h("div", { class: "lines" }, h("h3", {}, title),
    all.length === 0 ? h("p", { class: "none" }, none) : null,
    h("ul", {}, ...all.map((line) => h("li", {},
      h("span", { class: "line-name" }, verdictMark(line.verdict, line.verdict !== "held"), h("b", {}, tell(tie(line.name)))),
      line.numbers ? h("span", { class: "line-text" }, tell(tie(line.numbers))) : null,
      line.text ? h("span", { class: "line-text" }, tell(tie(line.text))) : null))));
}

function list(title: string, items: string[], none: string): HTMLElement {
  return h("div", {}, h("h3", {}, title),
    items.length === 0 ? h("p", { class: "none" }, none) : h("ul", { class: "plain" }, ...items.map((item) => h("li", {}, tell(tie(item))))));
}

/** Which figure here answers which one of the publication. */
function publishedFigures(proof: Proof, figures: Figures): HTMLElement | null {
  if (proof.figures.length === 0) return null;
  // A run that was stopped, or of a part, does not draw every figure that its scenario names.
  const isDrawn = (one: PublishedFigure) => !!one.figure && figures.titleOf(one.figure) !== undefined;
  const shown = proof.figures.filter(isDrawn).length;
  return h("div", { class: "table-block published-figures" },
    h("h3", {}, say("proof.figures", { shown, all: proof.figures.length })),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, say("claims.published")), h("th", {}, say("proof.shows")), h("th", {}, say("proof.here")))),
      h("tbody", {}, ...proof.figures.map((one) => {
        const why = one.figure ? say("proof.not drawn") : one.omitted ? told(one.omitted).text : say("proof.no reason");
        const here = one.figure && isDrawn(one)
          ? h("a", { href: `#figure-${one.figure}` }, tell(figures.titleOf(one.figure) ?? one.figure))
          : h("span", { class: "absent" }, say("proof.absent", { why }));
        return h("tr", {}, h("td", { "data-label": say("claims.published") }, one.number), h("td", { "data-label": say("proof.shows") }, tell(tie(one.title))), h("td", { "data-label": say("proof.here") }, here));
      })))));
}
