import { act, renderHook, waitFor } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { useAction, useLoad } from "@/api/hooks";
import { Problem } from "@/api/problem";

/** Requests that a test answers by hand, in the order that it likes. */
function requests() {
  const open: { answer(value: string): void; refuse(problem: Problem): void }[] = [];
  const load = () => new Promise<string>((answer, refuse) => open.push({ answer, refuse }));
  const at = (n: number) => open[n] ?? expect.fail(`there is no request ${n}`);
  return { open, load, at };
}

describe("useLoad", () => {
  it("keeps what it has while it loads again, and when that fails", async () => {
    const { load, at } = requests();
    const { result } = renderHook(() => useLoad("a", load));
    expect(result.current.data).toBeUndefined();
    await act(async () => at(0).answer("one"));
    expect(result.current).toMatchObject({ data: "one", problem: null });
    act(() => void result.current.reload());
    expect(result.current.data).toBe("one");
    await act(async () => at(1).refuse(new Problem(503, "Away.")));
    expect(result.current).toMatchObject({ data: "one", problem: { message: "Away." } });
  });

  it("takes no answer that a later one has overtaken", async () => {
    const { load, at } = requests();
    const { result } = renderHook(() => useLoad("a", load));
    act(() => void result.current.reload());
    await act(async () => at(1).answer("new"));
    await act(async () => at(0).answer("old"));
    expect(result.current.data).toBe("new");
  });

  it("takes an answer that is slower than the next request", async () => {
    const { load, at } = requests();
    const { result } = renderHook(() => useLoad("a", load));
    act(() => void result.current.reload());
    await act(async () => at(0).answer("slow"));
    expect(result.current.data).toBe("slow");
  });

  it("shows nothing of another key, and takes no answer for it", async () => {
    const { load, at } = requests();
    const { result, rerender } = renderHook(({ key }) => useLoad(key, load), { initialProps: { key: "a" } });
    await act(async () => at(0).answer("of a"));
    rerender({ key: "b" });
    expect(result.current.data).toBeUndefined();
    rerender({ key: "c" });
    await act(async () => at(1).answer("of b"));
    expect(result.current.data).toBeUndefined();
  });

  it("loads nothing without a key, and again when the value to watch changes", () => {
    const { open, load } = requests();
    const { rerender } = renderHook(({ key, changed }) => useLoad(key, load, { changed }), {
      initialProps: { key: null as string | null, changed: 1 },
    });
    expect(open).toHaveLength(0);
    rerender({ key: "a", changed: 1 });
    rerender({ key: "a", changed: 2 });
    rerender({ key: "a", changed: 2 });
    expect(open).toHaveLength(2);
  });
});

describe("useAction", () => {
  it("does one thing at a time, and says whether it worked", async () => {
    const { open, load, at } = requests();
    const { result } = renderHook(() => useAction(load));
    let first = Promise.resolve(false);
    act(() => {
      first = result.current.run();
    });
    expect(result.current.busy).toBe(true);
    expect(await result.current.run()).toBe(false);
    expect(open).toHaveLength(1);
    await act(async () => at(0).answer("done"));
    expect(await first).toBe(true);
    expect(result.current.busy).toBe(false);
  });

  it("keeps why it failed until the next try", async () => {
    const work = vi.fn().mockRejectedValueOnce(new Error("broken")).mockResolvedValueOnce(null);
    const { result } = renderHook(() => useAction(work));
    await act(async () => void (await result.current.run()));
    await waitFor(() => expect(result.current.problem?.message).toBe("broken"));
    await act(async () => void (await result.current.run()));
    expect(result.current.problem).toBeNull();
  });
});
