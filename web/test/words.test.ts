import { readFileSync, readdirSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { interval, time } from "../src/format";
import { readReport } from "../src/read";
import { type Key, en } from "../src/words/en";
import { ja } from "../src/words/ja";
import { choose, say, sayWord, setLanguage, told } from "../src/words/words";

const places = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
const files = (path: string): string[] => readdirSync(new URL(path, import.meta.url), { recursive: true }).map(String);

afterEach(() => setLanguage("en"));

describe("catalogues", () => {
  it("have the same keys in both languages", () => expect(Object.keys(ja).sort()).toEqual(Object.keys(en).sort()));

  it.each(Object.keys(en) as Key[])("have the same places for values in %s", (key) => {
    expect(places(ja[key])).toEqual(places(en[key]));
    expect(ja[key].trim()).not.toBe("");
  });

  it("are Japanese in Japanese: what is the same in both is a name", () => {
    const same = (Object.keys(en) as Key[]).filter((key) => en[key] === ja[key]);
    expect(same).toEqual(["method.cpu"]);
  });

  it("hold no key that the viewer never says", () => {
    const code = files("../src").filter((name) => name.endsWith(".ts") && !name.startsWith("words/")).map((name) => read(`../src/${name}`)).join("\n");
    const unsaid = Object.keys(en).filter((key) => !code.includes(`"${key}"`) && !/^(verdict|about|kind|finding)\./.test(key));
    expect(unsaid).toEqual([]);
  });
});

describe("the language", () => {
  it.each([
    [["ja"], "ja"], [["ja-JP", "en-US"], "ja"], [["en-GB", "ja"], "en"], [["fr", "JA-jp"], "ja"], [["fr"], "en"], [[], "en"],
  ] as const)("of a browser that prefers %s is %s", (wanted, chosen) => expect(choose(wanted)).toBe(chosen));

  it("fills in values and leaves none open", () => {
    setLanguage("ja");
    expect(say("proof.held", { held: 12, all: 14 })).toBe("反証可能で、成立した主張: 14 件中 12 件");
    expect(sayWord("verdict", "undecided")).toBe("未判定");
    expect(sayWord("verdict", "of a later version")).toBe("of a later version");
  });

  it("keeps numbers as they are and writes dates as its readers do", () => {
    setLanguage("ja");
    expect(interval(1071.3, 1063.1, 1079.4)).toEqual({ value: "1,071", range: "1,063–1,079" });
    expect(interval(0.4, -1.1, 1.9).range).toBe("−1.1 ～ 1.9");
    expect(time("2026-11-20T14:05:00Z")).toBe("2026年11月20日 14:05 UTC");
  });

  it("marks text of the run that has no Japanese, and no number", () => {
    expect(told("One host")).toEqual({ text: "One host", isForeign: false });
    setLanguage("ja");
    expect(told("One host")).toEqual({ text: "ホスト 1 台", isForeign: false });
    expect(told("A claim of a scenario of your own")).toEqual({ text: "A claim of a scenario of your own", isForeign: true });
    expect(told("≥ 95 %").isForeign).toBe(false);
    expect(told("constructor").isForeign).toBe(true);
    expect(told("24\u00a0MB/s each")).toEqual({ text: "各 24\u00a0MB/s", isForeign: false });
  });

  it("is that of a refusal, too", () => {
    setLanguage("ja");
    expect(readReport('{"version":9}')).toEqual({ sentence: "この報告書は表示できません。データの版は 9 ですが、このビューアが対応する版は 1 です。" });
  });
});
