"""What the API says of threads, runs and calls, and what it takes: as the contract has it."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from tests.support.gateway_requests import Json, assert_problem, create, finished, message, stored
from tests.support.scripted_system import calls, say, task
from tests.support.waiting import eventually_sync

PATIENCE = 20.0


def at(agency: str, thread: str, *more: str) -> str:
    return "/".join((f"/agency/{agency}/agent/{thread}", *more))


def state(http: httpx.Client, agency: str, thread: str) -> Json:
    return http.get(at(agency, thread, "state")).json()


def paused(http: httpx.Client, agency: str, thread: str) -> None:
    eventually_sync(lambda: state(http, agency, thread)["run"]["status"] == "paused", PATIENCE)


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"files": {"/a.txt": "a"}}], ids=["none", "empty", "files"])
def test_invoking_without_messages_starts_a_run(http: httpx.Client, agency: str, body: Json) -> None:
    thread = create(http, agency)
    assert state(http, agency, thread)["run"] == {
        "runId": "",
        "status": "registered",
        "step": 0,
        "reason": None,
        "nextAlarmAt": None,
    }
    answer = http.post(at(agency, thread, "invoke"), json=body)
    assert (answer.status_code, answer.json()["runId"]) == (202, f"{thread}.1")
    assert finished(http, agency, thread)["runId"] == f"{thread}.1"


def test_messages_of_a_state_start_another_thread(http: httpx.Client, agency: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").touch()
    noting = ("note", {"ledger": str(tmp_path / "ledger"), "what": "x"})
    thread = create(http, agency, calls(noting), say("done"))
    finished(http, agency, thread)
    said = state(http, agency, thread)["state"]["messages"]
    again = {"agentType": "clerk", "messages": [*said, *message(say("again"))]}
    other = http.post(f"/agency/{agency}/agents", json=again).json()["id"]
    assert finished(http, agency, other)["data"] == "again"
    copied = state(http, agency, other)["state"]["messages"]
    assert [(m["role"], m["content"], m["toolCallId"]) for m in copied][: len(said)] == [
        (m["role"], m["content"], m["toolCallId"]) for m in said
    ]
    assert (tmp_path / "ledger").read_text().count("begin:x") == 1, "no call is run again"
    half = [each for each in said if each["role"] != "tool"]
    refused = http.post(at(agency, other, "invoke"), json={"messages": half})
    assert "has no result" in assert_problem(refused, 400, "ERR_INVALID_INPUT")


def test_the_same_key_with_another_body_is_refused(http: httpx.Client, agency: str) -> None:
    first = {"messages": message(say("one")), "idempotencyKey": "k"}
    other = {"messages": message(say("two")), "idempotencyKey": "k"}
    thread = create(http, agency)
    made = {
        at(agency, thread, "invoke"): (first, other),
        "/agencies": ({"name": "a", "idempotencyKey": f"{agency} k"}, {"name": "b", "idempotencyKey": f"{agency} k"}),
        f"/agency/{agency}/agents": ({"agentType": "clerk", **first}, {"agentType": "clerk", **other}),
        at(agency, thread, "fork"): (first, other),
    }
    for path, (one, two) in made.items():
        answer = http.post(path, json=one)
        assert answer.is_success, answer.text
        assert http.post(path, json=one).json() == answer.json()
        assert_problem(http.post(path, json=two), 409, "ERR_IDEMPOTENCY")


def test_a_call_is_whole_where_its_events_are_cut(http: httpx.Client, agency: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").touch()
    long = "x" * 5_000
    thread = create(http, agency, calls(("note", {"ledger": str(tmp_path / "ledger"), "what": long})), say("done"))
    finished(http, agency, thread)
    (started,) = [event for event in stored(http, agency, thread) if event["type"] == "tool.started"]
    assert started["data"]["truncated"] is True
    call = at(agency, thread, "call", started["data"]["callId"])
    for query in ({}, {"seq": started["seq"]}):
        whole = http.get(call, params=query).json()
        assert (whole["toolName"], whole["status"], whole["args"]["what"]) == ("note", "success", long)
    assert_problem(http.get(at(agency, thread, "call", "nothing")), 404, "ERR_NOT_FOUND")


def test_a_run_says_what_it_waits_for_and_who_ended_it(http: httpx.Client, agency: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").touch()
    charge = ("charge", {"ledger": str(tmp_path / "ledger"), "what": "seven"})
    thread = create(http, agency, calls(charge), agent="careful")
    paused(http, agency, thread)
    waiting = state(http, agency, thread)
    (pending,) = waiting["state"]["pendingToolCalls"]
    assert (pending["name"], pending["args"]["what"]) == ("charge", "seven")
    assert http.get(at(agency, thread, "call", pending["id"])).json()["status"] == "waiting"
    assert http.post(at(agency, thread, "cancel")).status_code == 200
    ended = state(http, agency, thread)
    assert (ended["run"]["status"], ended["run"]["reason"]) == ("canceled", "user")
    assert ended["state"]["pendingToolCalls"] is None


def test_links_to_subagents_have_times_in_milliseconds(http: httpx.Client, agency: str) -> None:
    before = time.time() * 1_000 - 1_000
    thread = create(http, agency, calls(task(say("it is blue"))), say("done"))
    finished(http, agency, thread)
    (link,) = state(http, agency, thread)["state"]["subagents"]
    assert before < link["createdAt"] <= link["completedAt"] <= time.time() * 1_000 + 1_000


def test_every_request_that_was_accepted_has_a_key(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("one"))
    finished(http, agency, thread)
    http.post(at(agency, thread, "invoke"), json={"messages": message(say("two"))})
    finished(http, agency, thread)
    keys = [e["data"]["idempotencyKey"] for e in stored(http, agency, thread) if e["type"] == "request.accepted"]
    assert len(set(keys)) == 2
    assert all(keys)
