"""People and their agents, over HTTP: the inbox, policies, steering, pausing, and families that work in parallel."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from agency.client import Client
from tests.support.gateway_requests import Json, assert_problem, create, finished, message, stored
from tests.support.scripted_system import calls, charging, holding, let_go, noted, noting, say, task
from tests.support.terminals import agency as command
from tests.support.waiting import eventually_sync


def until_paused(http: httpx.Client, agency: str, thread: str, reason: str) -> Json:
    """The run, once it is paused for this; a pause by hand counts when what was being done has ended."""

    def paused() -> Json:
        run = finished(http, agency, thread, wait=1)
        return run if run["meta"]["pauseReason"] == reason else None

    return eventually_sync(paused)


def inbox(http: httpx.Client, agency: str) -> list[Json]:
    page = http.get(f"/agency/{agency}/approvals").json()
    assert page["next"] is None
    return list(page["approvals"])


def test_calls_of_a_child_of_a_child_are_answered_in_the_inbox(http: httpx.Client, agency: str, ledger: Path) -> None:
    asks = task(calls(charging(ledger, "deep")), say("charged"), to="careful")
    thread = create(http, agency, calls(task(calls(asks), say("passed on"))), say("all done"))
    (found,) = eventually_sync(lambda: inbox(http, agency))
    (call,) = found["calls"]
    assert (found["kind"], found["agentType"], call["name"], call["kind"]) == ("calls", "careful", "charge", "approval")
    assert found["parentId"] not in (None, thread)
    assert noted(ledger) == []

    answer = {"decisions": {call["approvalId"]: {"decision": "approve"}, "nonsense": {"decision": "approve"}}}
    came = http.post(f"/agency/{agency}/approvals", json=answer).json()
    assert came["answered"] == [call["approvalId"]]
    assert [(each["approvalId"], each["code"]) for each in came["refused"]] == [("nonsense", "ERR_INVALID_INPUT")]
    assert finished(http, agency, thread)["data"] == "all done"
    assert noted(ledger) == ["charge:deep"]
    again = http.post(f"/agency/{agency}/approvals", json=answer).json()
    assert again["answered"] == []
    assert {each["approvalId"]: each["code"] for each in again["refused"]}[call["approvalId"]] == "ERR_WRONG_STATE"
    assert (inbox(http, agency), noted(ledger)) == ([], ["charge:deep"])


def test_an_answer_names_exactly_what_was_shown_and_works_once(http: httpx.Client, agency: str, ledger: Path) -> None:
    two = (calls(charging(ledger, "one")), calls(charging(ledger, "two")), say("done"))
    thread = create(http, agency, *two, agent="careful")
    at = f"/agency/{agency}/agent/{thread}"
    first = finished(http, agency, thread)["meta"]["pendingToolCalls"][0]["approvalId"]
    with ThreadPoolExecutor(8) as people:
        body = {"decisions": {first: {"decision": "approve"}}}
        codes = list(people.map(lambda _: http.post(f"{at}/approve", json=body).status_code, range(8)))
    assert sorted(codes) == [200, *[409] * 7]
    second = until_paused(http, agency, thread, "hitl")["meta"]["pendingToolCalls"][0]["approvalId"]
    assert_problem(http.post(f"{at}/approve", json=body), 409, "ERR_WRONG_STATE")
    assert noted(ledger) == ["charge:one"]
    respond = {"decisions": {second: {"decision": "respond", "content": "it was paid in cash"}}}
    assert http.post(f"{at}/approve", json=respond).status_code == 200
    assert finished(http, agency, thread)["data"] == "done"
    assert noted(ledger) == ["charge:one"]
    said = http.get(f"{at}/state").json()["state"]["messages"]
    assert [each["content"] for each in said if each["role"] == "tool"] == ["charged one", "it was paid in cash"]


def test_always_is_for_this_tool_in_this_thread(http: httpx.Client, agency: str, ledger: Path) -> None:
    lines = (calls(charging(ledger, "one")), calls(charging(ledger, "two")), say("done"))
    thread, other = (create(http, agency, *lines, agent="careful") for _ in range(2))
    (call,) = finished(http, agency, thread)["meta"]["pendingToolCalls"]
    body = {"decisions": {call["id"]: {"decision": "always"}}}
    assert http.post(f"/agency/{agency}/agent/{thread}/approve", json=body).status_code == 200
    assert finished(http, agency, thread)["data"] == "done"
    assert noted(ledger) == ["charge:one", "charge:two"]
    assert finished(http, agency, other)["meta"]["pauseReason"] == "hitl"


def test_an_agencys_policy_holds_for_agents_that_would_not_ask(http: httpx.Client, agency: str, ledger: Path) -> None:
    at = f"/agency/{agency}/policy"
    assert http.get(at).json() == {"rules": [], "timeoutMs": None, "onTimeout": "deny"}
    large = {"properties": {"what": {"const": "large"}}, "required": ["what"]}
    policy = {"rules": [{"tool": "charge", "when": large, "risk": "high"}], "timeoutMs": 600_000}
    assert http.put(at, json=policy).status_code == 200
    thread = create(http, agency, calls(charging(ledger, "small")), calls(charging(ledger, "large")), say("done"))
    run = finished(http, agency, thread)
    (call,) = run["meta"]["pendingToolCalls"]
    assert (call["args"]["what"], call["risk"], call["onTimeout"]) == ("large", "high", "deny")
    assert call["expiresAt"] is not None
    assert noted(ledger) == ["charge:small"]
    http.put(at, json={"rules": []})
    assert finished(http, agency, create(http, agency, calls(charging(ledger, "large")), say("free")))["data"] == "free"
    wrong = {"rules": [{"tool": "charge", "when": {"type": "nothing"}, "risk": "high"}]}
    assert_problem(http.put(at, json=wrong), 400, "ERR_INVALID_INPUT")


def test_nobody_answers_in_time_and_the_call_is_denied(http: httpx.Client, agency: str, ledger: Path) -> None:
    policy = {"rules": [{"tool": "charge", "risk": "medium"}], "timeoutMs": 300}
    http.put(f"/agency/{agency}/policy", json=policy)
    thread = create(http, agency, calls(charging(ledger, "late")), say("went without"))
    eventually_sync(lambda: finished(http, agency, thread)["status"] != "paused")
    assert (finished(http, agency, thread)["data"], noted(ledger)) == ("went without", [])
    (resumed,) = (event["data"] for event in stored(http, agency, thread) if event["type"] == "hitl.resume")
    assert (resumed["by"], list(resumed["decisions"].values())) == ("timeout", ["deny"])


@pytest.mark.kills
def test_a_call_in_doubt_waits_in_the_inbox_with_what_is_known(http: httpx.Client, agency: str, ledger: Path) -> None:
    pay = ("pay", {"ledger": str(ledger), "what": "bill", "seconds": 60})
    thread = create(http, agency, calls(pay), say("settled"))
    eventually_sync(lambda: noted(ledger) == ["pay:bill"])
    os.kill(int(ledger.read_text().split()[2]), signal.SIGKILL)
    (call,) = eventually_sync(lambda: inbox(http, agency))[0]["calls"]
    assert (call["kind"], call["name"]) == ("in_doubt", "pay")
    assert call["since"] is not None and "may or may not" in call["note"]
    at = f"/agency/{agency}/agent/{thread}/approve"
    left = {"ok": True, "inDoubt": [call["id"]]}
    for wanted in ({"approved": True}, {"approved": True, "modifiedToolCalls": [call]}):
        assert http.post(at, json=wanted).json() == left
    with Client(str(http.base_url)) as client:
        assert client.agency(agency).thread(thread).approve().in_doubt == (call["id"],)
    said = command("approve", "--yes", "--agency", agency, folder=ledger.parent, AGENCY_URL=str(http.base_url))
    assert said.returncode == 0 and "goes on waiting" in said.stderr and "--rerun" in said.stderr
    for decision in ({"decision": "approve"}, {"decision": "always"}, {"decision": "edit", "args": {}}):
        assert_problem(http.post(at, json={"decisions": {call["id"]: decision}}), 400, "ERR_INVALID_INPUT")
    told = {"decisions": {call["approvalId"]: {"decision": "happened", "result": {"the bank": "it was paid"}}}}
    assert http.post(f"/agency/{agency}/approvals", json=told).json()["refused"] == []
    assert finished(http, agency, thread)["data"] == "settled"
    assert noted(ledger) == ["pay:bill"]
    of_people = [event for event in stored(http, agency, thread) if event["type"].startswith("hitl.")]
    assert [event["data"].get("kind") for event in of_people] == ["in_doubt", None]


def test_a_message_interrupts_the_model_and_one_for_later_starts_the_next_run(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("never said", delay=60))
    at = f"/agency/{agency}/agent/{thread}/invoke"
    later = http.post(at, json={"messages": message(say("the second")), "when": "next_run", "idempotencyKey": "later"})
    assert (later.status_code, later.json()) == (202, {"runId": f"{thread}.2", "status": "queued"})
    again = http.post(at, json={"messages": message(say("the second")), "when": "next_run", "idempotencyKey": "later"})
    assert again.json() == later.json()
    now = http.post(at, json={"messages": message(say("the first")), "when": "now"})
    assert (now.status_code, now.json()["runId"]) == (202, f"{thread}.1")
    eventually_sync(lambda: finished(http, agency, thread)["runId"] == f"{thread}.2")
    run = finished(http, agency, thread)
    assert (run["status"], run["data"]) == ("completed", "the second")
    results = [e["data"]["result"] for e in stored(http, agency, thread) if e["type"] == "agent.completed"]
    assert results == ["the first", "the second"]
    assert_problem(http.post(at, json={"messages": message(say("x")), "when": "soon"}), 400, "ERR_INVALID_INPUT")


def test_a_run_is_paused_by_hand_finishes_what_it_does_and_goes_on_when_told(
    http: httpx.Client, agency: str, ledger: Path
) -> None:
    lines = (calls(holding(ledger, "slow")), calls(noting(ledger, "next")), say("done"))
    thread = create(http, agency, *lines)
    at = f"/agency/{agency}/agent/{thread}"
    assert_problem(http.post(f"{at}/resume"), 409, "ERR_WRONG_STATE")
    assert http.post(f"{at}/pause").json() == {"ok": True}
    assert_problem(http.post(f"{at}/pause"), 409, "ERR_WRONG_STATE")
    let_go(ledger, "slow")
    until_paused(http, agency, thread, "manual")
    assert "begin:next" not in noted(ledger)
    assert http.get(at).json()["reason"] == "manual"
    assert http.post(f"{at}/resume").json() == {"ok": True}
    assert finished(http, agency, thread)["data"] == "done"
    assert_problem(http.post(f"{at}/pause"), 409, "ERR_WRONG_STATE")
    events = [event["type"] for event in stored(http, agency, thread)]
    assert (events.count("run.paused"), events.count("run.resumed")) == (1, 1)


def test_tasks_in_the_background_are_waited_for_and_files_come_back(http: httpx.Client, agency: str) -> None:
    def background(text: str) -> tuple[str, Json]:
        writes = calls(("write_file", {"path": f"/{text}.md", "content": f"about {text}"}))
        name, args = task(writes, say(text))
        return name, {**args, "background": True, "returnFiles": [f"/{text}.md"]}

    lines = (calls(background("bread"), background("cake")), calls(("wait_for_tasks", {})), say("both are back"))
    thread = create(http, agency, *lines)
    assert finished(http, agency, thread)["data"] == "both are back"
    state = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]
    assert state["files"] == {"/bread.md": "about bread", "/cake.md": "about cake"}
    assert [(each["status"], each["background"]) for each in state["subagents"]] == [("completed", True)] * 2
    waited = [each["content"] for each in state["messages"] if each["role"] == "tool"][-1]
    assert "bread" in waited and "cake" in waited


def test_when_a_parent_is_canceled_its_tasks_in_the_background_are_too(http: httpx.Client, agency: str) -> None:
    name, args = task(say("never", delay=60))
    thread = create(http, agency, calls((name, {**args, "background": True})), say("never", delay=60))
    at_work = {"parent": thread, "status": "running"}
    (child,) = eventually_sync(lambda: http.get(f"/agency/{agency}/agents", params=at_work).json()["agents"])
    assert http.post(f"/agency/{agency}/agent/{thread}/cancel").status_code == 200
    assert finished(http, agency, child["id"])["status"] == "canceled"


@pytest.mark.parametrize("where", ["agents", "invoke", "approve"])
def test_text_that_is_no_text_is_refused_at_the_door(http: httpx.Client, agency: str, where: str) -> None:
    lone = '"\\ud800"'
    bodies = {
        "agents": f'{{"agentType": "clerk", "files": {{"/a": {lone}}}}}',
        "invoke": f'{{"messages": [{{"content": {lone}}}]}}',
        "approve": f'{{"approved": false, "reason": {lone}}}',
    }
    at = f"/agency/{agency}/agents"
    if where != "agents":
        at = f"/agency/{agency}/agent/{create(http, agency)}/{where}"
    answer = http.post(at, content=bodies[where], headers={"content-type": "application/json"})
    assert_problem(answer, 400, "ERR_INVALID_INPUT")
