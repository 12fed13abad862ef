/** The first screen's table: claim, published, measured with its interval, verdict. */
import { type IconName, h, icon } from "../dom";
import { interval, plain, tie, typographic, withUnit } from "../format";
import type { Claim, ClaimVerdict, Table } from "../report";
import { say, sayWord, tell, told } from "../words/words";
import { tableView } from "./table";

const VERDICTS: Record<ClaimVerdict, { icon: IconName; kind: string }> = {
  held: { icon: "pass", kind: "good" },
  "not held": { icon: "fail", kind: "bad" },
  undecided: { icon: "same", kind: "warn" },
  "in doubt": { icon: "doubt", kind: "warn" },
  "not judged": { icon: "none", kind: "open" },
  differs: { icon: "differs", kind: "ink" },
  "the same": { icon: "same", kind: "open" },
};

/** A text up to this length stands on one line; a longer one may break. */
const SHORT = 14;

export function claimsView(claims: Claim[], hasFigure: (id: string) => boolean): HTMLElement {
  // Where nothing was published or expected, two columns of dashes would say nothing.
  const isBare = claims.every((claim) => !claim.expected && (claim.published ?? null) === null);
  // Where nothing was repeated, no column is kept free for intervals.
  const isExact = claims.every((claim) => !interval(claim.measured, claim.low, claim.high).range);
  const table: Table = {
    id: "claims", title: "",
    columns: [
      { name: say(isBare ? "claims.metric" : "claims.claim"), numeric: false }, { name: say("claims.published"), numeric: true }, { name: say("claims.expected"), numeric: true },
      { name: say("claims.measured"), numeric: true }, { name: say("claims.verdict"), numeric: false },
    ],
    rows: claims.map((claim) => [
      claim.name, claim.published ?? null, claim.expected ?? null, claim.measured ?? null, claim.verdict,
    ]),
  };
  const cells = [nameCell, publishedCell, expectedCell, measuredCell, verdictCell];
  return tableView(
    table,
    (row, column) => cells[column]!(claims[row]!, hasFigure),
    ["claims", isBare ? "bare" : "", isExact ? "exact" : ""].filter((word) => word).join(" "),
    [["claim", "about", "kind", "unit", "published", "expected", "measured", "low", "high", "verdict"], ...claims.map((claim) => [
      claim.name, claim.about ?? null, claim.kind ?? null, claim.unit, claim.published ?? null, claim.expected ?? null, claim.measured ?? null, claim.low ?? null,
      claim.high ?? null, claim.verdict,
    ])],
  );
}

function nameCell(claim: Claim, hasFigure: (id: string) => boolean): Node {
  const linked = claim.figure && hasFigure(claim.figure);
  const name = linked ? h("a", { href: `#figure-${claim.figure}` }, tell(claim.name)) : tell(claim.name);
  return h("div", { class: "claim-name" }, name, claim.note ? h("span", { class: "claim-note" }, tell(claim.note)) : null);
}

function publishedCell(claim: Claim): Node | string {
  const { published } = claim;
  if (published === null || published === undefined) return h("span", { class: "absent" }, "–");
  if (typeof published === "number") return withUnit(plain(published), told(claim.unit).text);
  return bounded(published);
}

function expectedCell(claim: Claim): Node | string {
  return claim.expected ? bounded(claim.expected) : h("span", { class: "absent" }, "–");
}

/** A short text with a number and its unit, which stays on its line; or a long one. */
function bounded(words: string): Node | string {
  const text = tie(typographic(words));
  return text.length <= SHORT ? tell(text) : h("span", { class: "long" }, tell(text));
}

function measuredCell(claim: Claim): Node {
  const text = interval(claim.measured, claim.low, claim.high);
  return h("div", { class: "measured" },
    h("span", { class: "value" }, withUnit(text.value, told(claim.unit).text)),
    h("span", { class: "range" }, text.range ? ` (${text.range})` : ""));
}

/** The verdict; under it what the claim is about, and its kind where it is not counted. */
function verdictCell(claim: Claim): Node {
  const words = [
    claim.about ? sayWord("about", claim.about) : null,
    claim.kind && claim.kind !== "emerges" ? sayWord("kind", claim.kind) : null,
  ];
  const beside = words.filter((word) => word).join(say("proof.joint"));
  return h("div", { class: "claim-verdict" }, verdictMark(claim.verdict, isCounted(claim)), beside ? h("span", { class: "claim-note" }, beside) : null);
}

/** What an input was calibrated to, or what follows from inputs, is not counted as held, and not green. */
function isCounted(claim: Claim): boolean {
  return claim.verdict !== "held" || !claim.kind || claim.kind === "emerges";
}

/** The verdict with its sign; grey where it is not counted. */
export function verdictMark(verdict: ClaimVerdict, counted: boolean): HTMLElement {
  const { icon: name, kind } = VERDICTS[verdict] ?? VERDICTS["not judged"];
  return h("span", { class: `verdict ${counted ? kind : "open"}` }, icon(name), sayWord("verdict", verdict));
}
