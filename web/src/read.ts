/** Reading the data element of the page: a report, or the sentence that says why there is none. */
import { say } from "./words/words";
import { type Figure, REPORT_VERSION, type Report } from "./report";

export type Read = { report: Report } | { sentence: string };

export function readReport(text: string): Read {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return { sentence: say("refused.json") };
  }
  if (data === null) {
    return { sentence: say("refused.empty") };
  }
  if (typeof data !== "object" || Array.isArray(data)) {
    return { sentence: say("refused.report") };
  }
  return check(data as Partial<Report>);
}

const LISTS = ["claims", "figures", "findings", "tables", "sections", "doubts", "files"] as const;

function check(data: Partial<Report>): Read {
  if (data.version !== REPORT_VERSION) {
    return {
      sentence: say("refused.version", { version: String(data.version), known: REPORT_VERSION }),
    };
  }
  for (const name of ["title", "answer", "scenario", "world", "generated", "verdict"] as const) {
    if (typeof data[name] !== "string") return { sentence: say("refused.missing", { field: name }) };
  }
  for (const name of LISTS) {
    if (data[name] !== undefined && data[name] !== null && !Array.isArray(data[name])) {
      return { sentence: say("refused.list", { field: name }) };
    }
  }
  const lists = Object.fromEntries(LISTS.map((name) => [name, data[name] ?? []]));
  const report = { ...data, ...lists, method: data.method ?? { command: "" } } as Report;
  report.figures = report.figures.map(withSeries);
  return { report };
}

function withSeries(figure: Figure): Figure {
  const axis = { label: "", unit: "" };
  const series = (figure.series ?? []).map((one) => ({ ...one, points: one.points ?? [] }));
  return { ...figure, x: figure.x ?? axis, y: figure.y ?? axis, series };
}

/** Whether there is anything to draw. */
export function hasData(figure: Figure): boolean {
  return figure.series.some((series) => series.points.some(([, y]) => y !== null && Number.isFinite(y)));
}
