import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it, vi } from "vitest";
import { FakeGateway } from "@/testing/gateway";
import { blueprint } from "@/testing/samples";
import { NewThreadForm } from "@/threads/NewThread";

const CREATE = "POST /agency/a/agents";
const blueprints = [blueprint("clerk"), blueprint("planner"), blueprint("old", { status: "disabled" })];
const message = () => screen.findByRole("textbox", { name: "First message" });

describe("the form for a new thread", () => {
  it("starts the chosen agent with the message, and leads to its thread", async () => {
    const gateway = new FakeGateway().agency("a", { blueprints }).answers(CREATE, { id: "thr_1" }, { status: 201 });
    const onDone = vi.fn();
    render(<NewThreadForm agency="a" onDone={onDone} />);
    await userEvent.type(await message(), "Plan my week");
    await userEvent.selectOptions(screen.getByRole("combobox", { name: "Agent" }), "planner");
    await userEvent.click(screen.getByRole("button", { name: "Start" }));
    await waitFor(() => expect(onDone).toHaveBeenCalled());
    expect(gateway.bodies(CREATE)).toEqual([
      expect.objectContaining({ agentType: "planner", messages: [{ content: "Plan my week" }] }),
    ]);
    expect(location.pathname).toBe("/a/a/t/thr_1");
  });

  it("offers active agents only", async () => {
    new FakeGateway().agency("a", { blueprints });
    render(<NewThreadForm agency="a" />);
    await message();
    expect(screen.getAllByRole("option").map((each) => each.textContent)).toEqual(["clerk", "planner"]);
  });

  it("stays as it is when it is refused, and makes no second thread when it is sent again", async () => {
    const gateway = new FakeGateway().agency("a", { blueprints }).refuses(CREATE, 503, "the gateway is full");
    render(<NewThreadForm agency="a" />);
    await userEvent.type(await message(), "hello{Control>}{Enter}{/Control}");
    expect((await screen.findByText("The gateway is full.")).getAttribute("role")).toBe("alert");
    expect((await message()) as HTMLTextAreaElement).toHaveProperty("value", "hello");
    await userEvent.click(screen.getByRole("button", { name: "Start" }));
    await waitFor(() => expect(gateway.bodies(CREATE)).toHaveLength(2));
    const [first, second] = gateway.bodies(CREATE) as { idempotencyKey: string }[];
    expect(first?.idempotencyKey).toBe(second?.idempotencyKey);
  });

  it("says what to do where no agent is active", async () => {
    new FakeGateway().agency("a", {});
    render(<NewThreadForm agency="a" />);
    const link = await screen.findByRole("link", { name: "Add an agent" });
    expect(link.getAttribute("href")).toBe("/a/a/blueprints");
  });
});
