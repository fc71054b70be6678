// Makes the package of the TypeScript client: `npm run client -- VERSION FOLDER` leaves FOLDER/agency-client-VERSION.tgz.
// The version is the Python package's; client/package.json has none of its own.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const [version = "0.0.0", folder = here("dist")] = process.argv.slice(2);
const destination = resolve(folder);

rmSync(here("dist"), { recursive: true, force: true });
await build({
  configFile: false,
  logLevel: "warn",
  build: {
    outDir: here("dist"),
    target: "es2022",
    minify: false,
    lib: { entry: here("../src/api/index.ts"), formats: ["es"], fileName: "index" },
  },
});
execFileSync("npx", ["tsc", "--project", here("tsconfig.json")], { stdio: "inherit", cwd: here("..") });
cpSync(here("../src/api/schema.gen.ts"), here("dist/schema.gen.d.ts"));
for (const name of readdirSync(here("dist")).filter((each) => each.endsWith(".d.ts"))) {
  // Node's own way to resolve modules wants endings, bundlers' does not mind them.
  const text = readFileSync(here(`dist/${name}`), "utf8").replace(/(from "\.\/[\w.]+?)(\.js)?"/g, '$1.js"');
  writeFileSync(here(`dist/${name}`), text);
}

// It is packed from a copy, so that the version is written nowhere in the repository.
const staged = here("dist/package");
mkdirSync(staged);
for (const name of readdirSync(here("dist")).filter((each) => each !== "package")) {
  cpSync(here(`dist/${name}`), `${staged}/dist/${name}`);
}
cpSync(here("README.md"), `${staged}/README.md`);
const described = { ...JSON.parse(readFileSync(here("package.json"), "utf8")), version };
writeFileSync(`${staged}/package.json`, `${JSON.stringify(described, null, 2)}\n`);
execFileSync("npm", ["pack", "--silent", "--pack-destination", destination], {
  cwd: staged,
  stdio: ["ignore", "ignore", "inherit"],
});
rmSync(staged, { recursive: true });
