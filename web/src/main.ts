/** The report viewer: reads the run's data out of the page and shows it. */
import "./style.css";
import { append, h, icon } from "./dom";
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

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
let chosen: Mode | null = null;

function mode(): Mode {
  return chosen ?? (prefersDark.matches ? "dark" : "light");
}

function show(report: Report, page: HTMLElement): void {
  document.title = `${report.title} · masu`;
  const figures = new Figures(report, mode());
  const lead = report.claims.find((claim) => claim.figure && figures.titleOf(claim.figure))?.figure ?? report.figures[0]?.id;
  const leadFigure = figures.place(lead, "h2");
  const others = report.claims.flatMap((claim) => figures.place(claim.figure) ?? []);
  const findings = findingsView(report.findings);
  const sections = sectionsView(report, figures);
  const doubts = doubtsView(report.doubts);
  append(page, [
    topBar(figures, [
      report.proof ? ["Proof", "#proof"] : null, findings ? ["Findings", "#findings"] : null, sections[0] ? ["Details", `#${sections[0].id}`] : null,
      doubts ? ["Doubts", "#doubts"] : null, ["Method", "#method"],
    ]),
    headView(report),
    h("div", { class: leadFigure && report.claims.length ? "first" : "first single" },
      report.claims.length ? claimsView(report.claims, (id) => figures.titleOf(id) !== undefined) : null, leadFigure),
    others.length > 0 ? h("div", { class: "figures with-claims" }, ...others) : null,
    proofView(report, figures), findings, ...sections, doubts, methodView(report, report.method), filesView(report.files),
    h("footer", {}, "Made by masu. This page is complete in itself: it loads nothing and sends nothing."),
  ]);
  figures.drawAll();
  prefersDark.addEventListener("change", () => figures.show(mode()));
  printing(figures);
}

function topBar(figures: Figures, links: ([string, string] | null)[]): HTMLElement {
  const toggle = h("button", { type: "button", class: "theme", title: "Light or dark", "aria-label": "Light or dark", click: flip });
  const mark = () => toggle.replaceChildren(icon(mode() === "dark" ? "sun" : "moon"));
  function flip(): void {
    chosen = mode() === "dark" ? "light" : "dark";
    document.documentElement.dataset["theme"] = chosen;
    mark();
    figures.show(chosen);
  }
  prefersDark.addEventListener("change", mark);
  mark();
  const anchors = links.flatMap((link) => (link ? [h("a", { href: link[1] }, link[0])] : []));
  return h("div", { class: "bar" }, h("span", { class: "brand" }, h("b", {}, "masu"), " verification report"), h("nav", {}, ...anchors), toggle);
}

/** Paper is narrower than the screen and grey; what is folded away must be on it. */
function printing(figures: Figures): void {
  const root = document.documentElement;
  addEventListener("beforeprint", () => {
    root.classList.add("printing");
    document.querySelectorAll("details").forEach((details) => (details.open = true));
    figures.print(true);
  });
  addEventListener("afterprint", () => {
    root.classList.remove("printing");
    figures.print(false);
  });
}

function start(): void {
  const page = document.getElementById("report")!;
  const read = readReport(document.getElementById("masu-report")?.textContent ?? "null");
  if ("sentence" in read) {
    page.append(h("p", { class: "no-report" }, read.sentence));
    return;
  }
  try {
    show(read.report, page);
  } catch (error) {
    const sentence = `This report cannot be shown: its data does not have the form that the viewer expects (${String(error)}).`;
    page.replaceChildren(h("p", { class: "no-report" }, sentence));
    console.error(error);
  }
}

start();
