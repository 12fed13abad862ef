/** Axis limits and ticks: round numbers, known before the chart is drawn so that margins fit the labels. */
import type { Axis } from "./report";

export interface Scale {
  min: number;
  max: number;
  /** Distance of the ticks; absent on a logarithmic axis, where they are the powers of ten. */
  step?: number;
  ticks: number[];
  /** Of a logarithmic axis, when it is not ten. */
  base?: number;
}

/** Lines start at zero unless that would squeeze them into less than this share of the height. */
const ZERO_SQUEEZE = 0.5;

function roundStep(span: number, count: number): number {
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const lead = rough / power;
  return (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 2.5 ? 2.5 : lead <= 5 ? 5 : 10) * power;
}

/** Where all values are whole (servers, ranks), so are the ticks. */
function wholeStep(step: number): number {
  return Number.isInteger(step) ? step : step < 1 ? 1 : 2 * step;
}

export function linearScale(values: number[], axis: Axis, count: number, fromZero: boolean): Scale {
  const finite = values.filter(Number.isFinite);
  let low = axis.min ?? finite.reduce((a, b) => Math.min(a, b), Infinity);
  let high = axis.max ?? finite.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!Number.isFinite(low) || !Number.isFinite(high)) [low, high] = [0, 1];
  if (fromZero || (axis.min == null && low > 0 && (high - low) / high > 1 - ZERO_SQUEEZE)) low = Math.min(0, low);
  if (fromZero) high = Math.max(0, high);
  // one value stands in the middle, and nothing but zero gets some room above
  if (high <= low && low !== 0) [low, high] = fromZero ? [low, high] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
  if (high <= low) high = low + 1;
  const round = roundStep(high - low, count);
  const step = finite.every(Number.isInteger) ? wholeStep(round) : round;
  const min = axis.min != null && !fromZero ? axis.min : Math.floor(low / step + 1e-9) * step;
  const max = axis.max != null && !fromZero ? axis.max : Math.ceil(high / step - 1e-9) * step;
  const ticks: number[] = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return { min: Number(min.toPrecision(12)), max: Number(max.toPrecision(12)), step, ticks };
}

/** Steps that a clock has. */
const TIME_STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/** From the first to the last second, without rounding outwards. */
export function timeScale(min: number, max: number, count: number): Scale {
  const span = Math.max(max - min, 1e-9);
  const step = TIME_STEPS_S.find((s) => span / s <= count) ?? roundStep(span, count);
  const ticks: number[] = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return { min, max: min + span, step, ticks };
}

/** Powers of two (queue depths, block sizes, servers) get an axis of their own, or nothing when some value is none. */
export function powersOfTwo(values: number[]): Scale | null {
  const powers = values.map((value) => Math.log2(value));
  if (values.length === 0 || !powers.every(Number.isInteger)) return null;
  const from = powers.reduce((a, b) => Math.min(a, b));
  const to = Math.max(from + 1, powers.reduce((a, b) => Math.max(a, b)));
  const step = Math.ceil((to - from) / 10);
  const ticks = Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => 2 ** (from + i * step));
  return { min: 2 ** from, max: 2 ** to, step, ticks, base: 2 };
}

/** Whole decades around the positive values; bars must not end on the axis, where they would look like none. */
export function logScale(values: number[], axis: Axis, forBars: boolean): Scale {
  const positive = values.filter((v) => v > 0 && Number.isFinite(v));
  const low = axis.min != null && axis.min > 0 ? axis.min : positive.reduce((a, b) => Math.min(a, b), Infinity);
  const high = axis.max ?? positive.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!Number.isFinite(low) || !Number.isFinite(high)) return { min: 1, max: 10, ticks: [1, 10] };
  let from = Math.floor(Math.log10(low) + 1e-9);
  const to = Math.max(from + 1, Math.ceil(Math.log10(high) - 1e-9));
  if (forBars && axis.min == null && 10 ** from >= low * 0.999) from -= 1;
  const ticks = Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
  return { min: 10 ** from, max: 10 ** to, ticks };
}
