/** The details: sections with their text, figures and tables, and whatever no section names. */
import { h } from "../dom";
import type { Report, Section, Table } from "../report";
import type { Figures } from "./figure";
import { say, tell } from "../words/words";
import { tableView } from "./table";

export function sectionsView(report: Report, figures: Figures): HTMLElement[] {
  const tables = new Map(report.tables.map((table) => [table.id, table]));
  const sections = report.sections.map((section) => sectionView(section, figures, tables));
  const left = report.figures.filter((figure) => !figures.isPlaced(figure.id)).map((figure) => figure.id);
  const rest = left.length > 0 || tables.size > 0
    ? [sectionView({ id: "more", title: say("sections.more"), figures: left, tables: [...tables.keys()] }, figures, tables)]
    : [];
  return [...sections, ...rest];
}

function sectionView(section: Section, figures: Figures, tables: Map<string, Table>): HTMLElement {
  const paragraphs = (section.text ?? "").split(/\n\s*\n/).filter((text) => text.trim() !== "");
  const shown: HTMLElement[] = [];
  const elsewhere: HTMLElement[] = [];
  for (const id of section.figures ?? []) {
    const element = figures.place(id);
    const title = figures.titleOf(id);
    if (element) shown.push(element);
    else if (title) elsewhere.push(h("li", {}, h("a", { href: `#figure-${id}` }, tell(title))));
  }
  const own = (section.tables ?? []).flatMap((id) => {
    const table = tables.get(id);
    return table && tables.delete(id) ? [tableView(table)] : [];
  });
  return h("section", { id: `section-${section.id}`, class: "detail" },
    h("h2", {}, tell(section.title)),
    ...paragraphs.map((text) => h("p", { class: "prose" }, tell(text.trim()))),
    elsewhere.length > 0 ? h("div", { class: "elsewhere" }, h("span", {}, say("sections.above")), h("ul", {}, ...elsewhere)) : null,
    shown.length > 0 ? h("div", { class: "figures" }, ...shown) : null, ...own);
}
