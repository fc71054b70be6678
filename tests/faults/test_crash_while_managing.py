"""On shared storage, the process of an agency is killed before and after every commit of a day's work: threads, a
schedule, a blueprint, news of threads, a deletion. What is asked again then comes to the same end, and each thread is
made once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from actors.agency.creation import Creation
from agency.errors import NotFound
from agency.messages import Message
from tests.support.crashes import killed_and_resumed
from tests.support.lone_agency import HOUR, LoneAgency

THREADS = 4
LEAST = 8
"""So many commits it has at the least: what comes at the same time shares one."""


class ManagedAgency(LoneAgency):
    """One whose orders are written to a file, so that a process that comes later knows of them."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ledger = path / "ordered"
        super().__init__(path, monkeypatch, storage="shared")

    async def create(self, creation: Creation) -> None:
        made = creation.metadata.id
        if made not in self.ordered():
            with self._ledger.open("a") as ledger:
                ledger.write(f"{made} {creation.blueprint.prompt.splitlines()[0]}\n")

    def ordered(self) -> dict[str, str]:
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        found = dict(line.split(maxsplit=1) for line in lines)
        assert len(found) == len(lines), "no thread is made twice"
        return found


async def operate(folder: Path) -> None:
    """What a patient user does, from wherever things stand."""
    with pytest.MonkeyPatch.context() as patch:
        office = ManagedAgency(folder, patch)
        try:
            await work(office)
        finally:
            office.agency.close()


async def work(office: ManagedAgency) -> None:
    await office.agency.finish()
    await office.call("put_blueprint", {"name": "baker", "description": "d", "prompt": "bakes"})
    said = [Message(role="user", content="Bake!")]
    made = (office.call("create_thread", "baker", said, thread_id=f"t{n}") for n in range(THREADS))
    await asyncio.gather(*made, office.call("rename", "Patisserie"), office.schedule(agentType="baker"))
    office.now = office.began + HOUR
    await office.agency.run_due()
    await asyncio.gather(*(office.tell(f"t{n}", "completed") for n in range(1, THREADS)))
    try:
        await office.call("delete_thread", "t0")
    except NotFound:
        assert "t0" in office.ordered(), "it was there, and is deleted already"
    assert await stands(office) == {
        "name": "Patisserie",
        "threads": {**{f"t{n}": 9 for n in range(1, THREADS)}, await scheduled(office): 0},
        "events": 9 * (THREADS - 1),
        "runs": ["started"],
    }
    assert set(office.ordered()) == {f"t{n}" for n in range(THREADS)} | {await scheduled(office)}


async def scheduled(office: ManagedAgency) -> str:
    ((thread, _),) = [(run.thread_id, run) for run in await office.runs()]
    assert thread is not None
    return thread


async def stands(office: ManagedAgency) -> dict[str, object]:
    listed = (await office.call("threads")).threads
    return {
        "name": (await office.call("info")).name,
        "threads": {each.id: each.seq for each in listed},
        "events": (await office.call("journal", None)).upto,
        "runs": [run.status for run in await office.runs()],
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_of_an_agency_loses_nothing_and_makes_nothing_twice(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    for folder in killed_and_resumed(tmp_path, when, operate, least=LEAST):
        assert (folder / "ordered").exists()
