/**
 * Opens a report as a reader does and checks it: `node test/browser.mjs FILE.html [--screens DIR]`.
 *
 * Holds when every figure that has data is drawn once it comes into view or is printed, every figure without says so, nothing was requested from
 * anywhere, nothing went wrong in the page, it opens within a second, and a phone need not scroll sideways.
 * CHROMIUM names another browser than /usr/bin/chromium.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

/** report.md, 7: opens in under a second. */
const OPEN_MS_MAX = 1000;
const DRAW_MS_MAX = 20_000;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

const [file, ...rest] = process.argv.slice(2);
const screens = rest[0] === "--screens" ? rest[1] : undefined;
if (!file || (rest.length > 0 && !screens)) {
  console.error("usage: node test/browser.mjs FILE.html [--screens DIR]");
  process.exit(2);
}
const address = pathToFileURL(resolve(file)).href;
const failures = [];
const fail = (text) => failures.push(text);

async function open(browser, width, scheme, languages = ["en"]) {
  const page = await browser.newPage();
  await page.addInitScript((list) => Object.defineProperty(navigator, "languages", { get: () => list }), languages);
  await page.setViewportSize({ width, height: width < 600 ? 844 : 800 });
  await page.emulateMedia({ colorScheme: scheme });
  page.on("console", (message) => message.type() === "error" && fail(`console error: ${message.text()}`));
  page.on("pageerror", (error) => fail(`script error: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (url !== address && !url.startsWith("data:") && !url.startsWith("blob:")) fail(`request to ${url}`);
  });
  await page.goto(address, { waitUntil: "load" });
  return page;
}

/** What the page should show, from its data, and what it does show. */
function inspect() {
  const text = document.getElementById("masu-report")?.textContent ?? "null";
  const report = JSON.parse(text);
  const isDrawn = (figure) => {
    const host = document.querySelector(`[data-figure="${CSS.escape(figure.id)}"]`);
    return { found: host !== null, drawn: host?.dataset.drawn === "true", shapes: host?.querySelectorAll(".plot svg path").length ?? 0, says: host?.querySelector(".no-data") !== null };
  };
  const hasData = (figure) => (figure.series ?? []).some((s) => (s.points ?? []).some((p) => p[1] !== null));
  return {
    isEmpty: report === null, sentence: document.querySelector(".no-report")?.textContent ?? null,
    figures: (report?.figures ?? []).map((figure) => ({ id: figure.id, hasData: hasData(figure), ...isDrawn(figure) })),
  };
}

/** Brings every figure into view as a reader does, who scrolls to the end. */
async function scrollThrough(page) {
  await page.evaluate(async () => {
    document.documentElement.style.scrollBehavior = "auto";
    for (let at = 0; at < document.documentElement.scrollHeight; at += innerHeight) {
      scrollTo(0, at);
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
    scrollTo(0, 0);
  });
}

/** Before anybody scrolls, a figure far below is not drawn, and its place is kept free. */
async function checkWaiting(page) {
  const far = await page.evaluate(() => [...document.querySelectorAll("[data-figure]")].flatMap((host) => {
    const plot = host.querySelector(".plot");
    if (!plot || plot.getBoundingClientRect().top < innerHeight + 1500) return [];
    return [{ id: host.dataset.figure, drawn: plot.querySelector("svg") !== null, height: plot.clientHeight }];
  }));
  for (const { id, drawn, height } of far) {
    if (drawn) fail(`figure "${id}" is drawn before it comes into view`);
    if (height < 100) fail(`figure "${id}" keeps no place free: ${height} px`);
  }
}

/** What is on paper was never scrolled to: every figure is drawn when printing begins. */
async function checkPrinting(page) {
  const missing = await page.evaluate(() => {
    dispatchEvent(new Event("beforeprint"));
    const all = [...document.querySelectorAll("[data-figure] .plot")];
    const out = all.filter((plot) => !plot.querySelector("svg path")).map((plot) => plot.closest("[data-figure]").dataset.figure);
    dispatchEvent(new Event("afterprint"));
    return out;
  });
  for (const id of missing) fail(`figure "${id}" is not drawn on paper`);
}

/** Under each figure its data, folded away; a phone has a list of contents whose links lead somewhere. */
async function checkTables(page) {
  const seen = await page.evaluate(async () => {
    const figures = [...document.querySelectorAll("[data-figure]")].filter((host) => host.querySelector(".plot"));
    const first = figures[0]?.querySelector(".figure-data");
    const wasOpen = figures.some((host) => host.querySelector(".figure-data")?.open);
    if (first) first.open = true;
    await new Promise((done) => setTimeout(done, 50));
    const rows = first ? first.querySelectorAll("tbody tr").length : 0;
    if (first) first.open = false;
    const links = [...document.querySelectorAll(".contents a")];
    return {
      without: figures.filter((host) => !host.querySelector(".figure-data")).length, wasOpen, rows, count: figures.length,
      shown: getComputedStyle(document.querySelector(".contents")).display !== "none", links: links.length,
      sections: document.querySelectorAll("main section").length,
      lost: links.filter((link) => !document.querySelector(link.getAttribute("href"))).length,
    };
  });
  if (seen.without > 0) fail(`${seen.without} figures have no table of their data`);
  if (seen.wasOpen) fail("the data of a figure is not folded away");
  if (seen.count > 0 && seen.rows === 0) fail("the table of a figure's data is empty");
  if (seen.shown !== (page.viewportSize().width <= 640)) fail(`the list of contents at ${page.viewportSize().width} px: shown ${seen.shown}`);
  if (seen.links !== seen.sections || seen.lost > 0) fail(`the list of contents: ${seen.links} links, ${seen.lost} of them lost, ${seen.sections} sections`);
}

/** A browser of a Japanese reader shows Japanese, what is English is marked, and a button switches back. */
async function checkJapanese(page) {
  const look = () => page.evaluate(() => ({
    lang: document.documentElement.lang, badges: document.querySelector(".badges .badge")?.textContent ?? "",
    method: document.querySelector("#method h2")?.textContent ?? "",
    // Left to itself a word of the viewer would stand here in English.
    english: [...document.querySelectorAll("main h2, main h3, main th, main dt, main summary, main button, main .verdict, main .badge, main footer")]
      .filter((e) => !e.closest('[lang="en"]') && !e.querySelector('[lang="en"]') && !e.closest("#method .facts, .figure-foot .tools"))
      .map((e) => e.textContent).filter((text) => /[a-z]{3}/.test(text.replace(/masu|CSV|SVG|PNG/g, ""))),
  }));
  const first = await look();
  if (first.lang !== "ja" || first.method !== "測定の方法と条件" || !/[ぁ-龠]/.test(first.badges)) fail(`a Japanese browser is not shown Japanese: ${JSON.stringify(first)}`);
  for (const text of first.english) fail(`English that is not marked on the Japanese page: "${text}"`);
  await page.locator(".language").click();
  const second = await look();
  if (second.lang !== "en" || second.method !== "Method and conditions") fail("the button does not switch to English");
  await page.locator(".language").click();
  if ((await look()).lang !== "ja") fail("the button does not switch back to Japanese");
}

async function checkFigures(page) {
  const pending = () => page.evaluate(inspect).then((seen) => seen.figures.some((f) => f.hasData && !f.drawn));
  for (const start = Date.now(); (await pending()) && Date.now() - start < DRAW_MS_MAX; ) await page.waitForTimeout(50);
  const seen = await page.evaluate(inspect);
  if (seen.isEmpty && !seen.sentence) fail("the report is empty and the page does not say so");
  if (!seen.isEmpty && seen.sentence) fail(`the page refuses its data: ${seen.sentence}`);
  for (const figure of seen.figures) {
    if (!figure.found) fail(`figure "${figure.id}" is not on the page`);
    else if (figure.hasData && !(figure.drawn && figure.shapes > 0)) fail(`figure "${figure.id}" is not drawn`);
    else if (!figure.hasData && (figure.drawn || !figure.says)) fail(`figure "${figure.id}" has no data and does not say so`);
  }
  return seen.figures;
}

async function checkWidth(page) {
  const over = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    const wide = [...document.querySelectorAll("main *")].find((e) => e.getBoundingClientRect().right > width + 1);
    return `${document.documentElement.scrollWidth} px of ${width} px, first <${wide?.tagName.toLowerCase()} class="${wide?.getAttribute("class") ?? ""}">`;
  });
  if (over) fail(`horizontal overflow at ${page.viewportSize().width} px: ${over}`);
  // A number with many digits lay over what stands beside it.
  const cells = await page.evaluate(() => [...document.querySelectorAll(".claims td")].filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent));
  if (cells.length > 0 && page.viewportSize().width <= 640) fail(`claims wider than their cells at ${page.viewportSize().width} px: ${cells.slice(0, 3).join("; ")}`);
}

/** Question, answer, what it proves, the claims: in this order; and each published figure leads to one here. */
async function checkProof(page) {
  const seen = await page.evaluate(() => {
    const proof = JSON.parse(document.getElementById("masu-report")?.textContent ?? "null")?.proof;
    if (!proof) return null;
    const tops = [".question", "h1", ".badges", ".summary", ".claims", "#proof"].map((name) => document.querySelector(name)?.getBoundingClientRect().top ?? NaN);
    const lost = proof.figures.filter((one) => one.figure && !document.getElementById(`figure-${one.figure}`)).map((one) => one.number);
    return { inOrder: tops.every((top, i) => i === 0 || top > tops[i - 1]), lost };
  });
  if (seen && !seen.inOrder) fail("the first screen is not in its order: question, answer, verdict, what it proves, claims");
  for (const number of seen?.lost ?? []) fail(`published figure ${number} names a figure that is not on the page`);
}

/** Each figure is really saved, as a whole SVG and as a PNG. */
async function checkSaving(page) {
  const host = page.locator('[data-drawn="true"]').first();
  if ((await host.count()) === 0) return;
  for (const [kind, magic] of [["SVG", "<svg"], ["PNG", "\x89PNG"]]) {
    const [download] = await Promise.all([page.waitForEvent("download"), host.getByRole("button", { name: kind }).click()]);
    const stream = await download.createReadStream();
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    const content = Buffer.concat(chunks);
    if (!content.toString("latin1").startsWith(magic) || content.length < 2000) fail(`saving as ${kind} gives no ${kind}`);
    if (screens) await download.saveAs(join(screens, `saved.${kind.toLowerCase()}`));
  }
}

async function screenshots(page, name, scheme) {
  if (!screens) return;
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.screenshot({ path: join(screens, `${name}-${scheme}-first.png`) });
  await page.screenshot({ path: join(screens, `${name}-${scheme}-whole.png`), fullPage: true });
}

const profile = mkdtempSync(join(tmpdir(), "masu-browser-"));
if (screens) mkdirSync(screens, { recursive: true });
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS, acceptDownloads: true,
});
// The fastest of all openings: what else runs on the machine only adds.
let opened = Infinity;
let figures = [];
try {
  for (const width of [1280, 390]) {
    for (const scheme of ["light", "dark"]) {
      const page = await open(browser, width, scheme);
      const took = await page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd);
      opened = Math.min(opened, Math.round(took));
      await checkWaiting(page);
      await scrollThrough(page);
      figures = await checkFigures(page);
      await checkTables(page);
      await checkWidth(page);
      await checkProof(page);
      await screenshots(page, String(width), scheme);
      if (width === 1280 && scheme === "light") {
        await checkSaving(page);
        if (screens) await page.pdf({ path: join(screens, "print.pdf"), preferCSSPageSize: true });
      }
      await page.close();
    }
  }
  // Where there is least room for another language.
  const japanese = await open(browser, 390, "light", ["ja-JP", "en"]);
  await checkJapanese(japanese);
  await checkWidth(japanese);
  await checkPrinting(japanese);
  await screenshots(japanese, "390-ja", "light");
  await japanese.close();
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
if (opened > OPEN_MS_MAX) fail(`the page took ${opened} ms to open (at most ${OPEN_MS_MAX})`);

if (failures.length > 0) {
  for (const text of new Set(failures)) console.error(`FAIL ${file}: ${text}`);
  process.exit(1);
}
const drawn = figures.filter((figure) => figure.drawn).length;
console.log(`ok ${file}: ${drawn} of ${figures.length} figures drawn, ${figures.length - drawn} without data; open in ${opened} ms; no request, no error, no overflow at 390 px`);
