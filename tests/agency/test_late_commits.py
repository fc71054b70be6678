"""On shared storage a worker thread ends each commit. The event loop goes on meanwhile, and nothing leaves the process
before it is on disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agency import AgentSystem, EventType, LocalRuntime, Thread, tool
from agency.errors import StaleActivation, StoreError
from agency.store import sqlite
from agency.store.late_commits import LateCommits
from agency.store.sqlite import Storage
from agency.store.store import ThreadStore
from agency.testing import ScriptedModel, call
from tests.support.held_disk import PATIENCE, HeldDisk


@pytest.fixture
def disk() -> Iterator[HeldDisk]:
    found = HeldDisk()
    yield found
    found.let_go()


@tool(safe=True)
async def shout(word: str) -> str:
    """Shout."""
    return word.upper()


class SharedRuntime(LocalRuntime):
    def __init__(self, folder: Path, script: list[object]) -> None:
        system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})  # type: ignore[arg-type]
        super().__init__(system.add_tool(shout).add_agent(name="clerk", description="-", prompt="-"), folder)
        self._storage = Storage(shared=True)


async def opened(runtime: LocalRuntime, disk: HeldDisk) -> Thread:
    thread = await runtime.create_thread("clerk", thread_id="t")
    await thread.durable()
    disk.in_main_thread = 0
    sqlite.commit_hook = disk.commit
    return thread


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    sqlite.commit_hook = None


async def test_nothing_leaves_the_process_before_it_is_on_disk_and_the_loop_goes_on(
    tmp_path: Path, disk: HeldDisk
) -> None:
    runtime = SharedRuntime(tmp_path, [call("shout", word="a"), "done"])
    async with runtime:
        thread = await opened(runtime, disk)
        model = runtime._system.model("scripted:any", {})[0]
        assert isinstance(model, ScriptedModel)
        seen = [event.type for event in thread.reader().take()]
        disk.hold()
        accepted = await thread.invoke("go")
        await disk.is_held()
        durable = asyncio.ensure_future(thread.durable())
        for _ in range(100):
            await asyncio.sleep(0)
        assert accepted.status == "running"
        assert not durable.done()
        assert [event.type for event in thread.reader().take()] == seen, "readers see what is on disk"
        assert model.requests == [], "no model is asked about what may be lost"
        disk.let_go()
        await durable
        assert EventType.RUN_STARTED in [event.type for event in thread.reader().take()]
        assert (await thread.wait(PATIENCE)).status == "completed"
        assert disk.in_main_thread == 0, "no commit of a run was made on the event loop"


async def test_a_commit_that_fails_ends_the_activation_and_the_file_is_as_it_was(
    tmp_path: Path, disk: HeldDisk
) -> None:
    runtime = SharedRuntime(tmp_path, ["done"])
    async with runtime:
        thread = await opened(runtime, disk)
        before = [event.seq for event in thread.reader().take()]
        disk.fails = True
        await thread.invoke("go")
        with pytest.raises(StoreError, match="the disk is full"):
            await thread.durable()
        assert not thread.alive
        disk.fails = False
    sqlite.commit_hook = None
    async with SharedRuntime(tmp_path, ["done"]) as runtime:
        thread = await runtime.thread("t")
        assert [event.seq for event in thread.reader().take()] == before
        assert (await thread.invoke("go")).status == "running"
        assert (await thread.wait(PATIENCE)).status == "completed"


async def test_what_is_applied_during_a_commit_is_committed_after_it_and_told_in_order(tmp_path: Path) -> None:
    told: list[int] = []
    free, commits = threading.Event(), 0

    def commit() -> None:
        nonlocal commits
        commits += 1
        assert free.wait(PATIENCE)

    late = LateCommits(commit, lambda error: told.append(-1), 0)
    for seq in (1, 2):
        late.applied(seq)
        late.when_durable(lambda seq=seq: told.append(seq))  # type: ignore[misc]  # bound now
    async with asyncio.timeout(PATIENCE):
        while not late.committing:
            await asyncio.sleep(0.001)
    late.applied(3)
    late.when_durable(lambda: told.append(3))
    assert (told, late.seq) == ([], 0)
    free.set()
    async with asyncio.timeout(PATIENCE):
        await late.durable()
    assert (told, late.seq, commits) == ([1, 2, 3], 3, 2), "two drafts became one commit"
    late.when_durable(lambda: told.append(4))
    assert told[-1] == 4, "what is on disk is told at once"


async def test_closing_commits_what_was_applied(tmp_path: Path) -> None:
    async with SharedRuntime(tmp_path, ["done"]) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
    store = ThreadStore.open(tmp_path / "t.db", storage=Storage(shared=True))
    assert EventType.RUN_STARTED in [event.type for event in store.events()]
    store.close()


async def test_an_overtaken_activation_writes_nothing(tmp_path: Path) -> None:
    async with SharedRuntime(tmp_path, ["done"]) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.durable()
        other = await asyncio.to_thread(ThreadStore.open, tmp_path / "t.db", storage=Storage(shared=True))
        with pytest.raises(StaleActivation):
            await thread.invoke("go")
        assert not thread.alive
        assert [event.type for event in other.events()] == [EventType.THREAD_CREATED]
        other.close()


async def test_an_error_that_takes_back_the_open_transaction_is_told_to_those_that_wait_for_it(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    store = ThreadStore.open(tmp_path / "a.db", create={"thread_id": "a"}, storage=Storage(shared=True))
    store.commit_late(errors.append)
    kept, lost = store.draft(), store.draft()
    kept.put("tool", "kept", 1)
    lost.put("tool", "lost", 2)
    store.commit(kept)
    durable = asyncio.ensure_future(store.durable())
    await asyncio.sleep(0)
    connection = store._db
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "joined", taken_back)
        with pytest.raises(StoreError):
            store.commit(lost)
    assert not connection.in_transaction
    with pytest.raises(StoreError):
        await durable
    assert len(errors) == 1
    store.close()


@contextmanager
def taken_back(db: sqlite3.Connection) -> Iterator[bool]:
    """As SQLite does by itself when there is no room."""
    yield db.in_transaction
    db.execute("ROLLBACK")
    raise sqlite3.OperationalError("database or disk is full")
