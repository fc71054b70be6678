"""Recorded stores of every schema version open for ever, and what they were doing goes on."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from agency import LocalRuntime
from agency.store.schema import STEPS

STORES = Path(__file__).parent / "stores"
RECORDED = sorted(STORES.glob("v*.db"))


def test_every_version_has_its_recorded_store() -> None:
    assert [path.stem for path in RECORDED] == [f"v{version}" for version in range(1, len(STEPS) + 1)]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_store_opens_and_its_waiting_run_goes_on(recorded: Path, tmp_path: Path) -> None:
    shutil.copy(recorded, tmp_path / "editor.db")
    system = runpy.run_path(str(STORES / "record.py"))["build"]()
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.thread("editor")
        assert (await thread.send("again", idempotency_key="first")).run_id == "editor.1"
        waiting = thread.run()
        assert (waiting.status, [call.id for call in waiting.meta.pending_tool_calls]) == ("paused", ["c1"])
        await thread.approve()
        assert (await thread.wait(10)).data == "Published."
        state = await thread.state()
        assert [message.content for message in state.messages] == [
            "What colour is the sky?",
            "",
            "Updated todo list (1 items).",
            "Wrote /notes.md (8 characters).",
            "",
            "it is blue",
            "The sky is blue.",
            "Publish your notes.",
            "",
            "/notes.md is public",
            "     1\tone\n     2\ttwo",
            "Published.",
        ]
        assert state.more["todos"] == [{"content": "look", "status": "in_progress"}]
        assert state.more["files"] == {"/notes.md": "one\ntwo\n"}
        seqs = [event.seq async for event in thread.events(follow=False)]
        assert seqs == list(range(1, len(seqs) + 1))
