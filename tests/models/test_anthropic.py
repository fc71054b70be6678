"""`anthropic:…`, through its SDK, to a server that speaks Messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agency import EventType, Message, ModelError, ToolCall, ToolSpec, Usage
from agency.messages import Image
from agency.models.interface import OneTool
from agency.models.providers.anthropic import MAX_TOKENS
from agency.models.providers.conversation import GO_ON, OPENING
from agency.models.providers.entry import Provider
from tests.support.model_clerk import clerk, run
from tests.support.model_requests import MODELS, ask, said_by
from tests.support.model_script import Call, Counts, Reply
from tests.support.model_server import KEY, ModelServer

LOOKUP = ToolSpec(name="lookup", description="Look up.", parameters={"type": "object", "properties": {}})
ASKED = [Message(role="user", content="Look.")]
RESULT = Message(role="tool", content="found", tool_call_id="c1")


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def unmarked(value: Any) -> Any:
    """A body without the marks of the cache, which have tests of their own."""
    if isinstance(value, dict):
        return {name: unmarked(each) for name, each in value.items() if name != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


async def test_two_calls_of_one_reply_run_and_their_results_are_sent_back(server: ModelServer, tmp_path: Path) -> None:
    cities = tuple(Call(name="weather", args={"city": city}, id=f"c_{city}") for city in ("Oslo", "Atlantis"))
    server.add(Reply(text=("Let me ", "look."), calls=cities), Reply(text=("Sunny.",)))
    async with clerk("anthropic", tmp_path) as thread:
        result = await run(thread, "Weather in Oslo and Atlantis?")
    assert (result.status, result.data, result.meta.tokens_used) == ("completed", "Sunny.", Usage(input=20, output=10))
    first, second = [unmarked(request.body) for request in server.requests]
    assert first["messages"] == [{"role": "user", "content": [text("Weather in Oslo and Atlantis?")]}]
    assert (first["model"], first["system"], first["stream"]) == ("claude-scripted", [text("You are a clerk.")], True)
    assert [tool["name"] for tool in first["tools"]] == ["weather"]
    assert first["tools"][0]["input_schema"]["required"] == ["city"]
    said, results = second["messages"][1:]
    assert said == {
        "role": "assistant",
        "content": [
            text("Let me look."),
            {"type": "tool_use", "id": "c_Oslo", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "c_Atlantis", "name": "weather", "input": {"city": "Atlantis"}},
        ],
    }
    oslo, atlantis = results["content"]
    assert results["role"] == "user"
    assert oslo == {"type": "tool_result", "tool_use_id": "c_Oslo", "content": "sunny in Oslo"}
    assert (atlantis["tool_use_id"], atlantis["is_error"]) == ("c_Atlantis", True)
    assert server.requests[0].path == "/v1/messages"
    assert any(KEY in value for value in server.requests[0].headers.values())


async def test_text_is_an_event_before_the_reply_is_whole(server: ModelServer, tmp_path: Path) -> None:
    server.add(Reply(text=("One ", "two ", "three"), delay=0.02))
    async with clerk("anthropic", tmp_path) as thread:
        await thread.invoke("Count.")
        seen = []
        async for event in thread.events():
            seen.append((event.type, event.data.get("delta")))
            if event.type == EventType.MODEL_COMPLETED:
                break
    deltas = [text for kind, text in seen if kind == EventType.MODEL_DELTA]
    assert "".join(str(text) for text in deltas) == "One two three"
    assert len(deltas) > 1


async def test_a_reply_has_its_usage_with_what_came_from_the_cache(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",), usage=Counts(input=100, output=40, cached=60, reasoning=30)))
    reply = await ask("anthropic")
    assert reply.usage == Usage(input=100, output=40, cached_input=60, reasoning=30)


@pytest.mark.parametrize(
    ("stop_reason", "stop"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_use"),
        ("max_tokens", "output_limit"),
        ("model_context_window_exceeded", "context_overflow"),
        ("refusal", "content_filter"),
        ("something new", "unknown"),
    ],
)
async def test_why_it_stopped(server: ModelServer, stop_reason: str, stop: str) -> None:
    server.add(Reply(text=("Hi",), stop=stop_reason))
    assert (await ask("anthropic")).stop == stop


async def test_parameters_are_sent_where_they_are_set(server: ModelServer) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    server.add(Reply(text=("{}",)), Reply(text=("Hi",)))
    await ask(
        "anthropic",
        tools=[LOOKUP],
        tool_choice="required",
        temperature=0.5,
        max_tokens=99,
        stop=("END",),
        response_format=shape,
    )
    await ask("anthropic", system="")
    full, bare = [request.body for request in server.requests]
    assert (full["tool_choice"], full["max_tokens"], "temperature" in full) == ({"type": "any"}, 99, False)
    assert (full["stop_sequences"], full["output_config"]["format"]["schema"]) == (["END"], schema)
    assert bare.keys() == {"model", "messages", "stream", "max_tokens"}
    assert bare["max_tokens"] == MAX_TOKENS


async def test_a_format_that_the_api_does_not_have_is_refused_and_not_ignored(server: ModelServer) -> None:
    with pytest.raises(ModelError, match="json_schema only") as raised:
        await ask("anthropic", response_format={"type": "json_object"})
    assert (raised.value.model_code, raised.value.retryable, server.requests) == ("ERR_BAD_REQUEST", False, [])


async def test_user_and_assistant_take_turns_with_results_first(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)))
    messages = [
        Message(role="system", content="It is Monday."),
        Message(role="user", content="Look."),
        Message(role="assistant", content=" ", tool_calls=(ToolCall(id="1", name="lookup"),)),
        Message(role="user", content="Quick."),
        Message(role="tool", content="one", tool_call_id="1"),
        Message(role="assistant", content=""),
        Message(role="user", content="And?"),
    ]
    await ask("anthropic", messages)
    sent = unmarked(server.requests[0].body["messages"])
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[0]["content"] == [text("<system>\nIt is Monday.\n</system>"), text("Look.")]
    assert [block["type"] for block in sent[1]["content"]] == ["tool_use"]
    result = {"type": "tool_result", "tool_use_id": "1", "content": "one"}
    assert sent[2]["content"] == [result, text("Quick."), text("And?")]


async def test_a_broken_transcript_is_mended(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)))
    messages = [
        Message(role="tool", content="whose is this?", tool_call_id="1"),
        Message(role="assistant", tool_calls=(ToolCall(id="a#1", name="lookup", args='{"x": '),)),
        Message(role="assistant", tool_calls=(ToolCall(id="2", name="lookup"),)),
        Message(role="tool", content="two", tool_call_id="2"),
        Message(role="assistant", tool_calls=(ToolCall(id="2", name="lookup"),)),
        Message(role="tool", content="another two", tool_call_id="2"),
    ]
    await ask("anthropic", messages)
    opening, *blocks = [block for message in server.requests[0].body["messages"] for block in message["content"]]
    assert opening["text"] == OPENING
    assert [block["id"] for block in blocks if block["type"] == "tool_use"] == ["call_0", "2", "call_2"]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == ["call_0", "2", "call_2"]
    assert blocks[0]["input"] == {"unreadable": '{"x": '}
    assert ("not known" in blocks[1]["content"], blocks[1]["is_error"]) == (True, True)
    assert [block["content"] for block in blocks if block["type"] == "tool_result"][1:] == ["two", "another two"]


async def test_what_it_thought_is_kept_and_sent_back_as_it_was(server: ModelServer, tmp_path: Path) -> None:
    server.add(
        Reply(thinking="Oslo, then.", calls=(Call(name="weather", args={"city": "Oslo"}),)), Reply(text=("Sun.",))
    )
    async with clerk("anthropic", tmp_path) as thread:
        result = await run(thread, "Weather in Oslo?")
    said = server.requests[1].body["messages"][1]["content"]
    assert result.data == "Sun."
    assert said[0] == {"type": "thinking", "thinking": "Oslo, then.", "signature": "signed"}
    assert [block["type"] for block in said] == ["thinking", "tool_use"]


async def test_thoughts_go_back_where_they_were_and_hidden_ones_too(server: ModelServer) -> None:
    server.add(
        Reply(thinking="Hm.", redacted="sealed", text=("Let me ", "see."), calls=(Call(name="lookup", id="c1"),))
    )
    reply = await ask("anthropic", tools=[LOOKUP])
    server.add(Reply(text=("Hi",)))
    await ask("anthropic", [*ASKED, said_by(reply), RESULT])
    assert unmarked(server.requests[1].body["messages"][1]["content"]) == [
        {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
        {"type": "redacted_thinking", "data": "sealed"},
        text("Let me see."),
        {"type": "tool_use", "id": "c1", "name": "lookup", "input": {}},
    ]


async def test_thoughts_between_what_was_said_stay_there(server: ModelServer) -> None:
    one, two = ({"type": "thinking", "thinking": thought, "signature": thought} for thought in "ab")
    meta: Any = {"model": MODELS["anthropic"], "replay": {"blocks": [one, 3, two, None, 5, None]}}
    calls = tuple(ToolCall(id=name, name="lookup") for name in ("c1", "c2"))
    said = Message(role="assistant", content="Hm, there.", tool_calls=calls, meta=meta)
    server.add(Reply(text=("Hi",)))
    await ask("anthropic", [*ASKED, said, RESULT])
    blocks = unmarked(server.requests[0].body["messages"][1]["content"])
    assert [block.get("text") or block.get("id") or block["signature"] for block in blocks] == [
        "a",
        "Hm,",
        "b",
        "c1",
        " ther",
        "c2",
        "e.",
    ]


@pytest.mark.parametrize(("provider", "model"), [("anthropic", "claude-other"), ("mine", "claude-scripted")])
async def test_no_other_model_gets_to_see_thoughts(server: ModelServer, provider: str, model: str) -> None:
    server.add(Reply(thinking="Hm.", text=("So.",), calls=(Call(name="lookup", id="c1"),)), Reply(text=("Hi",)))
    reply = await ask("anthropic", tools=[LOOKUP])
    assert reply.meta is not None
    await ask(provider, [*ASKED, said_by(reply), RESULT], model=model, entry=Provider(api="anthropic"))
    blocks = server.requests[1].body["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["text", "tool_use"]


# The cache.


def marks(body: Any, path: str = "") -> list[str]:
    """Where a body has marks of the cache."""
    if isinstance(body, dict):
        inner = [
            mark for name, each in body.items() if name != "cache_control" for mark in marks(each, f"{path}/{name}")
        ]
        return [*inner, path] if body.get("cache_control") == {"type": "ephemeral"} else inner
    if isinstance(body, list):
        return [mark for number, each in enumerate(body) for mark in marks(each, f"{path}/{number}")]
    return []


async def test_the_cache_is_marked_behind_tools_and_prompt_and_both_ends_of_the_conversation(
    server: ModelServer,
) -> None:
    server.add(*(Reply(text=("Hi",)) for _ in range(3)))
    other = LOOKUP.model_copy(update={"name": "other"})
    call = Message(role="assistant", content="Well.", tool_calls=(ToolCall(id="c1", name="lookup"),))
    for messages in (ASKED, [*ASKED, call, RESULT], [*ASKED, call, RESULT, call, RESULT]):
        await ask("anthropic", messages, tools=[LOOKUP, other])
    sent = [sorted(marks(request.body)) for request in server.requests]
    fixed = ["/system/0", "/tools/1"]
    assert sent == [
        ["/messages/0/content/0", *fixed],
        ["/messages/0/content/0", "/messages/2/content/0", *fixed],
        ["/messages/2/content/0", "/messages/4/content/0", *fixed],
    ]


async def test_what_is_shown_only_once_is_behind_the_mark(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)))
    await ask("anthropic", [*ASKED, Message(role="system", content="Hurry.", transient=True)], system="")
    assert marks(server.requests[0].body) == ["/messages/0/content/0"]
    assert len(server.requests[0].body["messages"][0]["content"]) == 2


async def test_a_server_that_caches_nothing_gets_no_marks(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)))
    await ask("anthropic", tools=[LOOKUP], entry=Provider(api="anthropic", capabilities=("tools",)))
    assert marks(server.requests[0].body) == []


async def test_what_was_written_to_the_cache_is_counted(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",), usage=Counts(input=100, output=40, cached=60, written=25)))
    assert (await ask("anthropic")).usage == Usage(input=100, output=40, cached_input=60, cache_write=25)


# What is asked for.


async def test_images_are_sent_by_bytes_and_by_address(server: ModelServer) -> None:
    server.add(Reply(text=("A cat.",)))
    images = (Image(media_type="image/png", data="aGk="), Image(url="https://example.org/cat.jpg"))
    await ask("anthropic", [Message(role="user", content="What is it?", images=images)])
    assert unmarked(server.requests[0].body["messages"][0]["content"]) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.jpg"}},
        text("What is it?"),
    ]


async def test_images_of_results_are_sent_in_the_results(server: ModelServer) -> None:
    server.add(Reply(text=("A cat.",)))
    cat = Image(media_type="image/png", data="aGk=")
    messages = [
        Message(role="user", content="Look."),
        Message(role="assistant", tool_calls=(ToolCall(id="1", name="look"), ToolCall(id="2", name="look"))),
        Message(role="tool", content="seen", tool_call_id="1", images=(cat,)),
        Message(role="tool", content="", tool_call_id="2", images=(cat,)),
    ]
    await ask("anthropic", messages)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    assert unmarked(server.requests[0].body["messages"][-1]["content"]) == [
        {"type": "tool_result", "tool_use_id": "1", "content": [text("seen"), picture]},
        {"type": "tool_result", "tool_use_id": "2", "content": [picture]},
    ]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (OneTool(name="lookup"), {"type": "tool", "name": "lookup"}),
    ],
)
async def test_which_tool_it_may_call(server: ModelServer, choice: Any, sent: dict[str, str] | None) -> None:
    server.add(Reply(text=("Hi",)))
    await ask("anthropic", tools=[LOOKUP], tool_choice=choice)
    assert server.requests[0].body.get("tool_choice") == sent


@pytest.mark.parametrize(
    ("model", "params", "thinking", "effort"),
    [
        ("claude-opus-5", {}, None, None),
        ("claude-opus-5", {"reasoning": "high"}, {"type": "adaptive"}, "high"),
        ("claude-opus-5", {"reasoning": "minimal"}, {"type": "adaptive"}, "low"),
        ("claude-opus-5", {"reasoning": "none"}, {"type": "disabled"}, None),
        ("claude-opus-5", {"reasoning": "high", "tool_choice": "required"}, None, "high"),
        ("claude-haiku-4-5", {"reasoning": "low"}, {"type": "enabled", "budget_tokens": 2048}, None),
        (
            "claude-haiku-4-5",
            {"reasoning": "max", "max_tokens": 5000},
            {"type": "enabled", "budget_tokens": 4999},
            None,
        ),
        ("claude-haiku-4-5", {"reasoning": "low", "max_tokens": 1000}, None, None),
        ("claude-haiku-4-5", {"reasoning": "low", "tool_choice": "required"}, None, None),
    ],
)
async def test_how_hard_it_thinks(
    server: ModelServer, model: str, params: dict[str, Any], thinking: dict[str, Any] | None, effort: str | None
) -> None:
    server.add(Reply(text=("Hi",)))
    await ask("anthropic", tools=[LOOKUP], model=model, **params)
    body = server.requests[0].body
    assert (body.get("thinking"), body.get("output_config", {}).get("effort")) == (thinking, effort)


async def test_an_older_model_does_not_begin_to_think_amid_the_calls_of_another(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)), Reply(text=("Hi",)))
    call = Message(role="assistant", content="Well.", tool_calls=(ToolCall(id="c1", name="lookup"),))
    for more in ((), (Message(role="assistant", content="So."), Message(role="user", content="And?"))):
        await ask("anthropic", [*ASKED, call, RESULT, *more], model="claude-haiku-4-5", reasoning="low")
    assert ["thinking" in request.body for request in server.requests] == [False, True]


async def test_a_conversation_that_ends_with_the_assistant_goes_on(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)), Reply(text=("Hi",)))
    await ask("anthropic", [*ASKED, Message(role="assistant", content="Well, ")])
    await ask("anthropic", [])
    first, second = [unmarked(request.body["messages"]) for request in server.requests]
    assert first[-1] == {"role": "user", "content": [text(GO_ON)]}
    assert second == [{"role": "user", "content": [text(OPENING)]}]


async def test_a_schema_that_the_api_refuses_is_asked_for_in_words(server: ModelServer) -> None:
    server.add(Reply(text=("{}",)))
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    await ask("anthropic", response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    body = server.requests[0].body
    assert "output_config" not in body
    assert [json.dumps(schema) in block["text"] for block in body["system"]] == [False, True]


async def test_a_conversation_that_is_too_long_is_found_out_by_counting(server: ModelServer) -> None:
    refused = Reply(
        status=400, headers={"request-id": "req_1"}, error={"type": "invalid_request_error", "message": "No."}
    )
    server.add(refused, refused, refused)
    codes = []
    for window, words in ((1_000_000, 100_000), (10_000, 100_000), (10, 100)):
        server.window = window
        with pytest.raises(ModelError) as raised:
            await ask("anthropic", "x" * words, tools=[LOOKUP], reasoning="high")
        codes.append(raised.value.model_code)
        assert raised.value.request_id == "req_1"
    assert codes == ["ERR_BAD_REQUEST", "ERR_CONTEXT_OVERFLOW", "ERR_BAD_REQUEST"]
    assert sum(request.path.endswith("/count_tokens") for request in server.requests) == 2
