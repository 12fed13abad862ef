/** Reading the data element of the page: a report, or the sentence that says why there is none. */
import { type Figure, REPORT_VERSION, type Report } from "./report";

export type Read = { report: Report } | { sentence: string };

export function readReport(text: string): Read {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return { sentence: "This report cannot be shown: its data is damaged (it is not valid JSON)." };
  }
  if (data === null) {
    return { sentence: "This page holds no run yet. It is the empty viewer; masu writes a report by putting a run's data into it." };
  }
  if (typeof data !== "object" || Array.isArray(data)) {
    return { sentence: "This report cannot be shown: its data is not a report." };
  }
  return check(data as Partial<Report>);
}

const LISTS = ["claims", "figures", "findings", "tables", "sections", "doubts", "files"] as const;

function check(data: Partial<Report>): Read {
  if (data.version !== REPORT_VERSION) {
    return {
      sentence: `This report cannot be shown: its data has version ${String(data.version)}, and this viewer reads version ${REPORT_VERSION}.`,
    };
  }
  for (const name of ["title", "answer", "scenario", "world", "generated", "verdict"] as const) {
    if (typeof data[name] !== "string") return { sentence: `This report cannot be shown: "${name}" is missing from its data.` };
  }
  for (const name of LISTS) {
    if (data[name] !== undefined && data[name] !== null && !Array.isArray(data[name])) {
      return { sentence: `This report cannot be shown: "${name}" in its data is not a list.` };
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
