"""Schedules: what becomes of everything that is due, by a clock that the tests set; and on Ray, by the real one."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.agency import schedules
from actors.agency.peek import peek_due
from actors.agency.schedules import QUEUE_MOST, Schedules
from actors.agency.store import STEPS, AgencyStore
from agency.errors import Damaged, InvalidInput, NotFound, TooLarge, TooMany, Unavailable, WrongState
from agency.events import timestamp
from agency.schedules.occurrences import instant
from agency.store.sqlite import LOCAL
from tests.support.clusters import Install, directory_of
from tests.support.lone_agency import HOUR, MINUTE, MONDAY, LoneAgency
from tests.support.scripted_system import say, script
from tests.support.waiting import eventually

DAY = 24 * HOUR
SLOW = 60.0
"""How long processes may take to start, on a machine that is busy with other tests."""


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoneAgency]:
    opened = LoneAgency(tmp_path, monkeypatch)
    yield opened
    opened.agency.close()


async def told(office: LoneAgency) -> list[tuple[int, str]]:
    """The runs of the schedule: when they were due, in minutes after nine, and what came of them."""
    return [((instant(run.due_at) - MONDAY) // MINUTE, run.status) for run in await office.runs()]


# Each kind.


async def test_once_starts_one_thread_and_is_done(office: LoneAgency) -> None:
    made = await office.schedule(kind="once", at=timestamp(MONDAY + 5 * MINUTE), message="Bake!", limits={"turns": 3})
    assert (made.status, made.next_at) == ("active", timestamp(MONDAY + 5 * MINUTE))
    await office.wait(5 * MINUTE - 1)
    assert office.made == {}
    await office.wait(1)
    (creation,) = office.made.values()
    assert [message.content for message in creation.messages] == ["Bake!"]
    assert creation.limits is not None and creation.limits.turns == 3
    assert (creation.metadata.agent_type, creation.metadata.schedule_id) == ("clerk", "s")
    (run,) = await office.runs()
    assert (run.thread_id, run.status, run.by) == (creation.metadata.id, "started", "schedule")
    assert run.due_at == run.started_at == timestamp(MONDAY + 5 * MINUTE)
    info = await office.info()
    assert (info.status, info.next_at) == ("done", None)
    await office.wait(DAY)
    assert len(office.made) == 1


async def test_an_interval_starts_a_thread_each_time_from_one_interval_on(office: LoneAgency) -> None:
    await office.schedule(overlap="allow")
    await office.wait(3 * HOUR)
    assert await told(office) == [(60, "started"), (120, "started"), (180, "started")]
    assert len(office.made) == 3
    assert (await office.info()).next_at == timestamp(MONDAY + 4 * HOUR)


async def test_an_interval_may_say_when_it_begins(office: LoneAgency) -> None:
    await office.schedule(kind="interval", everyMs=HOUR, at=timestamp(MONDAY + 10 * MINUTE), overlap="allow")
    await office.wait(2 * HOUR)
    assert await told(office) == [(10, "started"), (70, "started")]


async def test_cron_goes_by_the_clocks_of_its_time_zone_through_both_changes(office: LoneAgency) -> None:
    await office.schedule(kind="cron", cron="30 2 * * *", timezone="Europe/Berlin", overlap="allow")
    for day, due in (("2027-03-28", "T01:00"), ("2027-10-31", "T00:30")):
        await office.change("paused")
        await office.wait_until(instant(f"{day}T00:00:00Z") - DAY)
        await office.change("active")
        before = len(await office.runs())
        await office.wait(3 * DAY)
        started = [run.due_at[:16] for run in (await office.runs())[before:]]
        assert len(started) == 3 and started[1] == f"{day}{due}"


# What goes on when the next one is due.


async def test_skip_leaves_out_what_is_due_while_one_is_going_on(office: LoneAgency) -> None:
    await office.schedule(overlap="skip")
    await office.wait(2 * HOUR)
    assert await told(office) == [(60, "started"), (120, "skipped")]
    first, second = await office.runs()
    assert (second.thread_id, second.error) == (None, f"the run before is still going on: thread {first.thread_id}")
    assert first.thread_id is not None
    await office.tell(first.thread_id, "paused", 5)
    await office.wait(HOUR)
    assert (await told(office))[-1] == (180, "skipped")
    await office.tell(first.thread_id, "completed", 6)
    await office.wait(HOUR)
    assert await told(office) == [(60, "completed"), (120, "skipped"), (180, "skipped"), (240, "started")]
    assert len(office.made) == 2


async def test_queue_starts_each_when_the_one_before_has_ended(office: LoneAgency) -> None:
    await office.schedule(overlap="queue")
    await office.wait(3 * HOUR)
    assert await told(office) == [(60, "started"), (120, "queued"), (180, "queued")]
    assert len(office.made) == 1
    await office.end("error")
    await office.wait(MINUTE)
    assert await told(office) == [(60, "error"), (120, "started"), (180, "queued")]
    await office.end("canceled")
    await office.wait()
    assert await told(office) == [(60, "error"), (120, "canceled"), (180, "started")]
    assert len(office.made) == 3


async def test_a_queue_has_an_end(office: LoneAgency) -> None:
    await office.schedule(overlap="queue")
    await office.wait((QUEUE_MOST + 3) * HOUR)
    found = [status for _, status in await told(office)]
    assert found == ["started", *["queued"] * QUEUE_MOST, "skipped", "skipped"]
    assert (await office.runs())[-1].error == f"{QUEUE_MOST} runs wait for the one before already"
    with pytest.raises(WrongState, match="wait for the one before"):
        await office.run_now()


async def test_allow_starts_each_at_once(office: LoneAgency) -> None:
    await office.schedule(overlap="queue")
    await office.wait(3 * HOUR)
    await office.change(overlap="allow")
    await office.wait()
    assert {status for _, status in await told(office)} == {"started"}
    await office.wait(HOUR)
    assert len(office.made) == 4


async def test_a_thread_that_is_deleted_is_no_longer_going_on(office: LoneAgency) -> None:
    await office.schedule(overlap="queue")
    await office.wait(2 * HOUR)
    (thread,) = office.made
    await office.call("delete_thread", thread)
    await office.wait()
    assert await told(office) == [(60, "canceled"), (120, "started")]
    assert (await office.runs())[0].error == "the thread was deleted"


async def test_a_run_is_over_when_its_thread_has_ended_whatever_that_does_later(office: LoneAgency) -> None:
    await office.schedule(overlap="skip")
    await office.wait(HOUR)
    (thread,) = office.made
    await office.end()
    await office.tell(thread, "running", 20)  # a person has something more to say
    office.now += 5 * MINUTE
    await office.tell(thread, "error", 30)
    await office.wait_until(MONDAY + 2 * HOUR)
    assert await told(office) == [(60, "completed"), (120, "started")]
    assert (await office.runs())[0].ended_at == timestamp(MONDAY + HOUR)


async def test_a_thread_may_have_ended_before_it_is_known_to_have_started(
    office: LoneAgency, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.schedule(overlap="skip")
    create = office.create

    async def quick(creation: Any) -> None:
        await create(creation)
        await office.tell(creation.metadata.id, "completed")

    monkeypatch.setattr(office, "create", quick)
    await office.wait(2 * HOUR)
    assert await told(office) == [(60, "completed"), (120, "completed")]
    assert all(run.started_at and run.ended_at for run in await office.runs())


# People.


async def test_a_schedule_that_is_paused_starts_nothing_and_goes_on_with_what_comes_next(office: LoneAgency) -> None:
    await office.schedule(overlap="allow")
    await office.wait(HOUR)
    paused = await office.change("paused")
    assert (paused.status, paused.next_at) == ("paused", None)
    await office.wait(10 * HOUR)
    assert office.bell is None
    resumed = await office.change("active")
    assert (resumed.status, resumed.next_at) == ("active", timestamp(MONDAY + 12 * HOUR))
    await office.wait(HOUR)
    assert await told(office) == [(60, "started"), (720, "started")]


async def test_what_was_queued_waits_while_its_schedule_is_paused(office: LoneAgency) -> None:
    await office.schedule(overlap="queue")
    await office.wait(2 * HOUR)
    await office.change("paused")
    await office.end()
    await office.wait(HOUR)
    assert await told(office) == [(60, "completed"), (120, "queued")]
    await office.change("active")
    await office.wait()
    assert await told(office) == [(60, "completed"), (120, "started")]


async def test_a_person_runs_it_now_and_once_however_often_that_is_said(office: LoneAgency) -> None:
    await office.schedule(overlap="skip")
    run = await office.run_now()
    assert (run.status, run.by, run.due_at) == ("started", "person", timestamp(MONDAY))
    assert await office.run_now() == run
    assert list(office.made) == [run.thread_id]
    with pytest.raises(WrongState, match=r"the run before is still going on.*overlap"):
        await office.run_now("again")
    await office.end()
    assert (await office.run_now("again")).status == "started"
    assert (await office.info()).next_at == timestamp(MONDAY + HOUR)
    assert len(await office.runs()) == 2


async def test_what_a_person_runs_waits_in_the_queue_or_starts_beside_the_rest(office: LoneAgency) -> None:
    await office.schedule(overlap="queue")
    await office.run_now("a")
    assert (await office.run_now("b")).status == "queued"
    await office.change(overlap="allow")
    assert (await office.run_now("c")).status == "started"
    await office.wait()
    assert [run.status for run in await office.runs()] == ["started"] * 3


async def test_a_schedule_that_is_paused_or_done_can_be_run_now(office: LoneAgency) -> None:
    await office.schedule(kind="once", at=timestamp(MONDAY + MINUTE), overlap="allow")
    await office.change("paused")
    assert (await office.run_now("a")).status == "started"
    await office.change("active")
    await office.wait(MINUTE)
    assert (await office.info()).status == "done"
    assert (await office.run_now("b")).status == "started"
    assert len(office.made) == 3


async def test_a_change_counts_from_now_on(office: LoneAgency) -> None:
    await office.schedule(overlap="allow")
    assert (await office.change(name="more rolls")).next_at == timestamp(MONDAY + HOUR)
    office.now += 10 * MINUTE
    assert (await office.change(everyMs=5 * MINUTE)).next_at == timestamp(MONDAY + 15 * MINUTE)
    changed = await office.change(kind="cron", cron="0 0 * * *")
    assert (changed.every_ms, changed.at, changed.next_at) == (None, None, timestamp(MONDAY + 15 * HOUR))
    changed = await office.change(kind="once", at=timestamp(MONDAY + HOUR))
    assert (changed.cron, changed.next_at, changed.name) == (None, timestamp(MONDAY + HOUR), "more rolls")
    await office.wait(2 * HOUR)
    again = await office.change(at=timestamp(office.now + MINUTE))
    assert (again.status, len(office.made)) == ("active", 1)


async def test_what_is_deleted_is_gone_and_its_threads_stay(office: LoneAgency) -> None:
    await office.schedule(overlap="allow")
    await office.wait(2 * HOUR)
    await office.call("delete_schedule", "s")
    await office.wait(10 * HOUR)
    assert len((await office.call("threads")).threads) == len(office.made) == 2
    for method in ("schedule", "schedule_runs", "delete_schedule"):
        with pytest.raises(NotFound, match="no schedule 's'"):
            await office.call(method, "s")
    assert (await office.call("schedules")).schedules == ()
    await office.schedule(overlap="allow")
    await office.wait(HOUR)
    assert len(office.made) == 3, "it has the name of the other, and nothing else"


# When nobody was there.


@pytest.mark.parametrize(("catch_up", "then"), [("one", "started"), ("none", "missed")])
@pytest.mark.parametrize("cron", [False, True], ids=["interval", "cron"])
async def test_what_was_missed_is_caught_up_with_once_or_not_at_all(
    office: LoneAgency, catch_up: str, then: str, cron: bool
) -> None:
    timing = {"kind": "cron", "cron": "0 * * * *"} if cron else {}
    await office.schedule(overlap="allow", catchUp=catch_up, **timing)
    await office.wait(HOUR)
    office.now += 5 * HOUR + 30 * MINUTE
    office.reopen()
    await office.wait()
    assert await told(office) == [(60, "started"), (360, then)]
    assert (await office.runs())[1].missed_since == timestamp(MONDAY + 2 * HOUR)
    await office.wait(30 * MINUTE)
    assert (await told(office))[-1] == (420, "started")
    assert len(office.made) == (3 if catch_up == "one" else 2)


@pytest.mark.parametrize(("catch_up", "made"), [("one", 1), ("none", 0)])
async def test_once_is_caught_up_with_like_the_others(office: LoneAgency, catch_up: str, made: int) -> None:
    await office.schedule(kind="once", at=timestamp(MONDAY + HOUR), catchUp=catch_up)
    office.now += DAY
    office.reopen()
    await office.wait()
    assert len(office.made) == made
    assert await told(office) == [(60, "started" if made else "missed")]
    assert (await office.info()).status == "done"


async def test_a_start_that_is_a_little_late_was_not_missed(office: LoneAgency) -> None:
    await office.schedule(catchUp="none")
    office.now += HOUR + 59_000
    office.reopen()
    await office.wait()
    assert await told(office) == [(60, "started")]


async def test_what_was_missed_obeys_what_is_going_on(office: LoneAgency) -> None:
    await office.schedule(overlap="skip")
    await office.wait(HOUR)
    office.now += 5 * HOUR
    office.reopen()
    await office.wait()
    assert await told(office) == [(60, "started"), (360, "skipped")]


async def test_a_clock_that_is_set_back_starts_nothing_twice(office: LoneAgency) -> None:
    await office.schedule(kind="interval", everyMs=HOUR, overlap="allow")
    await office.wait(2 * HOUR)
    office.now = MONDAY + 30 * MINUTE
    await office.change("paused")
    await office.change("active")
    await office.wait(3 * HOUR)
    assert await told(office) == [(60, "started"), (120, "started"), (180, "started")]
    assert len(office.made) == 3


# When a thread cannot be started.


async def test_an_agent_that_is_gone_fails_the_run_and_the_schedule_goes_on(office: LoneAgency) -> None:
    await office.call("put_blueprint", {"name": "baker", "description": "d", "prompt": "p"})
    await office.schedule(agentType="baker", overlap="queue")
    await office.call("delete_blueprint", "baker")
    await office.wait(2 * HOUR)
    assert await told(office) == [(60, "failed"), (120, "failed")]
    assert "there is no agent 'baker'" in str((await office.runs())[0].error)
    await office.call("put_blueprint", {"name": "baker", "description": "d", "prompt": "p", "status": "disabled"})
    await office.wait(HOUR)
    assert "disabled" in str((await office.runs())[2].error)
    assert (await office.run_now()).status == "failed"
    await office.call("put_blueprint", {"name": "baker", "status": "active"})
    await office.wait(HOUR)
    assert (await told(office))[-1] == (240, "started")


async def test_what_cannot_be_started_yet_is_tried_until_it_is(office: LoneAgency) -> None:
    await office.schedule(overlap="skip")
    office.trouble = Unavailable("there is no room")
    await office.wait(HOUR + 10_000)
    assert await told(office) == [(60, "starting")]
    office.now = MONDAY + 2 * HOUR
    await office.wait(10_000)
    assert await told(office) == [(60, "starting"), (120, "skipped")]
    office.trouble = None
    await office.wait(10_000)
    assert await told(office) == [(60, "started"), (120, "skipped")]
    assert len(office.made) == 1


async def test_why_a_start_failed_says_nothing_of_the_machine(
    office: LoneAgency, caplog: pytest.LogCaptureFixture
) -> None:
    await office.schedule()
    office.trouble = Damaged("/srv/agency/data/threads/x.db is damaged")
    await office.wait(HOUR)
    assert [run.error for run in await office.runs()] == [Damaged.told]
    assert "/srv/agency/data" in caplog.text


# Lists and limits.


async def test_schedules_and_runs_come_in_pages(office: LoneAgency) -> None:
    for name in "abc":
        await office.schedule(name, overlap="allow")
    first = await office.call("schedules", 0, 2)
    rest = await office.call("schedules", first.next, 2)
    assert [[each.id for each in page.schedules] for page in (first, rest)] == [["a", "b"], ["c"]]
    assert rest.next is None
    await office.wait(3 * HOUR)
    newest = await office.call("schedule_runs", "b", 0, 2)
    older = await office.call("schedule_runs", "b", newest.next, 2)
    dues = [run.due_at for page in (newest, older) for run in page.runs]
    assert dues == sorted(dues, reverse=True) and len(dues) == 3
    assert older.next is None


async def test_of_runs_that_are_over_the_oldest_are_forgotten(
    office: LoneAgency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "RUNS_MOST", 5)
    await office.schedule(overlap="skip")
    await office.wait(10 * HOUR)
    assert await told(office) == [(60, "started"), *((60 * n, "skipped") for n in range(6, 11))]
    await office.end()
    await office.wait(HOUR)
    assert [due for due, _ in await told(office)] == [60 * n for n in range(7, 12)]


async def test_many_that_are_due_at_once_are_all_started(office: LoneAgency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.agency.scheduling.BATCH", 7)
    office.allow(schedules_most=30)
    for n in range(30):
        await office.schedule(f"s{n}")
    with pytest.raises(TooMany, match=r"has 30 schedules, and 30 are accepted \(AGENCY_SCHEDULES_MOST\)"):
        await office.schedule("more")
    assert (await office.schedule("s7")).id == "s7", "which is there already"
    await office.wait(HOUR)
    assert len(office.made) == 30


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "once", "at": timestamp(MONDAY - 2 * MINUTE)}, "is over"),
        ({"kind": "once", "at": "2047-01-01T00:00:00Z"}, "ten years"),
        ({"kind": "cron", "cron": "0 9 * *"}, "five fields"),
        ({"kind": "cron", "cron": "0 9 * * *", "timezone": "Mars"}, "time zone"),
        ({"everyMs": HOUR}, "kind"),
        ({"kind": "interval", "everyMs": HOUR, "overlap": "perhaps"}, "overlap"),
        ({"kind": "interval", "everyMs": HOUR, "agentType": "nobody"}, "there is no agent"),
        ({"kind": "interval", "everyMs": HOUR, "agentType": "retired"}, "disabled"),
        ({"kind": "interval", "everyMs": HOUR, "message": "  "}, "empty"),
        ({"kind": "interval", "everyMs": HOUR, "maxRetries": 3}, "maxRetries"),
        ({"kind": "interval", "everyMs": HOUR, "limits": {"turns": 0}}, "turns"),
    ],
)
async def test_a_schedule_that_cannot_be_is_explained_and_not_made(
    office: LoneAgency, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises((InvalidInput, NotFound), match=said):
        await office.call("create_schedule", "s", {"name": "n", "agentType": "clerk", "message": "m", **wrong})
    assert (await office.call("schedules")).schedules == ()


async def test_a_change_that_cannot_be_changes_nothing(office: LoneAgency, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await office.schedule(kind="once", at=timestamp(MONDAY + HOUR))
    for fields in ({"at": "2020-01-01T00:00:00Z"}, {"kind": "cron"}, {"everyMs": HOUR}, {"agentType": "nobody"}):
        with pytest.raises((InvalidInput, NotFound)):
            await office.change(**fields)
    context = office.agency._context
    monkeypatch.setattr(context, "settings", context.settings.model_copy(update={"message_chars": 9}))
    with pytest.raises(TooLarge):
        await office.change(message="far too long")
    assert await office.info() == before
    await office.change("paused")
    await office.wait(2 * HOUR)
    with pytest.raises(WrongState, match="has passed"):
        await office.change("active")
    await office.change("active", at=timestamp(office.now + HOUR))
    await office.wait(2 * HOUR)
    for status in ("active", "paused"):
        with pytest.raises(WrongState, match="is done"):
            await office.change(status)


def test_a_file_of_an_earlier_version_has_no_schedules_yet(tmp_path: Path) -> None:
    path = tmp_path / "bakery" / "agency.db"
    path.parent.mkdir()
    db = sqlite3.connect(path)
    for step in STEPS[:3]:
        db.executescript(step)
    db.execute("PRAGMA user_version = 3")
    db.close()
    assert peek_due(path) is None
    store = AgencyStore.open(path, LOCAL)
    page = Schedules(store).page(0, 10, 1_000).schedules
    assert (page, Schedules(store).next_due, peek_due(path)) == ((), None, None)
    store.close()


# On Ray.


@pytest.mark.kills
async def test_a_schedule_goes_on_whatever_sleeps_or_dies_and_no_thread_has_a_twin(install: Install) -> None:
    cluster = await install(hibernate_after=0.3)
    agency = await cluster.create_agency("bakery")
    fields = {"name": "rolls", "agentType": "clerk", "message": script(say("done")), "kind": "interval"}
    made = await agency.create_schedule({**fields, "everyMs": 1_000, "overlap": "allow"})

    async def completed() -> set[str]:
        runs = (await agency.schedule_runs(made.id)).runs
        return {run.id for run in runs if run.status == "completed"}

    async def after(known: set[str]) -> set[str]:
        """One that has completed since."""
        return await completed() - known

    known = await eventually(completed, SLOW)

    async def asleep() -> bool:
        return agency.id not in (await cluster.status()).agencies

    await eventually(asleep)
    known |= await eventually(lambda: after(known), SLOW)
    os.kill(directory_of(cluster), signal.SIGKILL)
    known |= await eventually(lambda: after(known), SLOW)
    await agency.change_schedule(made.id, {}, "paused")

    async def all_over() -> bool:
        return {run.status for run in (await agency.schedule_runs(made.id)).runs} == {"completed"}

    await eventually(all_over, SLOW)
    runs = (await agency.schedule_runs(made.id)).runs
    threads = (await agency.threads()).threads
    assert len({run.due_at for run in runs}) == len(runs), "no occurrence has two runs"
    assert sorted(thread.id for thread in threads) == sorted(run.thread_id or "" for run in runs)
    assert {thread.schedule_id for thread in threads} == {made.id}
