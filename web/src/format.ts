/** Numbers, intervals and times as a reader wants them: no digit that the measurement does not carry. */

import type { Report } from "./report";
import { currentLanguage, say } from "./words/words";

export const NO_BREAK_SPACE = "\u00a0";
const MINUS = "\u2212";
const NO_VALUE = "\u2013";
/** More digits than this say nothing in a report, however tight the interval. */
const SIGNIFICANT_MAX = 5;
const SIGNIFICANT = 3;

/** With so many decimals, thousands grouped, a true minus sign. */
export function fixed(value: number, decimals: number): string {
  const text = Math.abs(value).toFixed(decimals);
  const [whole = "0", fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  const isZero = Number(text) === 0;
  return (value < 0 && !isZero ? MINUS : "") + grouped + (fraction ? `.${fraction}` : "");
}

function decimalsFor(value: number, significant: number): number {
  if (value === 0) return 0;
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return Math.max(0, Math.min(12, significant - 1 - magnitude));
}

function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

const SUPERSCRIPTS: Record<string, string> = {
  "-": "⁻", "0": "⁰", "1": "¹", "2": "²", "3": "³", "4": "⁴", "5": "⁵", "6": "⁶", "7": "⁷", "8": "⁸", "9": "⁹",
};

/** Three significant digits; integers whole; tiny values as a power of ten. */
export function plain(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NO_VALUE;
  if (Number.isInteger(value)) return fixed(value, 0);
  if (Math.abs(value) < 1e-4) return powerOfTen(value);
  return trimZeros(fixed(value, decimalsFor(value, SIGNIFICANT)));
}

function powerOfTen(value: number): string {
  const [digits = "0", exponent = "0"] = Math.abs(value).toExponential(1).split("e");
  const raised = String(Number(exponent)).replace(/./g, (c) => SUPERSCRIPTS[c] ?? c);
  return `${value < 0 ? MINUS : ""}${trimZeros(digits)}×10${raised}`;
}

/** For axes and labels inside figures: 12,345 is 12.3k and 2,966,304 is 2.97M. */
export function compact(value: number): string {
  const size = Math.abs(value);
  for (const [limit, divisor, letter] of [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]] as const) {
    if (size >= limit) {
      const scaled = value / divisor;
      return trimZeros(fixed(scaled, decimalsFor(scaled, SIGNIFICANT))) + letter;
    }
  }
  return plain(value);
}

export function withUnit(text: string, unit: string): string {
  return unit === "" || text === NO_VALUE ? text : `${text}${NO_BREAK_SPACE}${unit}`;
}

/** "label, unit" for the head of an axis or a column. */
export function named(label: string, unit: string | null | undefined): string {
  if (!unit) return label;
  return label === "" ? unit : `${label}, ${unit}`;
}

export interface IntervalText {
  value: string;
  /** "0.7–0.9", or empty when there is no interval. */
  range: string;
}

/** The decimals that a half width asks for: two digits when it begins with 1, else one (0.12, 1.6, 8). */
function decimalsOfHalfWidth(half: number): number {
  const magnitude = Math.floor(Math.log10(half) + 1e-9);
  const lead = half / 10 ** magnitude;
  return Math.max(0, lead < 2 ? 1 - magnitude : -magnitude);
}

/**
 * The value, and its interval, at a resolution that the interval's half width asks for:
 * 0.8 (0.7–0.9), 73.5 (71.9–75.1), 1,071 (1,063–1,079).
 */
export function interval(
  value: number | null | undefined,
  low: number | null | undefined,
  high: number | null | undefined,
): IntervalText {
  if (value === null || value === undefined || !Number.isFinite(value)) return { value: NO_VALUE, range: "" };
  if (low === null || low === undefined || high === null || high === undefined) return { value: plain(value), range: "" };
  const half = Math.abs(high - low) / 2;
  if (half === 0) return { value: plain(value), range: "" };
  const most = decimalsFor(Math.max(Math.abs(value), Math.abs(high)), SIGNIFICANT_MAX);
  let decimals = Math.min(decimalsOfHalfWidth(half), most);
  while (decimals > 0 && [value, low, high].every((one) => fixed(one, decimals).endsWith("0"))) decimals -= 1;
  const [from, to] = [fixed(low, decimals), fixed(high, decimals)];
  const shown = fixed(value, decimals);
  if (from === to) return { value: shown, range: "" };
  const joint = low < 0 || high < 0 ? say("interval.joint") : "–";
  return { value: shown, range: `${from}${joint}${to}` };
}

/** "0.8 % (0.7–0.9)". */
export function intervalText(
  value: number | null | undefined,
  low: number | null | undefined,
  high: number | null | undefined,
  unit: string,
): string {
  const text = interval(value, low, high);
  return withUnit(text.value, unit) + (text.range ? ` (${text.range})` : "");
}

/** One number of decimals for a whole column, unless its values are too far apart for that. */
export function columnDecimals(values: number[]): number | null {
  const sizes = values.filter((v) => v !== 0 && Number.isFinite(v)).map(Math.abs);
  if (sizes.length === 0 || values.every(Number.isInteger)) return 0;
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  if (most / least > 1000) return null;
  return Math.min(4, decimalsFor(most, SIGNIFICANT) + (most / least > 20 ? 1 : 0));
}

/** The numbers of a text as `fixed` writes them: with a true minus sign, thousands grouped. */
export function typographic(text: string): string {
  return text
    .replace(/(^|[\s(≤≥<>])-(?=\d)/g, `$1${MINUS}`)
    .replace(/(?<![\d.,])\d{4,}(?![\d,])/g, (digits) => fixed(Number(digits), 0));
}

/** Keeps numbers together with their units and tolerances where a line breaks. */
export function tie(text: string): string {
  const unit = "%|×|(?:s|ms|µs|ns|[KMGT]i?B(?:/s)?|IOPS)\\b";
  return text
    .replace(/ ± /g, `${NO_BREAK_SPACE}±${NO_BREAK_SPACE}`)
    .replace(new RegExp(`(\\d) (?=${unit})`, "g"), `$1${NO_BREAK_SPACE}`)
    .replace(/([≤≥<>]) (?=\d)/g, `$1${NO_BREAK_SPACE}`);
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** "20 Nov 2026, 14:05 UTC"; text that is no time is shown as it is. */
export function time(text: string): string {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text;
  const two = (n: number) => String(n).padStart(2, "0");
  const clock = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())} UTC`;
  if (currentLanguage() === "ja") return `${date.getUTCFullYear()}年${date.getUTCMonth() + 1}月${date.getUTCDate()}日 ${clock}`;
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
  return `${day}, ${clock}`;
}

/** Where a report's values come from: two runs, a model, or this machine. */
export function worldWords({ verdict, world }: Pick<Report, "verdict" | "world">): string {
  return say(verdict === "compared" ? "world.two" : world === "model" ? "world.model" : "world.real");
}
