// What is in a file, as far as it can be shown.

/** Raster images only: an SVG is text here, and its scripts never run. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** Longer texts are shown without colours, and markdown as text. */
export const LONG = 300_000;

export type Content =
  | { readonly kind: "text"; readonly text: string; readonly blob: Blob }
  | { readonly kind: "image"; readonly blob: Blob }
  | { readonly kind: "binary"; readonly blob: Blob };

/** The gateway has looked at it and says which it is. */
export async function contentOf(blob: Blob): Promise<Content> {
  const type = blob.type.split(";")[0]?.trim() ?? "";
  if (IMAGES.has(type)) return { kind: "image", blob };
  return type === "text/plain" ? { kind: "text", text: await blob.text(), blob } : { kind: "binary", blob };
}

export function isMarkdown(path: string): boolean {
  return /\.(md|markdown|mdx)$/i.test(path);
}

const LANGUAGES: Record<string, string> = {
  bash: "bash",
  c: "c",
  cpp: "cpp",
  cs: "csharp",
  css: "css",
  diff: "diff",
  go: "go",
  graphql: "graphql",
  h: "c",
  hpp: "cpp",
  htm: "xml",
  html: "xml",
  ini: "ini",
  java: "java",
  js: "javascript",
  json: "json",
  jsonl: "json",
  jsx: "javascript",
  kt: "kotlin",
  less: "less",
  lua: "lua",
  makefile: "makefile",
  markdown: "markdown",
  md: "markdown",
  mjs: "javascript",
  patch: "diff",
  php: "php",
  pl: "perl",
  py: "python",
  r: "r",
  rb: "ruby",
  rs: "rust",
  scss: "scss",
  sh: "bash",
  sql: "sql",
  svg: "xml",
  swift: "swift",
  toml: "ini",
  ts: "typescript",
  tsx: "typescript",
  vb: "vbnet",
  xml: "xml",
  yaml: "yaml",
  yml: "yaml",
};

/** The language of a file, by its name; null if that says nothing. */
export function languageOf(path: string): string | null {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  return LANGUAGES[name.split(".").at(-1) ?? ""] ?? null;
}
