/** Lines with bands, time figures, ranks and distributions: everything with two value axes. */
import { compact, intervalText, named, plain, withUnit } from "../format";
import { decimate } from "../decimate";
import type { Axis, Figure, Panel, Point, Series } from "../report";
import { type Scale, linearScale, logScale, powersOfTwo, timeScale } from "../scale";
import type { DrawApi, Option } from "./echarts";
import {
  type Built, FONT, type Frame, LINE_PX, TEXT_PX, axisTitle, baseOption, colorOf, legend, slotOf, textWidth, tickWidth, valueAxis,
} from "./frame";
import { spanRows, spanSeries } from "./spans";
import { tooltipBox, tooltipOption } from "./tooltip";

/** With more lines than this in one plot nobody can follow one: each gets its own small plot. */
const LINES_PER_PLOT_MAX = 6;
/** Two drawn points per pixel keep every visible peak. */
const POINTS_PER_PIXEL = 2;
const SYMBOLS_MAX = 40;
/** Dots closer than this run into a line, so a line is drawn. */
const DOT_PITCH_PX = 6;
const PLOT_PX = 230;
const SMALL_PLOT_PX = 130;
const PANEL_TITLE_PX = 24;
const AXIS_TITLE_PX = 22;
const X_TITLE_PX = 20;
const END_LABEL_GAP_PX = 9;
const END_LABEL_LINE_PX = 15;
const TICKS_PX = 24;
const TICK_PITCH_PX = 64;
const COLUMN_GAP_PX = 28;
/** More panels of a time figure than this would be a tower: they stand side by side. */
const STACKED_MAX = 3;

interface Cell {
  panel: Panel | null;
  series: Series[];
  y: Axis;
  scale: Scale;
  left: number;
  top: number;
  width: number;
  height: number;
  isBottom: boolean;
  isTop: boolean;
}

interface Plan {
  cells: Cell[];
  x: Scale;
  /** Names stand at the line ends instead of in a legend. */
  direct: boolean;
  legend: Option | null;
  height: number;
}

export function buildXy(figure: Figure, frame: Frame): Built {
  const plan = arrange(figure, frame);
  const { cells } = plan;
  const option = {
    ...baseOption(frame),
    ...(plan.legend ? { legend: plan.legend } : {}),
    grid: cells.map((cell) => ({ left: cell.left, top: cell.top, width: cell.width, height: cell.height, outerBoundsMode: "none" })),
    xAxis: cells.map((cell, index) => xAxis(figure, plan, cell, index, frame)),
    yAxis: cells.map((cell, index) => yAxis(cell, index, frame)),
    graphic: cells.flatMap((cell) => [
      ...titles(cell, frame, cell.isTop ? spanRows(figure) : 0), ...(plan.direct ? endLabels(figure, cell, plan, frame) : []),
    ]),
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    series: cells.flatMap((cell, index) => [
      ...spanSeries(figure, frame, index, cell.isTop),
      ...cell.series.flatMap((series, order) => lineSeries(figure, series, order, cell, index, plan, frame)),
    ]),
    tooltip: tooltipOption(frame.look, "line", (params) => tip(figure, frame, params)),
  };
  return { option, height: plan.height };
}

function panelsOf(figure: Figure): { panel: Panel | null; series: Series[] }[] {
  if (figure.panels?.length) {
    const first = figure.panels[0]!.id;
    return figure.panels.map((panel) => ({ panel, series: figure.series.filter((series) => (series.panel ?? first) === panel.id) }));
  }
  if (figure.kind === "lines" && figure.series.length > LINES_PER_PLOT_MAX) {
    return figure.series.map((series) => ({ panel: { id: series.name, title: series.name }, series: [series] }));
  }
  return [{ panel: null, series: figure.series }];
}

/** Panels of a time figure stand one below the other, and share their ticks, unless they are many. */
function isStacked(figure: Figure): boolean {
  return figure.kind === "timeline" && (figure.panels?.length ?? 0) <= STACKED_MAX;
}

function yScale(figure: Figure, series: Series[], axis: Axis, panel: string | null, ticks: number): Scale {
  const values = series.flatMap((one) => one.points.flatMap(([, y, low, high]) => [y, low ?? null, high ?? null]));
  const marks = (figure.marks ?? []).filter((mark) => mark.axis !== "x" && (!mark.panel || panel === null || mark.panel === panel));
  const all = [...values, ...marks.map((mark) => mark.value)].filter((v): v is number => v !== null);
  return axis.log ? logScale(all, axis, false) : linearScale(all, axis, ticks, false);
}

function xScale(figure: Figure, width: number): Scale {
  const values = figure.series.flatMap((series) => series.points.map(([x]) => x));
  const marks = (figure.marks ?? []).filter((mark) => mark.axis === "x").map((mark) => mark.value);
  const spans = figure.kind === "timeline" ? (figure.phases ?? []).flatMap((span) => [span.from, span.to]) : [];
  const all = values.concat(marks, spans);
  if (figure.x.log) return powersOfTwo(all) ?? logScale(all, figure.x, false);
  const least = all.reduce((a, b) => Math.min(a, b), Infinity);
  const most = all.reduce((a, b) => Math.max(a, b), -Infinity);
  // lines, time and ranks end where the data ends, not at the next round number: names at line ends stand outside the plot
  const count = Math.max(3, Math.min(8, Math.floor(width / TICK_PITCH_PX)));
  if (figure.kind === "timeline") return timeScale(figure.x.min ?? least, figure.x.max ?? most, count);
  const tight = figure.kind === "ranks" ? { min: 0, max: most } : figure.kind === "lines" ? { max: most } : {};
  const axis = { ...figure.x, min: figure.x.min ?? tight.min ?? null, max: figure.x.max ?? tight.max ?? null };
  return linearScale(all, axis, count, false);
}

function arrange(figure: Figure, frame: Frame): Plan {
  const parts = panelsOf(figure);
  const stacked = isStacked(figure);
  const columns = stacked || parts.length === 1 ? 1 : frame.width >= 760 ? 3 : frame.width >= 440 ? 2 : 1;
  const onShared = parts.filter(({ panel }) => !panel?.y).flatMap(({ series }) => series);
  const shared = yScale(figure, onShared, figure.y, null, parts.length > 1 ? 3 : 4);
  const scaled = parts.map(({ panel, series }) => {
    const y = panel?.y ?? figure.y;
    const scale = panel?.y ? yScale(figure, series, y, panel.id, 3) : shared;
    return { panel, series, y, scale };
  });
  const left = Math.max(...scaled.map(({ scale }) => tickWidth(scale))) + 10;
  const direct = directLabels(figure, parts, frame);
  const keys = [...new Map(figure.series.map((series) => [series.name, { name: series.name }])).values()];
  // one line in each panel: the panel's title says what it is
  const single = parts.every(({ series }) => series.length < 2) && (stacked || !figure.panels?.length);
  const key = direct || single || keys.length < 2 ? null : legend(keys, frame, true);
  const right = direct ? Math.max(...figure.series.map((series) => textWidth(series.name, TEXT_PX, 600))) + 14 : 14;
  const start = frame.top + (key ? key.height + 6 : 0);
  const rowTop = AXIS_TITLE_PX + (parts.length > 1 ? PANEL_TITLE_PX : 0);
  const heightEach = parts.length > 1 ? SMALL_PLOT_PX : PLOT_PX;
  const width = (frame.width - right - (columns - 1) * COLUMN_GAP_PX - columns * left) / columns;
  const x = xScale(figure, width);
  const rows = Math.ceil(scaled.length / columns);
  const pitch = rowTop + heightEach + (stacked ? 14 : TICKS_PX + 6);
  const cells = scaled.map((part, index) => ({
    ...part, width, height: heightEach, isTop: index < columns, isBottom: stacked ? index === scaled.length - 1 : index + columns >= scaled.length,
    left: left + (index % columns) * (left + width + COLUMN_GAP_PX),
    top: start + spanRows(figure) + rowTop + Math.floor(index / columns) * pitch,
  }));
  const height = start + spanRows(figure) + rows * pitch + (stacked ? TICKS_PX : 0) + X_TITLE_PX;
  return { cells, x, direct, legend: key?.option ?? null, height };
}

/** Names at the line ends when they are few, fit beside the plot, and the ends lie apart. */
function directLabels(figure: Figure, parts: { series: Series[] }[], frame: Frame): boolean {
  if (figure.kind === "cdf" || figure.series.length < 2) return false;
  if (parts.length > 1 && (!isStacked(figure) || parts.every(({ series }) => series.length < 2))) return false;
  if (parts.some(({ series }) => series.length > 5)) return false;
  const widest = Math.max(...figure.series.map((series) => textWidth(series.name, TEXT_PX, 600)));
  return widest <= Math.min(170, frame.width * 0.24);
}

function xAxis(figure: Figure, plan: Plan, cell: Cell, index: number, frame: Frame): Option {
  const withLabels = cell.isBottom || !isStacked(figure);
  const base = valueAxis(figure.x, plan.x, frame.look, false);
  const short = cell.width < textWidth(axisTitle(figure.x));
  return {
    ...base, gridIndex: index, position: "bottom",
    axisLine: { show: true, onZero: false, lineStyle: { color: frame.look.muted } },
    axisTick: { show: withLabels, length: 4, lineStyle: { color: frame.look.muted }, ...ticksOf(plan.x) },
    axisLabel: { ...(base.axisLabel as object), ...ticksOf(plan.x), show: withLabels, showMaxLabel: isTick(plan.x, plan.x.max), showMinLabel: isTick(plan.x, plan.x.min) },
    ...(cell.isBottom && !short
      ? { name: axisTitle(figure.x), nameLocation: "middle", nameGap: 26, nameTextStyle: { color: frame.look.muted, fontSize: TEXT_PX, lineHeight: LINE_PX } }
      : {}),
  };
}

/** An axis that begins between two round numbers has its ticks at round numbers all the same, and not at so many steps from its begin. */
export function ticksOf(scale: Scale): Option {
  const begins = scale.step ? scale.min / scale.step : 0;
  return Math.abs(begins - Math.round(begins)) < 1e-9 ? {} : { customValues: scale.ticks };
}

function yAxis(cell: Cell, index: number, frame: Frame): Option {
  return { ...valueAxis(cell.y, cell.scale, frame.look, true), gridIndex: index, position: "left" };
}

/** The name of the y axis lies above it (and above the names of the phases), and above that the title of a panel. */
function titles(cell: Cell, frame: Frame, raised: number): object[] {
  const left = cell.left - tickWidth(cell.scale) - 10;
  const text = (content: string, above: number, style: object) => ({
    type: "text", x: left, y: cell.top - raised - above, silent: true, z: 10, style: { text: content, fontSize: TEXT_PX, fontFamily: FONT, lineHeight: LINE_PX, verticalAlign: "top", ...style },
  });
  const title = cell.panel ? [text(cell.panel.title, AXIS_TITLE_PX + PANEL_TITLE_PX - 8, { fill: frame.look.ink, fontWeight: 600 })] : [];
  return [...title, text(axisTitle(cell.y), AXIS_TITLE_PX, { fill: frame.look.muted })];
}

function lineSeries(figure: Figure, series: Series, order: number, cell: Cell, index: number, plan: Plan, frame: Frame): object[] {
  const color = colorOf(series.color, frame);
  const slot = slotOf(series.color, frame);
  const drawn = decimate(series.points, Math.max(200, Math.round(cell.width * POINTS_PER_PIXEL)));
  const isDots = figure.kind === "ranks" && drawn.length * DOT_PITCH_PX <= cell.width;
  const showSymbol = isDots || ((figure.kind === "lines" || figure.kind === "ranks") && drawn.length <= SYMBOLS_MAX);
  const axes = { xAxisIndex: index, yAxisIndex: index };
  const dense = figure.kind === "timeline" && drawn.length > cell.width / 3;
  const line = {
    type: "line", id: seriesId(figure, series), name: series.name, ...axes, z: 4 + order * 0.1, data: drawn.map(([x, y]) => [x, logSafe(y, cell.y)]),
    step: figure.kind === "cdf" ? "end" : false, symbol: slot.symbol, symbolSize: isDots ? 4 : 7, showSymbol, showAllSymbol: true,
    lineStyle: { color, width: isDots ? 0 : dense ? 1.3 : 2, type: dense || cell.series.length < 2 ? "solid" : slot.dash, join: "round" },
    itemStyle: { color, borderColor: color }, emphasis: { disabled: true }, connectNulls: false,
    ...(order === 0 ? marks(figure, cell, frame, plan) : {}),
  };
  const isBanded = drawn.some(([, , low, high]) => low != null && high != null);
  return isBanded ? [band(series.name, drawn, color, axes, cell.y), line] : [line];
}

function logSafe(y: number | null, axis: Axis): number | null {
  return axis.log && y !== null && y <= 0 ? null : y;
}

/** A line's name beside its last point; names that would overlap are moved apart, with a thin line back to the point. */
function endLabels(figure: Figure, cell: Cell, plan: Plan, frame: Frame): object[] {
  const ends = cell.series.flatMap((series) => {
    const last = series.points.findLast(([, y]) => y !== null && (!cell.y.log || y > 0));
    if (!last) return [];
    const x = cell.left + share(last[0], plan.x, figure.x) * cell.width;
    const y = cell.top + (1 - share(last[1]!, cell.scale, cell.y)) * cell.height;
    return [{ series, x, y, at: y }];
  });
  ends.sort((a, b) => a.y - b.y);
  for (let i = 1; i < ends.length; i++) ends[i]!.at = Math.max(ends[i]!.at, ends[i - 1]!.at + END_LABEL_LINE_PX);
  // what was pushed below the plot goes back up, and takes its neighbours along; below are the ticks of the x axis
  let floor = cell.top + cell.height - END_LABEL_LINE_PX / 2;
  for (const end of [...ends].reverse()) {
    end.at = Math.min(end.at, floor);
    floor = end.at - END_LABEL_LINE_PX;
  }
  return ends.flatMap(({ series, x, y, at }) => [
    ...(Math.abs(at - y) > 3
      ? [{ type: "line", x: 0, y: 0, silent: true, z: 7, shape: { x1: x + 2, y1: y, x2: x + END_LABEL_GAP_PX, y2: at }, style: { stroke: frame.look.muted, lineWidth: 1 } }]
      : []),
    {
      type: "text", x: x + END_LABEL_GAP_PX + 2, y: at, silent: true, z: 7,
      style: { text: series.name, fill: frame.look.ink, fontSize: TEXT_PX, fontFamily: FONT, fontWeight: 600, verticalAlign: "middle" },
    },
  ]);
}

function share(value: number, scale: Scale, axis: Axis): number {
  const place = (v: number) => (axis.log ? Math.log10(Math.max(v, scale.min)) : v);
  return (place(value) - place(scale.min)) / (place(scale.max) - place(scale.min));
}

function isTick(scale: Scale, value: number): boolean {
  return scale.ticks.some((tick) => Math.abs(tick - value) <= Math.abs(scale.max - scale.min) * 1e-6);
}

function band(name: string, points: Point[], color: string, axes: object, y: Axis): object {
  const draw = (_: unknown, api: DrawApi) => {
    const children: object[] = [];
    let open: Point[] = [];
    const close = () => {
      if (open.length > 1) {
        const upper = open.map(([x, , , high]) => api.coord([x, high!]));
        const lower = open.map(([x, , low]) => api.coord([x, y.log ? Math.max(low!, Number.MIN_VALUE) : low!])).reverse();
        children.push({ type: "polygon", shape: { points: [...upper, ...lower] }, style: { fill: color, opacity: 0.18 } });
      }
      open = [];
    };
    for (const point of points) {
      if (point[1] !== null && point[2] != null && point[3] != null) open.push(point);
      else close();
    }
    close();
    return { type: "group", children };
  };
  return { type: "custom", name, ...axes, z: 3, silent: true, clip: true, data: [[points[0]![0], 0]], renderItem: draw, tooltip: { show: false } };
}

/** The label of an upright line: level, beside its upper end. */
const BESIDE_TOP = { position: "end", distance: [0, 0], verticalAlign: "top", padding: [3, 6] };

function marks(figure: Figure, cell: Cell, frame: Frame, plan: Plan): object {
  const mine = (figure.marks ?? []).filter((mark) => !mark.panel || !cell.panel || mark.panel === cell.panel.id);
  if (mine.length === 0) return {};
  return {
    markLine: {
      symbol: "none", silent: true, lineStyle: { color: frame.look.ink, type: [5, 4], width: 1.2 },
      label: { color: frame.look.ink, fontSize: TEXT_PX, fontFamily: FONT, formatter: "{b}", lineHeight: LINE_PX, distance: [4, 2], textBorderColor: frame.look.surface, textBorderWidth: 3 },
      data: mine.map((mark) => {
        const isX = mark.axis === "x";
        const low = !isX && cell.scale.max > 0 && mark.value > cell.scale.min + (cell.scale.max - cell.scale.min) * 0.88;
        const name = `${mark.label} ${withUnit(compact(mark.value), isX ? figure.x.unit : cell.y.unit)}`;
        const right = isX && mark.value > (plan.x.min + plan.x.max) / 2;
        if (isX) return { name, xAxis: mark.value, label: { ...BESIDE_TOP, align: right ? "right" : "left" } };
        const place = `inside${figure.kind === "timeline" ? "End" : "Start"}${low ? "Bottom" : "Top"}`;
        return { name, yAxis: mark.value, label: { position: place } };
      }),
    },
  };
}

/** Names may repeat between panels, so a drawn line is known by its place in the figure. */
function seriesId(figure: Figure, series: Series): string {
  return `line${figure.series.indexOf(series)}`;
}

interface TipPoint { seriesName: string; seriesId: string; seriesType: string; value: [number, number | null]; color: string }

function tip(figure: Figure, frame: Frame, params: unknown): HTMLElement | string {
  const points = (Array.isArray(params) ? params : [params]) as TipPoint[];
  const lines = points.filter((point) => point.seriesType === "line" && point.value[1] !== null);
  const first = lines[0];
  if (!first) return "";
  const rows = lines.map((point) => {
    const series = figure.series.find((one) => seriesId(figure, one) === point.seriesId);
    const panel = figure.panels?.find((one) => one.id === series?.panel);
    const unit = panel?.y?.unit ?? figure.y.unit;
    const raw = series ? nearest(series.points, point.value[0]) : null;
    const text = raw ? intervalText(raw[1], raw[2], raw[3], unit) : withUnit(plain(point.value[1]), unit);
    return { name: panel && isRepeated(figure, point.seriesName) ? `${panel.title}: ${point.seriesName}` : point.seriesName, color: series ? colorOf(series.color, frame) : frame.look.muted, value: text };
  });
  return tooltipBox(`${named(figure.x.label, "")} ${withUnit(plain(first.value[0]), figure.x.unit)}`.trim(), rows);
}

/** Lines of several panels have the same name: the panel tells them apart. */
function isRepeated(figure: Figure, name: string): boolean {
  return figure.series.filter((series) => series.name === name).length > 1;
}

function nearest(points: Point[], x: number): Point | null {
  return points.find((point) => point[0] === x && point[1] !== null) ?? null;
}
