import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it, vi } from "vitest";
import { Sidebar } from "@/app/sidebar/Sidebar";
import { parse } from "@/router/routes";
import { FakeGateway } from "@/testing/gateway";
import { agency, approval, parent, threadSummary } from "@/testing/samples";

const at = (second: number) => ({ createdAt: new Date(1e12 + second * 1000).toISOString() });
const threads = [
  threadSummary("old", { ...at(1), agentType: "planner", status: "error" }),
  threadSummary("new", { ...at(2), agentType: "clerk", status: "running" }),
  threadSummary("kid", { ...at(3), agentType: "worker", parent: parent("new") }),
];

function show(onNewThread = vi.fn()) {
  const { pathname } = location;
  render(
    <Sidebar
      list={[agency("a", "Acme")]}
      agency="a"
      route={parse(pathname)}
      onNewThread={onNewThread}
      onHelp={() => {}}
    />,
  );
}

const rows = () => screen.getAllByRole("treeitem").map((row) => row.dataset.thread);
const row = (id: string) => screen.getAllByRole("treeitem").find((each) => each.dataset.thread === id);

describe("the list of threads", () => {
  it("has the newest first, and children below their parents", async () => {
    new FakeGateway().agency("a", { threads });
    show();
    await screen.findByRole("tree", { name: "Threads" });
    expect(rows()).toEqual(["new", "kid", "old"]);
    expect(row("kid")?.getAttribute("aria-level")).toBe("2");
    expect(row("new")?.getAttribute("href")).toBe("/a/a/t/new");
  });

  it("is walked by keys: down, to the first, closed and opened, into a thread", async () => {
    new FakeGateway().agency("a", { threads });
    show();
    await screen.findByRole("tree");
    row("new")?.focus();
    await userEvent.keyboard("{ArrowDown}");
    expect(document.activeElement).toBe(row("kid"));
    await userEvent.keyboard("{ArrowLeft}");
    expect(document.activeElement).toBe(row("new"));
    await userEvent.keyboard("{ArrowLeft}");
    expect(rows()).toEqual(["new", "old"]);
    await userEvent.keyboard("{ArrowRight}");
    expect(rows()).toEqual(["new", "kid", "old"]);
    await userEvent.keyboard("{End} ");
    expect(location.pathname).toBe("/a/a/t/old");
  });

  it("is searched, and Escape ends the search", async () => {
    new FakeGateway().agency("a", { threads });
    show();
    await screen.findByRole("tree");
    await userEvent.type(screen.getByRole("searchbox", { name: "Search threads" }), "WORK");
    expect(rows()).toEqual(["new", "kid"]);
    await userEvent.keyboard("{Escape}");
    expect(rows()).toEqual(["new", "kid", "old"]);
  });

  it("is filtered by status", async () => {
    new FakeGateway().agency("a", { threads });
    show();
    await screen.findByRole("tree");
    const filter = screen.getByRole("button", { name: /^Error/ });
    await userEvent.click(filter);
    expect(rows()).toEqual(["old"]);
    expect(filter.getAttribute("aria-pressed")).toBe("true");
  });

  it("says so if there are none, and lets a thread be started", async () => {
    new FakeGateway().agency("a", {});
    const onNewThread = vi.fn();
    show(onNewThread);
    expect(await screen.findByText("No threads yet.")).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "New thread" }));
    expect(onNewThread).toHaveBeenCalled();
  });

  it("counts what waits beside the inbox", async () => {
    new FakeGateway().agency("a", { threads, approvals: [approval("new")] });
    show();
    expect(await within(await screen.findByRole("link", { name: /Inbox/ })).findByText("1")).toBeTruthy();
  });
});
