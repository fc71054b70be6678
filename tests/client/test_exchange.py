"""One request and its tries, without any network: what is repeated, what is not, and what an answer means."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from agency import Edit, Limits, Message, ToolCall
from agency.client import Client
from agency.client.exchange import PATIENCE_SECONDS, Answer, Exchange, NoAnswer
from agency.client.request import Request, Value, agency_path, thread_path
from agency.errors import (
    AgencyError,
    Forbidden,
    InvalidInput,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
    WrongState,
)
from tests.support.both_clients import requests_of

URL = "http://127.0.0.1:1"
LOST = NoAnswer("reset", sent=True)
UNSENT = NoAnswer("refused", sent=False)
OK = Answer(200, {}, b'{"ok": true}')
ACCEPTED = Answer(202, {}, b'{"runId": "t.1", "status": "running"}')

GATEWAY = requests_of(Client(URL))
AGENCY = requests_of(Client(URL).agency("a"))
THREAD = requests_of(Client(URL).agency("a").thread("t"))


def refused(status: int, code: str, **headers: str) -> Answer:
    return Answer(status, headers, json.dumps({"code": code, "detail": "because"}).encode())


BUSY = refused(503, "ERR_UNAVAILABLE")
TOO_MANY = refused(429, "ERR_RATE_LIMITED", **{"retry-after": "2"})


def tries(request: Request[Value], *results: Answer | NoAnswer) -> list[float]:
    """The delays between tries that get these results, until there is a value."""
    exchange = Exchange(request, URL, PATIENCE_SECONDS)
    delays: list[float] = []
    for result in results:
        delay = exchange.take(result)
        if delay is None:
            return delays
        delays.append(delay)
    raise AssertionError("it would try once more")


@pytest.mark.parametrize(
    "make",
    [
        lambda: GATEWAY.create_agency("bakery"),
        lambda: AGENCY.create_thread("clerk", "hello"),
        lambda: THREAD.invoke("hello"),
        lambda: THREAD.approve(),
        lambda: THREAD.deny("no"),
        lambda: THREAD.decide({"c": Edit({"cents": 1})}),
    ],
)
def test_what_changes_something_carries_a_key_of_its_own_or_the_callers(make: Callable[[], Request[Any]]) -> None:
    keys = [json.loads(make().body or b"")["idempotencyKey"] for _ in range(2)]
    assert keys[0] != keys[1]
    named = json.loads(THREAD.invoke("hello", idempotency_key="mine").body or b"")
    assert named["idempotencyKey"] == "mine"


@pytest.mark.parametrize("lost", [LOST, UNSENT, BUSY, Answer(502, {}, b"<html>"), TOO_MANY])
def test_a_request_with_a_key_is_repeated_whatever_was_lost(lost: Answer | NoAnswer) -> None:
    assert len(tries(THREAD.invoke("hello"), lost, lost, ACCEPTED)) == 2


@pytest.mark.parametrize("lost", [UNSENT, TOO_MANY])
def test_a_key_is_asked_for_again_only_if_the_request_never_arrived(lost: Answer | NoAnswer) -> None:
    made = b'{"id": "k", "name": "n", "role": "viewer", "createdAt": "now", "key": "agk"}'
    assert len(tries(AGENCY.create_key("n", "viewer"), lost, Answer(201, {}, made))) == 1


@pytest.mark.parametrize("lost", [LOST, BUSY])
def test_a_key_is_not_asked_for_twice_if_there_might_be_one(lost: Answer | NoAnswer) -> None:
    with pytest.raises(Unavailable):
        tries(AGENCY.create_key("n", "viewer"), lost)


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (THREAD.delete(), refused(404, "ERR_NOT_FOUND")),
        (AGENCY.revoke_key("k"), refused(404, "ERR_NOT_FOUND")),
        (THREAD.pause(), refused(409, "ERR_WRONG_STATE")),
        (THREAD.lift_limits(tokens=5), refused(409, "ERR_WRONG_STATE")),
    ],
)
def test_what_is_no_longer_there_when_it_is_repeated_was_done_the_first_time(
    request_: Request[None], refusal: Answer
) -> None:
    assert len(tries(request_, LOST, refusal)) == 1
    with pytest.raises((NotFound, WrongState)):
        tries(request_, refusal)
    with pytest.raises((NotFound, WrongState)):
        tries(request_, UNSENT, refusal)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "ERR_INVALID_INPUT", InvalidInput),
        (401, "ERR_UNAUTHORIZED", Unauthorized),
        (403, "ERR_FORBIDDEN", Forbidden),
        (404, "ERR_NOT_FOUND", NotFound),
        (409, "ERR_WRONG_STATE", WrongState),
        (413, "ERR_TOO_LARGE", TooLarge),
        (500, "ERR_INTERNAL", AgencyError),
    ],
)
def test_refusals_are_the_librarys_own_errors_and_are_not_repeated(
    status: int, code: str, kind: type[AgencyError]
) -> None:
    with pytest.raises(kind, match="because") as caught:
        tries(THREAD.invoke("hello"), refused(status, code))
    assert (type(caught.value), caught.value.code) == (kind, code)


def test_a_refusal_by_a_proxy_in_between_is_told_by_its_status() -> None:
    with pytest.raises(Unauthorized, match="not as a gateway does"):
        tries(AGENCY.info(), Answer(401, {}, b"<html>who are you?"))
    with pytest.raises(AgencyError, match="status 302"):
        tries(AGENCY.info(), Answer(302, {"location": "elsewhere"}, b""))


def test_an_answer_that_is_none_of_ours_says_what_may_be_wrong() -> None:
    with pytest.raises(AgencyError, match="no gateway, or one of another version"):
        tries(AGENCY.info(), Answer(200, {}, b"<html>welcome"))


def test_a_newer_server_may_say_more() -> None:
    info = b'{"id": "a", "name": "bakery", "createdAt": "now", "colour": "red"}'
    exchange = Exchange(AGENCY.info(), URL, PATIENCE_SECONDS)
    assert exchange.take(Answer(200, {}, info)) is None
    assert exchange.value.name == "bakery"


def test_too_many_requests_wait_for_as_long_as_the_server_asks() -> None:
    assert tries(THREAD.invoke("hello"), TOO_MANY, ACCEPTED) == [2.0]
    with pytest.raises(RateLimited):
        tries(THREAD.invoke("hello"), refused(429, "ERR_RATE_LIMITED", **{"retry-after": "3600"}))


def test_delays_grow_and_end_in_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    exchange = Exchange(THREAD.invoke("hello"), URL, PATIENCE_SECONDS)
    delays = []
    with pytest.raises(Unavailable, match="no server answers"):
        while (delay := exchange.take(LOST)) is not None:
            now += delay
            delays.append(delay)
    assert 20 < now <= 30
    assert delays[0] <= 0.1 < delays[-1] <= 5
    assert len(delays) < 25


def test_whether_a_server_is_ready_is_asked_once() -> None:
    for result in (BUSY, LOST, UNSENT, TOO_MANY):
        with pytest.raises((Unavailable, RateLimited)):
            tries(GATEWAY._health(), result)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?x=1", "ü", "a" * 65])
def test_an_id_cannot_leave_its_place_in_a_path(name: str) -> None:
    for make in (
        agency_path,
        lambda name: thread_path("a", name),
        lambda name: AGENCY.revoke_key(name),
    ):
        with pytest.raises(InvalidInput, match="an id has"):
            make(name)


def test_wrong_input_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidInput, match="name"):
        GATEWAY.create_agency("x" * 201)
    with pytest.raises(InvalidInput, match="`content` or `images`"):
        THREAD.invoke(Message(role="user"))
    with pytest.raises(InvalidInput, match="two of the paths name the same file"):
        THREAD.invoke(files={"/a": "one", "a": "other"})
    with pytest.raises(InvalidInput, match="cannot be sent"):
        THREAD.invoke("hello", files={"/half": "a character: \ud800"})


def test_only_what_was_given_is_sent() -> None:
    body = json.loads(AGENCY.put_blueprint("clerk", model=None, limits=Limits(tokens=5)).body or b"")
    assert body == {"name": "clerk", "model": None, "limits": {"tokens": 5}}
    body = json.loads(THREAD.decide({"c": Edit({"n": 1})}, idempotency_key="k").body or b"")
    assert body == {"decisions": {"c": {"args": {"n": 1}, "decision": "edit"}}, "idempotencyKey": "k"}
    body = json.loads(THREAD.invoke(files={"a.txt": "one"}, idempotency_key="k").body or b"")
    assert body == {"messages": [], "files": {"/a.txt": "one"}, "when": "next_step", "idempotencyKey": "k"}


def test_a_conversation_is_sent_without_what_its_thread_has_given_it() -> None:
    call = ToolCall(id="c", name="look", args={"n": 1})
    conversation = (
        Message(id="m1.1", role="user", content="Look."),
        Message(id="m1.2", role="assistant", tool_calls=(call,), meta={"signature": "s"}),
        Message(id="m1.3", role="tool", content="", tool_call_id="c"),
    )
    sent = json.loads(THREAD.invoke(conversation, idempotency_key="k").body or b"")
    assert sent["messages"] == [
        {"role": "user", "content": "Look."},
        {
            "role": "assistant",
            "content": "",
            "toolCalls": [{"id": "c", "name": "look", "args": {"n": 1}}],
            "meta": {"signature": "s"},
        },
        {"role": "tool", "content": "", "toolCallId": "c"},
    ]
