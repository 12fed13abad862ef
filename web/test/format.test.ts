import { describe, expect, it } from "vitest";
import { columnDecimals, compact, fixed, interval, intervalText, named, plain, tie, time, typographic } from "../src/format";

/** Spaces that do not break read like any other here. */
const spaced = (text: string) => text.replaceAll("\u00a0", " ");

describe("numbers", () => {
  it.each([
    [0, "0"], [1092, "1,092"], [78387398, "78,387,398"], [0.81234, "0.812"], [4.1, "4.1"], [1071.26, "1,071"],
    [-75.5, "−75.5"], [0.000021, "2.1×10⁻⁵"], [Number.NaN, "–"], [null, "–"],
  ])("shows %s as %s", (value, text) => expect(plain(value)).toBe(text));

  it.each([[999, "999"], [9999, "9,999"], [12345, "12.3k"], [2966304, "2.97M"], [10_000_000, "10M"], [0.05, "0.05"]])(
    "shortens %s to %s", (value, text) => expect(compact(value)).toBe(text));

  it("never shows a negative zero", () => expect(fixed(-0.001, 1)).toBe("0.0"));

  it("gives a column one number of decimals unless its values are too far apart", () => {
    expect(columnDecimals([12.34, 56.7])).toBe(1);
    expect(columnDecimals([1, 2000])).toBe(0);
    expect(columnDecimals([0.001, 2000.5])).toBeNull();
  });
});

describe("intervals", () => {
  it.each([
    [0.8, 0.7, 0.9, "%", "0.8 % (0.7–0.9)"],
    [73.52, 71.91, 75.13, "%", "73.5 % (71.9–75.1)"],
    [1071.3, 1063.1, 1079.4, "s", "1,071 s (1,063–1,079)"],
    [0.4, -1.1, 1.9, "%", "0.4 % (−1.1 to 1.9)"],
    [99.862, 99.861, 99.863, "%", "99.862 % (99.861–99.863)"],
    [100, null, null, "%", "100 %"],
    [1.08, 1.05, 1.11, "", "1.08 (1.05–1.11)"],
    [null, null, null, "ms", "–"],
  ])("%s (%s, %s) %s", (value, low, high, unit, text) => expect(spaced(intervalText(value, low, high, unit))).toBe(text));

  it("drops an interval that rounding closes", () => expect(interval(5, 5, 5)).toEqual({ value: "5", range: "" }));
});

describe("texts", () => {
  it("names an axis with its unit", () => {
    expect(named("rate", "MB/s")).toBe("rate, MB/s");
    expect(named("depth", "")).toBe("depth");
  });
  it("shows times in UTC and leaves other text alone", () => {
    expect(time("2026-11-20T14:05:00Z")).toBe("20 Nov 2026, 14:05 UTC");
    expect(time("yesterday")).toBe("yesterday");
  });
  it.each([
    ["-20 to 20 %", "−20 to 20 %"], ["62709918 to 94064878 packets", "62,709,918 to 94,064,878 packets"], ["≤ 1092.25 s", "≤ 1,092.25 s"],
    ["0.12345", "0.12345"], ["raid10-4", "raid10-4"], ["1,092 s", "1,092 s"],
  ])("writes the numbers of %s", (text, written) => expect(typographic(text)).toBe(written));
  it("keeps a number with its unit", () => {
    expect(tie("saves 99 % ± 1 % of 4 GiB in 3 steps")).toBe("saves 99\u00a0%\u00a0±\u00a01\u00a0% of 4\u00a0GiB in 3 steps");
  });
});
