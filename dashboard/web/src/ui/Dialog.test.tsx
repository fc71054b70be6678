import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it, vi } from "vitest";
import { Problem } from "@/api/problem";
import { Confirm } from "@/ui/Confirm";
import { Dialog } from "@/ui/Dialog";

describe("a dialog", () => {
  it("is closed by its button, by the browser’s Escape, and by a click beside it", async () => {
    const onClose = vi.fn();
    render(
      <Dialog title="Help" onClose={onClose}>
        Keys
      </Dialog>,
    );
    const dialog = screen.getByRole("dialog", { name: "Help" });
    await userEvent.click(screen.getByRole("button", { name: "Close" }));
    fireEvent(dialog, new Event("cancel", { cancelable: true }));
    fireEvent.mouseDown(dialog);
    fireEvent.mouseDown(screen.getByText("Keys"));
    expect(onClose).toHaveBeenCalledTimes(3);
  });

  it("that has to be answered is not closed otherwise", () => {
    const onClose = vi.fn();
    render(
      <Dialog title="Sign in" closable={false} onClose={onClose}>
        Secret
      </Dialog>,
    );
    const dialog = screen.getByRole("dialog");
    fireEvent(dialog, new Event("cancel", { cancelable: true }));
    fireEvent.mouseDown(dialog);
    expect(fireEvent.keyDown(dialog, { key: "Escape" })).toBe(false);
    expect(screen.queryByRole("button", { name: "Close" })).toBeNull();
    expect(onClose).not.toHaveBeenCalled();
  });

  it("begins where it is told to, and gives the focus back", () => {
    render(<button type="button">Open</button>);
    const opener = screen.getByRole("button", { name: "Open" });
    opener.focus();
    const { unmount } = render(
      <Dialog title="Name" onClose={() => {}}>
        <input data-focus aria-label="Name" />
      </Dialog>,
    );
    expect(document.activeElement).toBe(screen.getByRole("textbox"));
    unmount();
    expect(document.activeElement).toBe(opener);
  });
});

describe("a question before a deed", () => {
  it("is closed when the deed is done, and not before", async () => {
    const onClose = vi.fn();
    let finish = () => {};
    const act = vi.fn(() => new Promise<void>((resolve) => (finish = resolve)));
    render(
      <Confirm title="Delete it?" deed="Delete" act={act} onClose={onClose}>
        For ever.
      </Confirm>,
    );
    const button = screen.getByRole("button", { name: "Delete" });
    await userEvent.click(button);
    await userEvent.click(button);
    expect(act).toHaveBeenCalledTimes(1);
    expect(onClose).not.toHaveBeenCalled();
    finish();
    await waitFor(() => expect(onClose).toHaveBeenCalledTimes(1));
  });

  it("stays open and says why if the deed is refused", async () => {
    const onClose = vi.fn();
    const act = () => Promise.reject(new Problem(409, "It is in use."));
    render(
      <Confirm title="Delete it?" deed="Delete" act={act} onClose={onClose}>
        For ever.
      </Confirm>,
    );
    await userEvent.click(screen.getByRole("button", { name: "Delete" }));
    expect((await screen.findByRole("alert")).textContent).toBe("It is in use.");
    expect(onClose).not.toHaveBeenCalled();
  });

  it("does nothing if the person does not want it", async () => {
    const act = vi.fn();
    const onClose = vi.fn();
    render(
      <Confirm title="Delete it?" deed="Delete" act={act} onClose={onClose}>
        For ever.
      </Confirm>,
    );
    await userEvent.click(screen.getByRole("button", { name: "Cancel" }));
    expect(act).not.toHaveBeenCalled();
    expect(onClose).toHaveBeenCalled();
  });
});
