// Bundles the extension and its page into dist/, and with --tests the tests as well.
import { build } from "esbuild";
import { readdirSync } from "node:fs";

const shared = { bundle: true, minify: !process.argv.includes("--tests"), legalComments: "none", logLevel: "warning" };
const host = { ...shared, platform: "node", format: "cjs", target: "node20", external: ["vscode"] };

await Promise.all([
  build({ ...host, entryPoints: ["src/extension.ts"], outfile: "dist/extension.js" }),
  build({ ...shared, entryPoints: ["src/webview/main.ts"], outfile: "dist/page.js", target: "es2022", format: "iife" }),
]);
if (process.argv.includes("--tests")) {
  const units = readdirSync("test/unit")
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `test/unit/${name}`);
  await build({ ...host, entryPoints: units, outdir: "dist/unit" });
  await build({
    ...host,
    entryPoints: ["test/api/index.ts"],
    outfile: "dist/api/index.js",
    external: ["vscode", "mocha"],
  });
}
