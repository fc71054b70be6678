"""Code that is written against `ThreadMaker` and `AnyThread` does the same in one process and at a server."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import BaseModel

from actors import AgencyHandle, ThreadHandle
from agency import AnyThread, LocalRuntime, RunUnfinished, Thread, ThreadMaker, client
from agency.client import AsyncClient
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say, script, system


class Order(BaseModel):
    order: int


def is_maker(given: ThreadMaker) -> ThreadMaker:
    """For the type checker."""
    return given


def of_a_cluster(given: AgencyHandle) -> ThreadMaker:
    """For the type checker, too."""
    return given


async def story(threads: ThreadMaker, ledger: Path) -> list[object]:
    """A thread from its first message to its last; what there is to tell of it."""
    pays = script(calls(("charge", {"ledger": str(ledger), "what": "rye"})), say('{"order": 7}'))
    thread: AnyThread = await threads.create_thread("careful", pays, files={"/note.txt": "7"}, output_schema=Order)
    with pytest.raises(RunUnfinished, match="decide on charge"):
        await thread.wait(30, output=Order)
    await thread.approve()
    told: list[object] = [await thread.wait(30, output=Order), await thread.read_file("/note.txt")]
    await thread.invoke(script(say("never said", delay=60)))
    assert (await thread.invoke(script(say("the next one")), when="next_run")).status == "queued"
    await thread.cancel()
    told.append((await thread.wait(30)).data)
    async with aclosing(thread.events()) as events:
        async for event in events:
            if event.type == "agent.completed":
                told.append(event.data["result"])
                break
    return told


async def test_the_same_function_runs_in_one_process_and_at_a_server(gateway: Server, tmp_path: Path) -> None:
    async with LocalRuntime(system, tmp_path / "threads") as runtime:
        here = await story(is_maker(runtime), tmp_path / "here")
    async with AsyncClient(gateway.url) as other:
        there = await story(is_maker(await other.create_agency("bakery")), tmp_path / "there")

    assert here == there == [Order(order=7), b"7", "the next one", {"order": 7}]


def test_what_threads_have_in_common_has_the_same_names_everywhere() -> None:
    common = {name for name in vars(AnyThread) if not name.startswith("_")}
    assert {"invoke", "wait", "approve", "deny", "decide", "cancel", "pause", "resume", "settle", "events"} <= common
    for kind in (Thread, ThreadHandle, client.AsyncThread, client.Thread):
        assert {name for name in common - {"id"} if not callable(getattr(kind, name, None))} == set()
