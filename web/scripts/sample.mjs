/**
 * Puts data into the built viewer, as the laboratory does: `npm run sample` writes dist/sample.html from
 * sample/vaai.json, and dist/large.html with 100,000 samples to see how fast such a report opens.
 */
import { readFileSync, writeFileSync } from "node:fs";

const at = (name) => new URL(`../${name}`, import.meta.url);
const EMPTY = '<script type="application/json" id="masu-report">null</script>';

/** `<` is escaped, so that no text of a run can end the element. */
function withData(viewer, report) {
  const json = JSON.stringify(report).replaceAll("<", "\\u003c");
  if (viewer.split(EMPTY).length !== 2) throw new Error("dist/report.html does not hold the empty data element once; run npm run build");
  return viewer.replace(EMPTY, () => EMPTY.replace("null", () => json));
}

/** A number stream that is the same in every run (mulberry32). */
function stream(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function large(sample) {
  const random = stream(7);
  const noisy = (count, level) => Array.from({ length: count }, (_, i) => [
    i / 100, Math.round((level * (1 + 0.2 * Math.sin(i / 4000)) + random() * level * 0.3 + (random() > 0.9995 ? level : 0)) * 10) / 10,
  ]);
  const axis = (label, unit) => ({ label, unit });
  const figures = [
    {
      id: "samples", title: "SAMPLE: a hundred thousand samples in one figure", kind: "timeline", x: axis("time", "s"), y: axis("rate", "MB/s"),
      series: [{ name: "host 1", color: "a", points: noisy(50_000, 400) }, { name: "host 2", color: "b", points: noisy(50_000, 250) }],
      phases: [{ name: "warm", from: 0, to: 60 }, { name: "steady", from: 60, to: 500 }],
      window: { name: "measured window", from: 60, to: 500 }, warm_up: { name: "the first minute", from: 0, to: 60 },
    },
    {
      id: "eight", title: "SAMPLE: eight servers, one small plot each on shared axes", kind: "lines", x: axis("depth", ""), y: axis("rate", "MB/s"),
      series: Array.from({ length: 8 }, (_, s) => ({
        name: `server ${s + 1}`, color: `s${s}`,
        points: [1, 2, 4, 8, 16, 32].map((d) => { const y = (60 * d * (1 + s / 9)) / (1 + d / 14); return [d, y, y * 0.9, y * 1.1]; }),
      })),
    },
  ];
  return { ...sample, title: "SAMPLE: how fast does a large report open?", figures, claims: [], sections: [], tables: [] };
}

const viewer = readFileSync(at("dist/report.html"), "utf8");
const sample = JSON.parse(readFileSync(at("sample/vaai.json"), "utf8"));
writeFileSync(at("dist/sample.html"), withData(viewer, sample));
writeFileSync(at("dist/large.html"), withData(viewer, large(sample)));
