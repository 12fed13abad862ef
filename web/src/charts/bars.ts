/** Grouped bars with whiskers; each bar carries its value, and published values are ticks across the bars. */
import { compact, intervalText, withUnit } from "../format";
import type { Figure, Mark, Point, Series } from "../report";
import { type Scale, linearScale, logScale } from "../scale";
import type { DrawApi, DrawParams } from "./echarts";
import {
  type Built, type Frame, type Key, LINE_PX, TEXT_PX, FONT, axisTitle, baseOption, colorOf, legend, slotOf, textWidth, tickWidth, valueAxis, wrap,
} from "./frame";
import { type Row, tooltipBox, tooltipOption } from "./tooltip";

const BAR_PX = 18;
const BAR_GAP_PX = 5;
const GROUP_GAP_PX = 20;
const UPRIGHT_BAR_PX = 40;
const UPRIGHT_HEIGHT_PX = 240;
/** The name of the axis, and the label of a bar that reaches the top. */
const UPRIGHT_HEAD_PX = 28;
const WHISKER_CAP_PX = 4;
const LABEL_GAP_PX = 7;
const LABEL_ROOM_PX = 50;

interface Layout {
  upright: boolean;
  bar: number;
  scale: Scale;
  categories: string[];
  /** The lines of text beside each group. */
  names: string[][];
  /** About how many pixels the values have, to tell which labels would touch. */
  plotWidth: number;
}

export function buildBars(figure: Figure, frame: Frame): Built {
  const layout = lay(figure, frame);
  const keys = legendKeys(figure, frame);
  const key = keys.length > 0 ? legend(keys, frame, false) : null;
  const top = frame.top + (key ? key.height + 6 : 0);
  const headroom = (figure.marks ?? []).some((mark) => !mark.category) ? LINE_PX + 3 : 0;
  const plot = layout.upright ? upright(figure, frame, layout, top) : lying(figure, frame, layout, top + headroom);
  const option = {
    ...baseOption(frame), ...plot.option,
    ...(key ? { legend: key.option } : {}),
    series: allSeries(figure, frame, layout),
    tooltip: tooltipOption(frame.look, "shadow", (params) => tip(figure, frame, params)),
  };
  return { option, height: plot.height };
}

function lay(figure: Figure, frame: Frame): Layout {
  const categories = figure.categories ?? [];
  const values = figure.series.flatMap((series) => series.points.flatMap(([, y, low, high]) => [y, low ?? null, high ?? null]));
  const all = [...values, ...(figure.marks ?? []).map((mark) => mark.value)].filter((v): v is number => v !== null);
  const scale = figure.y.log ? logScale(all, figure.y, true) : linearScale(all, figure.y, 4, true);
  const count = Math.max(1, figure.series.length);
  const band = (frame.width - tickWidth(scale) - 16) / Math.max(1, categories.length);
  const perBar = (band - GROUP_GAP_PX) / count;
  const widest = Math.max(0, ...categories.map((name) => textWidth(name)));
  const widestLabel = Math.max(0, ...all.map((v) => textWidth(compact(v))));
  const marked = (figure.marks ?? []).some((mark) => mark.category);
  const isUpright = !marked && widest <= band - 8 && perBar >= Math.max(30, widestLabel + 4);
  const nameWidth = Math.min(widest, Math.max(72, frame.width * 0.26));
  return {
    upright: isUpright, scale, categories,
    bar: isUpright ? Math.min(UPRIGHT_BAR_PX, perBar - BAR_GAP_PX) : BAR_PX,
    names: categories.map((name) => (isUpright ? [name] : wrap(name, nameWidth, TEXT_PX))),
    plotWidth: frame.width - nameWidth - LABEL_ROOM_PX,
  };
}

function legendKeys(figure: Figure, frame: Frame): Key[] {
  const marks = markNames(figure);
  const isNeeded = figure.series.length > 1 || marks.length > 0;
  const keys: Key[] = isNeeded ? figure.series.map((series) => ({ name: series.name, icon: "roundRect" })) : [];
  for (const name of marks) {
    keys.push({ name, icon: "path://M5 0h1v3h-1zM5 4h1v3h-1zM5 8h1v3h-1z", itemStyle: { color: frame.look.ink, decal: "none" } });
  }
  return keys;
}

function markNames(figure: Figure): string[] {
  return [...new Set((figure.marks ?? []).filter((mark) => mark.category).map((mark) => mark.label))];
}

function categoryAxis(layout: Layout, frame: Frame): object {
  return {
    type: "category", data: layout.names.map((lines) => lines.join("\n")), inverse: !layout.upright,
    axisTick: { show: false }, axisLine: { lineStyle: { color: frame.look.muted } },
    axisLabel: {
      color: frame.look.ink, fontSize: TEXT_PX, fontFamily: FONT, interval: 0, lineHeight: 16,
      align: layout.upright ? "center" : "left", margin: layout.upright ? 8 : nameColumn(layout) + 10,
    },
  };
}

function nameColumn(layout: Layout): number {
  return Math.max(0, ...layout.names.flat().map((line) => textWidth(line)));
}

function lying(figure: Figure, frame: Frame, layout: Layout, top: number): Built {
  const count = Math.max(1, figure.series.length);
  const group = Math.max(count * (BAR_PX + BAR_GAP_PX), ...layout.names.map((lines) => lines.length * 16)) + GROUP_GAP_PX;
  const plotHeight = group * Math.max(1, layout.categories.length);
  const left = nameColumn(layout) + 12;
  const grid = { left, right: labelRoom(figure, layout, frame.width - left), top, height: plotHeight, outerBoundsMode: "none" };
  const value = {
    ...valueAxis(figure.y, layout.scale, frame.look, true), position: "bottom",
    name: axisTitle(figure.y), nameLocation: "middle", nameGap: 26, nameTextStyle: { color: frame.look.muted, fontSize: TEXT_PX, lineHeight: LINE_PX },
  };
  return { option: { grid, xAxis: value, yAxis: categoryAxis(layout, frame) }, height: top + plotHeight + 48 };
}

/** Room to the right of the longest bar for its label; a bar that ends early needs none. */
function labelRoom(figure: Figure, layout: Layout, width: number): number {
  let room = 14;
  for (const { end, text } of labelEnds(figure, layout)) {
    const share = position(end, layout.scale, figure.y.log === true);
    const wanted = textWidth(text, TEXT_PX, 600) + LABEL_GAP_PX + 4;
    // share·(width − room) + wanted ≤ width
    if (share > 0.05) room = Math.max(room, width - (width - wanted) / share);
  }
  return Math.min(Math.max(14, room), width * 0.45);
}

interface Label { end: number; text: string; isMark: boolean }

function labelEnds(figure: Figure, layout: Layout): Label[] {
  return figure.series.flatMap((series) => series.points.flatMap((point) => labelsOf(figure, series, point, layout)));
}

/**
 * The texts of one bar. A published value that lies clear of the bar has its number beside its own tick; one that
 * the bar covers or almost reaches is named after the bar's value.
 */
function labelsOf(figure: Figure, series: Series, [at, y, , high]: Point, layout: Layout): Label[] {
  if (y === null) return [];
  const text = compact(y);
  let end = Math.max(0, y, high ?? y);
  const px = (value: number) => position(value, layout.scale, figure.y.log === true) * layout.plotWidth;
  const clear: Label[] = [];
  const joined: Mark[] = [];
  for (const mark of marksOn(figure, layout.categories[at], series)) {
    const free = px(mark.value) - px(end) - textWidth(text, TEXT_PX, 600) - 2 * LABEL_GAP_PX;
    if (free > 0) clear.push({ end: mark.value, text: compact(mark.value), isMark: true });
    else joined.push(mark);
  }
  for (const mark of joined) end = Math.max(end, mark.value);
  return [{ end, text: text + joined.map((mark) => `   ┆ ${compact(mark.value)}`).join(""), isMark: false }, ...clear];
}

function position(value: number, scale: Scale, log: boolean): number {
  if (!log) return (value - scale.min) / (scale.max - scale.min);
  const least = Math.log10(scale.min);
  return (Math.log10(Math.max(value, scale.min)) - least) / (Math.log10(scale.max) - least);
}

function upright(figure: Figure, frame: Frame, layout: Layout, top: number): Built {
  const left = tickWidth(layout.scale) + 10;
  const grid = { left, right: 4, top: top + UPRIGHT_HEAD_PX, height: UPRIGHT_HEIGHT_PX, outerBoundsMode: "none" };
  const value = {
    ...valueAxis(figure.y, layout.scale, frame.look, true),
    name: axisTitle(figure.y), nameLocation: "end", nameGap: 14,
    nameTextStyle: { color: frame.look.muted, fontSize: TEXT_PX, lineHeight: LINE_PX, align: "left", padding: [0, 0, 0, -left] },
  };
  return { option: { grid, xAxis: categoryAxis(layout, frame), yAxis: value }, height: top + UPRIGHT_HEAD_PX + UPRIGHT_HEIGHT_PX + 30 };
}

function marksOn(figure: Figure, category: string | undefined, series: Series): Mark[] {
  return (figure.marks ?? []).filter((mark) => mark.category === category && (!mark.series || mark.series === series.name));
}

function allSeries(figure: Figure, frame: Frame, layout: Layout): object[] {
  const bars = figure.series.map((series, index) => ({
    type: "bar", name: series.name, barWidth: layout.bar, barGap: `${(100 * BAR_GAP_PX) / layout.bar}%`, z: 2,
    itemStyle: { color: colorOf(series.color, frame), decal: slotOf(series.color, frame).decal, borderRadius: layout.upright ? [2, 2, 0, 0] : [0, 2, 2, 0] },
    data: heights(series, figure, layout), ...(index === 0 ? fullMarks(figure, frame, layout) : {}),
  }));
  const over = figure.series.map((series, index) => overlay(figure, series, index, frame, layout));
  // a legend shows series only, so the published ticks need one that draws nothing
  const named = markNames(figure).map((name) => ({ type: "custom", name, data: [], itemStyle: { color: frame.look.ink }, renderItem: () => null }));
  return [...bars, ...over, ...named];
}

function heights(series: Series, figure: Figure, layout: Layout): (number | null)[] {
  const values: (number | null)[] = layout.categories.map(() => null);
  for (const [at, y] of series.points) if (at in values) values[at] = figure.y.log && (y ?? 0) <= 0 ? null : y;
  return values;
}

/** Values given for the whole figure: a labelled line from side to side. */
function fullMarks(figure: Figure, frame: Frame, layout: Layout): object {
  const marks = (figure.marks ?? []).filter((mark) => !mark.category);
  if (marks.length === 0) return {};
  return {
    markLine: {
      symbol: "none", silent: true, lineStyle: { color: frame.look.ink, type: [4, 3], width: 1 },
      // across lying bars the line stands upright, and its label on top of it
      label: { position: layout.upright ? "insideEndTop" : "start", distance: layout.upright ? [2, 2] : [0, 3], color: frame.look.ink, fontSize: TEXT_PX, lineHeight: LINE_PX, formatter: "{b}", textBorderColor: frame.look.surface, textBorderWidth: 3 },
      data: marks.map((mark) => ({
        name: `${mark.label} ${compact(mark.value)}`, [layout.upright ? "yAxis" : "xAxis"]: mark.value,
      })),
    },
  };
}

/** Whiskers, published ticks and the value of one series' bars. */
function overlay(figure: Figure, series: Series, index: number, frame: Frame, layout: Layout): object {
  const count = figure.series.length;
  const total = count * layout.bar + (count - 1) * BAR_GAP_PX;
  const offset = -total / 2 + index * (layout.bar + BAR_GAP_PX) + layout.bar / 2;
  const draw = (_: DrawParams, api: DrawApi) => {
    const point = series.points[api.value(2) as number];
    return point && point[1] !== null && point[0] in layout.categories ? barExtras(point, offset, figure, series, frame, layout, api) : null;
  };
  return {
    type: "custom", name: series.name, z: 5, silent: true, clip: false, renderItem: draw,
    data: series.points.map(([at, y], row) => (layout.upright ? [at, y ?? 0, row] : [y ?? 0, at, row])),
    tooltip: { show: false },
  };
}

function barExtras(point: Point, offset: number, figure: Figure, series: Series, frame: Frame, layout: Layout, api: DrawApi) {
  const [at, , low, high] = point;
  const clamp = (value: number) => (figure.y.log ? Math.max(value, layout.scale.min) : value);
  const place = (value: number): [number, number] => {
    const [x = 0, z = 0] = api.coord(layout.upright ? [at, clamp(value)] : [clamp(value), at]);
    return layout.upright ? [x + offset, z] : [x, z + offset];
  };
  const line = (from: [number, number], to: [number, number], style: object = {}) => ({
    type: "line" as const,
    shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] },
    style: { stroke: frame.look.ink, lineWidth: 1.3, ...style },
  });
  const across = (value: number, half: number): [[number, number], [number, number]] => {
    const [x, z] = place(value);
    return layout.upright ? [[x - half, z], [x + half, z]] : [[x, z - half], [x, z + half]];
  };
  const children: object[] = [];
  if (low != null && high != null && high > low) {
    children.push(line(place(low), place(high), { stroke: frame.look.surface, lineWidth: 3.6, opacity: 0.85 }), line(place(low), place(high)));
    for (const end of [low, high]) children.push(line(...across(end, WHISKER_CAP_PX)));
  }
  for (const mark of marksOn(figure, layout.categories[at], series)) {
    children.push(line(...across(mark.value, layout.bar / 2 + 3), { stroke: frame.look.surface, lineWidth: 4 }));
    children.push(line(...across(mark.value, layout.bar / 2 + 3), { lineDash: [3, 2], lineWidth: 1.6 }));
  }
  for (const label of labelsOf(figure, series, point, layout)) children.push(valueLabel(place(label.end), label, frame, layout.upright));
  return { type: "group" as const, children } as never;
}

function valueLabel([x, y]: [number, number], label: Label, frame: Frame, isUpright: boolean): object {
  const [value = "", ...published] = label.text.split("   ");
  const halo = { stroke: frame.look.surface, lineWidth: 3, lineHeight: LINE_PX, fontSize: TEXT_PX, fontFamily: FONT };
  const kind = label.isMark ? "p" : "v";
  return {
    type: "text", x: isUpright ? x : x + LABEL_GAP_PX, y: isUpright ? y - 3 : y,
    style: {
      text: published.length ? `{${kind}|${value}}   {p|${published.join("   ")}}` : `{${kind}|${value}}`,
      rich: { v: { fill: frame.look.ink, fontWeight: 600, ...halo }, p: { fill: frame.look.muted, ...halo } },
      align: isUpright ? "center" : "left", verticalAlign: isUpright ? "bottom" : "middle",
    },
  };
}

function tip(figure: Figure, frame: Frame, params: unknown): HTMLElement | string {
  const at = (params as { dataIndex: number }[])[0]?.dataIndex;
  const category = at === undefined ? undefined : figure.categories?.[at];
  if (category === undefined) return "";
  const rows: Row[] = [];
  for (const series of figure.series) {
    const point = series.points.find(([place]) => place === at);
    if (!point || point[1] === null) continue;
    rows.push({ name: series.name, color: colorOf(series.color, frame), value: intervalText(point[1], point[2], point[3], figure.y.unit) });
    for (const mark of marksOn(figure, category, series)) {
      rows.push({ name: `${series.name}, ${mark.label}`, color: frame.look.muted, value: withUnit(compact(mark.value), figure.y.unit) });
    }
  }
  return tooltipBox(category, rows);
}
