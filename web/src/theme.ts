/** Colours and patterns. The palette is Okabe and Ito's (2008), safe for colour-blind readers. */
import type { Report } from "./report";

export type Mode = "light" | "dark" | "print";

export interface Look {
  mode: Mode;
  ink: string;
  muted: string;
  rule: string;
  surface: string;
  /** Two alternating tints for the phases of a timeline. */
  bands: [string, string];
  warn: string;
  colors: string[];
}

/** A way to be recognised that is more than a colour: each slot has its own pattern, dash and symbol. */
export interface Slot {
  decal: object | "none";
  dash: number[] | "solid";
  symbol: string;
}

export const NAMES = ["blue", "orange", "green", "vermillion", "purple", "sky", "grey", "yellow"];
/** Their yellow is made darker on white, where it could not be seen as a line. */
const OKABE_ITO = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#4D5560", "#C2B200"];
const OKABE_ITO_ON_DARK = ["#2C93D4", "#E69F00", "#00B184", "#E8702A", "#D58DB4", "#7CC7F0", "#A9B1BB", "#F0E442"];
/** On paper in grey: neighbours are as far apart in lightness as eight greys allow; the patterns do the rest. */
const GREYS = ["#333333", "#a6a6a6", "#6b6b6b", "#c9c9c9", "#8a8a8a", "#555555", "#bdbdbd", "#dddddd"];

export const LOOKS: Record<Mode, Look> = {
  light: {
    mode: "light", ink: "#1b2026", muted: "#5d6670", rule: "#e3e6ea", surface: "#ffffff",
    bands: ["#eef2f6", "#f7f9fb"], warn: "#b45f00", colors: OKABE_ITO,
  },
  dark: {
    mode: "dark", ink: "#e6e9ed", muted: "#9ba5b0", rule: "#2c333b", surface: "#15191e",
    bands: ["#212831", "#1b2128"], warn: "#e8a33d", colors: OKABE_ITO_ON_DARK,
  },
  print: {
    mode: "print", ink: "#000000", muted: "#444444", rule: "#d4d4d4", surface: "#ffffff",
    bands: ["#ededed", "#f7f7f7"], warn: "#000000", colors: GREYS,
  },
};

const stripes = (angle: number, gap: number) => ({
  symbol: "rect", symbolSize: 1, dashArrayX: [1, 0], dashArrayY: [2, gap], rotation: angle, color: "rgba(255,255,255,0.55)",
});
const dots = (size: number) => ({
  symbol: "circle", symbolSize: size, dashArrayX: [[6, 6], [0, 6, 6, 0]], dashArrayY: [6, 0], color: "rgba(255,255,255,0.6)",
});

export const SLOTS: Slot[] = [
  { decal: "none", dash: "solid", symbol: "circle" },
  { decal: stripes(Math.PI / 4, 4), dash: [6, 3], symbol: "rect" },
  { decal: dots(0.6), dash: [2, 3], symbol: "triangle" },
  { decal: stripes(-Math.PI / 4, 4), dash: [8, 3, 2, 3], symbol: "diamond" },
  { decal: stripes(0, 4), dash: [12, 4], symbol: "emptyCircle" },
  { decal: stripes(Math.PI / 2, 4), dash: [4, 2, 1, 2, 1, 2], symbol: "emptyRect" },
  { decal: dots(0.35), dash: [1, 2], symbol: "emptyTriangle" },
  { decal: stripes(Math.PI / 4, 8), dash: [10, 2, 4, 2], symbol: "emptyDiamond" },
];

/** Which slot a colour key has: the same one in every figure of the report. */
export class Slots {
  private readonly taken = new Map<string, number>();

  constructor(report: Pick<Report, "figures">) {
    const keys = report.figures.flatMap((figure) => figure.series.map((series) => series.color));
    for (const key of keys) if (NAMES.includes(key)) this.taken.set(key, NAMES.indexOf(key));
    const used = new Set(this.taken.values());
    const free = NAMES.map((_, index) => index).filter((index) => !used.has(index));
    let next = 0;
    for (const key of keys) {
      if (this.taken.has(key)) continue;
      this.taken.set(key, free.length > 0 ? free[next++ % free.length]! : next++ % NAMES.length);
    }
  }

  index(key: string): number {
    return this.taken.get(key) ?? 0;
  }
}
