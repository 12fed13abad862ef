import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { RUN_TEXTS, inJapanese } from "../src/words/runs";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const below = (path: string, end: string) =>
  readdirSync(new URL(`../../${path}`, import.meta.url), { recursive: true }).map(String).filter((name) => name.endsWith(end)).map((name) => `${path}/${name}`);

/** What is between quotation marks in Rust or TOML, outside of comments and unit tests; `{}` for each place. */
function literals(source: string): { text: string; before: string }[] {
  const code = source.split("\nmod tests {")[0]!.split("\n").filter((line) => !/^\s*(\/\/|#)/.test(line)).join("\n");
  return [...code.matchAll(/'"'|"((?:[^"\\]|\\.)*)"/gs)].flatMap(({ 1: text, index }) => text === undefined ? [] : [{
    text: text.replace(/\\\n\s*/g, "").replaceAll('\\"', '"').replaceAll("\\n", "\n").replace(/\{[^{}]*\}/g, "{}"),
    before: code.slice(Math.max(0, index - 60), index),
  }]);
}

const SCENARIOS = ["qos", "vaai", "sanboot", "fileserver", "diskstress", "run"];
const EXAMPLES = readdirSync(new URL("../../scenarios/examples", import.meta.url)).filter((name) => name.endsWith(".toml")).map((name) => `examples/${name.slice(0, -5)}`);
/** Where verifications have what they say of a run. */
const SAID = [
  "verify_qos/src/claims.rs", "verify_qos/src/claims/hosts.rs", "verify_qos/src/figures.rs", "verify_qos/src/report.rs",
  "verify_qos/src/array_nodes/claims.rs", "verify_qos/src/array_nodes/figures.rs",
  "verify_sanboot/src/claims.rs", "verify_sanboot/src/findings.rs", "verify_sanboot/src/figures.rs", "verify_sanboot/src/report.rs",
  "verify_sanboot/src/summary.rs", "verify_sanboot/src/tables.rs", "verify_sanboot/src/boot/show.rs", "verify_sanboot/src/boot/survey.rs",
  "verify_sanboot/src/takeover/outcome.rs", "verify_sanboot/src/takeover/show.rs", "verify_sanboot/src/takeover/survey.rs",
  "verify_fileserver/src/claims.rs", "verify_fileserver/src/findings.rs", "verify_fileserver/src/figures.rs", "verify_fileserver/src/report.rs",
  "verify_fileserver/src/beyond/growth.rs", "verify_fileserver/src/beyond/ramp.rs", "verify_fileserver/src/beyond/vhdx.rs",
  "verify_fileserver/src/beyond/staged.rs", "verify_fileserver/src/model/course.rs",
  "verify_fileserver/src/write_cache/report.rs", "verify_fileserver/src/write_cache/configuration.rs",
  "verify_diskstress/src/claims.rs", "verify_diskstress/src/figures.rs", "verify_diskstress/src/report.rs",
  "verify_vaai/src/words.rs", "verify_vaai/src/figures.rs", "verify_vaai/src/measures.rs", "verify_vaai/src/report.rs", "verify_vaai/src/tables.rs",
  "verify_run/src/claims.rs", "verify_run/src/figures.rs", "verify_run/src/report.rs", "verify_run/src/words.rs",
  "lab_core/src/verdict.rs", "lab_core/src/proof.rs",
];
/** Not shown on a page: errors, names of metrics, terms of the contract, what is printed. */
const UNSEEN = /(bail!|console::\w+\(|ensure!|context\(|expect\(|reason =|anyhow!|panic!|assert\w*!|println!|write(?:ln)?!\(\s*\w+,\s*|\.join\(|\.add\(|get\(|series\(|estimate\(|serde\([^"]*)[^"]*$/;

/** A line of a plan on the terminal; a page has paragraphs. */
const isPrinted = (text: string) => /(?:^|[^\n])\n(?:[^\n]|$)/.test(text);

describe("text of runs in Japanese", () => {
  it.each([...SCENARIOS, ...EXAMPLES])("is complete for what the scenario of %s says: questions, claims, phases, limits", (name) => {
    const keys = /^(?:name|question|title|unit|published|omitted|note|about|kind|not_judged|measured_bound) = "((?:[^"\\]|\\.)*)"/gm;
    const scenario = read(`scenarios/${name}.toml`);
    const limits = literals(/^cannot_say = \[(.*?)^\]/ms.exec(scenario)?.[1] ?? "").flatMap(({ text }) => [text, text.split(": ")[0]!]);
    // Names of things, and terms that the viewer itself says.
    const own = new Set([...SCENARIOS, "first", "promise", "published", "put in", "follows", "emerges", "raid10", "d", "g", "p", "files", "kvm1", "vm", "lu", "oltp"]);
    const said = [...[...scenario.matchAll(keys)].map(([, text]) => text!), ...limits].filter((text) => !own.has(text));
    expect(said.length).toBeGreaterThan(2);
    expect(said.filter((text) => inJapanese(text) === null)).toEqual([]);
  });

  it.each(SAID)("is complete for what %s says", (file) => {
    const said = literals(read(`crates/${file}`)).filter(({ text, before }) => / /.test(text.trim()) && /[a-z]{2}/.test(text) && !UNSEEN.test(before) && !isPrinted(text));
    // As a run has it: with numbers in its places, and without what joins it to the text before.
    const asShown = (text: string) => text.replaceAll("{}", "7").replace(/^[;,.\s]+/, "").trim().split("\n\n");
    expect(said.flatMap(({ text }) => asShown(text)).filter((text) => inJapanese(text) === null)).toEqual([]);
  });

  it("has nothing that no scenario and no code says, in no two ways", () => {
    const sources = [...below("scenarios", ".toml"), ...below("crates", ".rs").filter((name) => /^crates\/(verify_|lab)/.test(name))];
    const all = sources.map((name) => read(name).replace(/\\\n\s*/g, "").replaceAll('\\"', '"').replaceAll("\\n", "\n")).join("\n");
    const keys = RUN_TEXTS.flatMap((texts) => Object.keys(texts));
    expect(keys.filter((key) => !key.split("{}").every((part) => all.includes(part.replace(/^[\s,;.:(]+|[\s,;.:)]+$/g, ""))))).toEqual([]);
    expect(keys.filter((key, index) => keys.indexOf(key) !== index)).toEqual([]);
  });

  it("has each value of the English text, and no other", () => {
    const wrong = RUN_TEXTS.flatMap(Object.entries).filter(([english, japanese]) => {
      const count = english.split("{}").length - 1;
      const used = new Set([...japanese.matchAll(/\{(\d+)\}/g)].map(([, place]) => Number(place)));
      return used.size !== count || [...used].some((place) => place < 1 || place > count);
    });
    expect(wrong).toEqual([]);
  });

  it.each([
    // A number changes, the text stays.
    ["17 VMs are promised", null],
    ["3 changes, each judged from 5 s after it on", "変更 3 回、各変更の 5 秒後から判定"],
    ["12 changes, each judged from 5 s after it on", "変更 12 回、各変更の 5 秒後から判定"],
    // Joined by a run.
    ["Minimum, worst 5 s: Cluster, minimums, the array schedules, VM01-05 min 2000", "下限値の達成率、最悪の 5 秒間: クラスタ、下限値の設定、アレイのスケジューラ、VM01-05 下限 2000"],
    ["works 91 % of the time, and 15 more of its kind above the threshold", "稼働率 91 %、ほか 15 台の同種リソースもしきい値超過"],
    ["Works 91 % of the time", "稼働率 91 %"],
    // Numbers and units.
    ["≤ 5 servers", "≤ 5 台"],
    ["90 to 110 %", "90 ～ 110 %"],
    ["98.1 ± 0.2 % of it, bound ≥ 98 % of it", "98.1 ± 0.2 %、基準 ≥ 98 %"],
    ["RAID5 × 4", "RAID5 × 4"],
    ["promises: 40 of 41 held, 1 not held; published: 4 reproduced; 2 follow from inputs", "保証: 41 件中 40 件成立、不成立 1 件。文献の記述: 4 件再現。入力から導出 2 件"],
    ["virtual against physical, %", "物理に対する仮想、%"],
    // Half of a text is not translated.
    ["One host: a phase of a scenario of your own", null],
    ["Works 91 % of a scenario of your own", null],
  ] as const)("of %j is %j", (english, japanese) => expect(inJapanese(english)).toBe(japanese));
});
