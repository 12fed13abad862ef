/** The report viewer: reads the run's data out of the page and shows it. */
import "./style.css";
import { type Child, append, h, icon } from "./dom";
import { claimsView } from "./page/claims";
import { Figures } from "./page/figure";
import { findingsView } from "./page/findings";
import { doubtsView, headView } from "./page/head";
import { filesView, methodView } from "./page/method";
import { proofView } from "./page/proof";
import { sectionsView } from "./page/sections";
import { readReport } from "./read";
import type { Report } from "./report";
import type { Mode } from "./theme";
import { choose, currentLanguage, say, setLanguage, told } from "./words/words";

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
let chosen: Mode | null = null;
/** The button of the bar shows what it would change to. */
let onLook = (): void => {};

function mode(): Mode {
  return chosen ?? (prefersDark.matches ? "dark" : "light");
}

/** What is on the page now; another language makes another one. */
let figures: Figures | null = null;

function show(report: Report, page: HTMLElement): void {
  document.documentElement.lang = currentLanguage();
  document.title = `${told(report.title).text} · masu`;
  figures?.close();
  figures = new Figures(report, mode());
  page.replaceChildren();
  append(page, parts(report, page, figures));
  figures.drawAll();
}

function parts(report: Report, page: HTMLElement, figures: Figures): Child[] {
  const lead = report.claims.find((claim) => claim.figure && figures.titleOf(claim.figure))?.figure ?? report.figures[0]?.id;
  const leadFigure = figures.place(lead, "h2");
  const others = report.claims.flatMap((claim) => figures.place(claim.figure) ?? []);
  const findings = findingsView(report.findings);
  const sections = sectionsView(report, figures);
  const doubts = doubtsView(report.doubts);
  const proof = proofView(report, figures);
  const method = methodView(report, report.method);
  const files = filesView(report.files);
  const all = [proof, findings, ...sections, doubts, method, files].filter((part) => part !== null);
  return [
    topBar(() => show(report, page), [
      proof ? [say("bar.proof"), "#proof"] : null, findings ? [say("findings"), "#findings"] : null,
      sections[0] ? [say("bar.details"), `#${sections[0].id}`] : null,
      doubts ? [say("doubts"), "#doubts"] : null, [say("bar.method"), "#method"],
    ]),
    contents(all),
    headView(report),
    h("div", { class: leadFigure && report.claims.length ? "first" : "first single" },
      report.claims.length ? claimsView(report.claims, (id) => figures.titleOf(id) !== undefined) : null, leadFigure),
    others.length > 0 ? h("div", { class: "figures with-claims" }, ...others) : null,
    ...all,
    h("footer", {}, say("footer")),
  ];
}

/** The list of sections, for a screen that has no room for the links of the bar. */
function contents(sections: HTMLElement[]): HTMLElement {
  const list = sections.map((section) =>
    h("li", {}, h("a", { href: `#${section.id}`, click: () => (details.open = false) }, section.querySelector("h2")?.textContent ?? section.id)));
  const details = h("details", { class: "contents" }, h("summary", {}, say("bar.contents")), h("ul", {}, ...list));
  return details;
}

function topBar(again: () => void, links: ([string, string] | null)[]): HTMLElement {
  const look = h("button", { type: "button", class: "theme", title: say("bar.look"), "aria-label": say("bar.look"), click: flip });
  const mark = () => look.replaceChildren(icon(mode() === "dark" ? "sun" : "moon"));
  function flip(): void {
    chosen = mode() === "dark" ? "light" : "dark";
    document.documentElement.dataset["theme"] = chosen;
    figures?.show(chosen);
    mark();
  }
  onLook = mark;
  mark();
  const to = currentLanguage() === "en" ? "ja" : "en";
  const language = h("button", {
    type: "button", class: "language", lang: to, title: say("language.about"),
    click: () => {
      setLanguage(to);
      again();
      document.querySelector<HTMLElement>(".language")?.focus();
    },
  }, say("language.other"));
  const anchors = links.flatMap((link) => (link ? [h("a", { href: link[1] }, link[0])] : []));
  return h("div", { class: "bar" },
    h("span", { class: "brand" }, h("b", {}, "masu"), ` ${say("bar.title")}`), h("nav", {}, ...anchors), language, look);
}

/** Paper is narrower than the screen and grey; what is folded away must be on it, but for the data of figures. */
function printing(): void {
  const root = document.documentElement;
  addEventListener("beforeprint", () => {
    root.classList.add("printing");
    document.querySelectorAll<HTMLDetailsElement>("details.scenario-file").forEach((details) => (details.open = true));
    figures?.print(true);
  });
  addEventListener("afterprint", () => {
    root.classList.remove("printing");
    figures?.print(false);
  });
}

function start(): void {
  const page = document.getElementById("report")!;
  setLanguage(choose(navigator.languages));
  document.documentElement.lang = currentLanguage();
  const read = readReport(document.getElementById("masu-report")?.textContent ?? "null");
  if ("sentence" in read) {
    page.append(h("p", { class: "no-report" }, read.sentence));
    return;
  }
  prefersDark.addEventListener("change", () => {
    onLook();
    figures?.show(mode());
  });
  printing();
  try {
    show(read.report, page);
  } catch (error) {
    page.replaceChildren(h("p", { class: "no-report" }, say("refused.form", { error: String(error) })));
    console.error(error);
  }
}

start();
