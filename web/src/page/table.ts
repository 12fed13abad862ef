/** A table that sorts by any column and copies as CSV. */
import { csv, tableCsv } from "../csv";
import { h } from "../dom";
import { columnDecimals, fixed, named, plain } from "../format";
import type { Cell, Table } from "../report";
import { say, tell, told } from "../words/words";
import { type Direction, sortedOrder } from "../sort";

/** Longer tables open with this many rows and a button for the rest. */
const ROWS_AT_FIRST = 40;

export type CellView = (row: number, column: number) => Node | string;

/**
 * `view` may draw cells in its own way; sorting uses the values of `table`, and so does the CSV unless
 * `source` brings fuller rows.
 */
export function tableView(table: Table, view: CellView = plainCells(table), kind = "", source?: Cell[][]): HTMLElement {
  let order = table.rows.map((_, index) => index);
  let sorted: { column: number; direction: Direction } | null = null;
  let isWhole = table.rows.length <= ROWS_AT_FIRST;
  const body = h("tbody");
  const more = h("button", { type: "button", class: "tool", click: showAll }, say("table.all", { count: table.rows.length }));
  const heads = table.columns.map((column, index) => {
    const text = tell(named(column.name, column.unit));
    const button = h("button", { type: "button", class: "sort", title: say("table.sort", { column: told(column.name).text }), click: () => sortBy(index) }, text);
    return h("th", { scope: "col", class: column.numeric ? "number" : "" }, button);
  });

  function sortBy(column: number): void {
    const direction: Direction = sorted?.column === column && sorted.direction === "up" ? "down" : "up";
    sorted = { column, direction };
    order = sortedOrder(table.rows.map((row) => row[column] ?? null), direction);
    heads.forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", direction === "up" ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    fill();
  }

  function showAll(): void {
    isWhole = true;
    more.remove();
    fill();
  }

  function fill(): void {
    const rows = isWhole ? order : order.slice(0, ROWS_AT_FIRST);
    body.replaceChildren(...rows.map((row) => h("tr", {}, ...table.columns.map((column, index) =>
      h("td", { class: column.numeric ? "number" : "", "data-label": told(named(column.name, column.unit)).text }, view(row, index))))));
  }

  fill();
  const copy = copyButton(say("copy.csv"), () => (source ? csv(source) : tableCsv(table, order)));
  return h("div", { class: `table-block ${kind} ${table.columns.length > 3 ? "wide" : ""}` },
    table.title ? h("h3", {}, tell(table.title)) : null,
    h("table", {}, h("thead", {}, h("tr", {}, ...heads)), body),
    h("div", { class: "tools" }, isWhole ? null : more, copy));
}

function plainCells(table: Table): CellView {
  const decimals = table.columns.map((column, index) => {
    const values = table.rows.map((row) => row[index]).filter((cell): cell is number => typeof cell === "number");
    return column.numeric ? columnDecimals(values) : null;
  });
  return (row, column) => cellText(table.rows[row]?.[column] ?? null, decimals[column] ?? null);
}

function cellText(cell: Cell, decimals: number | null): Node | string {
  if (cell === null) return "–";
  if (typeof cell === "string") return tell(cell);
  return decimals === null ? plain(cell) : fixed(cell, decimals);
}

export function copyButton(text: string, content: () => string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "tool", click: () => void run() }, text);
  async function run(): Promise<void> {
    const done = await copyText(content());
    button.textContent = say(done ? "copy.done" : "copy.failed");
    setTimeout(() => (button.textContent = text), 1500);
  }
  return button;
}

/** The clipboard, or the old way where a page from a file may not use it. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "copy-area", readonly: true, "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
