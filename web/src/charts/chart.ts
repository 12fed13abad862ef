/** One drawn figure: follows its width and the look of the page, and says when it has been drawn. */
import { hasData } from "../read";
import type { Figure } from "../report";
import type { Look, Slots } from "../theme";
import { build } from "./build";
import { echarts } from "./echarts";
import type { Built } from "./frame";

/** All time figures share one cross-hair. */
const TIME_GROUP = "masu-time";

export class Chart {
  private chart: echarts.ECharts | null = null;
  private width = 0;

  constructor(
    readonly figure: Figure,
    private readonly host: HTMLElement,
    private readonly plot: HTMLElement,
    private readonly slots: Slots,
    private drawnLook: Look,
  ) {}

  /** The width that there is, in pixels; measured for all figures before any of them changes the page. */
  room(): number {
    return this.plot.clientWidth;
  }

  /** Takes the height that the figure will have, without drawing it. */
  reserve(width: number): void {
    if (!hasData(this.figure) || width === 0) return;
    this.width = width;
    this.plot.style.height = `${this.built().height}px`;
  }

  /** Another look: at once where it is drawn, and otherwise when it will be. */
  look(look: Look): void {
    this.drawnLook = look;
    if (this.chart !== null) this.draw();
  }

  private built(): Built {
    return build(this.figure, { width: this.width, top: 0, look: this.drawnLook, slots: this.slots });
  }

  /** Draws for the first time, or again for another look or width. */
  draw(look: Look = this.drawnLook): void {
    if (!hasData(this.figure)) return;
    this.drawnLook = look;
    this.width = this.plot.clientWidth;
    if (this.width === 0) return;
    const { option, height } = this.built();
    this.plot.style.height = `${height}px`;
    if (this.chart === null) this.open(height);
    else this.chart.resize({ width: this.width, height });
    this.chart!.setOption(option, { notMerge: true });
  }

  private open(height: number): void {
    this.chart = echarts.init(this.plot, null, { renderer: "svg", width: this.width, height });
    this.chart.on("finished", () => {
      if (this.plot.querySelector("svg path")) this.host.dataset["drawn"] = "true";
    });
    if (this.figure.kind === "timeline") {
      this.chart.group = TIME_GROUP;
      echarts.connect(TIME_GROUP);
    }
  }

  close(): void {
    this.chart?.dispose();
    this.chart = null;
  }

  refuse(sentence: string): void {
    this.chart?.dispose();
    this.chart = null;
    this.plot.style.height = "auto";
    this.plot.className = "no-data";
    this.plot.textContent = sentence;
  }

  /** Draws at once when the width is another than the one drawn for. */
  follow(): void {
    if (Math.abs(this.plot.clientWidth - this.width) <= 1) return;
    if (this.chart !== null) this.draw();
    else this.reserve(this.plot.clientWidth);
  }

  /** Draws within this call: a printer does not wait for the next frame. */
  drawNow(look: Look): void {
    this.draw(look);
    this.chart?.getZr().flush();
  }
}
