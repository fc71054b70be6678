"""The process is killed before and after every commit of making a fork and of the fork's first run."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Literal

import pytest

from agency import LocalRuntime, Message
from agency.store.peek import holds_thread
from tests.support.crashes import in_a_process, killed_at
from tests.support.forked_story import build, events_of, fork, state_of, tell
from tests.support.thread_files import messages_of

CUT = 30


async def operate(folder: Path) -> None:
    """What a patient user does: make the fork if it is not there, and have it answer."""
    async with LocalRuntime(build(), folder) as runtime:
        known = "fork" in runtime.thread_ids()
        forked = await (runtime.thread("fork") if known else runtime.fork("editor", after_seq=CUT, thread_id="fork"))
        await forked.invoke("edited", idempotency_key="1")
        assert (await forked.wait(20)).data == "That is another question."


def crash(folder: Path, n: int, when: Literal["before", "after"]) -> int:
    return killed_at(n, when, lambda: asyncio.run(operate(folder)))


def contents(messages: list[Message]) -> list[str]:
    return [message.content for message in messages]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    assert in_a_process(lambda: asyncio.run(tell(folder))) == 0
    return folder / "editor.db"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_leaves_no_fork_or_a_whole_one_and_the_original_as_it_was(
    when: Literal["before", "after"], original: Path, tmp_path: Path
) -> None:
    expected = fork(original, tmp_path / "fork.db", CUT)
    killed = 0
    for n in range(1, 50):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "editor.db").write_bytes(original.read_bytes())
        status = crash(folder, n, when)
        if holds_thread(folder / "fork.db") and len(events_of(folder / "fork.db")) == CUT + 2:
            assert state_of(folder / "fork.db") == state_of(expected)
            assert events_of(folder / "fork.db")[:CUT] == events_of(original)[:CUT]
        assert in_a_process(lambda folder=folder: asyncio.run(operate(folder))) == 0, n  # type: ignore[misc]  # bound now
        assert contents(messages_of(folder / "fork.db")) == [
            *contents(messages_of(expected)),
            "edited",
            "That is another question.",
        ]
        assert (folder / "editor.db").read_bytes() == original.read_bytes()
        assert not list(folder.glob(".fork*"))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed > 4
