import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { CallCard } from "@/approvals/CallCard";
import { FakeGateway } from "@/testing/gateway";
import { pendingCall } from "@/testing/samples";

const APPROVE = "POST /agency/a/agent/t/approve";
const TOOL = {
  name: "refund",
  parameters: { type: "object", properties: { cents: { type: "integer" } }, required: ["cents"] },
};

let gateway: FakeGateway;
const onDecided = vi.fn();

beforeEach(() => {
  onDecided.mockClear();
  gateway = new FakeGateway()
    .answers(APPROVE, {})
    .answers("GET /agency/a/agent/t/state", { state: { tools: [TOOL] }, run: {} });
});

function show(more: Parameters<typeof pendingCall>[1] = {}) {
  const call = pendingCall("c1", { args: { cents: 100 }, approvalId: "apr_1", ...more });
  const asked = { key: "t c1", threadId: "t", agentType: "clerk", call, since: null };
  render(<CallCard agency="a" asked={asked} named={false} onDecided={onDecided} />);
  return screen.getByRole("form", { name: "refund waits for you" });
}

const decided = () => gateway.bodies(APPROVE).map((body) => (body as { decisions: unknown }).decisions);

describe("a call that waits", () => {
  it("is approved by its button, and exactly this call", async () => {
    show();
    await userEvent.click(screen.getByRole("button", { name: "Approve" }));
    expect(decided()).toEqual([{ apr_1: { decision: "approve" } }]);
    expect(onDecided).toHaveBeenCalledWith("t");
  });

  it("is approved by the key a, which in a text is a letter", async () => {
    const card = show();
    await userEvent.click(screen.getByRole("button", { name: "Deny …" }));
    await userEvent.type(screen.getByLabelText("Why it is denied"), "a bad idea");
    expect(decided()).toEqual([]);
    await userEvent.keyboard("{Escape}");
    fireEvent.keyDown(card, { key: "a" });
    await waitFor(() => expect(decided()).toEqual([{ apr_1: { decision: "approve" } }]));
  });

  it("is denied with the reason, after a second step", async () => {
    fireEvent.keyDown(show(), { key: "d" });
    await userEvent.type(screen.getByLabelText("Why it is denied"), " too much ");
    await userEvent.click(screen.getByRole("button", { name: "Deny" }));
    expect(decided()).toEqual([{ apr_1: { decision: "deny", reason: "too much" } }]);
  });

  it("keeps a reason that is half written when the person goes back", async () => {
    show();
    await userEvent.click(screen.getByRole("button", { name: "Deny …" }));
    await userEvent.type(screen.getByLabelText("Why it is denied"), "because");
    await userEvent.click(screen.getByRole("button", { name: "Back" }));
    await userEvent.click(screen.getByRole("button", { name: "Deny …" }));
    expect(screen.getByLabelText<HTMLTextAreaElement>("Why it is denied").value).toBe("because");
  });

  it("is answered in the tool’s place", async () => {
    fireEvent.keyDown(show(), { key: "r" });
    await userEvent.type(screen.getByLabelText("Result for the agent"), "done by hand{Control>}{Enter}{/Control}");
    expect(decided()).toEqual([{ apr_1: { decision: "respond", content: "done by hand" } }]);
  });

  it("is edited, but not to arguments that the tool does not take", async () => {
    fireEvent.keyDown(show(), { key: "e" });
    const editor = screen.getByLabelText("Arguments as JSON");
    await screen.findByText("Fits the tool’s schema.");
    fireEvent.change(editor, { target: { value: '{"cents": "many"}' } });
    await screen.findByText(/^cents:/);
    await userEvent.click(screen.getByRole("button", { name: "Approve with these arguments" }));
    expect((await screen.findByRole("alert")).textContent).toMatch(/^cents:/);
    fireEvent.change(editor, { target: { value: '{"cents": 7}' } });
    await screen.findByText("Fits the tool’s schema.");
    await userEvent.click(screen.getByRole("button", { name: "Approve with these arguments" }));
    expect(decided()).toEqual([{ apr_1: { decision: "edit", args: { cents: 7 } } }]);
  });

  it("says why a decision was refused, and sends it again under the same key", async () => {
    gateway.refuses(APPROVE, 409, "the call was decided by another person");
    show();
    await userEvent.click(screen.getByRole("button", { name: "Approve" }));
    expect((await screen.findByRole("alert")).textContent).toBe("The call was decided by another person.");
    expect(onDecided).not.toHaveBeenCalled();
    await userEvent.click(screen.getByRole("button", { name: "Approve" }));
    const keys = gateway.bodies(APPROVE).map((body) => (body as { idempotencyKey: string }).idempotencyKey);
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
  });

  it("that may have happened already is not approved, by no button and no key", async () => {
    const card = show({ kind: "in_doubt" });
    for (const name of ["Approve", "Always approve", "Edit …"])
      expect(screen.queryByRole("button", { name })).toBeNull();
    expect(screen.getByText("in doubt: it may have happened")).toBeTruthy();
    fireEvent.keyDown(card, { key: "a" });
    fireEvent.keyDown(card, { key: "Enter", ctrlKey: true });
    expect(decided()).toEqual([]);
    await userEvent.click(screen.getByRole("button", { name: "Run again" }));
    expect(decided()).toEqual([{ apr_1: { decision: "rerun" } }]);
  });

  it.each([
    ['{{"cents": 5}', { cents: 5 }],
    ["it went through", "it went through"],
  ])("that did happen has the result that a person knows of", async (typed, result) => {
    show({ kind: "in_doubt" });
    await userEvent.click(screen.getByRole("button", { name: "It did happen …" }));
    await userEvent.type(screen.getByLabelText("What it returned"), typed);
    await userEvent.click(screen.getByRole("button", { name: "It did happen" }));
    expect(decided()).toEqual([{ apr_1: { decision: "happened", result } }]);
  });
});
