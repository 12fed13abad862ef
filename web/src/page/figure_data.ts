/** The data of a figure as a table, folded away; made when it is first opened. */
import { h } from "../dom";
import { named } from "../format";
import type { Cell, Figure, Table } from "../report";
import { say, told } from "../words/words";
import { tableView } from "./table";

/** A page with more rows in one table answers slowly; the CSV has all. */
export const ROWS_MAX = 2000;

export function figureData(figure: Figure): HTMLElement {
  const details = h("details", { class: "figure-data" }, h("summary", {}, say("figure.data")));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const { table, count } = dataTable(figure);
    details.append(tableView(table));
    if (count > ROWS_MAX) details.append(h("p", { class: "none" }, say("table.cut", { shown: ROWS_MAX, count })));
  });
  return details;
}

/** Every point in a row of its own, at most `ROWS_MAX`; and how many points there are. */
export function dataTable(figure: Figure): { table: Table; count: number } {
  const panels = new Map((figure.panels ?? []).map((panel) => [panel.id, panel.title]));
  const withInterval = figure.series.some(({ points }) => points.some(([, , low, high]) => low != null && high != null));
  const isBars = figure.kind === "bars";
  const rows: Cell[][] = [];
  for (const series of figure.series) {
    for (const [x, y, low, high] of series.points.slice(0, ROWS_MAX - rows.length)) {
      rows.push([
        told(series.name).text, ...(panels.size > 0 ? [panels.get(series.panel ?? "") ?? ""] : []),
        isBars ? (figure.categories?.[x] ?? x) : x, y, ...(withInterval ? [low ?? null, high ?? null] : []),
      ]);
    }
  }
  const unit = figure.y.unit;
  const text = (name: string) => ({ name, numeric: false });
  const number = (name: string) => ({ name, unit, numeric: true });
  const columns = [
    text(say("figure.series")), ...(panels.size > 0 ? [text(say("figure.panel"))] : []),
    isBars ? text(figure.x.label || say("figure.category")) : { name: named(figure.x.label, figure.x.unit), numeric: true },
    number(figure.y.label), ...(withInterval ? [number(say("figure.low")), number(say("figure.high"))] : []),
  ];
  const count = figure.series.reduce((sum, series) => sum + series.points.length, 0);
  return { table: { id: `data-${figure.id}`, title: "", columns, rows }, count };
}
