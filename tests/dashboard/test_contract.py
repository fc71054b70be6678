"""The wire contract as a client finds it that was written for it long ago: what it may leave out, send and expect."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.types import Message
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agency.errors import DefinitionError, Unavailable
from dashboard.gateway.live import WholeHistory
from dashboard.gateway.settings import GatewaySettings
from tests.support.gateway_requests import Json, assert_problem, create, finished, message, socket_events, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, noted, say, task

PLAIN = {"name": "greeter", "prompt": "You greet."}


def invoke(http: httpx.Client, agency: str, thread: str, **body: Json) -> httpx.Response:
    return http.post(f"/agency/{agency}/agent/{thread}/invoke", json=body)


# Blueprints.


@pytest.fixture
def blueprints(agency: str) -> str:
    return f"/agency/{agency}/blueprints"


def of_name(http: httpx.Client, blueprints: str, name: str) -> Json:
    return next(each for each in http.get(blueprints).json()["blueprints"] if each["name"] == name)


def test_a_blueprint_that_is_put_is_answered_with_ok_and_its_name(http: httpx.Client, blueprints: str) -> None:
    answer = http.post(blueprints, json=PLAIN)
    assert answer.status_code == 201
    body = answer.json()
    assert (body["ok"], body["name"], body["prompt"], body["warnings"]) == (True, "greeter", "You greet.", [])
    again = http.post(blueprints, json=PLAIN)
    assert (again.status_code, again.json()["ok"]) == (200, True)


def test_a_blueprint_needs_no_description(http: httpx.Client, agency: str, blueprints: str) -> None:
    assert http.post(blueprints, json=PLAIN).json()["description"] == ""
    thread = create(http, agency, say("hello"), agent="greeter")
    assert finished(http, agency, thread)["data"] == "hello"
    parent = create(http, agency, calls(task(say("hello"), to="greeter")), say("greeted"))
    assert finished(http, agency, parent)["data"] == "greeted"


def test_tags_and_sections_that_mean_nothing_here_are_kept_and_reported(
    http: httpx.Client, agency: str, blueprints: str
) -> None:
    strange = {**PLAIN, "tags": ["default", "analytics"], "config": {"crystal_ball": {"clear": True}, "hitl": {}}}
    answer = http.post(blueprints, json=strange)
    assert answer.status_code == 201, answer.text
    tags, ball, hitl = answer.json()["warnings"]
    assert "['analytics']" in tags and "'default'" in tags, "with those there are"
    assert "config.crystal_ball" in ball and "config.hitl" in hitl
    listed = of_name(http, blueprints, "greeter")
    assert (listed["tags"], listed["config"]) == (strange["tags"], strange["config"])
    assert listed["warnings"] == [tags, ball, hitl]
    thread = create(http, agency, say("hello"), agent="greeter")
    assert finished(http, agency, thread)["data"] == "hello"


@pytest.mark.parametrize(
    "wrong",
    [
        {"config": {"subagents": {"surprise": 1}}},
        {"model": "nowhere:x"},
        {"surprise": 1},
        {"prompt": ""},
        {"tags": "default"},
    ],
)
def test_what_is_wrong_with_a_blueprint_is_still_refused(http: httpx.Client, blueprints: str, wrong: Json) -> None:
    before = http.get(blueprints).json()
    answer = http.post(blueprints, json={**PLAIN, **wrong})
    assert (answer.status_code, answer.json()["code"]) in {(400, "ERR_INVALID_INPUT"), (400, "ERR_DEFINITION")}
    assert http.get(blueprints).json() == before


def test_a_blueprint_that_would_run_risky_tools_unasked_is_refused_unless_it_says_so(
    http: httpx.Client, agency: str, blueprints: str
) -> None:
    risky = {**PLAIN, "tags": ["demolition"]}
    before = http.get(blueprints).json()
    inside = {**PLAIN, "tags": ["default"], "config": {"subagents": {"subagents": [{**risky, "name": "inner"}]}}}
    for wrong in (risky, {**risky, "status": "draft"}, inside):
        detail = assert_problem(http.post(blueprints, json=wrong), 400, "ERR_DEFINITION")
        assert all(said in detail for said in ("demolish (high risk)", "the tag 'hitl'", "unattended"))
    misspelt = {**PLAIN, "tags": ["demolition", "hitl"], "config": {"hitl": {"tools": ["demolsh"]}}}
    assert "demolsh" in assert_problem(http.post(blueprints, json=misspelt), 400, "ERR_DEFINITION")
    assert http.get(blueprints).json() == before
    asks = http.post(blueprints, json={**risky, "tags": ["demolition", "hitl"]}).json()
    assert (asks["unattended"], asks["unattendedTools"]) == (False, [])
    meant = http.post(blueprints, json={**risky, "unattended": True}).json()
    assert (meant["unattended"], meant["unattendedTools"], meant["warnings"]) == (True, ["demolish"], [])
    assert of_name(http, blueprints, "greeter")["unattendedTools"] == ["demolish"]
    thread = create(http, agency, say("hello"), agent="greeter")
    state = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]
    assert state["unattendedTools"] == ["demolish"]
    assert http.post(blueprints, json=meant).json()["unattended"] is True, "it is what it was"


def test_what_a_blueprint_is_listed_or_answered_as_can_be_posted_back(http: httpx.Client, blueprints: str) -> None:
    first = http.post(blueprints, json={**PLAIN, "tags": ["unheard-of"]}).json()
    listed = of_name(http, blueprints, "greeter")
    for back in (first, listed, {**listed, "createdAt": "2020-01-01T00:00:00.000Z", "updatedAt": None}):
        answer = http.post(blueprints, json=back)
        assert answer.status_code == 200, answer.text
        assert {**answer.json(), "updatedAt": ""} == {**first, "updatedAt": ""}
    code = of_name(http, blueprints, "clerk")
    assert code["source"] == "static"
    inside = {**PLAIN, "config": {"subagents": {"subagents": [listed, code]}}}
    assert http.post(blueprints, json=inside).status_code == 200, "and as an agent's own subagent"
    assert http.post(blueprints, json=code).json()["source"] == "agency"


def test_null_in_a_blueprint_means_not_given_where_it_can_mean_nothing_else(
    http: httpx.Client, blueprints: str
) -> None:
    nothing = {"description": None, "tags": None, "config": None, "status": None, "limits": None, "params": None}
    new = http.post(blueprints, json={**PLAIN, "model": "other", **nothing})
    assert new.status_code == 201, new.text
    assert (new.json()["tags"], new.json()["config"], new.json()["status"]) == (["default"], {}, "active")
    http.post(blueprints, json={"name": "greeter", "description": "Greets."})
    kept = http.post(blueprints, json={"name": "greeter", "prompt": None, **nothing}).json()
    assert (kept["prompt"], kept["description"], kept["model"]) == ("You greet.", "Greets.", "other")
    assert http.post(blueprints, json={"name": "greeter", "model": None}).json()["model"] is None
    assert_problem(http.post(blueprints, json={"name": None, "prompt": "You greet."}), 400, "ERR_INVALID_INPUT")
    assert "prompt" in assert_problem(
        http.post(blueprints, json={"name": "new", "prompt": None}), 400, "ERR_INVALID_INPUT"
    )


def test_a_model_without_a_provider_belongs_to_the_default_models(
    http: httpx.Client, agency: str, blueprints: str
) -> None:
    assert http.post(blueprints, json={**PLAIN, "model": "other"}).json()["model"] == "other"
    thread = create(http, agency, say("hello"), agent="greeter")
    assert finished(http, agency, thread)["data"] == "hello"
    assert http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]["model"] == "script:other"
    started = [event for event in stored(http, agency, thread) if event["type"] == "model.started"]
    assert [event["data"]["model"] for event in started] == ["script:other"]


# Bodies.


@pytest.mark.parametrize("kind", [None, "text/plain;charset=UTF-8", "application/json; charset=utf-8"])
def test_a_body_that_does_not_say_what_it_is_is_json(http: httpx.Client, agency: str, kind: str | None) -> None:
    """`fetch` with a string as its body says `text/plain`; other clients say nothing."""
    headers = {} if kind is None else {"Content-Type": kind}
    made = http.post(f"/agency/{agency}/agents", content=b'{"agentType": "clerk"}', headers=headers)
    assert made.status_code == 201, made.text
    broken = http.post(f"/agency/{agency}/agents", content=b'{"agentType": ', headers=headers)
    assert "not valid JSON" in assert_problem(broken, 400, "ERR_INVALID_INPUT")
    wrong = http.post(f"/agency/{agency}/agents", content=b'{"agentType": 7}', headers=headers)
    assert "agentType" in assert_problem(wrong, 400, "ERR_INVALID_INPUT")


def test_a_body_may_be_absent_where_every_field_is_optional(http: httpx.Client, agency: str) -> None:
    made = http.post("/agencies")
    assert (made.status_code, made.json()["name"]) == (201, "Untitled Agency")
    thread = create(http, agency, say("done"))
    finished(http, agency, thread)
    assert http.post(f"/agency/{agency}/agent/{thread}/fork").status_code == 201
    schedule = {"name": "s", "agentType": "clerk", "message": "m", "kind": "interval", "everyMs": 3_600_000}
    at = f"/agency/{agency}/schedules"
    known = http.post(at, json=schedule).json()
    assert {**http.patch(f"{at}/{known['id']}").json(), "updatedAt": ""} == {**known, "updatedAt": ""}
    assert http.post(f"{at}/{known['id']}/run").status_code == 201
    assert_problem(http.post(f"/agency/{agency}/agent/{thread}/limits"), 409, "ERR_WRONG_STATE")
    for required in ("agents", "blueprints", "keys", "schedules", "approvals"):
        assert_problem(http.post(f"/agency/{agency}/{required}"), 400, "ERR_INVALID_INPUT")


def test_a_body_that_would_take_something_away_is_never_guessed(http: httpx.Client, agency: str) -> None:
    http.put(f"/agency/{agency}/budget", json={"turns": 5})
    for target in ("budget", "policy"):
        assert_problem(http.put(f"/agency/{agency}/{target}"), 400, "ERR_INVALID_INPUT")
    assert http.get(f"/agency/{agency}/usage").json()["budget"]["turns"] == 5


def test_null_and_a_blank_name_mean_not_given(http: httpx.Client, agency: str, ledger: Path) -> None:
    for name in ("", "  ", None):
        assert http.post("/agencies", json={"name": name}).json()["name"] == "Untitled Agency"
    assert_problem(http.patch(f"/agency/{agency}", json={"name": ""}), 400, "ERR_INVALID_INPUT")
    body = {"agentType": "clerk", "messages": None, "files": None, "limits": None, "idempotencyKey": None}
    assert http.post(f"/agency/{agency}/agents", json=body).status_code == 201
    for empty in ("", None):
        given = {"messages": message(say("hi")), "idempotencyKey": empty, "threadId": empty, "agentType": empty}
        assert invoke(http, agency, create(http, agency), **given).status_code == 202
    asked = create(http, agency, calls(("charge", {"ledger": str(ledger), "what": "x"})), say("ok"), agent="careful")
    assert finished(http, agency, asked)["status"] == "paused"
    answer = {"approved": True, "modifiedToolCalls": None, "reason": None, "decisions": None}
    assert http.post(f"/agency/{agency}/agent/{asked}/approve", json=answer).json() == {"ok": True}
    assert finished(http, agency, asked)["data"] == "ok"


def test_a_parent_is_ignored_and_unknown_fields_are_not(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    parent = {"threadId": "thr_elsewhere", "token": "t"}
    assert invoke(http, agency, thread, messages=message(say("done")), parent=parent).status_code == 202
    assert finished(http, agency, thread)["data"] == "done"
    assert http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]["parent"] is None
    assert_problem(invoke(http, agency, thread, messages=message(say("no")), surprise=1), 400, "ERR_INVALID_INPUT")


def test_a_files_path_without_a_leading_slash_gets_one(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("done"), files={"orders/7.txt": "seven rolls", "/8.txt": "eight"})
    finished(http, agency, thread)
    invoke(http, agency, thread, messages=message(say("more")), files={"9.txt": "nine"})
    finished(http, agency, thread)
    kept = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]["files"]
    assert kept == {"/orders/7.txt": "seven rolls", "/8.txt": "eight", "/9.txt": "nine"}
    at = f"/agency/{agency}/agent/{thread}/file"
    assert http.get(at, params={"path": "9.txt"}).text == "nine"
    assert http.put(at, params={"path": "10.txt"}, content=b"ten").status_code == 200
    assert http.delete(at, params={"path": "/10.txt"}).status_code == 204


# Approvals.


def test_the_calls_that_wait_can_be_sent_back_as_they_are_or_changed(
    http: httpx.Client, agency: str, ledger: Path
) -> None:
    for modified in (True, False):
        wanted = calls(("charge", {"ledger": str(ledger), "what": "seven"}))
        thread = create(http, agency, wanted, say("ok"), agent="careful")
        at = f"/agency/{agency}/agent/{thread}"
        assert finished(http, agency, thread)["status"] == "paused"
        shown = http.get(f"{at}/state").json()["state"]["pendingToolCalls"]
        assert shown[0]["approvalId"]
        if modified:
            shown[0]["args"]["what"] = "eight"
        strange = {"approved": True, "modifiedToolCalls": [{**shown[0], "surprise": 1}]}
        assert "surprise" in assert_problem(http.post(f"{at}/approve", json=strange), 400, "ERR_INVALID_INPUT")
        answer = http.post(f"{at}/approve", json={"approved": True, "modifiedToolCalls": shown})
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
        assert finished(http, agency, thread)["data"] == "ok"
    assert noted(ledger) == ["charge:eight", "charge:seven"]


def test_the_page_of_old_sends_no_calls_with_a_refusal(http: httpx.Client, agency: str, ledger: Path) -> None:
    thread = create(http, agency, calls(("charge", {"ledger": str(ledger), "what": "x"})), say("ok"), agent="careful")
    finished(http, agency, thread)
    answer = http.post(f"/agency/{agency}/agent/{thread}/approve", json={"approved": False, "modifiedToolCalls": []})
    assert answer.json() == {"ok": True}
    assert finished(http, agency, thread)["data"] == "ok"
    assert noted(ledger) == []


@pytest.mark.parametrize(
    "decision",
    [
        {"decision": "approve", "args": {"what": "eight"}},
        {"decision": "always", "reason": "trusted"},
        {"decision": "deny", "content": "done by hand"},
        {"decision": "edit", "args": {}, "surprise": 1},
        {"type": "approve"},
        {"decision": "perhaps"},
    ],
)
def test_what_a_decision_does_not_have_is_refused_not_overlooked(
    http: httpx.Client, agency: str, ledger: Path, decision: Json
) -> None:
    wanted = calls(("charge", {"ledger": str(ledger), "what": "seven"}))
    thread = create(http, agency, wanted, say("ok"), agent="careful")
    call = finished(http, agency, thread)["meta"]["pendingToolCalls"][0]
    answer = http.post(f"/agency/{agency}/agent/{thread}/approve", json={"decisions": {call["id"]: decision}})
    assert_problem(answer, 400, "ERR_INVALID_INPUT")
    assert "tag" not in answer.json()["detail"], "that is a word of a library"
    assert finished(http, agency, thread)["status"] == "paused"
    assert noted(ledger) == []


# Runs.


def test_a_run_that_failed_has_the_error_as_its_reason(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, messages=[{"role": "user", "content": "no script"}])
    run = finished(http, agency, thread)
    assert run["status"] == "error"
    state = http.get(f"/agency/{agency}/agent/{thread}/state").json()["run"]
    assert (state["status"], state["reason"]) == ("error", run["errors"][0]["message"])


@pytest.mark.parametrize("lost", [{"limits": {"turns": 1}}, {"outputSchema": {"type": "object"}}])
def test_what_is_for_one_run_is_refused_without_a_run(http: httpx.Client, agency: str, lost: Json) -> None:
    answer = http.post(f"/agency/{agency}/agents", json={"agentType": "clerk", **lost})
    assert "for the run that a message starts" in assert_problem(answer, 400, "ERR_INVALID_INPUT")
    assert http.get(f"/agency/{agency}/agents").json()["agents"] == []


# Cancel.


def test_canceling_with_nothing_to_cancel_is_fine_and_changes_nothing(http: httpx.Client, agency: str) -> None:
    idle, done = create(http, agency), create(http, agency, say("done"))
    finished(http, agency, done)
    for thread in (idle, done):
        before = stored(http, agency, thread)
        answer = http.post(f"/agency/{agency}/agent/{thread}/cancel")
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
        assert stored(http, agency, thread) == before
    assert_problem(http.post(f"/agency/{agency}/agent/thr_nobody/cancel"), 404, "ERR_NOT_FOUND")


# Lists for clients that cannot page.


def test_threads_are_listed_newest_first_and_all_at_once(http: httpx.Client, agency: str) -> None:
    made = [create(http, agency) for _ in range(120)]
    page = http.get(f"/agency/{agency}/agents").json()
    assert ([each["id"] for each in page["agents"]], page["next"]) == (made[::-1], None)


def test_agencies_are_listed_newest_first_and_all_at_once(http: httpx.Client) -> None:
    made = [http.post("/agencies", json={"name": f"{n}"}).json()["id"] for n in range(3)]
    page = http.get("/agencies").json()
    listed = [each["id"] for each in page["agencies"] if each["id"] in made]
    assert (listed, page["next"]) == (made[::-1], None)
    created = [each["createdAt"] for each in page["agencies"]]
    assert created == sorted(created, reverse=True)
    paged: list[Json] = []
    after: str | None = ""
    while after is not None:
        part = http.get("/agencies", params={"limit": 2, "after": after}).json()
        paged, after = [*paged, *part["agencies"]], part["next"]
    assert paged == page["agencies"]


def test_events_without_a_limit_are_the_whole_history(http: httpx.Client, agency: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").touch()
    noting = ("note", {"ledger": str(tmp_path / "ledger"), "what": "x"})
    thread = create(http, agency, *[calls(*[noting] * 60) for _ in range(9)], say("done"), limits={"turns": 20})
    finished(http, agency, thread, wait=120)
    at = f"/agency/{agency}/agent/{thread}/events"
    whole = http.get(at)
    body = whole.json()
    assert whole.headers["content-type"] == "application/json"
    assert "content-length" not in whole.headers, "it is streamed"
    seqs = [event["seq"] for event in body["events"]]
    assert len(seqs) > 1_000
    assert (seqs, body["next"]) == (list(range(1, len(seqs) + 1)), None)
    assert [event["seq"] for event in http.get(at, params={"after": 1_000}).json()["events"]] == seqs[1_000:]
    assert http.get(at, params={"after": len(seqs)}).json() == {"events": [], "next": None}
    page = http.get(at, params={"limit": 1_000}).json()
    assert (len(page["events"]), page["next"]) == (1_000, 1_000)
    feed = http.get(f"/agency/{agency}/events").json()
    assert ([event["seq"] for event in feed["events"]], feed["next"]) == (seqs, None)
    assert_problem(http.get(f"/agency/{agency}/agent/thr_nobody/events"), 404, "ERR_NOT_FOUND")


async def test_a_history_that_cannot_be_had_whole_breaks_off() -> None:
    """The client must not take it for the whole: there is no end of the document."""
    sent: list[str] = []

    async def rest() -> AsyncIterator[list[str]]:
        yield ["3"]
        raise Unavailable("the host is gone")

    async def send(message: Message) -> None:
        sent.append(message.get("body", b"").decode())

    with pytest.raises(Unavailable):
        await WholeHistory(["1", "2"], rest(), slow=5).stream_response(send)
    assert "".join(sent) == '{"events":[1,2,3'


# Sockets.


@pytest.mark.parametrize("end", ["", "/ws"])
async def test_a_socket_without_a_number_begins_with_what_comes_next(
    gateway: Server, http: httpx.Client, agency: str, end: str
) -> None:
    thread = create(http, agency, say("before"))
    finished(http, agency, thread)
    before = stored(http, agency, thread)
    address = f"{gateway.ws}/agency/{agency}/agent/{thread}{end}"
    async with connect(address, proxy=None) as live, connect(f"{address}?after=0", proxy=None) as whole:
        for event in before:
            assert json.loads(await whole.recv()) == event
        await asyncio.to_thread(invoke, http, agency, thread, messages=message(say("after")))
        for opened in (live, whole):
            seen: list[Json] = []
            while not seen or seen[-1]["type"] != "agent.completed":
                seen.append(json.loads(await asyncio.wait_for(opened.recv(), 30)))
            assert seen == stored(http, agency, thread)[len(before) :]


async def test_a_page_that_has_fetched_the_events_gets_none_of_them_twice(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    thread = create(http, agency, say("before"))
    finished(http, agency, thread)
    fetched = http.get(f"/agency/{agency}/agent/{thread}/events").json()["events"]
    async with connect(f"{gateway.ws}/agency/{agency}/agent/{thread}", proxy=None) as opened:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(opened.recv(), 0.5)
        await asyncio.to_thread(invoke, http, agency, thread, messages=message(say("after")))
        assert json.loads(await asyncio.wait_for(opened.recv(), 30))["seq"] == len(fetched) + 1


async def test_an_agencys_socket_without_a_number_begins_with_what_comes_next(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    finished(http, agency, create(http, agency, say("before")))
    async with connect(f"{gateway.ws}/agency/{agency}/ws", proxy=None) as opened:
        thread = await asyncio.to_thread(create, http, agency, say("after"))
        first = json.loads(await asyncio.wait_for(opened.recv(), 30))
        assert (first["threadId"], first["seq"]) == (thread, 1)


async def test_a_childs_events_come_before_its_parent_tells_of_its_end(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    """In an agency's feed, wherever parent and child are awake."""
    family = calls(*[task(say(f"{n}")) for n in range(4)])
    async with connect(f"{gateway.ws}/agency/{agency}/ws", proxy=None) as opened:
        parents = {await asyncio.to_thread(create, http, agency, family, family, say("done")) for _ in range(5)}
        seen: dict[str, list[str]] = defaultdict(list)
        told: list[tuple[str, bool]] = []
        ended: set[str] = set()
        async with asyncio.timeout(90):
            while not parents <= ended:
                event = json.loads(await opened.recv())
                seen[event["threadId"]].append(event["type"])
                if event["type"] == "agent.completed":
                    ended.add(event["threadId"])
                if event["type"] == "subagent.completed":
                    child = event["data"]["childThreadId"]
                    told.append((child, "agent.completed" in seen[child]))
    assert len(told) == 5 * 2 * 4
    assert [child for child, had_ended in told if not had_ended] == []


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "99999999999999999999"])
async def test_a_socket_cannot_begin_after_what_is_no_number(
    gateway: Server, http: httpx.Client, agency: str, after: str
) -> None:
    for path in (f"/agency/{agency}/agent/{create(http, agency)}", f"/agency/{agency}/ws"):
        with pytest.raises(InvalidStatus) as caught:
            await anext(socket_events(gateway, f"{path}?after={after}"))
        assert caught.value.response.status_code == 400


# Who asks, and from where.


@pytest.fixture(scope="module")
def proxied(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway with a secret that believes what a proxy on this machine says."""
    environment = {"AGENCY_SECRET": "sesame", "AGENCY_TRUSTED_PROXIES": "127.0.0.1, 198.51.100.0/24"}
    server = Server(gateway.settings, tmp_path_factory.mktemp("proxied") / "log", **environment)
    yield server
    server.stop()


async def test_the_socket_at_a_threads_own_address_is_guarded_like_the_other(
    proxied: Server, http: httpx.Client, agency: str
) -> None:
    path = f"/agency/{agency}/agent/{create(http, agency)}"
    assert (await anext(socket_events(proxied, f"{path}?after=0", **{"X-SECRET": "sesame"})))["seq"] == 1
    for refused, headers, status in (
        (path, {}, 401),
        (path, {"X-SECRET": "wrong"}, 401),
        (f"/agency/{agency}/agent/thr_nobody", {"X-SECRET": "sesame"}, 404),
    ):
        with pytest.raises(InvalidStatus) as caught:
            await anext(socket_events(proxied, refused, **headers))
        assert caught.value.response.status_code == status


def test_a_right_secret_counts_beside_a_wrong_one(proxied: Server, agency: str) -> None:
    bearer, secret = "Authorization", "X-SECRET"
    for headers in (
        {bearer: "Bearer wrong", secret: "sesame"},
        {bearer: "Bearer sesame", secret: "wrong"},
        {bearer: "Basic d3Jvbmc=", secret: "sesame"},
        {bearer: f"Bearer {agency}.key_0123456789abcdef.wrong", secret: "sesame"},
    ):
        assert httpx.get(f"{proxied.url}/agencies", headers=headers).status_code == 200
    wrong = httpx.get(f"{proxied.url}/agencies", headers={bearer: "Bearer wrong", secret: "wrong"})
    assert_problem(wrong, 401, "ERR_UNAUTHORIZED")


CLOUDFLARE = {
    "CF-Ray": "8f1c2d3e4a5b6c7d-GRU",
    "CF-IPCountry": "BR",
    "CF-IPCity": "São Paulo".encode().decode("latin-1"),
    "CF-Region": "Sao Paulo",
    "CF-Timezone": "America/Sao_Paulo",
    "CF-Postal-Code": "01000",
}


def request_of(server: Server, agency: str, headers: dict[str, str]) -> Json:
    raw = {name.encode(): value.encode("latin-1") for name, value in {"X-SECRET": "sesame", **headers}.items()}
    made = httpx.post(f"{server.url}/agency/{agency}/agents", json={"agentType": "clerk"}, headers=raw)
    assert made.status_code == 201, made.text
    return made.json()["request"]


def test_a_thread_keeps_what_a_trusted_proxy_says_about_the_request(proxied: Server, agency: str) -> None:
    found = request_of(proxied, agency, {**CLOUDFLARE, "X-Forwarded-For": "203.0.113.9"})
    assert found["ip"] == "203.0.113.9"
    assert found["cf"] == {
        "colo": "GRU",
        "country": "BR",
        "city": "São Paulo",
        "region": "Sao Paulo",
        "timezone": "America/Sao_Paulo",
        "postalCode": "01000",
    }
    assert request_of(proxied, agency, {"CF-Connecting-IP": "203.0.113.8"})["ip"] == "203.0.113.8"


@pytest.mark.parametrize(
    ("forwarded", "ip"),
    [
        ("6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9, 198.51.100.7", "203.0.113.9"),
        ("198.51.100.7", "198.51.100.7"),
        ("203.0.113.9:4711, 198.51.100.7:80", "203.0.113.9"),
        ("[2001:db8::9]:4711", "2001:db8::9"),
        ("2001:db8::9", "2001:db8::9"),
        ("", "127.0.0.1"),
    ],
)
def test_a_client_cannot_put_another_address_before_its_own(
    proxied: Server, agency: str, forwarded: str, ip: str
) -> None:
    assert request_of(proxied, agency, {"X-Forwarded-For": forwarded})["ip"] == ip


@pytest.mark.parametrize("wrong", ["proxy.local", "10.0.0.0/33", "127.0.0.1 10.0.0.7"])
def test_proxies_that_are_no_addresses_are_refused_at_once(wrong: str) -> None:
    with pytest.raises(DefinitionError, match="trusted_proxies are addresses or networks"):
        GatewaySettings(trusted_proxies=wrong).check()


def test_without_a_trusted_proxy_none_of_it_is_believed(gateway: Server, agency: str) -> None:
    said = {**CLOUDFLARE, "X-Forwarded-For": "203.0.113.9", "CF-Connecting-IP": "203.0.113.9", "X-Real-IP": "6.6.6.6"}
    found = request_of(gateway, agency, said)
    assert (found["ip"], found["cf"]) == ("127.0.0.1", None)


def test_an_id_that_no_agency_made_here_could_have_is_bad_input(http: httpx.Client) -> None:
    assert_problem(http.get("/agency/invalid-id/blueprints"), 400, "ERR_INVALID_INPUT")
    assert_problem(http.get("/agency/agc_0123456789abcdef/blueprints"), 404, "ERR_NOT_FOUND")
