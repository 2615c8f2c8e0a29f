// Makes the pages from their sources. Users need none of this: web/dist and bench/report/page.html are in the repository.
//
//   node bundle.mjs [--tools FOLDER]           writes them
//   node bundle.mjs --check [--tools FOLDER]   says which of them differ from what the sources give, and exits 1
//
// FOLDER (default: this one) has the node_modules that `npm ci` made of package.json and package-lock.json.

import {createHash} from "node:crypto";
import {readFileSync, readdirSync, writeFileSync} from "node:fs";
import {createRequire} from "node:module";
import {dirname, join, relative} from "node:path";
import {fileURLToPath} from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(HERE);
const LIMIT_BYTES = 300_000;  // of all that a browser loads, unpacked

const words = process.argv.slice(2);
const checks = words.includes("--check");
const tools = words.includes("--tools") ? words[words.indexOf("--tools") + 1] : HERE;
const {build, transform} = createRequire(join(tools, "package.json"))("esbuild");

const read = (...path) => readFileSync(join(HERE, ...path), "utf8");

// The copies in vendor/ are what is bundled, so that the sources of each byte are here. They must be the registry's.
function compareVendored() {
  const differing = [];
  for (const entry of readdirSync(join(HERE, "vendor"), {recursive: true, withFileTypes: true})) {
    if (!entry.isFile()) continue;
    const path = relative(join(HERE, "vendor"), join(entry.parentPath ?? entry.path, entry.name));
    const theirs = readFileSync(join(tools, "node_modules", path), "utf8");
    if (read("vendor", path) !== theirs) differing.push(path);
  }
  return differing.map(path => `web/vendor/${path} is not the file of that package`);
}

const PREACT = {
  "preact": join(HERE, "vendor/preact/src/index.js"),
  "preact/hooks": join(HERE, "vendor/preact/hooks/src/index.js"),
  "preact/jsx-runtime": join(HERE, "vendor/preact/jsx-runtime/src/index.js"),
};

async function bundled(entry) {
  const result = await build({
    entryPoints: [join(HERE, entry)], bundle: true, write: false, minify: true, format: "iife", target: "es2022",
    charset: "utf8", legalComments: "none", jsx: "automatic", jsxImportSource: "preact", alias: PREACT,
    // Preact's private properties, which its own build shortens, too.
    mangleProps: /^_[a-z]/i, mangleQuoted: false, absWorkingDir: HERE, logLevel: "error",
  });
  return result.outputFiles[0].text;
}

async function styles(...files) {
  const text = files.map(file => read(file)).join("\n");
  return (await transform(text, {loader: "css", minify: true, charset: "utf8", target: "chrome109"})).code;
}

const LICENCE = "Contains Preact (MIT License, Copyright (c) 2015-present Jason Miller): web/vendor/preact/LICENSE";
const tag = text => createHash("sha256").update(text).digest("hex").slice(0, 12);

async function livePage() {
  const script = `/* ${LICENCE} */\n${await bundled("page/main.jsx")}`;
  const style = await styles("shared/theme.css", "page/page.css");
  // A new version of a file has a new URL, so that browsers may keep the old one for ever.
  const page = read("page/index.html").replace("@script@", tag(script)).replace("@style@", tag(style));
  return {"web/dist/index.html": page, "web/dist/page.js": script, "web/dist/page.css": style};
}

async function reportPage() {
  const script = (await bundled("report/main.jsx")).replaceAll("</script", "<\\/script");
  const style = await styles("shared/theme.css", "report/report.css");
  const page = read("report/report.html").replace("@licence@", () => LICENCE).replace("@style@", () => style)
    .replace("@script@", () => script);
  return {"bench/report/page.html": page};
}

const made = {...await livePage(), ...await reportPage()};
const problems = compareVendored();
for (const [path, text] of Object.entries(made)) {
  if (text.includes(')page"')) problems.push(`${path} has the end of a C++ string in it`);
  if (!checks) writeFileSync(join(ROOT, path), text);
  else if (readFileSync(join(ROOT, path), "utf8") !== text) problems.push(`${path} is not what the sources give: run web/bundle.mjs`);
}
const size = Object.entries(made).filter(([path]) => path.startsWith("web/")).reduce((sum, [, text]) => sum + Buffer.byteLength(text), 0);
if (size > LIMIT_BYTES) problems.push(`the page has ${size} bytes, more than ${LIMIT_BYTES}`);
for (const problem of problems) console.error(problem);
console.log(`the page: ${size} bytes`);
process.exitCode = problems.length > 0 ? 1 : 0;
