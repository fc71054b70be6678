"""`examples.script`: killed in the middle it goes on, and no tray is baked twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agency import EventType, open_thread
from examples.script import TRAYS, system
from tests.support.example_processes import example, kill_when, run

DONE = re.compile(r"tray (\d+) is done, by process (\d+)")


def done(printed: str) -> list[tuple[str, str]]:
    """The trays in the order in which they were done, each with the process that did it."""
    return DONE.findall(printed)


@pytest.mark.kills
async def test_killed_in_the_middle_and_run_again_it_goes_on_and_every_tray_is_baked_once(tmp_path: Path) -> None:
    with example("script", folder=tmp_path) as process:
        first = kill_when(process, "tray 2 is done")
    again = run("script", folder=tmp_path)

    assert "A new run" in first
    assert "Resuming the run that was in progress" in again
    assert f"All {TRAYS} trays are done" in again
    assert [tray for tray, _ in done(again)] == [str(tray) for tray in range(1, TRAYS + 1)]
    assert done(again)[:2] == done(first)
    assert len({by for _, by in done(again)}) == 2
    async with open_thread(system, tmp_path / "data/examples/script.db") as thread:
        events = [event.type async for event in thread.events(follow=False)]
    assert events.count(EventType.TOOL_OUTPUT) == TRAYS
    assert events.count(EventType.RUN_STARTED) == events.count(EventType.AGENT_COMPLETED) == 1


async def test_after_its_end_it_begins_a_new_run_and_shows_only_that(tmp_path: Path) -> None:
    async with open_thread(system, tmp_path / "elsewhere/script.db", agent="baker") as thread:
        await thread.invoke('call bake {"tray": 100}')
        assert (await thread.wait(60)).status == "completed"

    printed = run("script", "--data-dir", tmp_path / "elsewhere", folder=tmp_path)

    assert "A new run" in printed
    assert [tray for tray, _ in done(printed)] == [str(tray) for tray in range(1, TRAYS + 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
