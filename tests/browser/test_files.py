"""The files of a thread: what the agent wrote, as it was and is, and what people give it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say, script
from tests.support.thread_views import view

pytestmark = pytest.mark.asyncio(loop_scope="session")

CODE = 'def bake(n):\n    """Bread."""\n    return "rye" * n\n'
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"


def png(width: int, height: int) -> bytes:
    """A grey picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def read(http: httpx.Client, agency: str, thread: str, path: str) -> bytes:
    answer = http.get(f"/agency/{agency}/agent/{thread}/file", params={"path": path})
    assert answer.status_code == 200, answer.text
    return answer.content


async def choose(page: Page, name: str) -> None:
    await page.get_by_role("navigation", name="Files").get_by_role("button", name=name).click()


async def test_files_are_a_tree_and_each_is_shown_in_its_own_way(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    given = {"/out/report.md": "# Bread\n\n- rye\n- **spelt**\n", "/src/bake.py": CODE, "/page.html": HOSTILE}
    thread = create(http, agency, files=given)
    http.put(f"/agency/{agency}/agent/{thread}/file", params={"path": "/grey.png"}, content=png(30, 20))
    http.put(f"/agency/{agency}/agent/{thread}/file", params={"path": "/paper.pdf"}, content=b"%PDF\xff\0")
    page = await visitor.open(gateway, view(agency, thread, "files"))
    side = page.get_by_role("navigation", name="Files")
    await expect(side.get_by_role("status")).to_have_text("5 files")
    await expect(side.locator("summary")).to_have_text(["out", "src"])

    await choose(page, "report.md")
    shown = page.get_by_role("region", name="/out/report.md")
    await expect(shown.get_by_role("heading", name="Bread")).to_be_visible()
    await expect(shown.locator("strong")).to_have_text("spelt")
    await shown.get_by_role("tab", name="Text").click()
    await expect(shown.locator("[data-line='1']")).to_have_text("# Bread")

    await choose(page, "bake.py")
    code = page.get_by_role("region", name="Text of /src/bake.py")
    await expect(code.locator("[data-line]")).to_have_text(CODE.splitlines())
    await expect(code.locator("[data-line='1'] .hljs-keyword")).to_have_text("def")

    await choose(page, "grey.png")
    picture = page.get_by_role("img", name="/grey.png")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("(img) => [img.naturalWidth, img.naturalHeight]") == [30, 20]

    await choose(page, "page.html")
    await expect(page.get_by_role("region", name="Text of /page.html")).to_have_text(HOSTILE)
    assert await page.evaluate("window.hacked") is None

    await choose(page, "paper.pdf")
    await expect(page.get_by_role("main")).to_contain_text("neither text nor a picture")


async def test_a_file_is_compared_with_what_it_was_before(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(
        http,
        agency,
        calls(("write_file", {"path": "/list.txt", "content": "rye\nspelt\noats\n"})),
        calls(("read_file", {"path": "/list.txt"})),
        calls(("edit_file", {"path": "/list.txt", "oldString": "spelt", "newString": "wheat\nbarley"})),
        say("done"),
    )
    finished(http, agency, thread)
    page = await visitor.open(gateway, f"{view(agency, thread, 'files')}?file=/list.txt")
    file = page.get_by_role("region", name="/list.txt", exact=True)
    await file.get_by_role("tab", name="Changes").click()
    await expect(file.get_by_role("status")).to_have_text("+2 −1")
    changes = file.get_by_role("region", name="Changes").locator("tr")
    await expect(changes).to_contain_text(["rye", "spelt", "wheat", "barley", "oats"])
    kinds = await changes.evaluate_all("all => all.map((row) => row.dataset.kind)")
    assert kinds == ["same", "removed", "added", "added", "same"]

    # What a person puts there is a version, too.
    http.put(f"/agency/{agency}/agent/{thread}/file", params={"path": "/list.txt"}, content=b"rye\n")
    await page.reload()
    await file.get_by_role("tab", name="Changes").click()
    await expect(file.get_by_role("option")).to_have_text(
        ["Version 1, written", "Version 2, edited", "Version 3, now"] * 2
    )
    await file.get_by_label("From").select_option("Version 1, written")
    await expect(file.get_by_role("status")).to_have_text("+0 −2")


async def test_files_are_uploaded_by_choosing_or_dropping_them_and_the_agent_reads_them(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, files={"/orders/one.txt": "seven rolls"})
    page = await visitor.open(gateway, view(agency, thread, "files"))
    side = page.get_by_role("navigation", name="Files")
    await expect(side.get_by_role("status")).to_have_text("1 file")
    chosen = [
        {"name": "two.txt", "mimeType": "text/plain", "buffer": b"eight rolls"},
        {"name": "grey.png", "mimeType": "image/png", "buffer": png(4, 4)},
    ]
    await page.get_by_label("Files to upload").set_input_files(chosen)  # type: ignore[arg-type]  # that is what it takes
    await expect(side.get_by_role("status")).to_have_text("3 files")
    assert read(http, agency, thread, "/grey.png") == png(4, 4)

    await drop(page, "summary", "three.txt", "nine rolls")
    await expect(page.get_by_role("region", name="Text of /orders/three.txt")).to_have_text("nine rolls")
    lines = script(calls(("read_file", {"path": "/orders/three.txt"})), say("seen"))
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": [{"role": "user", "content": lines}]})
    finished(http, agency, thread)
    state = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]
    assert [each["content"] for each in state["messages"] if each["role"] == "tool"] == ["     1\tnine rolls"]

    # One that is there is not replaced without a question.
    await drop(page, "summary", "one.txt", "none")
    asked = page.get_by_role("dialog", name="Replace 1 file?")
    await asked.get_by_role("button", name="Cancel").click()
    assert read(http, agency, thread, "/orders/one.txt") == b"seven rolls"
    await drop(page, "summary", "one.txt", "none")
    await asked.get_by_role("button", name="Replace").click()
    await expect(page.get_by_role("region", name="Text of /orders/one.txt")).to_have_text("none")


async def drop(page: Page, on: str, name: str, text: str) -> None:
    """Drop a file on a part of the list."""
    data = await page.evaluate_handle(
        "([name, text]) => { const d = new DataTransfer(); d.items.add(new File([text], name)); return d }",
        [name, text],
    )
    await page.get_by_role("navigation", name="Files").locator(on).first.dispatch_event("drop", {"dataTransfer": data})


async def test_a_file_is_downloaded_as_it_is_and_deleted_after_a_question(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency)
    http.put(f"/agency/{agency}/agent/{thread}/file", params={"path": "/a/grey.png"}, content=png(5, 5))
    page = await visitor.open(gateway, f"{view(agency, thread, 'files')}?file=/a/grey.png")
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Download").click()
    saved = await saving.value
    assert saved.suggested_filename == "grey.png"
    assert Path(await saved.path()).read_bytes() == png(5, 5)
    await page.get_by_role("button", name="Delete /a/grey.png").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("main")).to_contain_text("No files yet.")
    assert http.get(f"/agency/{agency}/agent/{thread}/files").json() == {"files": []}


async def test_what_is_too_large_is_refused_with_words(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, tmp_path: Path
) -> None:
    visitor.forgive("status of 413")
    thread = create(http, agency)
    page = await visitor.open(gateway, view(agency, thread, "files"))
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(8_000_001))
    await page.get_by_label("Files to upload").set_input_files(large)
    await expect(page.get_by_role("alert").filter(has_text="8000000")).to_be_visible()
