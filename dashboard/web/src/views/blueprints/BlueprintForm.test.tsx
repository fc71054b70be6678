import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it, vi } from "vitest";
import { FakeGateway } from "@/testing/gateway";
import { blueprint } from "@/testing/samples";
import { BlueprintForm } from "@/views/blueprints/BlueprintForm";

const SAVE = "POST /agency/a/blueprints";
const form = { agency: "a", onSaved: async () => {}, onDeleted: async () => {} };

describe("the form of a blueprint", () => {
  it("says what has no effect", () => {
    const warnings = ["no tool or middleware has the tags ['analytics']", "config.hitl has no effect"];
    render(<BlueprintForm {...form} blueprint={blueprint("clerk", { warnings })} />);
    expect(screen.getAllByRole("listitem").map((each) => each.textContent)).toEqual(warnings);
  });

  it("says nothing about a blueprint that is in order, and saves a model without a provider", async () => {
    const gateway = new FakeGateway().answers(SAVE, { ...blueprint("clerk"), ok: true });
    const onSaved = vi.fn(async () => {});
    render(<BlueprintForm {...form} onSaved={onSaved} blueprint={blueprint("clerk")} />);
    expect(screen.queryByRole("listitem")).toBeNull();
    await userEvent.type(screen.getByRole("textbox", { name: "Model" }), "gpt-5-mini");
    await userEvent.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(onSaved).toHaveBeenCalledWith("clerk"));
    expect(gateway.bodies(SAVE)).toEqual([expect.objectContaining({ name: "clerk", model: "gpt-5-mini" })]);
  });
});
