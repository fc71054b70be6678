"""Real `kill -9`, under load: of one host after the other, of the directory, of everything. Every run ends right.

A hundred threads do the same work: two tools at once, one that is tried again after a timer, one that must not happen
twice, and a subagent with a tool of its own. Some of them are watched all the time.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import ray

from actors import AgencyHandle, Cluster, Settings, ThreadHandle
from actors.cluster import local_ray
from agency import Event, EventType
from agency.store.peek import glance
from tests.support.clusters import all_threads
from tests.support.processes import kill, session_of, titled
from tests.support.scripted_system import calls, say, script
from tests.support.waiting import cancel_all, eventually

pytestmark = pytest.mark.timeout(300)  # processes start and die, on machines that may be slow
THREADS = 100
WATCHED = 10
KILLS = 8
LOOKS = 5.0
"""Seconds after which each process has looked whether its node has ended."""
BETWEEN = 40
"""What is done, in entries of the ledger, before the next host is killed: each dies in the middle of work."""
PATIENCE = 60.0
ENDS = {EventType.TOOL_OUTPUT, EventType.TOOL_ERROR}


def work(ledger: Path, i: int) -> str:
    book = str(ledger)
    child = script(calls(("note", {"ledger": book, "what": f"child{i}", "seconds": 0.3})), say(f"part {i}", delay=0.5))
    return script(
        calls(*(("note", {"ledger": book, "what": f"{x}{i}", "seconds": 0.2}) for x in "ab"), delay=0.5 + i % 7 * 0.3),
        calls(("flaky", {"ledger": book, "what": f"f{i}", "after_ms": 700})),
        calls(("charge", {"ledger": book, "what": f"c{i}", "seconds": 0.1}), delay=0.5),
        calls(("task", {"description": child, "subagentType": "worker", "timeoutMs": 120_000})),
        say(f"done {i}", delay=1.0 + i % 5 * 0.5),
    )


@dataclass
class Watch:
    """What somebody who watches a thread has seen of it."""

    thread: str
    seen: list[Event] = field(default_factory=list)

    async def go_on(self, agency: AgencyHandle) -> None:
        async for event in agency.thread(self.thread).events(self.seen[-1].seq or 0 if self.seen else 0):
            if event.seq is not None:
                self.seen.append(event)


@dataclass
class Entry:
    what: str
    key: str
    at: int


def entries(ledger: Path) -> list[Entry]:
    found = (line.split() for line in ledger.read_text().splitlines())
    return [Entry(what, key, int(at)) for what, key, _, at in found]


async def noted_more_than(ledger: Path, many: int) -> None:
    await eventually(lambda: len(entries(ledger)) > many, PATIENCE)


async def test_every_run_ends_right_while_hosts_agency_hosts_the_directory_and_then_everything_die(
    own_ray: Settings, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    cluster = await Cluster.join(own_ray)
    agency = await cluster.create_agency("load")
    made = await asyncio.gather(*(agency.create_thread("clerk", work(ledger, i)) for i in range(THREADS)))
    ids = [thread.id for thread in made]
    watches = [Watch(thread_id) for thread_id in ids[:WATCHED]]
    watching = [asyncio.create_task(watch.go_on(agency)) for watch in watches]

    session = session_of(own_ray)
    for killed in range(KILLS):
        await noted_more_than(ledger, killed * BETWEEN)
        kill(random.choice(await eventually(lambda: titled("ray::Host", session), PATIENCE)))
        if killed == KILLS // 2:
            kill(*titled("ray::Directory", session))
        if killed % 2:
            kill(random.choice(await eventually(lambda: titled("ray::AgencyHost", session), PATIENCE)))
    kill(*local_ray.session(session))
    unfinished = [path for path in own_ray.data_dir.rglob("thr_*.db") if glance(path).due is not None]
    assert len(unfinished) > THREADS / 4, "there was work in progress when everything died"

    await cancel_all(watching)
    await cluster.close()
    ray.shutdown()
    cluster = await Cluster.join(own_ray)
    agency = cluster.agency(agency.id)
    watching = [asyncio.create_task(watch.go_on(agency)) for watch in watches]
    runs = await asyncio.gather(*(agency.thread(thread_id).wait(120) for thread_id in ids))

    assert {run.status for run in runs} == {"completed"}
    assert [run.data for run in runs] == [f"done {i}" for i in range(THREADS)]
    noted = entries(ledger)
    assert len({(entry.what, entry.key) for entry in noted}) < len(noted), "some calls were interrupted"
    children = await all_threads(agency)
    assert len(children) == 2 * THREADS, "one child each, and no twins"
    stories = dict(zip(children, await asyncio.gather(*(story(agency.thread(each)) for each in children)), strict=True))
    for thread_id, events in stories.items():
        check_calls(thread_id, events, noted)
    await check_feed(agency, [event for events in stories.values() for event in events])
    for i in range(THREADS):
        assert sum(entry.what == f"charge:c{i}" for entry in noted) == 1, "what must not happen twice did not"
    for watch in watches:
        stored = stories[watch.thread]
        await caught_up(watch, stored)
        assert watch.seen == stored, "no gap, no repeat, nothing changed"
    await cancel_all(watching)
    await cluster.down()


async def story(thread: ThreadHandle) -> list[Event]:
    return await thread.stored_events(0, 1_000)


def check_calls(thread_id: str, events: list[Event], noted: list[Entry]) -> None:
    """Every call has one result, and none began again after that."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    ended: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.type in ENDS:
            ended[str(event.data["callId"])].append(event)
    begun = {str(event.data["callId"]) for event in events if event.type == EventType.TOOL_STARTED}
    assert ended.keys() == begun
    for call_id, ends in ended.items():
        again = [entry for entry in noted if re.fullmatch(rf"{thread_id}\.\d+\.\d+\.{re.escape(call_id)}", entry.key)]
        last = milliseconds(ends[-1])
        assert all(entry.at <= last for entry in again), "a call that had ended ran again"


async def check_feed(agency: AgencyHandle, stored: list[Event]) -> None:
    """Every event of every thread is in the agency's feed, once, by cursors without a gap."""
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        async for text in agency.events():
            seen.append(json.loads(text))
            if len(seen) == len(stored):
                break
    assert [event["cursor"] for event in seen] == list(range(1, len(stored) + 1))
    assert {(event["threadId"], event["seq"]) for event in seen} == {(event.thread_id, event.seq) for event in stored}


def milliseconds(event: Event) -> int:
    return int(datetime.fromisoformat(event.ts).timestamp() * 1000) + 1


async def caught_up(watch: Watch, stored: list[Event]) -> None:
    await eventually(lambda: len(watch.seen) >= len(stored), 30)


async def test_processes_outlive_the_one_that_they_were_forked_from(own_ray: Settings) -> None:
    cluster = await Cluster.join(own_ray)
    agency = await cluster.create_agency("calm")
    await agency.create_thread("clerk")
    session = session_of(own_ray)

    def ours() -> set[int]:
        return {pid for kind in ("Directory", "Host", "AgencyHost") for pid in titled(f"ray::{kind}", session)}

    before = {each.pid for each in (await cluster.status()).hosts if each.threads}
    before |= {each.pid for each in (await cluster.status()).agency_hosts}
    kill(*titled("ray::ForkServer", session))
    await asyncio.sleep(2 * LOOKS)
    assert before <= ours(), "they look every so often whether their node has ended"
    await cluster.down()
