/** Method and conditions: complete enough to run it again. */
import { type Child, h } from "../dom";
import { plain } from "../format";
import type { DataFile, Machine, Method, Report } from "../report";
import { copyButton } from "./table";

export function methodView({ scenario, world, proof }: Report, method: Method): HTMLElement {
  return h("section", { id: "method" },
    h("h2", {}, "Method and conditions"),
    method.command ? h("div", { class: "command" }, h("code", {}, ...words(method.command)), copyButton("Copy", () => method.command)) : null,
    h("div", { class: "columns" },
      facts("Run", [
        ["Scenario", scenario], ["World", world === "model" ? "model (virtual time)" : "real"], ["Seed", method.seed],
        ["Repeats", method.repeats == null ? null : plain(method.repeats)], ["Scale", method.scale],
      ]),
      method.machine ? facts("Machine", machineRows(method.machine)) : null,
      method.versions?.length ? facts("Versions", method.versions.map(({ name, version }) => [name, version])) : null),
    // Where the page says what the run proves, that says this, too.
    proof ? null : h("div", { class: "columns" },
      listOf("Real", method.real), listOf("Modelled", method.modelled), listOf("Calibrated inputs", method.calibrated)),
    method.scenario_text
      ? h("details", {}, h("summary", {}, "Scenario file"),
          h("div", { class: "scenario" }, copyButton("Copy", () => method.scenario_text ?? ""), h("pre", {}, method.scenario_text)))
      : null);
}

/** Breaks between words only: a line must not end inside an option. */
function words(command: string): Child[] {
  return command.split(" ").flatMap((word, index) => [index > 0 ? " " : null, h("span", {}, word)]);
}

function machineRows(machine: Machine): [string, string | null | undefined][] {
  return [
    ["CPU", machine.cpu], ["Cores", plain(machine.cores)], ["Memory", machine.memory], ["Kernel", machine.kernel],
    ["Mean load", machine.load == null ? null : plain(machine.load)],
    ["Steal", machine.steal == null ? null : `${plain(machine.steal)} % of CPU time`],
  ];
}

function facts(title: string, rows: [string, string | null | undefined][]): HTMLElement {
  const shown = rows.filter((row): row is [string, string] => row[1] !== null && row[1] !== undefined && row[1] !== "");
  return h("div", {}, h("h3", {}, title), h("dl", { class: "facts" }, ...shown.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
}

function listOf(title: string, items: string[] | null | undefined): Child {
  if (!items?.length) return null;
  return h("div", {}, h("h3", {}, title), h("ul", { class: "plain" }, ...items.map((item) => h("li", {}, item))));
}

export function filesView(files: DataFile[]): HTMLElement | null {
  if (files.length === 0) return null;
  return h("section", { id: "files" }, h("h2", {}, "Files beside this report"),
    h("ul", { class: "files" }, ...files.map((file) => {
      const name = isRelative(file.name) ? h("a", { href: file.name }, file.name) : h("span", {}, file.name);
      const rows = file.rows == null ? "" : ` · ${plain(file.rows)} rows`;
      return h("li", {}, name, h("span", { class: "about" }, `${file.about}${rows}`));
    })));
}

/** Only a path below the report's folder becomes a link. */
function isRelative(name: string): boolean {
  return !/^[a-z][a-z0-9+.-]*:/i.test(name) && !name.startsWith("/") && !name.startsWith("\\") && !name.split(/[\\/]/).includes("..");
}
