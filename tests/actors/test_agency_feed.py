"""One feed for a whole agency: every stored event of its threads once, by cursors that never expire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import AgencyHandle, Cluster, Settings, ThreadHandle
from actors.address import Files
from actors.feeds.host_feed import NumberedEvent
from agency import Event, InvalidInput, NotFound
from tests.support.clusters import Install, asleep
from tests.support.internals import followed_agencies, kept_for
from tests.support.scripted_system import calls, noting, say, script, task
from tests.support.waiting import PATIENCE, eventually

Seen = list[dict[str, Any]]


async def all_of(agency: AgencyHandle) -> Seen:
    """Every event so far, read in small pages."""
    found: Seen = []
    while page := await agency.stored_events(found[-1]["cursor"] if found else 0, 7):
        found += map(json.loads, page)
        if len(page) < 7:
            break
    return found


async def truth(*threads: ThreadHandle) -> dict[tuple[str, int], dict[str, Any]]:
    """The events of threads as they have them."""
    found = [event for thread in threads for event in await thread.stored_events(limit=1_000)]
    return {(event.thread_id, event.seq or 0): json.loads(event.model_dump_json()) for event in found}


def check(seen: Seen, expected: dict[tuple[str, int], dict[str, Any]], *, first: int = 1) -> None:
    """Each event once, unchanged, in the order of its thread, and numbered without a gap."""
    assert [event.pop("cursor") for event in seen] == list(range(first, first + len(seen)))
    assert {(event["threadId"], event["seq"]): event for event in seen} == expected
    assert len(seen) == len(expected)
    for thread in {event["threadId"] for event in seen}:
        own = [event["seq"] for event in seen if event["threadId"] == thread]
        assert own == sorted(own)


async def read(events: AsyncIterator[str] | AsyncIterator[NumberedEvent], count: int) -> Seen:
    async with asyncio.timeout(PATIENCE):
        return [_parsed(await anext(events)) for _ in range(count)]


def _parsed(event: str | NumberedEvent) -> dict[str, Any]:
    if isinstance(event, str):
        return dict(json.loads(event))
    cursor, text = event
    parsed = dict(json.loads(text))
    assert parsed["cursor"] == cursor
    return parsed


async def journaled(agency: AgencyHandle, count: int) -> bool:
    return len(await all_of(agency)) == count


async def busy_family(agency: AgencyHandle, ledger: Any) -> list[ThreadHandle]:
    """Threads that have done something, and a child of one of them."""
    note = calls(noting(ledger, "x"))
    threads = [await agency.create_thread("clerk", script(note, say("done"))) for _ in range(3)]
    threads.append(await agency.create_thread("clerk", script(calls(task(say("part"))), say("whole"))))
    for thread in threads:
        await thread.wait(PATIENCE)
    (child,) = (await agency.threads(parent=threads[-1].id)).threads
    return [*threads, agency.thread(child.id)]


async def test_every_event_of_every_thread_is_in_the_feed_once(
    cluster: Cluster, agency: AgencyHandle, shared_ray: Settings, ledger: Any
) -> None:
    live = agency.events()
    begun = asyncio.create_task(anext(live))
    threads = await busy_family(agency, ledger)
    expected = await truth(*threads)
    first = json.loads(await begun)
    watched = [first, *await read(live, len(expected) - 1)]
    stored = await all_of(agency)
    assert stored == watched
    other = await Cluster.join(shared_ray)
    elsewhere = other.agency(agency.id).events(after=10)
    assert await read(elsewhere, len(expected) - 10) == watched[10:]
    check(stored, expected)

    await threads[0].invoke(script(say("more")))
    await threads[0].wait(PATIENCE)
    more = {key: event for key, event in (await truth(threads[0])).items() if key not in expected}
    for feed in (live, elsewhere):
        check(await read(feed, len(more)), more, first=len(expected) + 1)
        await feed.aclose()
    await other.close()


async def test_who_comes_now_gets_what_comes_from_now_on(agency: AgencyHandle) -> None:
    old = await agency.create_thread("clerk", script(say("old")))
    await old.wait(PATIENCE)
    count = len(await truth(old))
    await eventually(lambda: journaled(agency, count))
    feeds = [agency.events(None), agency.events(None)]
    coming = [asyncio.create_task(anext(feed)) for feed in feeds]
    await asyncio.wait(coming, timeout=0.5)  # until they are there
    new = await agency.create_thread("clerk", script(say("new")))
    for feed, first in zip(feeds, coming, strict=True):
        event = Event.model_validate({k: v for k, v in json.loads(await first).items() if k != "cursor"})
        assert (event.thread_id, event.seq) == (new.id, 1)
        assert json.loads(await first)["cursor"] == count + 1
        await feed.aclose()


async def test_events_of_a_deleted_thread_are_left_out_and_pages_are_full_all_the_same(agency: AgencyHandle) -> None:
    threads = [await agency.create_thread("clerk", script(say(name))) for name in "abc"]
    for thread in threads:
        await thread.wait(PATIENCE)
    every = await truth(*threads)
    await eventually(lambda: journaled(agency, len(every)))
    before = await all_of(agency)
    await agency.delete_thread(threads[1].id)
    left = [event for event in before if event["threadId"] != threads[1].id]
    assert await all_of(agency) == left
    page = await agency.stored_events(0, len(left))
    assert [json.loads(event)["cursor"] for event in page] == [event["cursor"] for event in left]
    feed = agency.events()
    assert await read(feed, len(left)) == left
    again = await agency.create_thread("clerk", thread_id=threads[1].id)
    (new,) = await read(feed, 1)
    assert (new["threadId"], new["seq"], new["cursor"]) == (again.id, 1, len(before) + 1)
    await feed.aclose()


async def test_reading_wakes_nobody_and_leaves_no_trace(install: Install) -> None:
    cluster = await install(hibernate_after=0.3)
    agency = await cluster.create_agency("dormitory")
    thread = await agency.create_thread("clerk", script(say("one")))
    await thread.wait(PATIENCE)
    count = len(await truth(thread))
    await eventually(lambda: asleep(cluster, thread))
    feed = agency.events()
    assert len(await read(feed, count)) == len(await all_of(agency)) == count
    assert await asleep(cluster, thread)
    folder = Files(cluster.settings.data_dir).of(thread.address).parent
    assert [path.name for path in folder.iterdir()] == [f"{thread.id}.db"]
    await feed.aclose()


async def test_an_agency_that_does_not_exist_or_is_deleted_has_no_events(
    cluster: Cluster, agency: AgencyHandle
) -> None:
    with pytest.raises(NotFound, match="agc_nobody"):
        await cluster.agency("agc_nobody").stored_events()
    with pytest.raises(NotFound, match="agc_nobody"):
        await anext(cluster.agency("agc_nobody").events())
    await (await agency.create_thread("clerk", script(say("one")))).wait(PATIENCE)
    feed = agency.events()
    await read(feed, 1)
    await agency.delete()
    with pytest.raises(NotFound, match=agency.id):
        async with asyncio.timeout(PATIENCE):
            while True:
                await anext(feed)


async def test_who_reads_slowly_reads_from_the_files_and_misses_nothing(
    cluster: Cluster, agency: AgencyHandle, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.feeds.agency_watcher.KEPT", 5)
    monkeypatch.setattr("actors.feeds.agency_watcher.PAGE", 4)
    monkeypatch.setattr("actors.feeds.agency_watcher.POLL_EVENTS", 6)
    quick, slow = cluster.subscribe_agency(agency.id, 0), cluster.subscribe_agency(agency.id, 0)
    events = aiter(slow)
    thread = await agency.create_thread(
        "clerk", script(*(calls(noting(ledger, f"{i}")) for i in range(5)), say("done"))
    )
    seen = await read(events, 1)
    await thread.wait(PATIENCE)
    expected = await truth(thread)
    watched = await read(aiter(quick), len(expected))
    assert kept_for(quick) <= 10 < len(expected)
    seen += await read(events, len(expected) - 1)
    assert seen == watched
    check(seen, expected)
    quick.close()
    slow.close()


async def test_many_followers_of_an_agency_share_one_poll_which_ends_with_the_last(
    cluster: Cluster, agency: AgencyHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    call = cluster.caller.call_agency

    async def counting(agency_id: str, method: str, *args: Any, **kwargs: Any) -> Any:
        if method in ("journal", "next_journal_page"):
            asked.append(args)
        return await call(agency_id, method, *args, **kwargs)

    monkeypatch.setattr(cluster.caller, "call_agency", counting)
    feeds = [cluster.subscribe_agency(agency.id, None) for _ in range(50)]
    await eventually(lambda: len(asked) == 2)
    thread = await agency.create_thread("clerk", script(say("one")))
    await thread.wait(PATIENCE)
    count = len(await truth(thread))
    every = await asyncio.gather(*(read(aiter(feed), count) for feed in feeds))
    assert all(seen == every[0] for seen in every)
    assert len(asked) <= 2 + count
    for feed in feeds:
        feed.close()
    await eventually(lambda: followed_agencies(cluster) == 0)


async def test_a_wrong_cursor_is_refused(cluster: Cluster, agency: AgencyHandle) -> None:
    for after, limit in ((-1, 10), (0, 0), (0, 1_001), ("x", 1), (2**60, 1)):
        with pytest.raises(InvalidInput, match="a number from"):
            await agency.stored_events(after, limit)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InvalidInput, match="the cursor"):
        cluster.subscribe_agency(agency.id, -1)
    assert await agency.stored_events(10**9) == []
