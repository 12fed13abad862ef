/** The box beside the pointer: the same look in every figure, built from text nodes. */
import { h } from "../dom";
import type { Look } from "../theme";
import { FONT } from "./frame";

export interface Row {
  name: string;
  color: string;
  value: string;
}

export function tooltipBox(head: string, rows: Row[]): HTMLElement {
  const body = rows.map((row) =>
    h("tr", {},
      h("td", {}, h("span", { class: "dot", style: `background:${row.color}` }), row.name),
      h("td", { class: "number" }, row.value)));
  return h("div", { class: "tip" }, h("div", { class: "tip-head" }, head), h("table", {}, ...body));
}

export function tooltipOption(look: Look, pointer: "shadow" | "line", content: (params: unknown) => HTMLElement | string) {
  return {
    trigger: "axis", confine: true, transitionDuration: 0, padding: 0, borderWidth: 1, borderColor: look.rule,
    backgroundColor: look.surface, extraCssText: "box-shadow:0 4px 16px rgba(0,0,0,.14);border-radius:6px;",
    textStyle: { color: look.ink, fontSize: 12, fontFamily: FONT },
    axisPointer: {
      type: pointer, lineStyle: { color: look.muted, type: "solid", width: 1 }, shadowStyle: { color: look.muted, opacity: 0.08 },
    },
    formatter: content,
  };
}
