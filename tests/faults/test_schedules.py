"""Schedules while everything dies: an occurrence has one thread, and none is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from actors.agency.creation import Creation
from tests.support.lone_agency import HOUR, MINUTE, Died, LoneAgency, never_dying

Step = Callable[[], Awaitable[object]]
TrackedThread = Callable[[LoneAgency], list[Step]]


def each_in_turn(office: LoneAgency) -> list[Step]:
    """A queue: two are due while the first is at work, a person wants one more, and all come to an end."""
    return [
        lambda: office.schedule(overlap="queue"),
        lambda: office.wait_until(office.began + 2 * HOUR),
        office.run_now,
        office.end,
        lambda: office.wait_until(office.began + 2 * HOUR + MINUTE),
        office.end,
        lambda: office.wait_until(office.began + 2 * HOUR + 2 * MINUTE),
        office.end,
    ]


def side_by_side(office: LoneAgency) -> list[Step]:
    """Two schedules start what is due at the same time, while one is changed."""
    return [
        lambda: office.schedule(overlap="allow"),
        lambda: office.schedule("other", overlap="allow"),
        lambda: office.wait_until(office.began + 2 * HOUR),
        lambda: office.change(name="more rolls"),
        lambda: office.wait_until(office.began + 3 * HOUR),
    ]


async def outcome(office: LoneAgency) -> object:
    runs = [run.model_dump(exclude={"started_at", "ended_at"}) for run in await office.runs()]
    return sorted(office.made), runs, (await office.info()).next_at


@pytest.mark.parametrize("story", [each_in_turn, side_by_side])
async def test_whenever_an_agency_dies_each_occurrence_gets_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: TrackedThread
) -> None:
    with monkeypatch.context() as patch:
        whole = LoneAgency(tmp_path / "whole", patch)
        await never_dying(whole, *story(whole))
        expected, steps = await outcome(whole), whole.steps
        whole.agency.close()
    assert len(whole.made) >= 3
    for n in range(1, steps + 1):
        with monkeypatch.context() as patch:
            office = LoneAgency(tmp_path / str(n), patch)
            office.dies_at = n
            await never_dying(office, *story(office))
            assert office.steps >= n, "it has died"
            assert await outcome(office) == expected, f"after a death at {n}"
            office.agency.close()


async def test_a_thread_that_was_made_in_the_last_moment_is_known_though_its_agent_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = LoneAgency(tmp_path, monkeypatch)
    await office.call("put_blueprint", {"name": "baker", "description": "d", "prompt": "p"})
    await office.schedule(agentType="baker")

    async def last_deed(creation: Creation) -> None:
        office.made[creation.metadata.id] = creation
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(office, "create", last_deed)
        with pytest.raises(Died):
            await office.wait_until(office.began + HOUR)
    office.reopen()
    await office.call("delete_blueprint", "baker")
    await office.wait()
    (run,) = await office.runs()
    assert (run.status, [run.thread_id]) == ("started", list(office.made))
    office.agency.close()
