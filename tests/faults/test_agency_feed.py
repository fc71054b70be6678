"""An agency's feed while hosts and the directory die: every event once, by cursors without a gap.

Two clients follow it. Both are cut off again and again, and go on after some cursor that they have got, not always the
last one. When all is over, they have the same events under the same cursors, and the index says what the files say.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors import AgencyHandle, Cluster, Settings
from actors.address import Address, Files
from agency.store.peek import events_between, glance
from tests.support.clusters import all_threads
from tests.support.processes import kill, session_of, titled
from tests.support.scripted_system import calls, say, script
from tests.support.waiting import cancel_all, eventually

pytestmark = pytest.mark.timeout(300)  # processes start and die, on machines that may be slow
THREADS = 16
KILLS = 7
PATIENCE = 90.0

Key = tuple[str, int]


@dataclass
class Follower:
    """Somebody who follows an agency, and is cut off now and then."""

    agency: AgencyHandle
    chance: random.Random
    seen: dict[int, Key] = field(default_factory=dict)
    cuts: int = 0

    async def go_on(self) -> None:
        while True:
            after = self._somewhere()
            feed = self.agency.events(after)
            left = self.chance.randint(20, 200)
            try:
                async for text in feed:
                    after = self._take(json.loads(text), after)
                    left -= 1
                    if not left:
                        break
            finally:
                await feed.aclose()
            self.cuts += 1

    def _somewhere(self) -> int:
        """Where to go on: at the end, or somewhat before."""
        end = max(self.seen, default=0)
        return max(0, end - self.chance.choice((0, 0, 0, 5, 50)))

    def _take(self, event: dict[str, Any], after: int) -> int:
        cursor, key = event["cursor"], (event["threadId"], event["seq"])
        assert cursor == after + 1, f"{cursor} came after {after}"
        assert self.seen.setdefault(cursor, key) == key, "a cursor means the same for ever"
        return after + 1


async def further(followers: list[Follower], seen: list[int]) -> None:
    """Return when each has got more than it had then."""
    await eventually(lambda: all(len(each.seen) > n for each, n in zip(followers, seen, strict=True)), PATIENCE)


def work(ledger: Path, i: int) -> str:
    book = str(ledger)
    child = script(calls(("note", {"ledger": book, "what": f"child{i}", "seconds": 0.2})), say(f"part {i}"))
    return script(
        calls(*(("note", {"ledger": book, "what": f"{x}{i}", "seconds": 0.2}) for x in "ab"), delay=0.2 + i % 7 * 0.2),
        calls(("task", {"description": child, "subagentType": "worker", "timeoutMs": 120_000}), delay=0.5),
        *(calls(("note", {"ledger": book, "what": f"{x}{i}"}), delay=0.4) for x in "cdef"),
        say(f"done {i}", delay=0.5 + i % 5 * 0.3),
    )


def truth(settings: Settings, agency: str) -> dict[str, tuple[str, str | None, int]]:
    """What the files of all threads say."""
    found = {address.thread: glance(Files(settings.data_dir).of(address)) for address in _all(settings, agency)}
    return {thread: (seen.status, seen.reason, seen.seq) for thread, seen in found.items()}


def stored(settings: Settings, agency: str) -> set[Key]:
    paths = [Files(settings.data_dir).of(address) for address in _all(settings, agency)]
    return {(event.thread_id, event.seq or 0) for path in paths for event in events_between(path, 1, 10_000, "")}


def _all(settings: Settings, agency: str) -> list[Address]:
    return list(Files(settings.data_dir).threads(agency))


async def index(agency: AgencyHandle) -> dict[str, tuple[str, str | None, int]]:
    found = (await agency.threads(limit=1_000)).threads
    return {each.id: (each.status, each.reason, each.seq) for each in found}


async def test_an_agencys_feed_has_no_gap_and_no_repeat_while_hosts_and_the_directory_die(
    own_ray: Settings, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    clusters = [await Cluster.join(own_ray), await Cluster.join(own_ray)]
    agency = await clusters[0].create_agency("load")
    made = await asyncio.gather(*(agency.create_thread("clerk", work(ledger, i)) for i in range(THREADS)))
    followers = [Follower(cluster.agency(agency.id), random.Random(i)) for i, cluster in enumerate(clusters)]
    following = [asyncio.create_task(follower.go_on()) for follower in followers]

    session = session_of(own_ray)
    for killed in range(KILLS):
        seen = [len(follower.seen) for follower in followers]
        kill(random.choice(await eventually(lambda: titled("ray::Host", session), PATIENCE)))
        if killed == KILLS // 2:
            kill(*titled("ray::Directory", session))
        if killed % 2:
            kill(random.choice(await eventually(lambda: titled("ray::AgencyHost", session), PATIENCE)))
        await further(followers, seen)
    runs = await asyncio.gather(*(thread.wait(PATIENCE) for thread in made))
    assert {run.status for run in runs} == {"completed"}

    async def at_rest() -> bool:
        return {status for status, _, _ in (await index(agency)).values()} == {"completed"}

    await eventually(at_rest, PATIENCE)
    expected = stored(own_ray, agency.id)
    assert len(await all_threads(agency)) == 2 * THREADS
    await eventually(lambda: all(len(follower.seen) >= len(expected) for follower in followers), PATIENCE)
    assert await index(agency) == truth(own_ray, agency.id)
    assert not any(task.done() for task in following)
    await cancel_all(following)
    for follower in followers:
        assert sorted(follower.seen) == list(range(1, len(expected) + 1)), "cursors are dense"
        assert set(follower.seen.values()) == expected, "every event once"
        assert follower.cuts > 2
    assert followers[0].seen == followers[1].seen
    await clusters[1].close()
    await clusters[0].down()
