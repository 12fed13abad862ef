/** Sorting the rows of a table. */
import type { Cell } from "./report";

export type Direction = "up" | "down";

/** The order in which to show the rows: stable, and cells without a value last in either direction. */
export function sortedOrder(cells: Cell[], direction: Direction): number[] {
  const order = cells.map((_, index) => index);
  const sign = direction === "up" ? 1 : -1;
  return order.sort((a, b) => compare(cells[a] ?? null, cells[b] ?? null, sign) || a - b);
}

function compare(a: Cell, b: Cell, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}
