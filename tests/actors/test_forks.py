"""Forks as actors: of threads that are awake, at work, asleep or lost, and what their agency knows of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from actors import AgencyHandle, Cluster, ThreadHandle
from actors.address import Address, Files
from actors.agency.creation import Creation
from actors.agency.store import AgencyStore
from agency import Blueprint, EventType, ForkInfo, InvalidInput, KeyReused, NotFound
from agency.store.forking import find_origin
from agency.store.peek import holds_thread
from tests.support.clusters import Install, asleep
from tests.support.scripted_system import calls, holding, let_go, noting, say, script, task
from tests.support.waiting import PATIENCE, eventually


async def contents(thread: ThreadHandle) -> list[str]:
    return [message.content for message in (await thread.state()).messages]


async def told(agency: AgencyHandle) -> list[Any]:
    found: list[Any] = []
    while page := await agency.stored_events(len(found), 1_000):
        found += map(json.loads, page)
    return found


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


async def test_a_fork_begins_as_its_original_was_and_goes_on_by_itself(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(calls(write("/a", "one")), say("first")))
    await thread.wait(PATIENCE)
    before = await thread.stored_events(limit=1_000)
    await thread.invoke(script(calls(write("/a", "two")), say("second")))
    await thread.wait(PATIENCE)
    fork = await thread.fork(script(say("third")), after_seq=len(before))
    assert (await fork.wait(PATIENCE)).data == "third"
    metadata = await fork.metadata()
    assert metadata.forked_from == ForkInfo(thread_id=thread.id, seq=len(before))
    assert (metadata.agent_type, metadata.parent, metadata.agency_id) == ("clerk", None, agency.id)
    assert (await fork.state()).more["files"] == {"/a": "one"}
    assert (await thread.state()).more["files"] == {"/a": "two"}
    assert (await contents(fork))[-1] == "third"
    assert (await contents(thread))[-1] == "second"
    copied = await fork.stored_events(limit=1_000)
    assert [(e.seq, e.ts, e.type) for e in copied[: len(before)]] == [(e.seq, e.ts, e.type) for e in before]
    assert copied[len(before)].data["forkedFrom"] == {"threadId": thread.id, "seq": len(before)}
    assert {event.thread_id for event in copied} == {fork.id}


async def test_a_thread_at_work_is_forked_and_notices_nothing(agency: AgencyHandle, ledger: Path) -> None:
    lines = script(calls(holding(ledger, "x"), task(calls(holding(ledger, "y")), say("found"))), say("done"))
    thread = await agency.create_thread("clerk", lines)
    await eventually(lambda: all(begun in ledger.read_text() for begun in ("begin:x", "begin:y")))
    fork = await thread.fork()
    run = await fork.run()
    assert (run.status, run.errors[0].message) == ("canceled", "the thread was forked in the middle of this run")
    messages = (await fork.state()).messages
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool"]
    assert all("not run here" in message.content for message in messages[2:])
    assert (await fork.invoke(script(say("on its own")))).run_id == f"{fork.id}.2"
    assert (await fork.wait(PATIENCE)).data == "on its own"
    let_go(ledger, "x")
    let_go(ledger, "y")
    assert (await thread.wait(PATIENCE)).data == "done"
    assert ledger.read_text().count("begin:x") == 1


async def test_canceling_a_fork_leaves_the_originals_children_alone(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread(
        "clerk", script(calls(task(calls(holding(ledger, "x")), say("found"))), say("ok"))
    )
    await eventually(lambda: "begin:x" in ledger.read_text())
    fork = await thread.fork(script(say("late", delay=30)))
    more: dict[str, Any] = (await fork.state()).more
    assert [link["status"] for link in more["subagents"]] == ["canceled"]
    await fork.cancel()
    assert (await fork.run()).status == "canceled"
    let_go(ledger, "x")
    assert (await thread.wait(PATIENCE)).data == "ok"
    child = (await agency.threads(parent=thread.id)).threads[0]
    copy = await agency.thread(child.id).fork()
    assert (await copy.metadata()).parent is None, "the fork of a child reports to nobody"
    assert (await agency.threads(parent=thread.id)).threads == (child,)


async def test_what_the_agency_knows_of_a_fork(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("broker", script(say("priced")))
    await thread.wait(PATIENCE)
    used = await agency.usage()
    fork = await thread.fork()
    summary = await fork.info()
    assert summary.forked_from == ForkInfo(thread_id=thread.id, seq=(await thread.info()).seq)
    assert (summary.status, summary.seq, summary.tokens_used.total) == ("completed", summary.forked_from.seq + 1, 0)
    assert [each.id for each in (await agency.threads()).threads] == [thread.id, fork.id]
    after = await agency.usage()
    assert (after.turns, after.tokens_used, after.cost_usd) == (used.turns, used.tokens_used, used.cost_usd)
    assert after.threads == 2
    events = await told(agency)
    assert [event["cursor"] for event in events] == list(range(1, len(events) + 1))
    own = [event for event in events if event["threadId"] == fork.id]
    assert [event["seq"] for event in own] == list(range(1, summary.seq + 1))
    await fork.invoke(script(say("again")))
    await fork.wait(PATIENCE)
    assert (await agency.usage()).tokens_used.total == 2 * used.tokens_used.total
    assert (await fork.info()).tokens_used.total == used.tokens_used.total


async def test_a_message_is_edited_and_run_again_and_a_key_makes_one_fork(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("one")))
    await thread.wait(PATIENCE)
    await thread.invoke(script(say("two")))
    await thread.wait(PATIENCE)
    second = (await thread.state()).messages[2].id
    wanted: dict[str, Any] = {"before_message": second, "thread_id": "thr_edited"}
    forks = await asyncio.gather(*(thread.fork(script(say("other")), **wanted) for _ in range(3)))
    again = await thread.fork(script(say("other")), **wanted)
    with pytest.raises(KeyReused):
        await thread.fork(script(say("never said")), **wanted)
    assert {fork.id for fork in (*forks, again)} == {"thr_edited"}
    assert (await again.wait(PATIENCE)).data == "other"
    assert [each for each in await contents(again) if not each.startswith("[")] == ["one", "other"]
    with pytest.raises(KeyReused):
        await again.fork(thread_id=thread.id)


async def test_what_cannot_be_forked_is_refused_and_leaves_nothing(cluster: Cluster, agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("one")))
    await thread.wait(PATIENCE)
    other = await cluster.create_agency("another")
    for wrong in ({"after_seq": 10_000}, {"after_seq": 0}, {"before_message": "m7.7"}, {"after_seq": -1}):
        with pytest.raises(InvalidInput):
            await thread.fork(**wrong)
    with pytest.raises(InvalidInput, match="one of the two"):
        await thread.fork(after_seq=1, before_message="m1.1")
    for nobody in (agency.thread("thr_nobody"), other.thread(thread.id)):
        with pytest.raises(NotFound):
            await nobody.fork()
    assert [each.id for each in (await agency.threads()).threads] == [thread.id]
    assert (await other.threads()).threads == ()


async def test_a_thread_that_sleeps_is_forked_without_being_woken(install: Install) -> None:
    cluster = await install(hibernate_after=0.3)
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(say("one")))
    await thread.wait(PATIENCE)
    await eventually(lambda: asleep(cluster, thread))
    path = Files(cluster.settings.data_dir).of(thread.address)
    before = path.read_bytes()
    fork = await thread.fork(script(say("two")))
    assert (await fork.wait(PATIENCE)).data == "two"
    assert await asleep(cluster, thread)
    assert path.read_bytes() == before
    await eventually(lambda: asleep(cluster, fork))
    assert (await contents(fork))[-1] == "two"


@pytest.mark.kills
async def test_a_fork_outlives_the_deaths_of_hosts_and_the_end_of_its_original(install: Install, ledger: Path) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(calls(noting(ledger, "x", 0.5)), say("done")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    for host in (await cluster.status()).hosts:
        assert host.pid is not None
        os.kill(host.pid, signal.SIGKILL)
    fork = await thread.fork(script(say("unharmed", delay=0.5)))
    for host in (await cluster.status()).hosts:
        if host.pid is not None:
            os.kill(host.pid, signal.SIGKILL)
    assert (await fork.wait(60)).data == "unharmed"
    assert (await thread.wait(60)).data == "done"
    await agency.delete_thread(thread.id)
    assert (await contents(fork))[-1] == "unharmed"
    assert (await fork.metadata()).forked_from is not None
    again = await fork.fork(after_seq=3)
    assert [event.type for event in await again.stored_events()][3:] == [
        EventType.THREAD_CREATED,
        EventType.RUN_CANCELED,
    ]


async def test_a_fork_that_an_agency_did_not_live_to_make_is_made_when_it_is_back(install: Install) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(say("one")))
    gone = await agency.create_thread("clerk", script(say("gone")))
    for each in (thread, gone):
        await each.wait(PATIENCE)
    await cluster.stop()
    files = Files(cluster.settings.data_dir)
    store = AgencyStore.open(files.of(Address(agency.id)), cluster.settings.files)
    for source in (thread, gone):
        origin = find_origin(files.of(source.address))
        creation = Creation(
            metadata=origin.fork(f"of_{source.id}"),
            blueprint=Blueprint.model_validate_json(origin.blueprint),
            fork=origin.cut,
        )
        store.add_thread(creation)
    store.close()
    files.remove(gone.address)
    again = await install()
    fork = again.thread(agency.id, f"of_{thread.id}")
    await eventually(lambda: holds_thread(files.of(fork.address)))
    assert (await contents(fork))[-1] == "one"

    async def settled() -> bool:
        return f"of_{gone.id}" not in {each.id for each in (await again.agency(agency.id).threads()).threads}

    await eventually(settled)
