"""The index: what every thread is doing is in its agency's file, right a moment after anything has happened or died."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from actors import AgencyHandle, Cluster, ThreadHandle
from actors.address import Address, Files
from actors.agency.creation import Creation
from actors.agency.journal import Journal
from actors.agency.store import AgencyStore
from actors.agency_host.index_writer import IndexWriter
from actors.background import Background
from actors.host.update_sender import UpdateSender
from actors.totals import EventCounts
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.api.tenancy import AgencyInfo, ThreadSummary
from agency.define.blueprint import Blueprint
from agency.errors import Unavailable
from agency.metadata import ThreadMetadata
from agency.runtime import ThreadProgress
from agency.store.peek import glance
from agency.store.sqlite import LOCAL
from agency.turn.state import PauseReason, RunStatus
from tests.support.clusters import Install, asleep, directory_of
from tests.support.internals import sends
from tests.support.scripted_system import calls, holding, let_go, noting, say, script, task
from tests.support.waiting import PATIENCE, eventually

BORN = "2025-01-01T00:00:00.000Z"
LATER = "2025-01-02T00:00:00.000Z"
CLERK = Blueprint(name="clerk", description="-", prompt="-")


# The journal.


def register(store: AgencyStore, thread: str, born: str = BORN) -> None:
    metadata = ThreadMetadata(id=thread, agent_type="clerk", created_at=born, agency_id="bakery")
    store.add_thread(Creation(metadata=metadata, blueprint=CLERK))


def news(
    thread: str,
    seq: int,
    status: RunStatus = "running",
    reason: PauseReason | None = None,
    *,
    born: str = BORN,
    instead_of: int | None = None,
) -> ThreadUpdate:
    return ThreadUpdate(Address("bakery", thread), born, seq, status, reason, 1_000 * seq, instead_of)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgencyStore]:
    info = AgencyInfo(id="bakery", name="Bakery", created_at=BORN)
    opened = AgencyStore.open(tmp_path / "bakery" / "agency.db", LOCAL, info)
    yield opened
    opened.close()


def numbered(journal: Journal, after: int = 0, limit: int = 7) -> dict[int, tuple[str, int]]:
    """Every event of which the journal knows after a cursor, read in pages: whose it is, and its seq."""
    found: dict[int, tuple[str, int]] = {}
    while (page := journal.page(after, limit)).spans:
        for span in page.spans:
            found |= {span.n + i: (span.thread, span.first + i) for i in range(span.last - span.first + 1)}
        assert page.upto == max(found) > after
        after = page.upto
    return found


@hypothesis_settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    told=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=40),
    size=st.integers(1, 5),
    limit=st.integers(1, 9),
)
def test_every_event_has_one_number_however_often_and_in_whatever_order_it_is_told(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, int]], size: int, limit: int
) -> None:
    path = tmp_path_factory.mktemp("told") / "bakery" / "agency.db"
    store = AgencyStore.open(path, LOCAL, AgencyInfo(id="bakery", name="Bakery", created_at=BORN))
    try:
        journal, expected, heads = Journal(store), list[tuple[str, int]](), dict.fromkeys("abc", 0)
        for thread in heads:
            register(store, thread)
        for start in range(0, len(told), size):
            batch = told[start : start + size]
            journal.take([news(thread, seq) for thread, seq in batch])
            for thread, seq in batch:
                expected += [(thread, each) for each in range(heads[thread] + 1, seq + 1)]
                heads[thread] = max(heads[thread], seq)
        assert journal.end == len(expected)
        assert numbered(journal, limit=limit) == dict(enumerate(expected, 1))
        middle = len(expected) // 2
        assert list(numbered(journal, middle, limit).values()) == expected[middle:]
        assert {thread.id: thread.seq for _, thread in store.threads(0, 10, 10_000)[0]} == heads
    finally:
        store.close()


def test_the_status_is_that_of_the_latest_news(store: AgencyStore) -> None:
    register(store, "a")
    journal = Journal(store)
    summary = store.summary("a")
    assert summary is not None
    assert (summary.status, summary.reason, summary.seq, summary.updated_at) == ("registered", None, 0, BORN)
    journal.take([news("a", 5, "paused", "hitl"), news("a", 4), news("nobody", 3)])
    journal.take([news("a", 2, "completed")])
    summary = store.summary("a")
    assert summary is not None
    assert (summary.status, summary.reason, summary.seq) == ("paused", "hitl", 5)
    assert summary.updated_at == "1970-01-01T00:00:05.000Z"
    assert [thread.id for _, thread in store.threads(0, 9, 10_000, reason="hitl")[0]] == ["a"]


def test_events_of_a_thread_that_is_gone_are_nobodys_and_the_numbers_of_the_others_stay(store: AgencyStore) -> None:
    journal = Journal(store)
    for thread in ("a", "b"):
        register(store, thread)
    journal.take([news("a", 3), news("b", 2), news("a", 4)])
    store.mark_deleting("a")
    journal.take([news("a", 9)])
    expected = {1: ("", 1), 2: ("", 2), 3: ("", 3), 4: ("b", 1), 5: ("b", 2), 6: ("", 4)}
    assert numbered(journal) == expected
    store.forget_thread("a")
    assert numbered(journal) == expected
    assert journal.page(0, 1).upto == 4, "what is nobody's does not count"


def test_news_of_a_thread_that_is_gone_are_not_those_of_the_next_one_with_its_id(store: AgencyStore) -> None:
    journal = Journal(store)
    register(store, "a")
    journal.take([news("a", 2)])
    store.forget_thread("a")
    register(store, "a", LATER)
    journal.take([news("a", 9, "error")])
    summary = store.summary("a")
    assert summary is not None and (summary.seq, summary.status) == (0, "registered")
    journal.take([news("a", 1, born=LATER)])
    assert numbered(journal) == {1: ("", 1), 2: ("", 2), 3: ("a", 1)}


def test_what_a_thread_has_lost_gets_a_new_number_when_it_happens_again(store: AgencyStore) -> None:
    """As when the power fails, or the files are put back from a copy."""
    journal = Journal(store)
    for thread in ("a", "b"):
        register(store, thread)
    journal.take([news("a", 4), news("b", 1), news("a", 6, "completed")])
    journal.take([news("a", 2, "paused", "hitl", instead_of=5)])
    assert journal.end == 7, "somebody was faster, and it is not so"
    journal.take([news("a", 2, "paused", "hitl", instead_of=6)])
    lost = {3: ("", 3), 4: ("", 4), 6: ("", 5), 7: ("", 6)}
    assert numbered(journal) == {1: ("a", 1), 2: ("a", 2), 5: ("b", 1), **lost}
    summary = store.summary("a")
    assert summary is not None and (summary.seq, summary.status, summary.reason) == (2, "paused", "hitl")
    journal.take([news("a", 3)])
    assert numbered(journal, after=7) == {8: ("a", 3)}


# Updates on their way.

A, B = Address("bakery", "a"), Address("butchery", "b")


class Shelf:
    """Agencies that write, or cannot."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, list[int]]] = []

    async def take(self, agency: str, updates: list[ThreadUpdate]) -> None:
        self.taken.append((agency, [update.seq for update in updates]))
        if agency == "butchery":
            raise OSError("not now")


async def test_updates_are_written_together_and_nothing_to_write_is_nothing_to_wait_for() -> None:
    shelf, background = Shelf(), Background("a shelf")
    writer = IndexWriter(shelf, background, rest=0.0)  # type: ignore[arg-type]  # all that it needs
    async with asyncio.timeout(5):
        assert await writer.write([]) == frozenset()
        assert await writer.write([update(A, 1), update(B, 1), update(A, 2)]) == {"butchery"}
        assert await writer.write([]) == frozenset()
    assert shelf.taken == [("bakery", [1, 2]), ("butchery", [1])]
    await background.stop()


def update(address: Address, seq: int) -> ThreadUpdate:
    return ThreadUpdate(address, BORN, seq, "running", None, 0)


class Desk:
    """Takes news, or not."""

    def __init__(self) -> None:
        self.batches: list[list[ThreadUpdate]] = []
        self.answers: list[UpdatesTaken | Exception] = []
        self.arrived = asyncio.Event()

    async def take(self, to: str, told: list[ThreadUpdate]) -> UpdatesTaken:
        self.batches.append(told)
        self.arrived.set()
        answer = self.answers.pop(0) if self.answers else UpdatesTaken(frozenset())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def next(self) -> list[tuple[str, int]]:
        async with asyncio.timeout(5):
            await self.arrived.wait()
        self.arrived.clear()
        return [(str(each.address), each.seq) for each in self.batches[-1]]


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def newsroom(desk: Desk) -> AsyncIterator[UpdateSender]:
    background = Background("a newsroom")
    yield UpdateSender("AgencyHost-1", desk.take, EventCounts(), background)
    await background.stop()


def note(newsroom: UpdateSender, address: Address, seq: int, status: RunStatus = "running") -> None:
    newsroom.track(address, BORN).advance(ThreadProgress(seq, "", status, None, ()))


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_change_is_told_soon_and_progress_once_in_a_while(desk: Desk, newsroom: UpdateSender) -> None:
    began = now()
    for seq in (1, 2, 3):
        note(newsroom, A, seq)
    note(newsroom, B, 1)
    assert sorted(await desk.next()) == [(str(A), 3), (str(B), 1)]
    assert now() - began < 0.9
    await eventually(lambda: not sends(newsroom))
    note(newsroom, A, 4)
    note(newsroom, A, 5)
    assert await desk.next() == [(str(A), 5)]
    assert now() - began > 0.9
    began = now()
    note(newsroom, A, 6)
    note(newsroom, A, 7, "completed")
    assert await desk.next() == [(str(A), 7)]
    assert now() - began < 0.9


async def test_progress_of_an_agency_that_is_watched_is_told_soon(desk: Desk, newsroom: UpdateSender) -> None:
    desk.answers = [UpdatesTaken(frozenset({"bakery"}))]
    note(newsroom, A, 1)
    note(newsroom, B, 1)
    await desk.next()
    await eventually(lambda: not sends(newsroom))
    began = now()
    note(newsroom, B, 2)
    note(newsroom, A, 2)
    assert sorted(await desk.next()) == [(str(A), 2), (str(B), 2)]
    assert now() - began < 0.9


async def test_what_was_done_is_confirmed_when_it_is_written(desk: Desk, newsroom: UpdateSender) -> None:
    note(newsroom, A, 1)
    await desk.next()
    await eventually(lambda: not sends(newsroom))
    desk.answers = [Unavailable("not now"), UpdatesTaken(frozenset())]
    note(newsroom, A, 2)
    began = now()
    await newsroom.confirmed(newsroom.track(A, BORN))
    assert [[each.seq for each in batch] for batch in desk.batches] == [[1], [2], [2]]
    assert now() - began < 0.9
    await newsroom.confirmed(newsroom.track(A, BORN))
    await newsroom.confirmed(newsroom.track(B, BORN))


async def test_a_thread_gets_on_without_a_directory(desk: Desk, newsroom: UpdateSender) -> None:
    desk.answers = [Unavailable("not now")] * 20
    note(newsroom, A, 1)
    began = now()
    await newsroom.confirmed(newsroom.track(A, BORN))
    assert 0.9 < now() - began < 5


async def test_what_is_not_taken_is_told_again(desk: Desk, newsroom: UpdateSender) -> None:
    desk.answers = [Unavailable("not now"), UpdatesTaken(frozenset(), left=frozenset({"butchery"}))]
    note(newsroom, A, 1)
    note(newsroom, B, 1)
    assert sorted(await desk.next()) == [(str(A), 1), (str(B), 1)]
    note(newsroom, A, 2)
    assert sorted(await desk.next()) == [(str(A), 2), (str(B), 1)]
    assert await desk.next() == [(str(B), 1)]
    await eventually(lambda: not sends(newsroom))
    assert newsroom.end(B) is None


async def test_what_is_untold_when_a_thread_leaves_goes_with_it(desk: Desk, newsroom: UpdateSender) -> None:
    note(newsroom, A, 1)
    note(newsroom, A, 2, "completed")
    untold = newsroom.end(A)
    assert untold is not None and (untold.address, untold.seq, untold.status) == (A, 2, "completed")
    assert newsroom.end(A) is None
    assert await desk.next() == [(str(A), 2)], "and is told all the same"


# On Ray.


def path_of(cluster: Cluster, thread: ThreadHandle) -> Path:
    return Files(cluster.settings.data_dir).of(thread.address)


def truth(cluster: Cluster, *threads: ThreadHandle) -> list[tuple[str, str, str | None, int]]:
    """What the files of threads say, without waking them."""
    seen = ((thread.id, glance(path_of(cluster, thread))) for thread in threads)
    return [(thread_id, each.status, each.reason, each.seq) for thread_id, each in seen]


def told(threads: tuple[ThreadSummary, ...]) -> list[tuple[str, str, str | None, int]]:
    return [(each.id, each.status, each.reason, each.seq) for each in threads]


async def index_is_right(cluster: Cluster, agency: AgencyHandle, *threads: ThreadHandle) -> bool:
    return told((await agency.threads(limit=1_000)).threads) == truth(cluster, *threads)


async def family(agency: AgencyHandle, ledger: Path) -> dict[str, ThreadHandle]:
    """Threads in every status there is, all come to a stop."""
    charge = calls(("charge", {"ledger": str(ledger), "what": "7"}))
    made = {
        "registered": await agency.create_thread("clerk"),
        "completed": await agency.create_thread("clerk", script(say("done"))),
        "error": await agency.create_thread("clerk", script(calls(("nothing", {})))),
        "paused": await agency.create_thread("careful", script(charge, say("charged"))),
        "canceled": await agency.create_thread("clerk", script(say("never", delay=60))),
    }
    await made["canceled"].cancel()
    for name in ("completed", "error", "paused", "canceled"):
        assert (await made[name].wait(PATIENCE)).status == name
    return made


async def test_threads_are_listed_with_what_they_are_doing(
    cluster: Cluster, agency: AgencyHandle, ledger: Path
) -> None:
    made = await family(agency, ledger)
    await eventually(lambda: index_is_right(cluster, agency, *made.values()))
    page = await agency.threads()
    assert {each.id: each.status for each in page.threads} == {thread.id: name for name, thread in made.items()}
    for name, thread in made.items():
        (one,) = (await agency.threads(status=name)).threads  # type: ignore[arg-type]  # they are named so
        assert one.id == thread.id
        assert one == await thread.info()
        assert one.updated_at >= one.created_at
    (waiting,) = (await agency.threads(status="paused", reason="hitl")).threads
    assert waiting.id == made["paused"].id
    assert (await agency.threads(reason="subagent")).threads == ()
    assert await agency.counts() == {**dict.fromkeys(made, 1), "running": 0}
    await agency.delete_thread(made["error"].id)
    assert (await agency.counts())["error"] == 0


async def test_the_newest_threads_come_first_if_asked_for(agency: AgencyHandle) -> None:
    made = [(await agency.create_thread("clerk")).id for _ in range(5)]
    listed: list[str] = []
    after: int | None = 0
    while after is not None:
        page = await agency.threads(after, 2, newest_first=True)
        assert len(page.threads) <= 2
        listed += [each.id for each in page.threads]
        after = page.next
    assert listed == made[::-1]
    assert len((await agency.threads(limit=5, newest_first=True, status="registered")).threads) == 5


async def test_a_parent_that_waits_for_its_child_is_listed_so(agency: AgencyHandle, ledger: Path) -> None:
    work = task(calls(holding(ledger, "x")), say("part"))
    parent = await agency.create_thread("clerk", script(calls(work), say("whole")))

    async def waiting() -> tuple[ThreadSummary, ...]:
        return (await agency.threads(status="paused", reason="subagent")).threads

    async def at_work() -> tuple[ThreadSummary, ...]:
        return (await agency.threads(parent=parent.id, status="running", newest_first=True)).threads

    assert [each.id for each in await eventually(waiting)] == [parent.id]
    (child,) = await eventually(at_work)  # its parent waits before it has begun
    assert (await agency.thread(child.id).info()).status == "running"
    let_go(ledger, "x")
    await parent.wait(PATIENCE)
    await eventually(lambda: completed(agency, 2))


async def completed(agency: AgencyHandle, count: int) -> bool:
    return (await agency.counts())["completed"] == count


async def hosts(cluster: Cluster) -> list[int]:
    return [host.pid for host in (await cluster.status()).hosts if host.pid is not None]


async def at_rest(agency: AgencyHandle, ledger: Path) -> list[ThreadHandle]:
    """Threads that only wait, and of which the index knows."""
    charge = calls(("charge", {"ledger": str(ledger), "what": "7"}))
    threads = [await agency.create_thread("clerk") for _ in range(3)]
    threads += [await agency.create_thread("careful", script(charge, say("charged"))) for _ in range(3)]
    for thread in threads[3:]:
        await thread.wait(PATIENCE)
    for thread in threads:
        await thread.run_state()  # from now on we know where it is

    async def known() -> bool:
        return (await agency.counts()) | {"registered": 3, "paused": 3} == await agency.counts()

    await eventually(known)
    return threads


@pytest.mark.kills
@pytest.mark.parametrize("dies", ["hosts", "directory"])
async def test_what_was_not_told_before_a_death_is_known_after_it(install: Install, ledger: Path, dies: str) -> None:
    """The directory hangs while threads come to a rest; then it dies, or whoever could tell it. Nobody wakes them."""
    cluster = await install(actors_per_node=2)
    agency = await cluster.create_agency("bakery")
    threads = await at_rest(agency, ledger)
    living = await hosts(cluster)
    directory = directory_of(cluster)
    os.kill(directory, signal.SIGSTOP)
    try:
        async with asyncio.timeout(PATIENCE):
            for thread in threads[:3]:
                await thread.invoke(script(say("done")))
                await thread.wait(PATIENCE)
            for thread in threads[3:5]:
                await thread.deny("no")
                await thread.wait(PATIENCE)
    finally:
        for pid in living if dies == "hosts" else []:
            os.kill(pid, signal.SIGKILL)
        os.kill(directory, signal.SIGKILL if dies == "directory" else signal.SIGCONT)
    await eventually(lambda: index_is_right(cluster, agency, *threads))
    assert await agency.counts() | {"completed": 5, "paused": 1} == await agency.counts()
    if dies == "hosts":
        assert await asleep(cluster, *threads)


async def test_everything_is_known_after_an_end_in_the_middle_of_it(install: Install, ledger: Path) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    threads = [await agency.create_thread("clerk", script(say("done"))) for _ in range(3)]
    await eventually(lambda: index_is_right(cluster, agency, *threads))
    await cluster.stop()
    store = AgencyStore.open(Files(cluster.settings.data_dir).of(Address(agency.id)), LOCAL)
    store.write(
        ("UPDATE threads SET head = 2, status = 'running' WHERE id = ?", (threads[0].id,)),
        ("UPDATE journal SET last = 2 WHERE thread = 1", ()),
        ("UPDATE threads SET head = head + 5, status = 'running' WHERE id = ?", (threads[1].id,)),
    )
    store.close()
    cluster = await install()
    agency = cluster.agency(agency.id)
    await eventually(lambda: index_is_right(cluster, agency, *threads))
    assert await agency.counts() | {"completed": 3} == await agency.counts()
    assert await asleep(cluster, *threads)


async def test_what_a_thread_did_is_known_though_its_host_is_given_back_with_it(install: Install, ledger: Path) -> None:
    cluster = await install(hibernate_after=0.02)  # sooner than news are sent
    agency = await cluster.create_agency("bakery")
    alone = await agency.create_thread("hermit", script(calls(noting(ledger, "x")), say("peace")))
    await eventually(lambda: asleep(cluster, alone))  # and its host is gone
    await eventually(lambda: index_is_right(cluster, agency, alone))
    await eventually(lambda: completed(agency, 1))
