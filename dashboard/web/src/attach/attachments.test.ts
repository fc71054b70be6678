import { describe, expect, it } from "vitest";
import { add, base64, filesOf, imagesOf, pathOf, read } from "@/attach/attachments";

describe("attached files", () => {
  it("go with the message, into the agent’s files, or there byte by byte", async () => {
    expect(await read(new File(["# hi"], "a.md"))).toMatchObject({ kind: "text", path: "/a.md", content: "# hi" });
    expect(await read(new File([new Uint8Array([0, 255])], "b.bin"))).toMatchObject({ kind: "binary", path: "/b.bin" });
    const picture = await read(new File([new Uint8Array([1, 2])], "c.png", { type: "image/png" }));
    expect(imagesOf([picture])).toEqual([{ mediaType: "image/png", data: "AQI=" }]);
  });

  it("have names that are paths, and the last of a name counts", async () => {
    expect([pathOf("a/b.txt"), pathOf("../x"), pathOf("")]).toEqual(["/a_b.txt", "/_x", "/file"]);
    const both = await add(await add([], [new File(["one"], "a")]), [new File(["two"], "a")]);
    expect(filesOf(both)).toEqual({ "/a": "two" });
  });

  it("are not too many and not too large", async () => {
    const many = Array.from({ length: 21 }, (_, n) => new File(["x"], String(n)));
    await expect(add([], many)).rejects.toThrow("At most 20");
    const large = new File([new Uint8Array(5_000_001)], "big.png", { type: "image/png" });
    await expect(read(large)).rejects.toThrow("at most 5 MB");
  });

  it("may be longer than a call has arguments", () => {
    expect(base64(new Uint8Array(100_000).buffer)).toHaveLength(133_336);
  });
});
