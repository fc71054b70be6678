"""Following threads: every event, in order, once, whoever reads and however slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from actors import AgencyHandle, Cluster
from actors.address import Address
from actors.feeds.host_feed import Consumer
from agency import AgentSystem, Event, EventType, InvalidInput, LocalRuntime, NotFound
from agency.testing import ScriptedModel
from tests.support.clusters import Install, asleep, follow
from tests.support.internals import detached
from tests.support.scripted_system import calls, noting, say, script
from tests.support.waiting import PATIENCE, eventually


async def read(events: AsyncGenerator[Event, None], last: Callable[[Event], bool]) -> list[Event]:
    """The events up to the last one wanted, which is among them."""
    seen: list[Event] = []
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            seen.append(event)
            if last(event):
                return seen
    raise AssertionError("the events have ended")


def completed(event: Event) -> bool:
    return event.type is EventType.AGENT_COMPLETED


def stored(events: list[Event]) -> list[Event]:
    return [event for event in events if event.seq is not None]


async def test_events_are_read_from_the_beginning_from_the_middle_and_as_they_happen(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("one")))
    await thread.wait(PATIENCE)
    whole = follow(thread)
    first = await read(whole, completed)
    assert [event.seq for event in first] == list(range(1, len(first) + 1))
    assert first == await thread.stored_events(limit=1_000)
    middle = follow(thread, after=3)
    assert await read(middle, completed) == first[3:]
    new = follow(thread, after=len(first))
    await thread.invoke(script(say("two")))
    second = await read(new, completed)
    assert second == await thread.stored_events(after=len(first), limit=1_000)
    assert second[0].type is EventType.REQUEST_ACCEPTED
    assert await read(whole, completed) == await read(middle, completed) == second
    for events in (whole, middle, new):
        await events.aclose()


async def test_text_arrives_while_the_model_speaks_and_who_comes_late_gets_it_from_its_beginning(
    agency: AgencyHandle,
) -> None:
    spoken = "".join(f"word{i} " for i in range(20))
    thread = await agency.create_thread("clerk", script(say("all said", delay=2.0, words=20)))
    early = follow(thread)
    before = await read(early, lambda event: event.data.get("delta") == "word5 " or event.data.get("offset", 0) != 0)
    assert (await thread.run_state()).status == "running"
    late = follow(thread, after=len(stored(before)))
    began = await anext(late)
    assert (began.type, began.seq, began.data["offset"]) == (EventType.MODEL_DELTA, None, 0)
    assert spoken.startswith(str(began.data["delta"])) and str(began.data["delta"]).startswith("word0 ")

    heard = [[*before, *await read(early, completed)], [began, *await read(late, completed)]]
    for events, pieces in zip(
        heard, (range(3, 21), range(2, 4)), strict=True
    ):  # who reads late gets what waited at once
        deltas = [event for event in events if event.type is EventType.MODEL_DELTA]
        text = ""
        for delta in deltas:
            assert delta.data["offset"] == len(text)
            text += str(delta.data["delta"])
        assert text == spoken
        assert len(deltas) in pieces
        kinds = [event.type for event in events]
        last = len(kinds) - 1 - kinds[::-1].index(EventType.MODEL_DELTA)
        assert EventType.MODEL_COMPLETED in kinds[last:]
    assert stored(heard[0]) == await thread.stored_events(limit=1_000)
    anew = follow(thread)
    assert await read(anew, completed) == stored(heard[0])  # what has been said is in the transcript, not in events
    for each in (early, late, anew):
        await each.aclose()


async def test_many_threads_are_followed_at_once(agency: AgencyHandle, ledger: Path) -> None:
    lines = script(calls(noting(ledger, "x")), calls(noting(ledger, "y")), say("done"))
    threads = await asyncio.gather(*(agency.create_thread("clerk") for _ in range(20)))
    feeds = [follow(thread) for thread in threads]
    reading = [asyncio.create_task(read(feed, completed)) for feed in feeds]
    await asyncio.gather(*(thread.invoke(lines) for thread in threads))
    for thread, events in zip(threads, await asyncio.gather(*reading), strict=True):
        assert events == await thread.stored_events(limit=1_000)
        assert {event.thread_id for event in events} == {thread.id}
    for feed in feeds:
        await feed.aclose()


async def test_two_readers_of_one_thread_each_get_everything(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("clerk")
    feeds = [follow(thread), follow(thread)]
    reading = [asyncio.create_task(read(feed, completed)) for feed in feeds]
    await thread.invoke(script(calls(noting(ledger, "x")), say("done")))
    one, two = await asyncio.gather(*reading)
    assert one == two == await thread.stored_events(limit=1_000)
    await feeds[0].aclose()
    await thread.invoke(script(say("more")))
    more = await read(feeds[1], completed)
    assert more == await thread.stored_events(after=len(one), limit=1_000)
    await feeds[1].aclose()


async def test_readers_at_the_same_place_share_what_is_sent_and_everybody_gets_everything(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "Well, well.")
    system = AgentSystem("scripted:any", providers={"scripted": model})
    system.add_agent(name="clerk", description="-", prompt="-")
    consumer, address = Consumer(), Address("bakery", "t")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        for number in range(50):
            consumer.follow(number, address, thread, 0)
        batches = [await consumer.pull()]
        assert [numbers for numbers, _ in batches[0].fed] == [tuple(range(50))]
        consumer.follow(50, address, thread, 0)
        await thread.invoke("hello")
        await thread.wait(PATIENCE)
        fed: dict[int, list[str]] = {number: [] for number in range(51)}
        while len(fed[50]) < len(fed[0]) + 1 or not any("agent.completed" in event for event in fed[0]):
            batches.append(await consumer.pull())
            for numbers, events in batches[-1].fed:
                for number in numbers:
                    fed[number] += [event for seq, event in events if seq]
        made = [event.model_dump_json() async for event in thread.events(follow=False)]
        assert fed[50] == made
        assert all(fed[number] == made[1:] for number in range(50))
        assert all(len(batch.fed) <= 2 for batch in batches)
        consumer.drop(3)
        assert consumer.watched == {address}
        await thread.close()
        assert set((await consumer.pull()).gone) == set(range(51)) - {3}
        assert consumer.watched == set()


async def test_who_reads_slowly_slows_nobody_and_misses_nothing(
    cluster: Cluster, agency: AgencyHandle, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.feeds.watcher.BUFFER", 20)
    thread = await agency.create_thread("clerk")
    slow = cluster.subscribe(thread.address, 0)
    await eventually(lambda: slow.after)
    steps = [calls(noting(ledger, f"{i}", 0.02)) for i in range(25)]
    await thread.invoke(script(*steps, say("done")))
    assert (await thread.wait(PATIENCE)).data == "done"  # though nobody has read a thing
    made = await thread.stored_events(limit=1_000)
    assert len(made) > 200
    await eventually(lambda: detached(slow))
    assert slow.after < len(made), "what it does not read is not kept for it"

    async def texts() -> AsyncGenerator[Event, None]:
        async for _, text in slow:
            yield Event.model_validate_json(text)

    assert await read(texts(), completed) == made
    await thread.invoke(script(say("more")))
    assert await read(texts(), completed) == await thread.stored_events(after=len(made), limit=1_000)
    slow.close()


async def test_a_followed_thread_stays_awake_until_nobody_follows_it(install: Install) -> None:
    cluster = await install(hibernate_after=0.4)
    agency = await cluster.create_agency("cinema")
    thread = await agency.create_thread("clerk", script(say("one")))
    first = follow(thread)
    events = await read(first, completed)
    other = await agency.create_thread("clerk", script(say("two")))
    await eventually(lambda: asleep(cluster, other))
    assert await cluster.where([thread.address])
    await first.aclose()
    await eventually(lambda: asleep(cluster, thread))
    again = follow(thread)  # which wakes it
    assert await read(again, completed) == events
    assert await cluster.where([thread.address])
    await again.aclose()


async def test_who_stops_following_while_a_thread_is_looked_for_does_not_keep_it_awake(install: Install) -> None:
    cluster = await install(hibernate_after=0.4)
    agency = await cluster.create_agency("cinema")
    thread = await agency.create_thread("clerk", script(say("one")))
    hasty = cluster.subscribe(thread.address, 0)
    await asyncio.sleep(0)  # the directory is being asked
    hasty.close()
    await eventually(lambda: asleep(cluster, thread), 8)


async def test_the_events_of_a_deleted_thread_end(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("one")))
    events = follow(thread)
    await read(events, completed)
    await agency.delete_thread(thread.id)
    with pytest.raises(NotFound, match=thread.id):
        async with asyncio.timeout(PATIENCE):
            await anext(events)
    for nobody in (thread, agency.thread("thr_nobody")):
        with pytest.raises(NotFound, match=nobody.id):
            async with asyncio.timeout(PATIENCE):
                await anext(follow(nobody))


async def test_there_is_nothing_before_the_first_event(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("one")))
    with pytest.raises(InvalidInput, match="a number from 0"):
        async with asyncio.timeout(3):
            await anext(follow(thread, after=-1))


async def test_who_follows_while_the_hosts_are_replaced_goes_on_with_the_new_ones(install: Install) -> None:
    """New hosts are numbered from one again: what is known of the old ones by name must be forgotten, at once."""
    follower = await install()
    thread = await (await follower.create_agency("bakery")).create_thread("clerk", script(say("one")))
    events = follow(thread)
    await read(events, completed)
    other = await install()
    await other.stop()
    other = await install()
    await other.agency(thread.address.agency).thread(thread.id).invoke(script(say("two")))
    assert (await read(events, completed))[-1].data["result"] == "two"
    late = follow(thread)
    assert sum(map(completed, [*await read(late, completed), *await read(late, completed)])) == 2
    for each in (events, late):
        await each.aclose()
