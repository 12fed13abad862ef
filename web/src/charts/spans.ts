/** The bands of a time figure: phases, the window that counts, the warm-up, and what is not to be trusted. */
import type { Figure, Span } from "../report";
import { say } from "../words/words";
import type { DrawApi, DrawParams } from "./echarts";
import { FONT, type Frame, fit } from "./frame";

export const PHASE_ROW_PX = 20;
export const WINDOW_ROW_PX = 18;
const LABEL_PX = 11;

interface Plot { x: number; y: number; width: number; height: number }

export function spanRows(figure: Figure): number {
  if (figure.kind !== "timeline") return 0;
  return (figure.phases?.length ? PHASE_ROW_PX : 0) + (figure.window || figure.warm_up ? WINDOW_ROW_PX : 0);
}

/** Two layers per panel: bands behind the lines, and the grey of the warm-up before them. */
export function spanSeries(figure: Figure, frame: Frame, panel: number, isTop: boolean): object[] {
  if (figure.kind !== "timeline") return [];
  const layer = (z: number, draw: (plot: Plot, toX: (seconds: number) => number) => object[]) => ({
    type: "custom", xAxisIndex: panel, yAxisIndex: panel, z, silent: true, clip: false, data: [[0, 0]], tooltip: { show: false },
    renderItem: (params: DrawParams, api: DrawApi) => {
      const plot = params.coordSys as unknown as Plot;
      const toX = (seconds: number) => Math.min(plot.x + plot.width, Math.max(plot.x, api.coord([seconds, 0])[0] ?? 0));
      return { type: "group", children: draw(plot, toX) };
    },
  });
  return [
    layer(0, (plot, toX) => [
      ...(figure.phases ?? []).flatMap((_, index) => phase(figure, index, plot, toX, frame, isTop)),
      ...(figure.contaminated ?? []).flatMap((span) => hatched(span, plot, toX, frame)),
    ]),
    layer(6, (plot, toX) => [
      ...(figure.warm_up ? greyed(figure.warm_up, plot, toX, frame, isTop) : []),
      ...(figure.window ? counted(figure.window, plot, toX, frame, isTop) : []),
    ]),
  ];
}

function rect(x: number, y: number, width: number, height: number, style: object): object {
  return { type: "rect", shape: { x, y, width: Math.max(0, width), height }, style };
}

function label(text: string, x: number, y: number, style: object): object {
  return { type: "text", x, y, style: { text, fontSize: LABEL_PX, fontFamily: FONT, verticalAlign: "middle", align: "center", ...style } };
}

function phase(figure: Figure, index: number, plot: Plot, toX: (s: number) => number, frame: Frame, isTop: boolean): object[] {
  const span = figure.phases![index]!;
  const [from, to] = [toX(span.from), toX(span.to)];
  const up = isTop ? spanRows(figure) : 0;
  const parts = [rect(from, plot.y - up, to - from, plot.height + up, { fill: frame.look.bands[index % 2] })];
  if (isTop) parts.push(label(fit(span.name, to - from - 8, LABEL_PX), (from + to) / 2, plot.y - up + PHASE_ROW_PX / 2, { fill: frame.look.ink }));
  return parts;
}

function hatched(span: Span, plot: Plot, toX: (s: number) => number, frame: Frame): object[] {
  const [from, to] = [toX(span.from), Math.max(toX(span.to), toX(span.from) + 2)];
  const lines: object[] = [rect(from, plot.y, to - from, plot.height, { fill: frame.look.warn, opacity: 0.14 })];
  for (let at = from - plot.height; at < to; at += 7) {
    const [x1, x2] = [Math.max(at, from), Math.min(at + plot.height, to)];
    if (x2 <= x1) continue;
    lines.push({
      type: "line", shape: { x1, y1: plot.y + plot.height - (x1 - at), x2, y2: plot.y + plot.height - (x2 - at) },
      style: { stroke: frame.look.warn, lineWidth: 1, opacity: 0.4 },
    });
  }
  return lines;
}

function greyed(span: Span, plot: Plot, toX: (s: number) => number, frame: Frame, isTop: boolean): object[] {
  const [from, to] = [toX(span.from), toX(span.to)];
  const parts = [rect(from, plot.y, to - from, plot.height, { fill: frame.look.surface, opacity: 0.72 })];
  if (isTop) {
    const text = fit(say("span.warm-up"), to - from - 4, LABEL_PX);
    parts.push(label(text, (from + to) / 2, plot.y - WINDOW_ROW_PX / 2, { fill: frame.look.muted, fontStyle: "italic" }));
  }
  return parts;
}

function counted(span: Span, plot: Plot, toX: (s: number) => number, frame: Frame, isTop: boolean): object[] {
  const [from, to] = [toX(span.from), toX(span.to)];
  const stroke = { stroke: frame.look.ink, lineWidth: 1, opacity: 0.55, lineDash: [3, 3] };
  const parts: object[] = [from, to].map((x) => ({
    type: "line", shape: { x1: x, y1: plot.y, x2: x, y2: plot.y + plot.height }, style: stroke,
  }));
  if (isTop) {
    parts.push(rect(from, plot.y - 2.5, to - from, 2.5, { fill: frame.look.ink }));
    const text = fit(span.name || say("span.window"), to - from - 4, LABEL_PX);
    parts.push(label(text, (from + to) / 2, plot.y - WINDOW_ROW_PX / 2 - 1, { fill: frame.look.ink, fontWeight: 600 }));
  }
  return parts;
}

/** What the bands mean, in words under the figure. */
export function spanNotes(figure: Figure): string[] {
  if (figure.kind !== "timeline") return [];
  const range = (span: Span) => `${span.from}–${span.to} s`;
  return [
    ...(figure.warm_up ? [say("span.warm-up note", { range: range(figure.warm_up), rule: figure.warm_up.name })] : []),
    ...(figure.contaminated ?? []).map((span) => say("span.hatched note", { range: range(span), reason: span.name })),
  ];
}
