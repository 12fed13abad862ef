import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { buildXy, ticksOf } from "../src/charts/xy";
import { csv, figureCsv, tableCsv } from "../src/csv";
import { decimate } from "../src/decimate";
import { hasData, readReport } from "../src/read";
import { ROWS_MAX, dataTable } from "../src/page/figure_data";
import { grouped } from "../src/page/findings";
import type { Figure, Finding, Point, Report } from "../src/report";
import { linearScale, logScale, timeScale } from "../src/scale";
import { sortedOrder } from "../src/sort";
import { LOOKS, Slots } from "../src/theme";

const axis = { label: "", unit: "" };
const figure = (part: Partial<Figure>): Figure => ({ id: "f", title: "", kind: "lines", x: axis, y: axis, series: [], ...part });

describe("decimation", () => {
  const wave: Point[] = Array.from({ length: 100_000 }, (_, i) => [i, Math.sin(i / 500)]);

  it("keeps few points whole", () => expect(decimate(wave.slice(0, 10), 100)).toHaveLength(10));
  it("keeps the limit, the ends and the order", () => {
    const kept = decimate(wave, 1000);
    expect(kept.length).toBeLessThanOrEqual(1000);
    expect([kept[0]![0], kept.at(-1)![0]]).toEqual([0, 99_999]);
    expect(kept.every(([x], i) => i === 0 || x > kept[i - 1]![0])).toBe(true);
  });
  it("keeps a single spike", () => {
    const spiked = wave.map(([x, y]): Point => [x, x === 54_321 ? 50 : y]);
    expect(decimate(spiked, 500).some(([, y]) => y === 50)).toBe(true);
  });
  it("keeps a gap a gap, and the intervals with their points", () => {
    const points: Point[] = Array.from({ length: 3000 }, (_, i) => (i >= 1000 && i < 2000 ? [i, null] : [i, i, i - 1, i + 1]));
    const kept = decimate(points, 200);
    expect(kept.filter(([, y]) => y === null)).toHaveLength(1);
    expect(kept.every(([, y, low]) => y === null || low === y - 1)).toBe(true);
  });
});

describe("sorting", () => {
  it("sorts numbers as numbers, texts naturally, and puts nothing last in either direction", () => {
    expect(sortedOrder([10, 9, null, 100], "up")).toEqual([1, 0, 3, 2]);
    expect(sortedOrder([10, 9, null, 100], "down")).toEqual([3, 0, 1, 2]);
    expect(sortedOrder(["host 10", "host 9"], "up")).toEqual([1, 0]);
  });
  it("is stable", () => expect(sortedOrder([1, 1, 0, 1], "down")).toEqual([0, 1, 3, 2]));
});

describe("csv", () => {
  it("quotes what must be quoted", () => expect(csv([["a,b", 'say "x"', 1.5, null]])).toBe('"a,b","say ""x""",1.5,\r\n'));
  it("follows the order shown", () => {
    const table = { id: "t", title: "", columns: [{ name: "n", unit: "s", numeric: true }], rows: [[1], [2]] };
    expect(tableCsv(table, [1, 0])).toBe('"n, s"\r\n2\r\n1\r\n');
  });
  it("holds every point of a figure and names the categories of bars", () => {
    const bars = figure({ kind: "bars", categories: ["zero", "copy"], series: [{ name: "on", color: "a", points: [[1, 5, 4, 6]] }] });
    expect(figureCsv(bars)).toBe("series,category,,low,high\r\non,copy,5,4,6\r\n");
  });
});

describe("axes", () => {
  it("gives bars a zero and round ends", () => expect(linearScale([37], axis, 4, true)).toMatchObject({ min: 0, max: 40, step: 10 }));
  it("lets lines far from zero begin elsewhere", () => {
    expect(linearScale([90, 100], axis, 4, false).min).toBeGreaterThan(80);
    expect(linearScale([10, 100], axis, 4, false).min).toBe(0);
  });
  it("survives no values and equal values", () => {
    expect(linearScale([], axis, 4, true).max).toBeGreaterThan(0);
    expect(linearScale([5, 5], axis, 4, false).max).toBeGreaterThan(5);
  });
  it("gives a logarithmic bar a decade to stand on", () => {
    expect(logScale([10, 500], axis, true)).toMatchObject({ min: 1, max: 1000 });
    expect(logScale([10, 500], axis, false)).toMatchObject({ min: 10, max: 1000 });
  });
  it("ticks an axis that begins in a warm-up at round numbers", () => {
    // ECharts counts steps from the begin of the axis: -2, 8, 18.
    expect(ticksOf(timeScale(-2, 48, 6))).toEqual({ customValues: [0, 10, 20, 30, 40] });
    expect(ticksOf(timeScale(0, 180, 6))).toEqual({});
  });
  it("ticks time as a clock does", () => expect(timeScale(0, 180, 6).ticks).toEqual([0, 30, 60, 90, 120, 150, 180]));
});

describe("colours", () => {
  it("gives a key the same slot everywhere and never a named one's", () => {
    const series = (color: string) => ({ name: color, color, points: [] });
    const slots = new Slots({ figures: [figure({ series: [series("host"), series("blue")] }), figure({ series: [series("other"), series("host")] })] });
    expect(slots.index("blue")).toBe(0);
    expect(new Set(["host", "blue", "other"].map((key) => slots.index(key))).size).toBe(3);
  });
});

describe("reading", () => {
  const sentence = (text: string) => {
    const read = readReport(text);
    return "sentence" in read ? read.sentence : null;
  };

  it("says why there is nothing to show", () => {
    expect(sentence("null")).toContain("no run yet");
    expect(sentence("{")).toContain("not valid JSON");
    expect(sentence("[]")).toContain("not a report");
    expect(sentence('{"version":2}')).toContain("version 2");
    expect(sentence('{"version":1}')).toContain('"title" is missing');
  });

  it("reads the sample, in which every name leads somewhere", () => {
    const read = readReport(readFileSync(new URL("../sample/vaai.json", import.meta.url), "utf8"));
    if (!("report" in read)) throw new Error(read.sentence);
    const report: Report = read.report;
    const figures = new Set(report.figures.map((one) => one.id));
    const tables = new Set(report.tables.map((one) => one.id));
    expect(report.title).toContain("SAMPLE");
    for (const claim of report.claims) if (claim.figure) expect(figures).toContain(claim.figure);
    for (const section of report.sections) {
      for (const id of section.figures ?? []) expect(figures).toContain(id);
      for (const id of section.tables ?? []) expect(tables).toContain(id);
    }
    expect(report.findings.map((finding) => finding.cost ?? null)).toEqual([
      { percent: 38, of: "throughput", at_most: true }, { percent: 51.5, of: "response time" }, null,
    ]);
    for (const table of report.tables) for (const row of table.rows) expect(row).toHaveLength(table.columns.length);
    expect(report.figures.filter((one) => !hasData(one)).map((one) => one.id)).toEqual(["neighbours"]);
  });
});

describe("findings", () => {
  const drive = (n: number, busy: number): Finding => ({
    resource: `drive${n}`, evidence: `drive${n} works ${busy} %`, threshold: "70 %", source: "a rule", consequence: "It takes no more servers.",
  });

  it("are said once for sixteen drives, in the order in which they came where no cost is known", () => {
    const port: Finding = { resource: "port0", evidence: "port0 works 99 %", consequence: "Reads wait." };
    const groups = grouped([...Array.from({ length: 8 }, (_, n) => drive(n, 90.5 + n)), port, ...Array.from({ length: 8 }, (_, n) => drive(8 + n, 80))]);
    expect(groups.map((group) => group.length)).toEqual([16, 1]);
    expect(groups[0]![15]!.resource).toBe("drive15");
  });
  it("are ordered by what they cost: groups by the costliest of each, the unknown last", () => {
    const lost = (finding: Finding, percent: number): Finding => ({ ...finding, cost: { percent, of: "throughput" } });
    const cache: Finding = { resource: "cache", evidence: "cache is full", consequence: "Writes wait." };
    const port: Finding = { resource: "port0", evidence: "port0 works 99 %", consequence: "Reads wait." };
    const groups = grouped([cache, lost(drive(0, 75), 2), lost(port, 8), lost(drive(1, 95), 30)]);
    expect(groups.map((group) => group.map(({ resource }) => resource))).toEqual([["drive1", "drive0"], ["port0"], ["cache"]]);
  });
  it("stay apart where more than names and numbers differs", () => {
    expect(grouped([drive(0, 90), { ...drive(1, 90), consequence: "Writes wait." }, { ...drive(2, 90), threshold: null }])).toHaveLength(3);
  });
});

describe("the table of a figure", () => {
  it("has each point with its interval, and the names of groups", () => {
    const bars = figure({ kind: "bars", categories: ["zero", "clone"], y: { label: "time", unit: "s" }, series: [{ name: "host", color: "a", points: [[0, 5, 4, 6], [1, 7]] }] });
    const { table, count } = dataTable(bars);
    expect(table.rows).toEqual([["host", "zero", 5, 4, 6], ["host", "clone", 7, null, null]]);
    expect(table.columns.map((column) => column.name)).toEqual(["Series", "Category", "time", "Low", "High"]);
    expect(count).toBe(2);
  });
  it("names the panel and ends at a number of rows that a page can show", () => {
    const points = Array.from({ length: ROWS_MAX }, (_, i): Point => [i, i]);
    const many = figure({ panels: [{ id: "p", title: "VM01" }], series: [1, 2].map((n) => ({ name: `s${n}`, color: "a", points, panel: "p" })) });
    const { table, count } = dataTable(many);
    expect([table.rows.length, count]).toEqual([ROWS_MAX, 2 * ROWS_MAX]);
    expect(table.rows[0]).toEqual(["s1", "VM01", 0, 0]);
  });
});

describe("time figures with many panels", () => {
  const panels = [...Array.from({ length: 10 }, (_, n) => ({ id: `vm${n}`, title: `VM${n + 1}` })), { id: "all", title: "All together", y: axis }];
  const series = panels.map(({ id }) => ({ name: "throughput", color: "blue", points: [[0, 1], [9, id === "all" ? 100 : 10]] as Point[], panel: id }));
  const built = (shown: number) => {
    const one = figure({ kind: "timeline", series: series.slice(-shown), panels: panels.slice(-shown) });
    return buildXy(one, { width: 900, top: 0, look: LOOKS.light, slots: new Slots({ figures: [one] }) }).option as unknown as { grid: { left: number }[]; yAxis: { max: number }[] };
  };

  it("stand in three columns, the VMs on one scale and all together on their own", () => {
    const { grid, yAxis } = built(11);
    expect(new Set(grid.map(({ left }) => left)).size).toBe(3);
    expect(new Set(yAxis.slice(0, 10).map(({ max }) => max))).toEqual(new Set([10]));
    expect(yAxis[10]!.max).toBe(100);
  });
  it("stand one below the other when they are few", () => expect(new Set(built(3).grid.map(({ left }) => left)).size).toBe(1));
});
