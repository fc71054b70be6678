"""Schedules over HTTP: who may do what with them, what is refused, and that they really start threads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.support.gateway_requests import Json, assert_problem, finished
from tests.support.gateways import Server
from tests.support.scripted_system import say, script
from tests.support.waiting import eventually

SLOW = 60.0
"""How long the first threads of an agency may take, on a machine that is busy with other tests."""

DAILY = {"kind": "cron", "cron": "0 6 * * *", "timezone": "Europe/Berlin"}


@pytest.fixture
def path(agency: str) -> str:
    return f"/agency/{agency}/schedules"


def body(*lines: Any, **more: Any) -> dict[str, Any]:
    message = script(*lines) if lines else script(say("done"))
    return {"name": "rolls", "agentType": "clerk", "message": message, **more}


def make(http: httpx.Client, path: str, *lines: Any, **more: Any) -> Json:
    made = http.post(path, json=body(*lines, **more))
    assert made.status_code == 201, made.text
    return made.json()


def runs(http: httpx.Client, path: str, schedule: Json) -> list[Json]:
    """The oldest first."""
    return list(reversed(http.get(f"{path}/{schedule['id']}/runs").json()["runs"]))


async def test_a_schedule_of_every_second_starts_threads_until_it_is_paused(
    http: httpx.Client, agency: str, path: str
) -> None:
    made = make(http, path, kind="interval", everyMs=1_000, overlap="skip")

    def two_completed() -> list[Json]:
        found = [run for run in runs(http, path, made) if run["status"] == "completed"]
        return found if len(found) >= 2 else []

    first, second, *_ = await eventually(two_completed, SLOW)
    assert first["threadId"] != second["threadId"]
    assert finished(http, agency, first["threadId"])["data"] == "done"
    assert http.get(f"/agency/{agency}/agent/{first['threadId']}").json()["scheduleId"] == made["id"]
    apart = datetime.fromisoformat(second["dueAt"]) - datetime.fromisoformat(first["dueAt"])
    assert apart >= timedelta(seconds=1) and not apart % timedelta(seconds=1)
    paused = http.patch(f"{path}/{made['id']}", json={"status": "paused"})
    assert (paused.json()["status"], paused.json()["nextAt"]) == ("paused", None)
    assert http.delete(f"{path}/{made['id']}").status_code == 204
    assert http.get(f"/agency/{agency}/agent/{first['threadId']}").status_code == 200


async def test_once_starts_when_its_time_has_come(http: httpx.Client, path: str) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat()
    made = make(http, path, kind="once", at=soon)

    def done() -> bool:
        return [run["status"] for run in runs(http, path, made)] == ["completed"]

    await eventually(done, SLOW)
    assert http.get(f"{path}/{made['id']}").json()["status"] == "done"


async def test_what_is_run_now_obeys_what_is_going_on(http: httpx.Client, agency: str, path: str) -> None:
    made = make(http, path, say("at last", delay=60), **DAILY)
    run = f"{path}/{made['id']}/run"
    first = http.post(run, json={"idempotencyKey": "once"})
    assert (first.status_code, first.json()["status"], first.json()["by"]) == (201, "started", "person")
    assert http.post(run, json={"idempotencyKey": "once"}).json()["id"] == first.json()["id"]
    assert first.json()["threadId"] in assert_problem(http.post(run), 409, "ERR_WRONG_STATE")
    assert http.patch(f"{path}/{made['id']}", json={"overlap": "queue"}).status_code == 200
    assert http.post(run).json()["status"] == "queued"
    assert http.post(f"/agency/{agency}/agent/{first.json()['threadId']}/cancel").status_code == 200

    def next_in_turn() -> bool:
        return [each["status"] for each in runs(http, path, made)] == ["canceled", "started"]

    await eventually(next_in_turn, SLOW)
    assert http.patch(f"{path}/{made['id']}", json={"overlap": "allow"}).status_code == 200
    assert http.post(run).json()["status"] == "started"
    assert http.delete(f"/agency/{agency}").status_code == 204


def test_schedules_are_made_listed_changed_and_deleted(http: httpx.Client, path: str) -> None:
    made = make(http, path, **DAILY, limits={"turns": 3}, idempotencyKey="daily")
    assert http.post(path, json=body(**DAILY, limits={"turns": 3}, idempotencyKey="daily")).json() == made
    other = http.post(path, json=body(**DAILY, idempotencyKey="daily"))
    assert (other.status_code, other.json()["code"]) == (409, "ERR_IDEMPOTENCY")
    assert (made["status"], made["overlap"], made["catchUp"], made["limits"]["turns"]) == ("active", "skip", "one", 3)
    other = make(http, path, kind="interval", everyMs=86_400_000)
    page = http.get(path, params={"limit": 1}).json()
    rest = http.get(path, params={"after": page["next"]}).json()
    assert (page["schedules"], rest) == ([made], {"schedules": [other], "next": None})
    one = f"{path}/{made['id']}"
    changed = http.patch(one, json={"kind": "interval", "everyMs": 60_000, "limits": None}).json()
    assert (changed["cron"], changed["everyMs"], changed["limits"]) == (None, 60_000, None)
    assert http.get(one).json() == changed
    assert http.delete(one).status_code == 204
    for answer in (http.get(one), http.delete(one), http.post(f"{one}/run"), http.get(f"{one}/runs")):
        assert_problem(answer, 404, "ERR_NOT_FOUND")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "cron", "cron": "every morning"}, "five fields"),
        ({"kind": "cron", "cron": "0 6 * * *", "timezone": "Mars/Olympus"}, "no time zone"),
        ({"kind": "once", "at": "2020-01-01T00:00:00Z"}, "is over"),
        ({"kind": "interval", "everyMs": 10}, "1000"),
        ({"kind": "interval", "everyMs": 5_000, "maxRetries": 3}, "maxRetries"),
        ({}, "kind"),
    ],
)
def test_what_cannot_be_scheduled_is_explained(http: httpx.Client, path: str, wrong: Json, said: str) -> None:
    assert said in assert_problem(http.post(path, json=body(**wrong)), 400, "ERR_INVALID_INPUT")
    assert http.get(path).json()["schedules"] == []


def test_viewers_look_operators_run_and_pause_and_admins_do_the_rest(
    http: httpx.Client, agency: str, path: str, gateway: Server
) -> None:
    made = make(http, path, **DAILY, overlap="allow")
    one = f"{path}/{made['id']}"
    ranks = {"viewer": 0, "operator": 1, "admin": 2}
    for role, rank in ranks.items():
        key = http.post(f"/agency/{agency}/keys", json={"name": role, "role": role}).json()["key"]
        with gateway.client(Authorization=f"Bearer {key}") as holder:
            wanted = {
                0: [holder.get(path), holder.get(one), holder.get(f"{one}/runs")],
                1: [holder.post(f"{one}/run"), holder.patch(one, json={"status": "active"})],
                2: [holder.post(path, json=body(**DAILY)), holder.patch(one, json={"name": "other rolls"})],
            }
        for needed, answers in wanted.items():
            for answer in answers:
                if rank >= needed:
                    assert answer.is_success, answer.text
                else:
                    assert_problem(answer, 403, "ERR_FORBIDDEN")
