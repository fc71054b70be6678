import { describe, expect, test } from "vitest";
import type { Json, Message } from "@/api/types";
import { highlightedLines, plainLines } from "@/files/colouredLines";
import { contentOf, languageOf } from "@/files/content";
import { tidy, treeOf } from "@/files/tree";
import { message, toolCall } from "@/testing/samples";
import { changesOf } from "@/views/files/changes";
import { versionsOf, withCurrent } from "@/views/files/versions";

function called(id: string, name: string, args: Json, result: string): Message[] {
  return [
    message("assistant", "", { toolCalls: [toolCall(id, name, args)] }),
    message("tool", result, { toolCallId: id }),
  ];
}

test("paths become a tree, folders first, each by name", () => {
  const tree = treeOf(["/b.txt", "/a/2.md", "/a/10.md", "/a/z/deep.txt", "/A.txt"].map((path) => ({ path, size: 1 })));
  expect(tree.map(({ path }) => path)).toEqual(["/a", "/A.txt", "/b.txt"]);
  const [folder] = tree;
  expect(folder?.kind === "folder" && folder.children.map(({ path }) => path)).toEqual(["/a/z", "/a/2.md", "/a/10.md"]);
});

test("a path is as the gateway keeps it", () => {
  expect(["/a//b/../c.txt", "x/./y", "/../a"].map(tidy)).toEqual(["/a/c.txt", "/x/y", "/a"]);
});

describe("versions", () => {
  test("are rebuilt from the calls that succeeded", () => {
    const messages = [
      ...called("1", "write_file", { path: "/x/../a.md", content: "one two one" }, "Wrote /a.md (11 characters)."),
      ...called("2", "edit_file", { path: "/a.md", oldString: "one", newString: "1" }, "Error: occurs 2 times"),
      ...called(
        "3",
        "edit_file",
        { path: "/a.md", oldString: "two", newString: "2" },
        "Replaced 1 occurrence in /a.md.",
      ),
      ...called(
        "4",
        "edit_file",
        { path: "/a.md", oldString: "one", newString: "1", replaceAll: true },
        "Replaced 2 occurrences in /a.md.",
      ),
      ...called("5", "read_file", { path: "/a.md" }, "1 2 1"),
    ];
    expect(versionsOf(messages).get("/a.md")).toEqual([
      { n: 1, how: "written", text: "one two one", callId: "1" },
      { n: 2, how: "edited", text: "one 2 one", callId: "3" },
      { n: 3, how: "edited", text: "1 2 1", callId: "4" },
    ]);
  });

  test("of a file that came from elsewhere begin with what is known of it", () => {
    const edit = called(
      "1",
      "edit_file",
      { path: "/a", oldString: "x", newString: "y" },
      "Replaced 1 occurrence in /a.",
    );
    expect(versionsOf(edit).get("/a")).toBeUndefined();
    expect(withCurrent([], "y")).toEqual([{ n: 1, how: "given", text: "y", callId: null }]);
  });

  test("end with what is there now, which a person may have changed", () => {
    const [version] =
      versionsOf(called("1", "write_file", { path: "/a", content: "x" }, "Wrote /a (1 characters).")).get("/a") ?? [];
    expect(version).toBeDefined();
    const versions = version ? [version] : [];
    expect(withCurrent(versions, "x")).toEqual(versions);
    expect(withCurrent(versions, "z").map(({ how }) => how)).toEqual(["written", "given"]);
    expect(withCurrent(versions, null)).toEqual(versions);
  });

  test("are not made of arguments that events have cut short", () => {
    expect(versionsOf(called("1", "write_file", "… (9 more characters)", "Wrote /a (1 characters)."))).toEqual(
      new Map(),
    );
  });
});

describe("changes", () => {
  test("have the lines that differ, their numbers, and a few around them", () => {
    const before = Array.from({ length: 20 }, (_, n) => `line ${n + 1}`).join("\n");
    const after = before.replace("line 10\n", "line ten\nand a half\n");
    const changes = changesOf(before, after);
    expect([changes?.added, changes?.removed]).toEqual([2, 1]);
    expect(changes?.lines.map(({ kind, before, after }) => `${kind} ${before ?? "-"} ${after ?? "-"}`)).toEqual([
      "skipped - -",
      "same 7 7",
      "same 8 8",
      "same 9 9",
      "removed 10 -",
      "added - 10",
      "added - 11",
      "same 11 12",
      "same 12 13",
      "same 13 14",
    ]);
  });

  test("of the same text are none", () => {
    expect(changesOf("a\n", "a\n")).toEqual({ lines: [], added: 0, removed: 0 });
  });
});

describe("content", () => {
  test("is text or an image only if the gateway says so", async () => {
    const kinds = ["text/plain; charset=utf-8", "image/png", "image/svg+xml", "text/html", "application/octet-stream"];
    const found = await Promise.all(kinds.map((type) => contentOf(new Blob(["x"], { type }))));
    expect(found.map(({ kind }) => kind)).toEqual(["text", "image", "binary", "binary", "binary"]);
  });

  test("has a language by its name", () => {
    expect(["/a/b.py", "/Makefile", "/x.TSX", "/notes", "/page.html"].map(languageOf)).toEqual([
      "python",
      "makefile",
      "typescript",
      null,
      "xml",
    ]);
  });

  test("in colours has the same lines, also where a comment goes over several", () => {
    const text = "const a = 1;\n/* one\n   two */\n\nlet b;\n";
    const said = (lines: readonly (readonly { text: string }[])[]) =>
      lines.map((line) => line.map(({ text }) => text).join(""));
    const lines = highlightedLines(text, "javascript");
    expect(said(lines)).toEqual(said(plainLines(text)));
    expect(lines[0]?.[0]).toEqual({ text: "const", className: "hljs-keyword" });
    expect(lines[2]?.[0]?.className).toBe("hljs-comment");
    expect(said(highlightedLines("x\ny", "klingon"))).toEqual(["x", "y"]);
    expect(plainLines("")).toEqual([[{ text: "", className: "" }]]);
  });
});
