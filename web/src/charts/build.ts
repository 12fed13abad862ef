/** From a figure's data to what ECharts draws. */
import type { Figure } from "../report";
import { buildBars } from "./bars";
import type { Built, Frame } from "./frame";
import { buildXy } from "./xy";

export function build(figure: Figure, frame: Frame): Built {
  return figure.kind === "bars" ? buildBars(figure, frame) : buildXy(figure, frame);
}
