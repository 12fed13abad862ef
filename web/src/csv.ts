/** Comma-separated values (RFC 4180), with numbers at full precision. */
import { named } from "./format";
import type { Cell, Figure, Table } from "./report";

export function csv(rows: Cell[][]): string {
  return rows.map((row) => row.map(field).join(",") + "\r\n").join("");
}

function field(cell: Cell): string {
  if (cell === null) return "";
  const text = String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function tableCsv(table: Table, order: number[]): string {
  const head = table.columns.map((column) => named(column.name, column.unit));
  return csv([head, ...order.map((row) => table.rows[row] ?? [])]);
}

/** Every point of a figure, none thinned. */
export function figureCsv(figure: Figure): string {
  const withPanel = figure.series.some((series) => series.panel);
  const x = named(figure.x.label || "category", figure.x.unit);
  const rows: Cell[][] = [["series", ...(withPanel ? ["panel"] : []), x, named(figure.y.label, figure.y.unit), "low", "high"]];
  for (const series of figure.series) {
    for (const [at, y, low, high] of series.points) {
      const place = figure.kind === "bars" ? (figure.categories?.[at] ?? at) : at;
      rows.push([series.name, ...(withPanel ? [series.panel ?? ""] : []), place, y, low ?? null, high ?? null]);
    }
  }
  return csv(rows);
}
