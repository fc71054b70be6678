import { describe, expect, it } from "vitest";
import { parse, to } from "@/router/routes";

describe("addresses", () => {
  it("lead to views and back", () => {
    expect(parse("/")).toEqual({ view: "start" });
    expect(parse("/cluster")).toEqual({ view: "cluster" });
    expect(parse(to.docs())).toEqual({ view: "docs" });
    expect(to.compare("a", "t1", "t2")).toBe("/a/a/compare?a=t1&b=t2");
    expect(parse(to.agency("a b"))).toEqual({ view: "agency", agency: "a b" });
    expect(parse(to.thread("a", "t/1"))).toEqual({ view: "thread", agency: "a", thread: "t/1", tab: "chat" });
    expect(parse(to.thread("a", "t", "graph"))).toEqual({ view: "thread", agency: "a", thread: "t", tab: "graph" });
    expect(parse(to.page("a", "blueprints", "+"))).toEqual({
      view: "page",
      agency: "a",
      page: "blueprints",
      item: "+",
    });
    expect(parse(to.page("a", "inbox"))).toEqual({ view: "page", agency: "a", page: "inbox", item: null });
  });

  it("that mean nothing say so", () => {
    for (const lost of ["/x", "/a", "/a/x/y", "/a/x/t/y/nonsense", "/cluster/x", "/a/%"]) {
      expect(["lost", "agency"]).toContain(parse(lost).view);
    }
    expect(parse("/a/x/t/y/nonsense").view).toBe("lost");
  });
});
