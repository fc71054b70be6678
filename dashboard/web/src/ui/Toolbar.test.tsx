import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { describe, expect, it, vi } from "vitest";
import { Toolbar, ToolbarOption, ToolbarOptions, ToolbarSearch, toggled, ZoomButtons } from "@/ui/Toolbar";

describe("a toolbar", () => {
  it("has a name, and so has everything in it", () => {
    render(
      <Toolbar label="Graph">
        <ToolbarSearch label="Search the graph" placeholder="Search" value="" onChange={() => {}} />
        <ToolbarOptions legend="What is shown">
          <ToolbarOption checked onChange={() => {}}>
            Runs
          </ToolbarOption>
        </ToolbarOptions>
      </Toolbar>,
    );
    expect(screen.getByRole("toolbar", { name: "Graph" })).toBeTruthy();
    expect(screen.getByRole("searchbox", { name: "Search the graph" })).toBeTruthy();
    expect(screen.getByRole("group", { name: "What is shown" })).toBeTruthy();
    expect(screen.getByRole("checkbox", { name: "Runs" })).toHaveProperty("checked", true);
  });

  it("searches while a person writes, and goes on with enter without leaving the page", async () => {
    const onChange = vi.fn();
    const onEnter = vi.fn();
    render(<ToolbarSearch label="Search" placeholder="" value="" onChange={onChange} onEnter={onEnter} />);
    await userEvent.type(screen.getByRole("searchbox"), "x{Enter}");
    expect(onChange).toHaveBeenCalledWith("x");
    expect(onEnter).toHaveBeenCalledTimes(1);
  });

  it("lets one of several choices be chosen", async () => {
    function Choices() {
      const [chosen, choose] = useState("state");
      return ["state", "run"].map((each) => (
        <ToolbarOption key={each} choiceOf="part" checked={chosen === each} onChange={() => choose(each)}>
          {each}
        </ToolbarOption>
      ));
    }
    render(<Choices />);
    await userEvent.click(screen.getByRole("radio", { name: "run" }));
    expect(screen.getAllByRole<HTMLInputElement>("radio").map(({ checked }) => checked)).toEqual([false, true]);
  });

  it("disables the zoom that leads no further", async () => {
    const onIn = vi.fn();
    render(<ZoomButtons onOut={undefined} onIn={onIn} onFit={() => {}} />);
    expect(screen.getByRole("button", { name: "Zoom out" })).toHaveProperty("disabled", true);
    await userEvent.click(screen.getByRole("button", { name: "Zoom in" }));
    expect(onIn).toHaveBeenCalledTimes(1);
  });

  it("toggles without changing the set that it was given", () => {
    const before: ReadonlySet<string> = new Set(["a"]);
    expect([...toggled(before, "b", true)]).toEqual(["a", "b"]);
    expect([...toggled(before, "a", false)]).toEqual([]);
    expect([...before]).toEqual(["a"]);
  });
});
