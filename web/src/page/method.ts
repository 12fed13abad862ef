/** Method and conditions: complete enough to run it again. */
import { type Child, h } from "../dom";
import { plain, worldWords } from "../format";
import type { DataFile, Machine, Method, Report } from "../report";
import { say, tell } from "../words/words";
import { copyButton } from "./table";

export function methodView({ scenario, world, verdict, proof }: Report, method: Method): HTMLElement {
  return h("section", { id: "method" },
    h("h2", {}, say("method.title")),
    method.command ? h("div", { class: "command" }, h("code", {}, ...words(method.command)), copyButton(say("copy"), () => method.command)) : null,
    h("div", { class: "columns" },
      facts(say("method.run"), [
        [say("method.scenario"), scenario],
        [say("method.world"), worldWords({ verdict, world })],
        [say("method.seed"), method.seed],
        [say("method.repeats"), method.repeats == null ? null : plain(method.repeats)], [say("method.scale"), method.scale],
      ]),
      method.machine ? facts(say("method.machine"), machineRows(method.machine)) : null,
      facts(say("method.versions"), versionRows(method))),
    // Where the page says what the run proves, that says this, too.
    proof ? null : h("div", { class: "columns" },
      listOf(say("proof.real"), method.real), listOf(say("proof.modelled"), method.modelled), listOf(say("method.calibrated"), method.calibrated)),
    method.scenario_text
      ? h("details", { class: "scenario-file" }, h("summary", {}, say("method.file")),
          h("div", { class: "scenario" }, copyButton(say("copy"), () => method.scenario_text ?? ""), h("pre", { lang: "en" }, method.scenario_text)))
      : null);
}

/** Breaks between words only: a line must not end inside an option. */
function words(command: string): Child[] {
  return command.split(" ").flatMap((word, index) => [index > 0 ? " " : null, h("span", {}, word)]);
}

type Row = [name: string, text: string | null | undefined];

/** A commit that the build does not know is said to be unknown; compared runs have none of their own. */
function versionRows(method: Method): Row[] {
  const commit: Row[] = method.commit === undefined ? [] : [[say("method.commit"), method.commit ?? say("method.no commit")]];
  return [...(method.versions ?? []).map(({ name, version }): Row => [name, version]), ...commit];
}

function machineRows(machine: Machine): Row[] {
  return [
    [say("method.cpu"), machine.cpu], [say("method.cores"), plain(machine.cores)], [say("method.memory"), machine.memory],
    [say("method.drives"), machine.drives?.join("; ")], [say("method.network"), machine.network?.join("; ")],
    [say("method.distribution"), machine.distribution], [say("method.kernel"), machine.kernel],
    [say("method.load"), machine.load == null ? null : plain(machine.load)],
    [say("method.steal"), machine.steal == null ? null : say("method.steal share", { percent: plain(machine.steal) })],
  ];
}

function facts(title: string, rows: Row[]): HTMLElement | null {
  const shown = rows.filter((row): row is [string, string] => row[1] !== null && row[1] !== undefined && row[1] !== "");
  if (shown.length === 0) return null;
  return h("div", {}, h("h3", {}, title), h("dl", { class: "facts" }, ...shown.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
}

function listOf(title: string, items: string[] | null | undefined): Child {
  if (!items?.length) return null;
  return h("div", {}, h("h3", {}, title), h("ul", { class: "plain" }, ...items.map((item) => h("li", {}, tell(item)))));
}

export function filesView(files: DataFile[]): HTMLElement | null {
  if (files.length === 0) return null;
  return h("section", { id: "files" }, h("h2", {}, say("files.title")),
    h("ul", { class: "files" }, ...files.map((file) => {
      const name = isRelative(file.name) ? h("a", { href: file.name }, file.name) : h("span", {}, file.name);
      const rows = file.rows == null ? "" : ` · ${say("files.rows", { count: plain(file.rows) })}`;
      return h("li", {}, name, h("span", { class: "about" }, tell(file.about), rows));
    })));
}

/** Only a path below the report's folder becomes a link. */
function isRelative(name: string): boolean {
  return !/^[a-z][a-z0-9+.-]*:/i.test(name) && !name.startsWith("/") && !name.startsWith("\\") && !name.split(/[\\/]/).includes("..");
}
