"""Threads over HTTP, as anybody would use them: the contract of the API, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.gateway_requests import Json, assert_problem, create, finished, message, stored
from tests.support.scripted_system import calls, holding, let_go, noting, say, task


def test_a_new_thread_works_on_its_message_and_the_envelope_tells_what_came_of_it(
    http: httpx.Client, agency: str
) -> None:
    thread = create(http, agency, say("It is on its way."))
    run = finished(http, agency, thread)
    assert (run["runId"], run["status"], run["data"], run["errors"]) == (
        f"{thread}.1",
        "completed",
        "It is on its way.",
        [],
    )
    meta = run["meta"]
    assert (meta["threadId"], meta["agentType"], meta["turns"]) == (thread, "clerk", 1)
    assert (meta["tokensUsed"]["input"], meta["tokensUsed"]["output"], meta["costUsd"]) == (10, 5, None)
    assert run["timestamp"] > 1_700_000_000_000


def test_metadata_names_the_agent_the_agency_and_where_the_request_came_from(http: httpx.Client, agency: str) -> None:
    page = str(http.base_url).rstrip("/")  # of this server: pages of others change nothing
    headers = {"User-Agent": "a test", "Referer": "https://shop.example/page", "Origin": page}
    made = http.post(f"/agency/{agency}/agents", json={"agentType": "clerk"}, headers=headers)
    assert made.status_code == 201
    body = made.json()
    assert (body["agentType"], body["agencyId"], body["parent"]) == ("clerk", agency, None)
    assert body["request"] == {
        "userAgent": "a test",
        "ip": "127.0.0.1",
        "referrer": "https://shop.example/page",
        "origin": page,
        "cf": None,
    }


def test_children_inherit_where_the_request_came_from(http: httpx.Client, agency: str) -> None:
    body = {"agentType": "clerk", "messages": message(calls(task(say("done"))), say("all done"))}
    parent = http.post(f"/agency/{agency}/agents", json=body, headers={"User-Agent": "a grandparent"}).json()["id"]
    finished(http, agency, parent)
    (child,) = http.get(f"/agency/{agency}/agents", params={"parent": parent}).json()["agents"]
    assert (child["agentType"], child["parent"]["threadId"]) == ("worker", parent)
    assert child["request"]["userAgent"] == "a grandparent"


def test_invoking_starts_a_run_or_joins_the_one_in_progress(http: httpx.Client, agency: str, ledger: Path) -> None:
    thread = create(http, agency, calls(holding(ledger, "work")), say("first"))
    joined = http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say("second"))})
    assert (joined.status_code, joined.json()) == (202, {"runId": f"{thread}.1", "status": "running"})
    let_go(ledger, "work")
    assert finished(http, agency, thread)["data"] == "second"
    again = http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say("third"))})
    assert (again.status_code, again.json()["runId"]) == (202, f"{thread}.2")
    assert finished(http, agency, thread)["data"] == "third"


def test_an_idempotency_key_repeated_gives_the_first_answer(http: httpx.Client, agency: str) -> None:
    body = {"agentType": "clerk", "messages": message(say("once")), "idempotencyKey": "order 7/ä"}
    first, second = (http.post(f"/agency/{agency}/agents", json=body) for _ in range(2))
    assert (first.status_code, first.json()) == (second.status_code, second.json())
    thread = first.json()["id"]
    assert len(http.get(f"/agency/{agency}/agents").json()["agents"]) == 1
    finished(http, agency, thread)
    body = {"messages": message(say("more")), "idempotencyKey": "more"}
    answers = [http.post(f"/agency/{agency}/agent/{thread}/invoke", json=body) for _ in range(2)]
    finished(http, agency, thread)
    answers.append(http.post(f"/agency/{agency}/agent/{thread}/invoke", json=body))
    assert [(a.status_code, a.json()) for a in answers] == [(202, {"runId": f"{thread}.2", "status": "running"})] * 3
    assert [event["type"] for event in stored(http, agency, thread)].count("run.started") == 2

    named = {"name": "twice", "idempotencyKey": f"of {agency}"}
    one, two = (http.post("/agencies", json=named) for _ in range(2))
    assert (one.status_code, one.json()) == (two.status_code, two.json())


def test_state_shows_the_conversation_the_tools_and_what_middleware_keep(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("Hello."), files={"/order.txt": "seven rolls"})
    finished(http, agency, thread)
    body = http.get(f"/agency/{agency}/agent/{thread}/state").json()
    state, run = body["state"], body["run"]
    assert [(m["role"], m["content"]) for m in state["messages"]][1:] == [("assistant", "Hello.")]
    assert {"write_todos", "read_file", "task", "note"} <= {tool["name"] for tool in state["tools"]}
    assert (state["threadId"], state["agentType"], state["parent"]) == (thread, "clerk", None)
    assert (state["thread"]["id"], state["model"]) == (thread, "script:any")
    assert (state["files"], state["todos"], state["subagents"]) == ({"/order.txt": "seven rolls"}, [], [])
    assert (run["runId"], run["status"], run["step"], run["reason"]) == (f"{thread}.1", "completed", 1, None)


def test_a_fork_has_what_was_there_after_an_event_and_says_where_it_comes_from(http: httpx.Client, agency: str) -> None:
    write = [calls(("write_file", {"path": "/a", "content": text})) for text in ("one", "two")]
    thread = create(http, agency, write[0], say("first"))
    finished(http, agency, thread)
    before = stored(http, agency, thread)
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(write[1], say("second"))})
    finished(http, agency, thread)
    body = {"afterSeq": len(before), "messages": message(say("third")), "idempotencyKey": "once"}
    made, again = (http.post(f"/agency/{agency}/agent/{thread}/fork", json=body) for _ in range(2))
    assert (made.status_code, made.json()) == (again.status_code, again.json())
    origin = {"threadId": thread, "seq": len(before)}
    assert (made.status_code, made.json()["forkedFrom"], made.json()["parent"]) == (201, origin, None)
    fork = made.json()["id"]
    assert finished(http, agency, fork)["data"] == "third"
    state = http.get(f"/agency/{agency}/agent/{fork}/state").json()["state"]
    assert (state["files"], state["thread"]["forkedFrom"]) == ({"/a": "one"}, origin)
    assert [event["data"] for event in stored(http, agency, fork)][1 : len(before)] == [
        {**event["data"], "runId": f"{fork}.1"} for event in before[1:]
    ]
    listed = http.get(f"/agency/{agency}/agents").json()["agents"]
    assert [each["forkedFrom"] for each in listed] == [origin, None]


def test_a_message_is_edited_and_run_again(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("first"))
    finished(http, agency, thread)
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say("second"))})
    finished(http, agency, thread)
    messages = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]["messages"]
    body = {"beforeMessage": messages[2]["id"], "messages": message(say("another"))}
    fork = http.post(f"/agency/{agency}/agent/{thread}/fork", json=body).json()["id"]
    assert finished(http, agency, fork)["data"] == "another"
    edited = http.get(f"/agency/{agency}/agent/{fork}/state").json()["state"]["messages"]
    assert [each["content"] for each in edited[1::2]] == ["first", "another"]
    assert edited[:2] == messages[:2]


def test_a_fork_that_makes_no_sense_is_refused(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("first"))
    finished(http, agency, thread)
    where = f"/agency/{agency}/agent/{thread}/fork"
    wrong: tuple[Json, ...] = (
        {"afterSeq": 0},
        {"afterSeq": 10_000},
        {"beforeMessage": "m9.9"},
        {"afterSeq": 1, "beforeMessage": "m1.1"},
    )
    for body in wrong:
        assert_problem(http.post(where, json=body), 400, "ERR_INVALID_INPUT")
    other = http.post("/agencies", json={"name": "other"}).json()["id"]
    for missing in (f"/agency/{agency}/agent/thr_nobody/fork", f"/agency/{other}/agent/{thread}/fork"):
        assert_problem(http.post(missing, json={}), 404, "ERR_NOT_FOUND")
    assert len(http.get(f"/agency/{agency}/agents").json()["agents"]) == 1
    assert http.post(where).status_code == 201, "without a body, as it is now"


def test_events_come_in_pages_that_follow_each_other(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("Hello."))
    finished(http, agency, thread)
    every = stored(http, agency, thread)
    assert [event["seq"] for event in every] == list(range(1, len(every) + 1))
    assert {event["threadId"] for event in every} == {thread}
    assert (every[0]["type"], every[-1]["type"]) == ("thread.created", "agent.completed")
    paged: list[Json] = []
    after: int | None = 0
    while after is not None:
        page = http.get(f"/agency/{agency}/agent/{thread}/events", params={"after": after, "limit": 3}).json()
        assert len(page["events"]) <= 3
        paged += page["events"]
        after = page["next"]
    assert paged == every


def test_a_thread_that_has_not_run_has_no_run(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    assert_problem(http.get(f"/agency/{agency}/agent/{thread}/run"), 404, "ERR_NOT_FOUND")
    assert_problem(http.get(f"/agency/{agency}/agent/{thread}/run?wait=1"), 404, "ERR_NOT_FOUND")
    assert http.get(f"/agency/{agency}/agent/{thread}/state").json()["run"]["status"] == "registered"


def test_waiting_for_a_run_ends_when_the_time_is_up(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("late", delay=30))
    run = finished(http, agency, thread, wait=0.3)
    assert (run["status"], run["data"]) == ("running", None)
    assert http.post(f"/agency/{agency}/agent/{thread}/cancel").json() == {"ok": True}


# People.


@pytest.fixture
def asked(http: httpx.Client, agency: str, tmp_path: Path) -> tuple[str, Path]:
    """A thread that waits for a person with two calls, and the ledger that the calls write to."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    wanted = [("charge", {"ledger": str(ledger), "what": what}) for what in ("seven", "eight")]
    thread = create(http, agency, calls(*wanted), say("charged"), agent="careful")
    run = finished(http, agency, thread)
    assert (run["status"], run["meta"]["pauseReason"]) == ("paused", "hitl")
    assert [call["args"]["what"] for call in run["meta"]["pendingToolCalls"]] == ["seven", "eight"]
    return thread, ledger


def charges(ledger: Path) -> list[str]:
    return sorted(line.split()[0] for line in ledger.read_text().splitlines())


def test_approving_lets_every_call_run(http: httpx.Client, agency: str, asked: tuple[str, Path]) -> None:
    thread, ledger = asked
    answer = http.post(f"/agency/{agency}/agent/{thread}/approve", json={"approved": True})
    assert (answer.status_code, answer.json()) == (200, {"ok": True})
    assert finished(http, agency, thread)["data"] == "charged"
    assert charges(ledger) == ["charge:eight", "charge:seven"]


def test_denied_calls_never_run_and_the_model_is_told_why(
    http: httpx.Client, agency: str, asked: tuple[str, Path]
) -> None:
    thread, ledger = asked
    http.post(f"/agency/{agency}/agent/{thread}/approve", json={"approved": False, "reason": "too much"})
    finished(http, agency, thread)
    assert charges(ledger) == []
    messages = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]["messages"]
    assert ["too much" in m["content"] for m in messages if m["role"] == "tool"] == [True, True]


def test_modified_calls_run_as_modified_and_the_others_as_they_are(
    http: httpx.Client, agency: str, asked: tuple[str, Path]
) -> None:
    thread, ledger = asked
    first = finished(http, agency, thread)["meta"]["pendingToolCalls"][0]
    edited = {"id": first["id"], "name": "charge", "args": {**first["args"], "what": "six"}}
    body = {"approved": True, "modifiedToolCalls": [edited], "idempotencyKey": "an answer"}
    for _ in range(2):
        assert http.post(f"/agency/{agency}/agent/{thread}/approve", json=body).json() == {"ok": True}
    assert finished(http, agency, thread)["data"] == "charged"
    assert http.post(f"/agency/{agency}/agent/{thread}/approve", json=body).json() == {"ok": True}
    assert charges(ledger) == ["charge:eight", "charge:six"]


def test_calls_are_decided_one_by_one(http: httpx.Client, agency: str, asked: tuple[str, Path]) -> None:
    thread, ledger = asked
    one, two = (call["id"] for call in finished(http, agency, thread)["meta"]["pendingToolCalls"])
    address = f"/agency/{agency}/agent/{thread}/approve"
    assert http.post(address, json={"decisions": {one: {"decision": "approve"}}}).status_code == 200
    run = finished(http, agency, thread)
    assert [call["id"] for call in run["meta"]["pendingToolCalls"]] == [two]
    assert charges(ledger) == []
    http.post(address, json={"decisions": {two: {"decision": "deny", "reason": "no"}}})
    assert finished(http, agency, thread)["status"] == "completed"
    assert charges(ledger) == ["charge:seven"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"approved": True, "decisions": {"x": {"decision": "approve"}}},
        {"approved": False, "modifiedToolCalls": [{"id": "x", "name": "charge", "args": {}}]},
        {"approved": True, "modifiedToolCalls": [{"id": "unknown", "name": "charge", "args": {}}]},
        {"approved": True, "reason": "because"},
        {"decisions": {}},
        {"decisions": {"unknown": {"decision": "approve"}}},
        {"decisions": {"unknown": {"decision": "perhaps"}}},
        {"approved": "yes"},
        {"approved": True, "surprise": 1},
    ],
)
def test_an_answer_that_makes_no_sense_is_refused_and_changes_nothing(
    http: httpx.Client, agency: str, asked: tuple[str, Path], body: dict[str, object]
) -> None:
    thread, ledger = asked
    before = stored(http, agency, thread)
    assert_problem(http.post(f"/agency/{agency}/agent/{thread}/approve", json=body), 400, "ERR_INVALID_INPUT")
    assert finished(http, agency, thread)["status"] == "paused"
    assert (stored(http, agency, thread), charges(ledger)) == (before, [])


def test_an_answer_that_nobody_waits_for_is_refused(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("done"))
    finished(http, agency, thread)
    before = stored(http, agency, thread)
    assert_problem(
        http.post(f"/agency/{agency}/agent/{thread}/approve", json={"approved": True}), 409, "ERR_WRONG_STATE"
    )
    assert_problem(http.post(f"/agency/{agency}/agent/{thread}/limits", json={"tokens": 5}), 409, "ERR_WRONG_STATE")
    assert stored(http, agency, thread) == before


def test_everything_that_waits_for_a_person_is_listed_childrens_calls_too(
    http: httpx.Client, agency: str, asked: tuple[str, Path]
) -> None:
    thread, ledger = asked
    wanted = calls(("charge", {"ledger": str(ledger), "what": "nine"}))
    parent = create(http, agency, calls(task(wanted, say("done"), to="careful")), say("done"))
    found: dict[str, list[str]] = {}
    while len(found) < 2:
        page = http.get(f"/agency/{agency}/approvals").json()
        found = {each["threadId"]: [call["args"]["what"] for call in each["calls"]] for each in page["approvals"]}
    (child,) = found.keys() - {thread}
    assert found == {thread: ["seven", "eight"], child: ["nine"]}
    assert http.post(f"/agency/{agency}/agent/{child}/approve", json={"approved": True}).status_code == 200
    assert finished(http, agency, parent)["data"] == "done"


def test_waiting_ends_when_a_descendant_waits_for_a_person_who_is_told_where(
    http: httpx.Client, agency: str, tmp_path: Path
) -> None:
    charge = calls(("charge", {"ledger": str(tmp_path / "ledger"), "what": "one"}))
    careful = task(charge, say("charged"), to="careful")
    thread = create(http, agency, calls(task(calls(careful), say("had it charged"))), say("done"))
    run = http.get(f"/agency/{agency}/agent/{thread}/run", params={"wait": 20}).json()
    waiting = run["meta"]["waitingFor"]
    assert (run["status"], run["meta"]["pauseReason"], run["meta"]["activity"]["kind"]) == (
        "paused",
        "subagent",
        "waiting",
    )
    asked = http.get(f"/agency/{agency}/agent/{waiting['threadId']}/run").json()["meta"]["pendingToolCalls"]
    assert [(call["id"], waiting["reason"]) for call in asked] == [(waiting["callId"], "hitl")]
    http.post(f"/agency/{agency}/agent/{waiting['threadId']}/approve", json={"approved": True})
    ended = finished(http, agency, thread)
    assert (ended["data"], ended["meta"]["waitingFor"]) == ("done", None)
    assert ended["meta"]["capabilitiesUsed"]["nativeSubagentsUsed"] == ["worker"]


def test_canceling_ends_the_run_and_its_children(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, calls(task(say("never", delay=60))), say("done"))
    while not (children := http.get(f"/agency/{agency}/agents?parent={thread}").json()["agents"]):
        pass
    assert http.post(f"/agency/{agency}/agent/{thread}/cancel").json() == {"ok": True}
    run = finished(http, agency, thread)
    assert (run["status"], run["errors"][0]["code"]) == ("canceled", "ERR_CANCELED")
    child = finished(http, agency, children[0]["id"])
    assert (child["status"], child["meta"]["canceledBy"]) == ("canceled", {"kind": "parent", "name": thread})
    assert run["meta"]["canceledBy"] == {"kind": "person", "name": None}


def test_a_limit_that_is_used_up_can_be_lifted(http: httpx.Client, agency: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").touch()
    lines = [calls(noting(tmp_path / "ledger", "work")), say("done")]
    thread = create(http, agency, *lines, limits={"tokens": 12})
    run = finished(http, agency, thread)
    assert (run["status"], run["meta"]["pauseReason"], run["errors"][0]["code"]) == (
        "paused",
        "exhausted",
        "ERR_TOKEN_LIMIT",
    )
    assert http.post(f"/agency/{agency}/agent/{thread}/limits", json={"tokens": 1_000}).json() == {"ok": True}
    assert finished(http, agency, thread)["data"] == "done"


# Deleting, listing, refusing.


def test_a_deleted_thread_is_gone_with_its_children(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, calls(task(say("done"))), say("done"))
    finished(http, agency, thread)
    other = create(http, agency, say("stays"))
    assert http.delete(f"/agency/{agency}/agent/{thread}").status_code == 204
    assert [each["id"] for each in http.get(f"/agency/{agency}/agents").json()["agents"]] == [other]
    for path in ("", "/state", "/run", "/events"):
        assert_problem(http.get(f"/agency/{agency}/agent/{thread}{path}"), 404, "ERR_NOT_FOUND")
    assert_problem(http.delete(f"/agency/{agency}/agent/{thread}"), 404, "ERR_NOT_FOUND")


def test_lists_of_threads_say_what_each_is_doing(http: httpx.Client, agency: str, asked: tuple[str, Path]) -> None:
    done = create(http, agency, say("done"))
    idle = create(http, agency)
    finished(http, agency, done)
    waiting, _ = asked
    expected = {waiting: ("paused", "hitl"), done: ("completed", None), idle: ("registered", None)}
    agents = http.get(f"/agency/{agency}/agents").json()["agents"]
    seen = {each["id"]: (each["status"], each["reason"]) for each in agents}
    assert seen == expected
    assert list(seen) == [idle, done, waiting]
    newest = http.get(f"/agency/{agency}/agents", params={"limit": 2}).json()
    assert [each["id"] for each in newest["agents"]] == [idle, done]
    rest = http.get(f"/agency/{agency}/agents", params={"after": newest["next"]}).json()
    assert ([each["id"] for each in rest["agents"]], rest["next"]) == ([waiting], None)
    oldest = http.get(f"/agency/{agency}/agents", params={"order": "oldest", "limit": 1}).json()
    assert [each["id"] for each in oldest["agents"]] == [waiting]
    only = http.get(f"/agency/{agency}/agents", params={"status": "completed"}).json()
    assert [each["id"] for each in only["agents"]] == [done]
    one = http.get(f"/agency/{agency}/agent/{done}").json()
    assert (one["id"], one["status"]) == (done, "completed")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "messages": [{"role": "judge", "content": "I say so"}]}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "messages": [{"role": "user", "content": "   "}]}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "messages": "hello"}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "files": {"/..": "x"}}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "files": {"/a": "x", "a": "y"}}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "limits": {"turns": 0}}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "surprise": True}, "ERR_INVALID_INPUT"),
        ({"agentType": "retired"}, "ERR_INVALID_INPUT"),
        ({"agentType": "clerk", "idempotencyKey": "a\nb"}, "ERR_INVALID_INPUT"),
    ],
)
def test_a_thread_that_cannot_be_made_is_refused_and_leaves_nothing(
    http: httpx.Client, agency: str, body: dict[str, object], code: str
) -> None:
    assert_problem(http.post(f"/agency/{agency}/agents", json=body), 400, code)
    assert http.get(f"/agency/{agency}/agents").json() == {"agents": [], "next": None}


def test_an_unknown_agent_is_named_with_those_there_are(http: httpx.Client, agency: str) -> None:
    answer = http.post(f"/agency/{agency}/agents", json={"agentType": "nobody"})
    assert "clerk" in assert_problem(answer, 404, "ERR_NOT_FOUND")


@pytest.mark.parametrize("content", [b"{", b"[]", b'"text"', b"\xff\xfe", b'{"messages": NaN}'])
def test_rubbish_is_refused(http: httpx.Client, agency: str, content: bytes) -> None:
    thread = create(http, agency)
    headers = {"Content-Type": "application/json"}
    answer = http.post(f"/agency/{agency}/agent/{thread}/invoke", content=content, headers=headers)
    assert_problem(answer, 400, "ERR_INVALID_INPUT")
    assert len(stored(http, agency, thread)) == 1


def test_what_is_meant_for_another_thread_is_refused(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    for wrong in ({"threadId": "another"}, {"agentType": "worker"}):
        body = {"messages": message(say("no")), **wrong}
        answer = http.post(f"/agency/{agency}/agent/{thread}/invoke", json=body)
        assert_problem(answer, 400, "ERR_INVALID_INPUT")
    right = {"messages": message(say("yes")), "threadId": thread, "agentType": "clerk"}
    assert http.post(f"/agency/{agency}/agent/{thread}/invoke", json=right).status_code == 202


def test_keys_of_different_requests_do_not_meet(http: httpx.Client, agency: str, asked: tuple[str, Path]) -> None:
    thread, _ = asked
    at = f"/agency/{agency}/agent/{thread}"
    for key in ("creation", "approve:q", "q"):
        body = {"messages": message(say(f"by {key}")), "idempotencyKey": key}
        assert http.post(f"{at}/invoke", json=body).status_code == 202
    assert http.post(f"{at}/approve", json={"approved": True, "idempotencyKey": "q"}).status_code == 200
    assert finished(http, agency, thread)["status"] == "completed"
    said = [m["content"] for m in http.get(f"{at}/state").json()["state"]["messages"] if m["role"] == "user"]
    assert ["by creation" in said[1], "by approve:q" in said[2], "by q" in said[3]] == [True, True, True]
    accepted = [e["data"] for e in stored(http, agency, thread) if e["type"] == "request.accepted"]
    ours, *theirs = [data["idempotencyKey"] for data in accepted]
    assert (len(ours), theirs) == (24, ["creation", "approve:q", "q"])


def test_a_body_that_is_not_sent_as_json_is_told_so(http: httpx.Client, agency: str) -> None:
    for kind in ("application/xml", "application/x-www-form-urlencoded"):
        headers = {"Content-Type": kind}
        answer = http.post(f"/agency/{agency}/agents", content=b'{"agentType": "clerk"}', headers=headers)
        assert "application/json" in assert_problem(answer, 400, "ERR_INVALID_INPUT")
    assert http.get(f"/agency/{agency}/agents").json()["agents"] == []
