/** A figure on the page: its finding as title, the plot, what the bands mean, and how to take it along. */
import { Chart } from "../charts/chart";
import { saveFile, savePng, saveSvg } from "../charts/save";
import { spanNotes } from "../charts/spans";
import { figureCsv } from "../csv";
import { h } from "../dom";
import { tie } from "../format";
import { hasData } from "../read";
import type { Figure, Report } from "../report";
import { LOOKS, type Mode, Slots } from "../theme";

/** Makes the figures, each once, and draws them in the order in which they stand on the page. */
export class Figures {
  private readonly slots: Slots;
  private readonly byId: Map<string, Figure>;
  private readonly placed = new Set<string>();
  private readonly charts: Chart[] = [];
  private readonly resized = new ResizeObserver(() => {
    if (!this.isPrinting) for (const chart of this.charts) chart.follow();
  });
  private isPrinting = false;

  constructor(private readonly report: Report, private mode: Mode) {
    this.slots = new Slots(report);
    this.byId = new Map(report.figures.map((figure) => [figure.id, figure]));
  }

  /** The figure's element the first time it is asked for; later, or for an id that is not there, nothing. */
  place(id: string | null | undefined, heading: "h2" | "h3" = "h3"): HTMLElement | null {
    const figure = id ? this.byId.get(id) : undefined;
    if (!figure || this.placed.has(figure.id)) return null;
    this.placed.add(figure.id);
    const plot = h("div", { class: "plot", role: "img", "aria-label": `${figure.title}. ${figure.subtitle ?? ""}` });
    const notes = [...spanNotes(figure), ...(figure.note ? [figure.note] : [])];
    const element = h("figure", { class: `figure kind-${figure.kind}`, id: `figure-${figure.id}`, "data-figure": figure.id },
      h("figcaption", {}, h(heading, {}, tie(figure.title)), figure.subtitle ? h("p", { class: "subtitle" }, tie(figure.subtitle)) : null),
      hasData(figure) ? plot : h("p", { class: "no-data" }, "No data: this run did not record what the figure shows."),
      h("div", { class: "figure-foot" },
        h("div", { class: "notes" }, ...notes.map((note) => h("p", {}, tie(note)))),
        hasData(figure) ? this.tools(figure) : null));
    this.charts.push(new Chart(figure, element, plot, this.slots, LOOKS[this.mode]));
    this.resized.observe(plot);
    return element;
  }

  isPlaced(id: string): boolean {
    return this.placed.has(id);
  }

  titleOf(id: string): string | undefined {
    return this.byId.get(id)?.title;
  }

  private tools(figure: Figure): HTMLElement {
    const data = () => saveFile(`${this.report.scenario}-${figure.id}.csv`, new Blob([figureCsv(figure)], { type: "text/csv" }));
    const button = (text: string, about: string, run: () => void) =>
      h("button", { type: "button", class: "tool", title: about, click: run }, text);
    return h("div", { class: "tools", role: "group", "aria-label": "Save this figure" },
      button("SVG", "Save this figure as SVG", () => saveSvg(figure, this.report, this.slots)),
      button("PNG", "Save this figure as PNG", () => savePng(figure, this.report, this.slots)),
      button("CSV", "Save the figure's data as CSV", data));
  }

  /** The first figure at once, each other in a turn of its own, so that the page can be read meanwhile. */
  drawAll(): void {
    const [first, ...rest] = this.charts;
    if (first) this.drawOne(first);
    const next = () => {
      const chart = rest.shift();
      if (!chart) return;
      this.drawOne(chart);
      setTimeout(next, 0);
    };
    setTimeout(next, 0);
  }

  /** A figure whose data cannot be drawn says so and does not take the others with it. */
  private drawOne(chart: Chart): void {
    try {
      chart.draw();
    } catch (error) {
      chart.refuse("This figure could not be drawn from its data.");
      console.error(`figure ${chart.figure.id}`, error);
    }
  }

  show(mode: Mode): void {
    this.mode = mode;
    for (const chart of this.charts) chart.draw(LOOKS[mode]);
  }

  print(isPrinting: boolean): void {
    this.isPrinting = isPrinting;
    for (const chart of this.charts) chart.drawNow(LOOKS[isPrinting ? "print" : this.mode]);
  }
}
