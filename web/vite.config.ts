/** Builds one file: script and style go into the page, and the page names the script's hash. */
import { createHash } from "node:crypto";
import { type Plugin, defineConfig } from "vite";

const DATA = '<script type="application/json" id="masu-report">null</script>';

/**
 * The report is opened from a file, often from an archive, so nothing may be fetched. The policy allows
 * this very script and inline styles (ECharts writes style attributes), and nothing else.
 */
function onePage(): Plugin {
  return {
    name: "masu-one-page",
    enforce: "post",
    generateBundle(_options, bundle) {
      let script = "";
      let style = "";
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === "chunk") script += part.code;
        else if (name.endsWith(".css")) style += String(part.source);
        else continue;
        delete bundle[name];
      }
      script = script.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      const hash = createHash("sha256").update(script).digest("base64");
      const policy =
        `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; ` +
        "img-src data: blob:; base-uri 'none'; form-action 'none'";
      const page = bundle["report.html"];
      if (page?.type !== "asset") throw new Error("the build has no report.html");
      const html = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace("<!-- policy -->", () => `<meta http-equiv="Content-Security-Policy" content="${policy}" />`)
        .replace("<!-- style -->", () => `<style>${style}</style>`)
        .replace("<!-- script -->", () => `<script>${script}</script>`);
      if (html.split(DATA).length !== 2) throw new Error("the page must hold the data element exactly once");
      page.source = html;
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [onePage()],
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    chunkSizeWarningLimit: 2000,
    rolldownOptions: { input: "report.html", output: { format: "iife" } },
  },
  test: { include: ["test/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
