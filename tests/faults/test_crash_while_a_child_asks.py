"""The process is killed before and after every commit while a grandchild asks a person: its ancestors know of that."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, LocalRuntime, WrongState, tool
from agency.testing import call
from tests.support.crashes import PARTS, commits_of, in_a_process, killed_at
from tests.support.families import cast, task


@tool
async def charge(cents: int) -> str:
    return f"charged {cents}"


def build() -> AgentSystem:
    return cast(
        {
            "boss": [task("lead", call_id="b"), "boss done"],
            "lead": [task("worker", call_id="l"), "lead done"],
            "worker": [call("charge", call_id="one", cents=1), call("charge", call_id="two", cents=2), "paid"],
        },
        charge,
        config={"worker": {"hitl": {"tools": ["charge"]}}},
    )


async def operate(folder: Path) -> None:
    """What a patient user does who only looks at the boss: decide where it says that a person is needed."""
    async with LocalRuntime(build(), folder) as runtime:
        known = "boss" in runtime.thread_ids()
        boss = await (runtime.thread("boss") if known else runtime.create_thread("boss", thread_id="boss"))
        await boss.invoke("go", idempotency_key="1")
        async with asyncio.timeout(20):
            while (run := await boss.wait(timeout=20)).status != "completed":
                waiting = run.meta.waiting_for
                assert waiting is not None, run
                try:
                    await (await runtime.thread(waiting.thread_id)).approve()
                except WrongState:  # it was decided, and the boss has not heard of that yet
                    await asyncio.sleep(0.005)
        assert (run.data, run.meta.waiting_for) == ("boss done", None)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_leaves_ancestors_that_know_for_whom_they_wait(
    when: Literal["before", "after"], part: int, tmp_path: Path
) -> None:
    killed = 0
    for n in commits_of(part):
        folder = tmp_path / str(n)
        status = killed_at(n, when, lambda folder=folder: asyncio.run(operate(folder)))  # type: ignore[misc]  # bound now
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
        assert in_a_process(lambda folder=folder: asyncio.run(operate(folder))) == 0, n  # type: ignore[misc]  # the same
    assert killed > 4
