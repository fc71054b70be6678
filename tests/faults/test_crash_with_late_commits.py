"""The scenario of `test_crash_at_every_commit` on shared storage, where worker threads end the commits: what a model, a
tool or a client has seen is on disk, however many drafts became one commit."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from agency.store.sqlite import Storage
from tests.faults import test_crash_at_every_commit as scenario
from tests.support.crashes import PARTS, commits_of, in_a_process


@pytest.fixture(scope="module", autouse=True)
def shared_storage() -> object:
    """Every runtime of this module, and of the processes that it forks, has its files on shared storage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agency.local.Storage", partial(Storage, shared=True))
        yield


@pytest.fixture(scope="module")
def undisturbed(shared_storage: object, tmp_path_factory: pytest.TempPathFactory) -> scenario.Threads:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert in_a_process(lambda: asyncio.run(scenario.operate(folder))) == 0
    assert not list(folder.glob("threads/*-wal")), "it is on shared storage"
    return scenario.Threads(folder)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_late_commit_loses_nothing_and_repeats_nothing_that_had_ended(
    when: Literal["before", "after"], part: int, undisturbed: scenario.Threads, tmp_path: Path
) -> None:
    killed = 0
    for n in commits_of(part):
        folder = tmp_path / str(n)
        folder.mkdir()
        status = scenario.crash(folder, n, when)
        ended_before = scenario.Threads(folder).ended_calls()
        assert in_a_process(lambda folder=folder: asyncio.run(scenario.operate(folder))) == 0, n  # type: ignore[misc]  # bound now
        scenario.check(scenario.Threads(folder), undisturbed, ended_before)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed >= 30 // PARTS
