/** Saving a figure as SVG or PNG: on white, with its title, its notes and where it comes from. */
import { type Figure, type Report } from "../report";
import { time, worldWords } from "../format";
import { LOOKS, type Slots } from "../theme";
import { say } from "../words/words";
import { build } from "./build";
import { echarts } from "./echarts";
import { FONT, wrap } from "./frame";
import { spanNotes } from "./spans";

const WIDTH_PX = 880;
const MARGIN_PX = 24;
/** Twice as many pixels as points: sharp in a slide and in print. */
const PNG_SCALE = 2;

interface Text { text: string; px: number; weight: number; fill: string; gap: number }

function textBlock(texts: Text[], top: number): { elements: object[]; bottom: number } {
  const elements: object[] = [];
  let y = top;
  for (const { text, px, weight, fill, gap } of texts) {
    const lines = wrap(text, WIDTH_PX - 2 * MARGIN_PX, px, weight);
    const lineHeight = Math.round(px * 1.35);
    elements.push({
      type: "text", x: MARGIN_PX, y, z: 20,
      style: { text: lines.join("\n"), fontSize: px, fontWeight: weight, fontFamily: FONT, fill, lineHeight, verticalAlign: "top" },
    });
    y += lines.length * lineHeight + gap;
  }
  return { elements, bottom: y };
}

/** Draws into an element outside the page and hands it over; nothing of it stays. */
function drawAside<T>(figure: Figure, report: Report, slots: Slots, renderer: "svg" | "canvas", take: (chart: echarts.ECharts) => T): T {
  const look = LOOKS.light;
  const head = textBlock([
    { text: figure.title, px: 18, weight: 600, fill: look.ink, gap: 4 },
    ...(figure.subtitle ? [{ text: figure.subtitle, px: 13, weight: 400, fill: look.muted, gap: 0 }] : []),
  ], MARGIN_PX);
  const inner = build(figure, { width: WIDTH_PX - 2 * MARGIN_PX, top: 0, look, slots });
  const notes = [...spanNotes(figure), ...(figure.note ? [figure.note] : [])];
  const plotTop = head.bottom + 16;
  const source = `masu · ${report.scenario} · ${worldWords(report)} · ${say("figure.seed", { seed: report.method.seed ?? "–" })} · ${time(report.generated)}`;
  const foot = textBlock(
    [...notes, source].map((text) => ({ text, px: 11, weight: 400, fill: look.muted, gap: 3 })), plotTop + inner.height + 10);
  const height = foot.bottom + MARGIN_PX - 8;

  const host = document.createElement("div");
  host.style.cssText = `position:fixed;left:-10000px;top:0;width:${WIDTH_PX}px;height:${height}px`;
  document.body.append(host);
  const page = echarts.init(host, null, { renderer, width: WIDTH_PX, height, devicePixelRatio: PNG_SCALE });
  try {
    const placed = shift(inner.option, MARGIN_PX, plotTop) as Record<string, unknown>;
    const graphic = [...((placed["graphic"] as object[] | undefined) ?? []), ...head.elements, ...foot.elements];
    page.setOption({ ...placed, graphic, backgroundColor: look.surface, tooltip: { show: false } });
    page.getZr().flush();
    return take(page);
  } finally {
    page.dispose();
    host.remove();
  }
}

/** Moves what is placed in pixels: grids, legend and free texts. */
function shift(option: Record<string, unknown>, dx: number, dy: number): Record<string, unknown> {
  const move = (part: unknown) => {
    const box = part as { left?: number; top?: number; right?: number; x?: number; y?: number };
    if (box.x !== undefined && box.y !== undefined) return { ...box, x: box.x + dx, y: box.y + dy };
    return {
      ...box, left: (box.left ?? 0) + dx, top: (box.top ?? 0) + dy,
      ...(box.right !== undefined ? { right: box.right + dx } : {}),
    };
  };
  const each = (part: unknown) => (part === undefined ? undefined : Array.isArray(part) ? part.map(move) : move(part));
  const moved = { ...option };
  for (const name of ["grid", "legend", "graphic"]) if (option[name] !== undefined) moved[name] = each(option[name]);
  return moved;
}

export function saveSvg(figure: Figure, report: Report, slots: Slots): void {
  const svg = drawAside(figure, report, slots, "svg", (chart) => chart.renderToSVGString());
  saveFile(`${report.scenario}-${figure.id}.svg`, new Blob([svg], { type: "image/svg+xml" }));
}

export function savePng(figure: Figure, report: Report, slots: Slots): void {
  drawAside(figure, report, slots, "canvas", (chart) => {
    chart.renderToCanvas({ pixelRatio: PNG_SCALE }).toBlob((blob) => {
      if (blob) saveFile(`${report.scenario}-${figure.id}.png`, blob);
    });
  });
}

export function saveFile(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
