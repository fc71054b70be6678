"""What both providers promise when something goes wrong: a code, another attempt where it helps, no secret told."""

from __future__ import annotations

import asyncio
import json
import socket
from email.utils import formatdate
from pathlib import Path

import pytest
from pydantic import JsonValue

from agency import EventType, Message, ModelError, Thread, ToolCall
from agency.backoff import Backoff
from agency.clock import now_ms
from agency.codes import CODES
from agency.models.providers.entry import Provider
from agency.models.providers.failures import LONGEST_WAIT_MS, retry_after_ms
from agency.turn import chain
from tests.support.model_clerk import clerk, events, run
from tests.support.model_requests import PATIENCE, api_of, ask
from tests.support.model_script import Call, Counts, Reply
from tests.support.model_server import KEY, ModelServer


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a provider does not say when to try again, it is at once."""
    monkeypatch.setattr(chain, "RETRY", Backoff(0.001, 30.0))


def fault(status: int, **error: JsonValue) -> Reply:
    return Reply(status=status, error={"type": "some_error", "message": f"No, {KEY}!", **error})


async def failing(provider: str, entry: Provider | None = None) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await ask(provider, entry=entry)
    return raised.value


async def until(thread: Thread, event_type: EventType) -> None:
    async with asyncio.timeout(PATIENCE):
        async for event in thread.events():
            if event.type == event_type:
                return


# Codes.

FAULTS = [
    (fault(400), "ERR_BAD_REQUEST", False),
    (fault(401), "ERR_AUTH", False),
    (fault(402), "ERR_QUOTA", False),
    (fault(307), "ERR_MODEL_NOT_FOUND", False),
    (fault(403), "ERR_AUTH", False),
    (fault(404), "ERR_MODEL_NOT_FOUND", False),
    (fault(408), "ERR_TIMEOUT", True),
    (fault(413), "ERR_CONTEXT_OVERFLOW", False),
    (fault(418), "ERR_BAD_REQUEST", False),
    (fault(422), "ERR_BAD_REQUEST", False),
    (fault(429), "ERR_RATE_LIMIT", True),
    (fault(500), "ERR_API", True),
    (fault(502), "ERR_API", True),
    (fault(503), "ERR_OVERLOADED", True),
    (fault(504), "ERR_TIMEOUT", True),
    (fault(529), "ERR_OVERLOADED", True),
    (fault(400, code="context_length_exceeded"), "ERR_CONTEXT_OVERFLOW", False),
    (fault(429, code="insufficient_quota"), "ERR_QUOTA", False),
    (fault(429, type="insufficient_quota"), "ERR_QUOTA", False),
    (fault(400, details={"error_code": "enforced_spend_limit_reached"}), "ERR_QUOTA", False),
    (fault(400, code="content_filter"), "ERR_CONTENT_FILTER", False),
    (Reply(text=("Well, ",), then="cut"), "ERR_STREAM_INCOMPLETE", True),
    (Reply(text=("Well, ",), then="end"), "ERR_STREAM_INCOMPLETE", True),
    (Reply(text=("Well, ",), raw='event: message_delta\ndata: {"choices": [{"delta"\n\n'), "ERR_STREAM_PARSE", True),
    (Reply(raw='event: message_start\ndata: {"type": "message_start", "choices": [5]}\n\n'), "ERR_STREAM_PARSE", True),
    (Reply(text=("Well, ",), error={"type": "overloaded_error", "message": "Busy."}), "ERR_OVERLOADED", True),
    (Reply(text=("Well, ",), error={"type": "who knows", "message": "Oops."}), "ERR_API", True),
    (Reply(text=("Well, ",), error={"code": 429, "message": "Slow down."}), "ERR_RATE_LIMIT", True),
]


@pytest.mark.parametrize(("reply", "code", "retryable"), FAULTS)
async def test_every_failure_has_a_code(
    server: ModelServer, provider: str, reply: Reply, code: str, retryable: bool
) -> None:
    server.add(reply)
    error = await failing(provider)
    assert (error.model_code, error.retryable) == (code, retryable)
    assert provider in str(error)
    assert KEY not in str(error)
    assert len(server.requests) == 1  # the SDK does not try again on its own


def test_every_failure_that_is_tried_again_is_among_them_or_below() -> None:
    found = {code for _, code, retryable in FAULTS if retryable}
    assert found | {"ERR_CONNECTION"} == {name for name, code in CODES.items() if code.retryable}


@pytest.mark.parametrize(
    "reply",
    [
        fault(500),
        fault(401),
        Reply(text=("Well, ",), then="cut"),
        Reply(error={"type": "x"}),
        Reply(raw="event: x\n\n"),
    ],
    ids=["500", "401", "cut", "error", "nothing"],
)
async def test_a_failure_has_the_id_of_its_request(server: ModelServer, provider: str, reply: Reply) -> None:
    name = {"openai": "x-request-id", "anthropic": "request-id"}[provider]
    server.add(reply.model_copy(update={"headers": {name: "req_77"}}), reply)
    assert [(await failing(provider)).request_id for _ in range(2)] == ["req_77", None]


async def test_the_id_of_a_request_holds_no_key(server: ModelServer, provider: str) -> None:
    server.add(Reply(status=500, headers={"x-request-id": f"req-{KEY}"}))

    assert (await failing(provider)).request_id == "req-[redacted]"


async def test_what_a_reply_had_used_before_it_broke_off_is_told_where_it_is_known(server: ModelServer) -> None:
    server.add(Reply(text=("half ",), then="cut", usage=Counts(input=5_000)), Reply(text=("half ",), then="cut"))
    cut = await failing("anthropic")
    assert (cut.model_code, cut.usage and cut.usage.input) == ("ERR_STREAM_INCOMPLETE", 5_000)
    assert (await failing("openai")).usage is None


async def test_a_refusal_is_no_result_where_a_value_is_due(server: ModelServer) -> None:
    refusal = Reply(deltas=({"refusal": "I will not."},))
    server.add(refusal, refusal)
    schema = {"type": "json_schema", "json_schema": {"name": "result", "schema": {"type": "object"}}}
    held, free = await ask("openai", response_format=schema), await ask("openai")
    assert (held.stop, free.stop, free.text) == ("content_filter", "stop", "I will not.")


async def test_an_error_in_a_list_is_read_as_well(server: ModelServer) -> None:
    """As Gemini's compatible endpoint has it."""
    listed: JsonValue = [{"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}]
    server.add(Reply(status=429, whole=listed))
    error = await failing("openai")
    assert (error.model_code, str(error)) == ("ERR_RATE_LIMIT", "openai answered 429: Slow down.")


async def test_a_page_of_something_else_is_no_reply(server: ModelServer, provider: str) -> None:
    server.add(Reply(status=502, whole="<html>Bad gateway</html>"))
    error = await failing(provider)
    assert (error.model_code, str(error)) == ("ERR_API", f"{provider} answered 502: ERR_API")


async def test_nobody_at_the_address(server: ModelServer, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv(f"{provider.upper()}_BASE_URL", nowhere)
    error = await failing(provider)
    assert (error.model_code, error.retryable) == ("ERR_CONNECTION", True)
    assert f"{provider.upper()}_BASE_URL" in str(error)


async def test_silence_is_a_timeout_before_and_within_a_reply(server: ModelServer, provider: str) -> None:
    entry = Provider(api=api_of(provider), timeout_ms=100)
    server.add(Reply(then="hang"), Reply(then="silence"), Reply(text=("Well, ",), then="silence"))
    for _ in range(3):
        error = await failing(provider, entry)
        assert (error.model_code, error.retryable) == ("ERR_TIMEOUT", True)


async def test_a_reply_that_takes_its_time_is_no_silence(server: ModelServer, provider: str) -> None:
    server.add(Reply(text=("One ", "two ", "three ", "four"), delay=0.2))
    reply = await ask(provider, entry=Provider(api=api_of(provider), timeout_ms=600))
    assert reply.text == "One two three four"


async def test_a_key_that_is_missing_is_named(provider: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    variable = f"{provider.upper()}_API_KEY"
    for name in (variable, "OPENAI_ADMIN_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    error = await failing(provider)
    assert (error.model_code, error.retryable) == ("ERR_AUTH", False)
    assert f"set {variable}" in str(error)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after-ms": "70", "retry-after": "3"}, 70),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, LONGEST_WAIT_MS),
        ({"retry-after": formatdate(0, usegmt=True)}, 0),
    ],
)
def test_how_long_to_wait_is_read_from_the_headers(headers: dict[str, str], expected: int | None) -> None:
    assert retry_after_ms(headers) == expected


def test_a_time_to_wait_until_is_read_as_well() -> None:
    wait = retry_after_ms({"retry-after": formatdate(now_ms() / 1000 + 60, usegmt=True)})
    assert wait is not None
    assert 50_000 < wait <= 60_000


async def test_calls_that_another_api_would_refuse_are_named_anew(server: ModelServer, provider: str) -> None:
    server.add(Reply(text=("Hi",)))
    call = ToolCall(id="x" * 46, name="functions.look up!" + "x" * 64)
    messages = [
        Message(role="user", content="Look."),
        Message(role="assistant", tool_calls=(call, ToolCall(id="", name=""))),
        Message(role="tool", content="found", tool_call_id=call.id),
    ]
    await ask(provider, messages)
    sent = json.dumps(server.requests[0].body)
    assert all(name in sent for name in ("functions_look_up_", '"unknown"', "call_0", "call_1", "found"))
    assert "x" * 46 not in sent.replace("functions_look_up_" + "x" * 46, "")


# Within a thread.


@pytest.mark.usefixtures("soon")
async def test_a_thread_tries_again_when_the_provider_says_so(
    server: ModelServer, provider: str, tmp_path: Path
) -> None:
    limited = Reply(status=429, headers={"retry-after-ms": "20"}, error={"message": "Slow down."})
    server.add(limited, limited, Reply(text=("There.",)))
    async with clerk(provider, tmp_path) as thread:
        result = await run(thread, "Hello?")
        ended = [event.data for event in await events(thread) if event.type == EventType.MODEL_COMPLETED]
    assert (result.status, result.data) == ("completed", "There.")
    failed = [data["error"] for data in ended if "error" in data]
    assert [error["code"] for error in failed if isinstance(error, dict)] == ["ERR_RATE_LIMIT", "ERR_RATE_LIMIT"]
    bodies = [request.body for request in server.requests]
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize(
    "reply", [fault(500), fault(529), Reply(text=("Half an ",), then="cut")], ids=["500", "529", "cut"]
)
@pytest.mark.usefixtures("soon")
async def test_a_failure_that_passes_is_not_the_end(
    server: ModelServer, provider: str, tmp_path: Path, reply: Reply
) -> None:
    server.add(reply, Reply(text=("A whole answer.",)))
    async with clerk(provider, tmp_path) as thread:
        result = await run(thread, "Hello?")
    assert (result.status, result.data, len(server.requests)) == ("completed", "A whole answer.", 2)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
@pytest.mark.usefixtures("soon")
async def test_a_key_is_in_no_error_and_no_event(
    server: ModelServer, provider: str, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    masked = f"{KEY[:12]}****{KEY[-4:]}"
    server.add(*[fault(status, message=f"Incorrect API key: {KEY} ({masked})") for _ in range(chain.MODEL_ATTEMPTS)])
    async with clerk(provider, tmp_path) as thread:
        result = await run(thread, "Hello?")
        told = [event.model_dump_json() for event in await events(thread)]
    assert result.status == "error"
    assert len(result.errors) == 1
    for text in (*told, result.model_dump_json(), caplog.text):
        assert KEY[:12] not in text
        assert KEY[-6:] not in text


async def test_cancel_closes_the_connection_in_the_middle_of_a_reply(
    server: ModelServer, provider: str, tmp_path: Path
) -> None:
    server.add(Reply(text=("Well, ",), then="silence"))
    async with clerk(provider, tmp_path) as thread:
        await thread.invoke("Hello?")
        await until(thread, EventType.MODEL_DELTA)
        await thread.cancel()
        result = await thread.wait(PATIENCE)
        async with asyncio.timeout(PATIENCE):
            await server.requests[0].left.wait()
    assert result.status == "canceled"


async def test_a_connection_is_used_again(server: ModelServer, provider: str) -> None:
    server.add(Reply(text=("One.",)), Reply(text=("Two.",)))
    heard: list[str] = []
    for _ in range(2):
        await ask(provider, heard=heard)
    assert heard == ["One.", "Two."]
    assert server.requests[0].peer == server.requests[1].peer


async def test_a_model_that_writes_nonsense_is_told_and_can_mend_it(
    server: ModelServer, provider: str, tmp_path: Path
) -> None:
    server.add(
        Reply(calls=(Call(name="weather", args='{"city": "Os', id="c1"),)),
        Reply(calls=(Call(name="weather", args={"city": "Oslo"}, id="c2"),)),
        Reply(text=("Sunny.",)),
    )
    async with clerk(provider, tmp_path) as thread:
        result = await run(thread, "Weather in Oslo?")
        transcript = (await thread.state()).messages
    assert (result.status, result.data) == ("completed", "Sunny.")
    results = [message.content for message in transcript if message.role == "tool"]
    assert "must be a JSON object" in results[0]
    assert '{"city": "Os' in results[0]
    assert results[1] == "sunny in Oslo"
    assert len(server.requests) == 3
