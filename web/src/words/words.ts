/** The language of the page: chosen by the browser's, switched by the reader. */
import { h } from "../dom";
import { NO_BREAK_SPACE, tie } from "../format";
import { type Key, en } from "./en";
import { ja } from "./ja";
import { inJapanese } from "./runs";

export type { Key } from "./en";
export type Language = "en" | "ja";

export const CATALOGUES: Record<Language, Record<Key, string>> = { en, ja };
let language: Language = "en";

/** The first language of the reader's list that there is; English when there is none of them. */
export function choose(wanted: readonly string[]): Language {
  for (const one of wanted) {
    const [name] = one.toLowerCase().split("-");
    if (name === "en" || name === "ja") return name;
  }
  return "en";
}

export function setLanguage(to: Language): void {
  language = to;
}

export function currentLanguage(): Language {
  return language;
}

/** What the viewer says under a key, with its values. */
export function say(key: Key, values: Record<string, string | number> = {}): string {
  return CATALOGUES[language][key].replace(/\{(\w+)\}/g, (place, name: string) => String(values[name] ?? place));
}

/** A word of the data contract, such as a verdict, under a group of keys; an unknown one stays as it is. */
export function sayWord(group: "verdict" | "about" | "kind", word: string): string {
  const key = `${group}.${word}`;
  return key in en ? say(key as Key) : word;
}

/** Capital letter of a badge or a heading; Japanese has none. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Text of the run: in Japanese where the catalogue has it, otherwise as it is. What came tied stays so. */
export function told(text: string): { text: string; isForeign: boolean } {
  if (language === "en") return { text, isForeign: false };
  const isTied = text.includes(NO_BREAK_SPACE);
  const translated = inJapanese(isTied ? text.replaceAll(NO_BREAK_SPACE, " ") : text);
  if (translated === null) return { text, isForeign: true };
  return { text: isTied ? tie(translated) : translated, isForeign: false };
}

/** The same as a node: English on a Japanese page is marked, for screen readers, hyphenation and fonts. */
export function tell(text: string): Node | string {
  const { text: shown, isForeign } = told(text);
  return isForeign ? h("span", { lang: "en" }, shown) : shown;
}
