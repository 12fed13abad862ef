/** What every kind of figure shares: the space it is given, its texts, its legend and its axes. */
import { compact, named } from "../format";
import type { Axis } from "../report";
import type { Scale } from "../scale";
import { say } from "../words/words";
import { type Look, SLOTS, type Slots } from "../theme";
import type { Option } from "./echarts";

export const FONT =
  '-apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, "Hiragino Sans", "Yu Gothic UI", "Noto Sans CJK JP", "Noto Sans JP", sans-serif';
export const TEXT_PX = 12;
/** Always said: ECharts derives a missing one from a Chinese character, which a machine may have no font for. */
export const LINE_PX = 15;

export interface Frame {
  width: number;
  /** Space kept free above, for the texts of a saved figure. */
  top: number;
  look: Look;
  slots: Slots;
}

export interface Built {
  option: Option;
  height: number;
}

const pen = typeof document === "undefined" ? null : document.createElement("canvas").getContext("2d");

export function textWidth(text: string, px = TEXT_PX, weight = 400): number {
  if (!pen) return text.length * px * 0.55;
  pen.font = `${weight} ${px}px ${FONT}`;
  return Math.ceil(pen.measureText(text).width);
}

/** Breaks a text into lines no wider than asked. */
export function wrap(text: string, width: number, px: number, weight = 400): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && textWidth(longer, px, weight) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return line === "" ? lines : [...lines, line];
}

/** Shortens a text to a width, or gives nothing when not even a few letters fit. */
export function fit(text: string, width: number, px = TEXT_PX): string {
  if (textWidth(text, px) <= width) return text;
  for (let length = text.length - 1; length >= 4; length--) {
    const shorter = `${text.slice(0, length).trimEnd()}…`;
    if (textWidth(shorter, px) <= width) return shorter;
  }
  return "";
}

export const LEGEND_ROW_PX = 22;
const LEGEND_ICON_PX = 22;
const LEGEND_GAP_PX = 18;
/** So far a text of the first row rises above its sign. */
const LEGEND_RISE_PX = 2;

export interface Key {
  name: string;
  icon?: string;
  itemStyle?: object;
}

/** A legend in rows from the left; its height is known before anything is drawn. */
export function legend(keys: Key[], frame: Frame, selectable: boolean): { option: Option; height: number } {
  let [rows, used] = [1, 0];
  for (const key of keys) {
    const wide = LEGEND_ICON_PX + 6 + Math.min(textWidth(key.name), frame.width - LEGEND_ICON_PX - 8) + LEGEND_GAP_PX;
    if (used > 0 && used + wide - LEGEND_GAP_PX > frame.width) [rows, used] = [rows + 1, 0];
    used += wide;
  }
  const option = {
    data: keys, left: 0, top: frame.top + LEGEND_RISE_PX, padding: 0, itemGap: LEGEND_GAP_PX, itemWidth: LEGEND_ICON_PX, itemHeight: 11,
    formatter: (name: string) => fit(name, frame.width - LEGEND_ICON_PX - 8), selectedMode: selectable, inactiveColor: frame.look.rule, width: frame.width + LEGEND_GAP_PX,
    textStyle: { color: frame.look.ink, fontSize: TEXT_PX, fontFamily: FONT, padding: [0, 0, 0, 2] },
  };
  return { option, height: LEGEND_RISE_PX + rows * LEGEND_ROW_PX };
}

export function tickWidth(scale: Scale): number {
  return Math.max(...scale.ticks.map((tick) => textWidth(compact(tick))));
}

/** The settings that a value axis has in every figure. */
export function valueAxis(axis: Axis, scale: Scale, look: Look, gridLines: boolean): Option {
  return {
    type: axis.log ? "log" : "value", min: scale.min, max: scale.max, ...(scale.step ? { interval: scale.step } : {}),
    ...(axis.log ? { startValue: scale.min, logBase: scale.base ?? 10 } : {}),
    axisLine: { show: false }, axisTick: { show: false }, minorTick: { show: false },
    splitLine: { show: gridLines, lineStyle: { color: look.rule, width: 1 } },
    axisLabel: { color: look.muted, fontSize: TEXT_PX, fontFamily: FONT, formatter: compact, hideOverlap: true },
    axisPointer: { label: { show: false } },
  };
}

export function axisTitle(axis: Axis): string {
  const text = named(axis.label, axis.unit);
  return axis.log ? say("figure.log", { axis: text }) : text;
}

export function baseOption(frame: Frame): Option {
  return {
    animation: false, backgroundColor: "transparent", color: frame.look.colors,
    textStyle: { fontFamily: FONT, fontSize: TEXT_PX, color: frame.look.ink },
  };
}

export function colorOf(key: string, frame: Frame): string {
  return frame.look.colors[frame.slots.index(key)]!;
}

export function slotOf(key: string, frame: Frame) {
  return SLOTS[frame.slots.index(key)]!;
}
