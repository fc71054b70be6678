"""What a disk without room and a damaged file are told as, by the store itself and through a runtime."""

from __future__ import annotations

import asyncio
import resource
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agency import (
    AgentSystem,
    Damaged,
    LocalRuntime,
    ModelRequest,
    NotFound,
    StorageFull,
    StoreError,
    Thread,
    tool,
)
from agency.store import sqlite
from agency.store.store import ThreadStore
from agency.testing import Line, ScriptedModel, call
from tests.support.crashes import in_a_process
from tests.support.damage import DAMAGES, empty
from tests.support.thread_files import messages_of

ROOM = 400_000


def system(calls: int, ran: list[str]) -> AgentSystem:
    """An agent that makes so many calls, one after the other, whatever its process was before."""

    @tool
    async def note(what: str) -> str:
        """Note something."""
        ran.append(what)
        return "x" * 30_000

    def say(request: ModelRequest) -> Line:
        n = sum(each.role == "tool" for each in request.messages)
        return "done" if n == calls else [call("note").model_copy(update={"args": {"what": f"{n}"}, "id": f"c{n}"})]

    made = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(say)})
    return made.add_tool(note).add_agent(name="clerk", description="Notes.", prompt="Note.")


async def _end(thread: Thread) -> None:
    """Wait until its run has ended, or its file could not be written."""
    try:
        await thread.wait(timeout=20)
    except StoreError as error:
        assert isinstance(error, StorageFull), error
        assert "clerk.db" in str(error) and "clerk.db" not in error.told
        raise


def test_a_run_that_meets_a_full_disk_goes_on_when_there_is_room_and_loses_nothing(tmp_path: Path) -> None:
    """The limit on the size of files stands for the disk: it needs no rights, and it counts for one process."""

    async def run(limited: bool) -> None:
        ran: list[str] = []
        if limited:
            async with LocalRuntime(system(40, ran), tmp_path) as runtime:
                thread = await runtime.create_thread("clerk", thread_id="clerk")
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
                await thread.invoke("note")
                with pytest.raises(StorageFull):
                    await _end(thread)
            assert 2 < len(ran) < 40
            return
        done = sum(each.role == "tool" for each in messages_of(tmp_path / "clerk.db"))
        assert done > 2
        async with LocalRuntime(system(40, ran), tmp_path) as runtime:
            thread = await runtime.thread("clerk")
            assert (await thread.wait(timeout=20)).data == "done"
            results = [each.tool_call_id for each in (await thread.state()).messages if each.role == "tool"]
        assert results == [f"c{n}" for n in range(40)]
        assert len(ran) <= 40 - done + 1  # at most the call whose result had no room ran again

    assert in_a_process(lambda: asyncio.run(run(limited=True))) == 0
    assert in_a_process(lambda: asyncio.run(run(limited=False))) == 0


def test_a_store_without_room_says_so_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    store = ThreadStore.open(tmp_path / "a.db", create={"thread_id": "a"})
    pages = int(str(store.query("PRAGMA page_count")[0][0]))
    store.query(f"PRAGMA max_page_count = {pages}")
    big = store.draft()
    big.put("owner", "key", "x" * 1_000_000)
    with pytest.raises(StorageFull, match=r"cannot write .*a\.db: database or disk is full"):
        store.commit(big)
    store.query("PRAGMA max_page_count = 100000")
    store.commit(big)
    store.close()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
async def test_a_damaged_file_is_told_as_damaged_and_nothing_of_it_is_changed(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    made = system(1, [])
    async with LocalRuntime(made, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="clerk")
        await thread.invoke("note")
        await thread.wait(timeout=10)
    path = tmp_path / "clerk.db"
    damage(path)
    before = path.read_bytes() if path.is_file() else b""
    async with LocalRuntime(made, tmp_path) as runtime:
        with pytest.raises((Damaged, NotFound) if damage is empty else Damaged) as raised:
            (await (await runtime.thread("clerk")).state()).messages  # noqa: B018  # what fails may be either
    assert raised.value.told and "clerk.db" not in raised.value.told
    if damage is not empty:
        assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, StorageFull),
        (sqlite3.SQLITE_IOERR_WRITE, StorageFull),
        (sqlite3.SQLITE_READONLY, StorageFull),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreError),
        (sqlite3.SQLITE_CORRUPT, Damaged),
        (sqlite3.SQLITE_CORRUPT_INDEX, Damaged),
        (sqlite3.SQLITE_NOTADB, Damaged),
        (sqlite3.SQLITE_IOERR_SHORT_READ, Damaged),
        (sqlite3.SQLITE_IOERR_READ, StoreError),
        (sqlite3.SQLITE_CANTOPEN, StoreError),
        (sqlite3.SQLITE_BUSY, StoreError),
    ],
)
def test_each_code_of_sqlite_is_one_of_three_things(code: int, kind: type[StoreError], tmp_path: Path) -> None:
    error = sqlite3.OperationalError("said by SQLite")
    error.sqlite_errorcode = code
    assert type(sqlite.refused("read", tmp_path / "a.db", error)) is kind
    known = sqlite.as_store_error(error)
    assert known is None if code == sqlite3.SQLITE_READONLY_DBMOVED else type(known) is kind
    assert sqlite.is_damage(error) == (kind is Damaged)
