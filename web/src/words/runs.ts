/**
 * Text of runs in Japanese. `runs/` has the texts as scenarios and the code have them, with `{}` where a run puts a
 * number or a name. A run also joins texts; what is joined is taken apart at its punctuation.
 */
import { diskstress } from "./runs/diskstress";
import { fileserver } from "./runs/fileserver";
import { lab } from "./runs/lab";
import { labels } from "./runs/labels";
import { qos } from "./runs/qos";
import { run } from "./runs/run";
import { sanboot } from "./runs/sanboot";
import { vaai } from "./runs/vaai";

/** By their English text. The same text has the same Japanese everywhere; a test holds that. */
export const RUN_TEXTS: Record<string, string>[] = [qos, vaai, sanboot, fileserver, diskstress, run, lab, labels];

/** A text with places: what is fixed before, between and after them. */
interface Template {
  fixed: string[];
  japanese: string;
}

const whole = new Map<string, string>();
const templates: Template[] = [];
for (const [english, japanese] of RUN_TEXTS.flatMap(Object.entries)) {
  if (english.includes("{}")) templates.push({ fixed: english.split("{}"), japanese });
  else whole.set(english, japanese);
}
// What fixes more of a text says more about it: it is tried first.
const length = ({ fixed }: Template) => fixed.join("").length;
templates.sort((a, b) => length(b) - length(a));

/** What joins texts, and what joins them in Japanese. A full stop stays with the text before it. */
const JOINTS: [joint: string, japanese: string, kept: string][] = [
  ["\n\n", "\n\n", ""], [". ", "", "."], ["; ", "。", ""], [": ", ": ", ""], [", ", "、", ""],
];
/** A text with more joints than this is none that a run makes of its parts. */
const JOINTS_MAX = 60;

const known = new Map<string, string | null>();

/** The Japanese of a text; of one that needs none (numbers, units, names) the text itself. */
export function inJapanese(text: string): string | null {
  const found = known.get(text);
  if (found !== undefined) return found;
  const translated = whole.get(text) ?? neutral(text) ?? judged(text) ?? byTemplate(text) ?? measured(text) ?? apart(text) ?? begun(text);
  known.set(text, translated);
  return translated;
}

/** Units and names: "512 KiB", "VM01-05", "controller0", "array.cache", "savvio-10k1". */
function neutral(text: string): string | null {
  const words = text.replace(/\b(?:ms|min|[kMG]bit)\b|\b[a-z]+(?:[._]\w+|-?\d\w*)+/g, "");
  return /[a-z]{2}/.test(words) ? null : text.replaceAll(", ", "、");
}

function byTemplate(text: string): string | null {
  for (const { fixed, japanese } of templates) {
    const found = places(text, fixed);
    if (!found || (isOpen(fixed) && swallows(found))) continue;
    const values = found.map(value);
    if (values.some((one) => one === null)) continue;
    // Numbers and Latin words have a space around them, Japanese has none.
    return japanese.replace(/\{(\d+)\}/g, (_, place: string) => values[Number(place) - 1]!).replace(/(?<=[\u3000-\u9fff]) (?=[\u3000-\u9fff])/g, "");
  }
  return null;
}

/** Whether it begins with a place, which would swallow whatever a run has joined before it; a title ends at its colon. */
function isOpen(fixed: string[]): boolean {
  return fixed[0] === "" && !fixed[1]!.startsWith(":");
}

/** The last place takes what is joined after it; the others hold one text. */
function swallows(found: string[]): boolean {
  return /[,;.] | and /.test(found[0]!) || found.slice(0, -1).some((one) => /[;.] /.test(one));
}

/** What a text has in the places between fixed parts, each as short as it can be. */
function places(text: string, fixed: string[]): string[] | null {
  const head = fixed[0]!;
  const tail = fixed.at(-1)!;
  if (!text.startsWith(head) || !text.endsWith(tail)) return null;
  const end = text.length - tail.length;
  const found: string[] = [];
  let from = head.length;
  for (const part of fixed.slice(1, -1)) {
    const to = text.indexOf(part, from);
    if (to < 0) return null;
    found.push(text.slice(from, to));
    from = to + part.length;
  }
  return from > end ? null : [...found, text.slice(from, end)];
}

/** What stands in a place: a text, a name, a text in quotation marks, or more text that is joined on. */
function value(untrimmed: string): string | null {
  const text = untrimmed.trimEnd();
  if (text === ".") return "。";
  const [, quoted] = /^"(.*)"$/.exec(text) ?? [];
  if (quoted !== undefined) return `「${whole.get(quoted) ?? quoted}」`;
  // Names, of which a scenario has its own.
  if (text === "" || /^[^\s;:,]+(?:, [^\s;:,]+)*$/.test(text)) return whole.get(text) ?? text.split(", ").map(named).join("、");
  const joint = JOINTS.find(([joint]) => text.startsWith(joint));
  if (!joint) return inJapanese(text);
  const rest = inJapanese(text.slice(joint[0].length));
  return rest === null ? null : joint[1] + rest;
}

function named(name: string): string {
  return whole.get(name) ?? whole.get(uncapitalised(name)) ?? name;
}

function uncapitalised(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** "≤ 5 servers", "98.1 ± 0.2 % of it": the numbers of a claim, where a text after the number is its unit and no noun. */
function judged(text: string): string | null {
  const [, sign = "", measure] = /^([<>≤≥] )?([^<>≤≥].*)$/.exec(text) ?? [];
  if (measure === undefined || !(sign || /^\S+ (?:±|%)/.test(measure))) return null;
  const translated = measured(measure);
  return translated && sign + translated;
}

/** A number with a unit that has Japanese. */
function measured(text: string): string | null {
  const [, number, unit] = /^([-−]?\d[\d.,]*(?: ± [\d.,]+)?) (\D.*)$/.exec(text) ?? [];
  const translated = unit === undefined ? undefined : whole.get(unit);
  return translated === undefined ? null : `${number} ${translated}`;
}

/** A text that was given a capital letter. */
function begun(text: string): string | null {
  const small = uncapitalised(text);
  return small === text ? null : inJapanese(small);
}

function apart(text: string): string | null {
  if (text.endsWith(".")) {
    const sentence = inJapanese(text.slice(0, -1));
    if (sentence !== null) return `${sentence}。`;
  }
  for (const [joint, japanese, kept] of JOINTS) {
    const pieces = text.split(joint);
    if (pieces.length > JOINTS_MAX) return null;
    for (let count = pieces.length - 1; count > 0; count--) {
      const first = pieces.slice(0, count).join(joint) + kept;
      // A load or a drive of a scenario, with what is said of it.
      const before = joint === ": " && /^[^\s.]+$/.test(first) ? value(first) : inJapanese(first);
      const after = before === null ? null : inJapanese(pieces.slice(count).join(joint));
      if (after !== null) return before + japanese + after;
    }
  }
  return null;
}
