import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { Menu } from "@/ui/Menu";

// The menu’s file is large; on a busy machine the first load of it takes longer than a test waits.
beforeAll(() => import("@/ui/OpenableMenu"));

const rename = vi.fn();
const remove = vi.fn();

function show() {
  render(
    <Menu
      label="Agency: Acme"
      button="Acme"
      choices={[
        { label: "Acme", chosen: true, act: () => {} },
        { label: "Other", chosen: false, act: () => {} },
      ]}
      items={[{ label: "Rename …", act: rename }, "line", { label: "Delete …", danger: true, act: remove }]}
    />,
  );
  return screen.getByRole("button", { name: "Agency: Acme" });
}

describe("a menu", () => {
  it("opens with the first click, though its file is loaded by then only", async () => {
    await userEvent.click(show());
    expect(await screen.findByRole("menu")).toBeTruthy();
    expect(screen.getByRole("menuitemradio", { name: "Acme" }).getAttribute("aria-checked")).toBe("true");
    expect(screen.getByRole("menuitemradio", { name: "Other" }).getAttribute("aria-checked")).toBe("false");
  });

  it("is used by keys alone, and the button has the focus before the item acts", async () => {
    show().focus();
    await userEvent.keyboard("{Enter}");
    await screen.findByRole("menu");
    const focused: (string | null | undefined)[] = [];
    rename.mockImplementation(() => focused.push(document.activeElement?.getAttribute("aria-label")));
    screen.getByRole("menuitem", { name: "Rename …" }).focus();
    await userEvent.keyboard("{Enter}");
    await waitFor(() => expect(focused).toEqual(["Agency: Acme"]));
    expect(screen.queryByRole("menu")).toBeNull();
  });

  it("does nothing when it is closed with Escape, and gives the focus back", async () => {
    await userEvent.click(show());
    await screen.findByRole("menu");
    await userEvent.keyboard("{Escape}");
    await waitFor(() => expect(screen.queryByRole("menu")).toBeNull());
    expect(remove).not.toHaveBeenCalled();
    expect(document.activeElement).toBe(screen.getByRole("button", { name: "Agency: Acme" }));
  });
});
