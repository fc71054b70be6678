"""Recorded stores of every schema version open for ever, and what they were doing goes on."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from agency import LocalRuntime
from agency.shelves import local
from agency.shelves.local import LocalShelves
from agency.store.schema import STEPS

STORES = Path(__file__).parent / "stores"
RECORDED = sorted(STORES.glob("v*.db"))
SHELVES = sorted(STORES.glob("shelves-v*.db"))


def test_every_version_has_its_recorded_store() -> None:
    assert [path.stem for path in RECORDED] == [f"v{version}" for version in range(1, len(STEPS) + 1)]
    versions = range(1, len(local.STEPS) + 1)
    assert [path.stem for path in SHELVES] == [f"shelves-v{version}" for version in versions]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_store_opens_and_its_waiting_run_goes_on(recorded: Path, tmp_path: Path) -> None:
    shutil.copy(recorded, tmp_path / "editor.db")
    system = runpy.run_path(str(STORES / "record.py"))["build"]()
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.thread("editor")
        assert (await thread.invoke("What colour is the sky?", idempotency_key="first")).run_id == "editor.1"
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


@pytest.mark.parametrize("recorded", SHELVES, ids=lambda path: path.stem)
def test_recorded_shelves_open_and_their_versions_go_on(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "shelves").mkdir()
    shutil.copy(recorded, tmp_path / "shelves" / local.FILE)
    shelves = LocalShelves(tmp_path / "shelves")
    assert [(each.name, each.entries, each.size) for each in shelves.shelves()] == [("memory", 1, 256), ("notes", 1, 5)]
    assert shelves.read("memory", "raw").content == bytes(range(256))
    (known,) = shelves.entries("notes").entries
    assert (known.path, known.version) == ("recipes/rügbröd.md", "2")
    assert shelves.write("notes", known.path, b"# Rye", key="first") == known
    assert shelves.write("notes", "new", b"").version == "4"
