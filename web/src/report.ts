/**
 * The data contract of a report: what the laboratory writes into the page and the viewer draws.
 *
 * `docs/report_data.md` describes the same fields for the side that writes them. Optional fields
 * (`?`) may be left out or be `null`; lists that are left out count as empty.
 */

/** The only version this viewer reads. A change that breaks old files takes the next number. */
export const REPORT_VERSION = 1;

export interface Report {
  version: number;
  /** The question that the run answers. */
  title: string;
  scenario: string;
  world: "real" | "model";
  /** RFC 3339, UTC. */
  generated: string;
  /** The answer in one sentence, with its number and interval. */
  answer: string;
  /** `compared`: two runs side by side, where nothing is to be held. */
  verdict: RunVerdict;
  /** The claims counted: "promises: 31 of 31 held; published: 52 reproduced, 6 not, 4 undecided". */
  counts?: string | null;
  /** Most important first: the first one that names a figure decides what stands on the first screen. */
  claims: Claim[];
  figures: Figure[];
  findings: Finding[];
  tables: Table[];
  sections: Section[];
  doubts: Doubt[];
  method: Method;
  files: DataFile[];
  /** What the run proves, and what it does not; of compared runs there is none. */
  proof?: Proof | null;
}

export interface Proof {
  /** Who claimed what is judged: the citation, or that there is none. */
  claimed_by: string;
  /** The claims that could have failed, counted. */
  emerging: ProofCounts;
  held: ProofLine[];
  not_held: ProofLine[];
  /** Undecided and in doubt. */
  open: ProofLine[];
  not_judged: ProofLine[];
  /** An input was calibrated to these. */
  put_in: ProofLine[];
  /** Arithmetic of the inputs. */
  follows: ProofLine[];
  /** How many inputs are published, measured, chosen, calibrated. */
  inputs: string;
  calibrated: string[];
  modelled: string[];
  real: string[];
  scale?: string | null;
  /** What the sweep over the ranges of the inputs gave, or that there was none. */
  sweep: string;
  cannot_say: string[];
  figures: PublishedFigure[];
}

export interface ProofCounts {
  held: number;
  not_held: number;
  undecided: number;
  in_doubt: number;
  not_judged: number;
}

export interface ProofLine {
  name: string;
  /** Measured, and the bound. */
  numbers: string;
  /** What was published, and why it came out as it did. */
  text: string;
  verdict: ClaimVerdict;
}

/** A figure of the publication, and the one here that answers it, or why there is none. */
export interface PublishedFigure {
  number: string;
  title: string;
  figure?: string | null;
  omitted?: string | null;
}

/** `not reproduced`: every promise is held and a published statement is not. */
export type RunVerdict = "held" | "not held" | "undecided" | "in doubt" | "not reproduced" | "not judged" | "compared";

export type ClaimVerdict =
  | "held" | "not held" | "undecided" | "in doubt" | "not judged"
  | "differs" | "the same";

export interface Claim {
  name: string;
  about?: "promise" | "published" | null;
  /** What is not `emerges` is shown and not counted as held. */
  kind?: "put in" | "follows" | "emerges" | null;
  unit: string;
  published?: string | number | null;
  /** What would make it hold, in words: "≤ 0.05", "≥ 95 %". */
  expected?: string | null;
  measured?: number | null;
  low?: number | null;
  high?: number | null;
  verdict: ClaimVerdict;
  /** The id of the figure that shows it. */
  figure?: string | null;
  note?: string | null;
}

export type FigureKind = "bars" | "lines" | "timeline" | "ranks" | "cdf";

export interface Figure {
  id: string;
  /** States the finding, not the axes. */
  title: string;
  subtitle?: string | null;
  kind: FigureKind;
  x: Axis;
  y: Axis;
  /** Kind `bars`: the groups, in order. A point's x is an index into this list. */
  categories?: string[] | null;
  series: Series[];
  marks?: Mark[] | null;
  /** Kind `timeline`: named stretches of time, drawn as shaded bands. */
  phases?: Span[] | null;
  /** Kind `timeline`: the stretch that counts. */
  window?: Span | null;
  /** Kind `timeline`: greyed; its `name` is the rule that cut it. */
  warm_up?: Span | null;
  /** Kind `timeline`: stretches that are not to be trusted; `name` is the reason. */
  contaminated?: Span[] | null;
  /** Small plots that share the x axis (and the y axis, unless they bring their own). */
  panels?: Panel[] | null;
  /** One line under the figure. */
  note?: string | null;
}

export interface Axis {
  label: string;
  unit: string;
  log?: boolean | null;
  min?: number | null;
  max?: number | null;
}

export interface Panel {
  id: string;
  title: string;
  y?: Axis | null;
}

/** `[x, y]` or `[x, y, low, high]`; a `null` y is a gap. */
export type Point = [number, number | null] | [number, number | null, number | null, number | null];

export interface Series {
  name: string;
  /**
   * A stable key: the same key is the same colour, pattern, dash and symbol in the whole report.
   * One of the palette's own names (see `theme.ts`) asks for that very colour.
   */
  color: string;
  points: Point[];
  panel?: string | null;
}

/** A published or otherwise given value, drawn as a labelled line. */
export interface Mark {
  label: string;
  value: number;
  axis?: "x" | "y" | null;
  /** Kind `bars`: only across this category, and only across this series' bar when named too. */
  category?: string | null;
  series?: string | null;
  panel?: string | null;
}

export interface Span {
  name: string;
  from: number;
  to: number;
}

export interface Finding {
  resource: string;
  evidence: string;
  threshold?: string | null;
  source?: string | null;
  consequence: string;
  try?: string | null;
  /** What is lost by it, where the run knows it: the costliest is shown first. */
  cost?: Cost | null;
}

/** A share that is lost. With a fixed number of I/Os in flight the two are the same, so that they compare. */
export interface Cost {
  /** 0 to 100. */
  percent: number;
  of: "response time" | "throughput";
  /** An upper bound, not a measurement. */
  at_most?: boolean | null;
}

export type Cell = string | number | null;

export interface Table {
  id: string;
  title: string;
  columns: Column[];
  rows: Cell[][];
}

export interface Column {
  name: string;
  unit?: string | null;
  numeric: boolean;
}

export interface Section {
  id: string;
  title: string;
  /** Plain text; an empty line starts a new paragraph. */
  text?: string | null;
  figures?: string[] | null;
  tables?: string[] | null;
}

export interface Doubt {
  text: string;
  /** What was done about it: left out, kept and marked, repeated. */
  effect?: string | null;
  /** What it comes from, where somebody acts on it: `stopped`, the run was stopped before its end. */
  kind?: string;
}

export interface Method {
  command: string;
  /** The commit that masu was built from; `null`: the build does not know it. Absent of compared runs. */
  commit?: string | null;
  /** As text: a 64-bit seed does not fit a JavaScript number. */
  seed?: string | null;
  scenario_text?: string | null;
  versions?: { name: string; version: string }[] | null;
  machine?: Machine | null;
  modelled?: string[] | null;
  real?: string[] | null;
  calibrated?: string[] | null;
  repeats?: number | null;
  /** Present when the run was not at the published size: by how much, in words. */
  scale?: string | null;
}

export interface Machine {
  cpu: string;
  cores: number;
  kernel: string;
  distribution?: string | null;
  /** Block devices with model and size. */
  drives?: string[] | null;
  /** Interfaces with driver and speed. */
  network?: string[] | null;
  memory?: string | null;
  /** Mean load average over the run. */
  load?: number | null;
  /** Percent of CPU time taken by others on the same physical machine. */
  steal?: number | null;
}

export interface DataFile {
  /** Relative to the report. */
  name: string;
  about: string;
  rows?: number | null;
}
