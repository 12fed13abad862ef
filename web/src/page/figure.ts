/** A figure on the page: its finding as title, the plot, what the bands mean, and how to take it along. */
import { Chart } from "../charts/chart";
import { saveFile, savePng, saveSvg } from "../charts/save";
import { spanNotes } from "../charts/spans";
import { figureCsv } from "../csv";
import { h } from "../dom";
import { tie } from "../format";
import { figureData } from "./figure_data";
import { inWords } from "./figure_words";
import { hasData } from "../read";
import type { Figure, Report } from "../report";
import { say, tell } from "../words/words";
import { LOOKS, type Mode, Slots } from "../theme";

/** A figure is drawn when it is this near to what the reader sees, so that scrolling does not wait for it. */
const NEAR = "600px 0px";

/** Makes the figures, each once, and draws each when it comes into view. */
export class Figures {
  private readonly slots: Slots;
  private readonly byId: Map<string, Figure>;
  private readonly placed = new Set<string>();
  private readonly charts: Chart[] = [];
  private readonly resized = new ResizeObserver(() => {
    if (!this.isPrinting) for (const chart of this.charts) chart.follow();
  });
  private readonly seen = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      const chart = this.waiting.get(target);
      if (chart) this.drawOne(chart);
      this.waiting.delete(target);
      this.seen.unobserve(target);
    }
  }, { rootMargin: NEAR });
  /** Not drawn yet, by their plots. */
  private readonly waiting = new Map<Element, Chart>();
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
    const drawn = inWords(figure);
    const plot = h("div", { class: "plot", role: "img", "aria-label": `${drawn.title}. ${drawn.subtitle ?? ""}` });
    const notes = [...spanNotes(drawn).map(tie), ...(figure.note ? [tell(tie(figure.note))] : [])];
    const element = h("figure", { class: `figure kind-${figure.kind}`, id: `figure-${figure.id}`, "data-figure": figure.id },
      h("figcaption", {}, h(heading, {}, tell(tie(figure.title))), figure.subtitle ? h("p", { class: "subtitle" }, tell(tie(figure.subtitle))) : null),
      hasData(figure) ? plot : h("p", { class: "no-data" }, say("figure.no data")),
      h("div", { class: "figure-foot" },
        h("div", { class: "notes" }, ...notes.map((note) => h("p", {}, note))),
        hasData(figure) ? this.tools(figure, drawn) : null),
      hasData(figure) ? figureData(figure) : null);
    const chart = new Chart(drawn, element, plot, this.slots, LOOKS[this.mode]);
    this.charts.push(chart);
    this.waiting.set(plot, chart);
    this.resized.observe(plot);
    return element;
  }

  isPlaced(id: string): boolean {
    return this.placed.has(id);
  }

  titleOf(id: string): string | undefined {
    return this.byId.get(id)?.title;
  }

  /** Pictures are in the language of the page; the CSV has the text of the run. */
  private tools(figure: Figure, drawn: Figure): HTMLElement {
    const data = () => saveFile(`${this.report.scenario}-${figure.id}.csv`, new Blob([figureCsv(figure)], { type: "text/csv" }));
    const button = (text: string, about: string, run: () => void) =>
      h("button", { type: "button", class: "tool", title: about, click: run }, text);
    return h("div", { class: "tools", role: "group", "aria-label": say("figure.save") },
      button("SVG", say("figure.save as", { kind: "SVG" }), () => saveSvg(drawn, this.report, this.slots)),
      button("PNG", say("figure.save as", { kind: "PNG" }), () => savePng(drawn, this.report, this.slots)),
      button("CSV", say("figure.save csv"), data));
  }

  /** Keeps each figure's place free, so that links lead to where they should, and waits for the reader. */
  drawAll(): void {
    const widths = this.charts.map((chart) => chart.room());
    this.charts.forEach((chart, index) => this.safely(chart, () => chart.reserve(widths[index]!)));
    for (const plot of this.waiting.keys()) this.seen.observe(plot);
  }

  /** Stops watching the page: another set of figures takes this one's place. */
  close(): void {
    this.seen.disconnect();
    this.resized.disconnect();
    for (const chart of this.charts) chart.close();
  }

  /** A figure whose data cannot be drawn says so and does not take the others with it. */
  private drawOne(chart: Chart): void {
    this.safely(chart, () => chart.draw());
  }

  private safely(chart: Chart, run: () => void): void {
    try {
      run();
    } catch (error) {
      chart.refuse(say("figure.refused"));
      console.error(`figure ${chart.figure.id}`, error);
    }
  }

  show(mode: Mode): void {
    this.mode = mode;
    for (const chart of this.charts) chart.look(LOOKS[mode]);
  }

  print(isPrinting: boolean): void {
    this.isPrinting = isPrinting;
    this.waiting.clear();
    for (const chart of this.charts) this.safely(chart, () => chart.drawNow(LOOKS[isPrinting ? "print" : this.mode]));
  }
}
