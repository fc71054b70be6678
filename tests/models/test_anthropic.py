"""`anthropic:…`, through its SDK, to a server that speaks Messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from agency import EventType, Message, ModelError, ToolCall, ToolSpec, Usage
from agency.providers.anthropic import MAX_TOKENS
from tests.models.clerk import clerk, run
from tests.models.conftest import ask
from tests.models.script import Call, Counts, Reply
from tests.models.server import KEY, ModelServer

LOOKUP = ToolSpec(name="lookup", description="Look up.", parameters={"type": "object", "properties": {}})


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


async def test_two_calls_of_one_reply_run_and_their_results_are_sent_back(server: ModelServer, tmp_path: Path) -> None:
    cities = tuple(Call(name="weather", args={"city": city}, id=f"c_{city}") for city in ("Oslo", "Atlantis"))
    server.add(Reply(text=("Let me ", "look."), calls=cities), Reply(text=("Sunny.",)))
    async with clerk("anthropic", tmp_path) as thread:
        result = await run(thread, "Weather in Oslo and Atlantis?")
    assert (result.status, result.data, result.meta.tokens_used) == ("completed", "Sunny.", Usage(input=20, output=10))
    first, second = [request.body for request in server.requests]
    assert first["messages"] == [{"role": "user", "content": [text("Weather in Oslo and Atlantis?")]}]
    assert (first["model"], first["system"], first["stream"]) == ("claude-scripted", "You are a clerk.", True)
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
        await thread.send("Count.")
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
    schema = {"type": "object", "properties": {}}
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
    sent = server.requests[0].body["messages"]
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
    blocks = [block for message in server.requests[0].body["messages"] for block in message["content"]]
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
