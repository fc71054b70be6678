import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, it } from "vitest";
import { FakeGateway } from "@/testing/gateway";
import { Recording } from "@/testing/recording";
import EventsView from "@/views/events/EventsView";

const { events } = new Recording().begin().step(1).call("a").output("a").step(2).end();

beforeEach(() => {
  new FakeGateway().agency("a", {}).thread("a", "thr", events);
});

async function show() {
  render(<EventsView agency="a" thread="thr" />);
  await screen.findByText(`${events.length} events`);
}

const types = () => [...document.querySelectorAll<HTMLElement>("[data-seq]")].map((row) => row.dataset.type);

describe("the events", () => {
  it("are all listed, oldest first", async () => {
    await show();
    expect(types()).toEqual(events.map(({ type }) => type));
  });

  it("are found by their words", async () => {
    await show();
    await userEvent.type(screen.getByRole("searchbox", { name: "Filter the events" }), "tool note");
    await screen.findByText(`2 of ${events.length} events`);
    expect(types()).toEqual(["tool.started", "tool.output"]);
  });

  it("are left out by what they are about", async () => {
    await show();
    for (const area of ["Runs", "Models", "Middleware", "Other"]) {
      await userEvent.click(screen.getByRole("checkbox", { name: area }));
    }
    expect(types()).toEqual(["tool.started", "tool.output"]);
  });

  it("say so if none is like that", async () => {
    await show();
    await userEvent.type(screen.getByRole("searchbox"), "nonsense");
    expect(await screen.findByText("No event is like that.")).toBeTruthy();
  });

  it("are walked by the arrow keys, each with its details and its address", async () => {
    await show();
    screen.getByRole("group", { name: /^Events/ }).focus();
    await userEvent.keyboard("{ArrowDown}{ArrowDown}{ArrowUp}{ArrowDown}");
    const panel = screen.getByRole("complementary", { name: "Details of the event" });
    expect(panel.textContent).toContain("Event 2");
    expect(location.search).toBe("?event=2");
    await userEvent.click(screen.getByRole("button", { name: "Close the details" }));
    expect(location.search).toBe("");
  });

  it("open with the event of a link, and do not follow new ones then", async () => {
    history.replaceState(null, "", "/?event=5");
    await show();
    expect(screen.getByRole("complementary").textContent).toContain("Event 5");
    await waitFor(() => expect(screen.getByRole("checkbox", { name: "Follow" })).toHaveProperty("checked", false));
  });

  it("can each be the end of a fork", async () => {
    const gateway = new FakeGateway().agency("a", {}).thread("a", "thr", events);
    gateway.answers("POST /agency/a/agent/thr/fork", { id: "thr_2" }, { status: 201 });
    history.replaceState(null, "", "/?event=5");
    await show();
    await userEvent.click(screen.getByRole("button", { name: "Fork after event 5" }));
    await userEvent.type(screen.getByRole("textbox", { name: /^Message/ }), "another way");
    await userEvent.click(screen.getByRole("button", { name: "Fork" }));
    await waitFor(() => expect(location.pathname).toBe("/a/a/t/thr_2"));
    expect(gateway.bodies("POST /agency/a/agent/thr/fork")).toEqual([
      expect.objectContaining({ afterSeq: 5, messages: [{ content: "another way" }] }),
    ]);
  });
});
