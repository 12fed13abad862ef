/** Building elements. Text goes in as text nodes only, so no text of a run can become markup. */

type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;
export type Child = Node | string | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

export function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

const ICONS = {
  pass: "M3.5 8.5l3 3 6-7",
  fail: "M4 4l8 8M12 4l-8 8",
  doubt: "M8 3.2v6M8 12.2v.4",
  same: "M3 6.2h10M3 9.8h10",
  differs: "M3 6.2h10M3 9.8h10M10.6 3.2l-5.2 9.6",
  none: "M4 8h8",
  sun: "M8 5a3 3 0 100 6 3 3 0 000-6M8 .8v1.6M8 13.6v1.6M.8 8h1.6M13.6 8h1.6M2.9 2.9l1.1 1.1M12 12l1.1 1.1M2.9 13.1L4 12M12 4l1.1-1.1",
  moon: "M13 9.6A5.6 5.6 0 016.4 3a5.6 5.6 0 106.6 6.6z",
} as const;
export type IconName = keyof typeof ICONS;

/** A 16-unit line icon in the colour of its text. */
export function icon(name: IconName): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}
