"""Make the README's pictures: the demo's first thread at its approval (docs/dashboard.png), and as a graph
(docs/graph.png).

python -m tests.support.pictures
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.async_api import ViewportSize, async_playwright, expect

from dashboard.gateway.discovery import running_gateways
from tests.support.browser import ARGUMENTS, PATIENCE_MS, chromium_path
from tests.support.page_parts import call_states, threads
from tests.support.paths import ROOT
from tests.support.waiting import eventually

DOCS = ROOT / "docs"
SIZE = ViewportSize(width=1200, height=750)
WIDE = ViewportSize(width=1200, height=560)
START_SECONDS = 90.0


async def main() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        serving = await asyncio.create_subprocess_exec(*_command("serve", folder, "--port", "0"))
        try:
            await _take(await _address(Path(folder)))
        finally:
            await asyncio.to_thread(subprocess.run, _command("down", folder), check=True)
            await serving.wait()


def _command(name: str, folder: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "dashboard.command", name, "--data-dir", folder, *options]


async def _address(folder: Path) -> str:
    return (await eventually(lambda: running_gateways(folder), START_SECONDS))[0].url


async def _take(url: str) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        page = await browser.new_page(viewport=SIZE, locale="en-GB", color_scheme="light")
        await page.goto(f"{url}/a/demo/t/welcome")
        await expect(page.get_by_role("region", name="Waiting for you")).to_contain_text("publish")
        await expect(threads(page).locator(".status")).to_have_text(["waits for you", "completed", "completed"])
        await expect(call_states(page)).to_have_count(5)
        await page.evaluate("document.activeElement?.blur()")
        await page.screenshot(path=DOCS / "dashboard.png", animations="disabled")
        page = await browser.new_page(viewport=WIDE, locale="en-GB", color_scheme="dark")
        await page.goto(f"{url}/a/demo/t/welcome/graph")
        await expect(page.locator("tr[data-kind=child]")).to_have_count(2)
        await page.get_by_role("button", name="Fit").click()
        await page.evaluate("document.activeElement?.blur()")
        await page.screenshot(path=DOCS / "graph.png", animations="disabled")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
