"""`openai:…`, through its SDK, to a server that speaks Chat Completions."""

from __future__ import annotations

from pathlib import Path

import pytest

from agency import EventType, Message, ToolCall, ToolSpec, Usage
from tests.models.clerk import clerk, run
from tests.models.conftest import ask
from tests.models.script import Call, Counts, Reply
from tests.models.server import KEY, ModelServer

LOOKUP = ToolSpec(name="lookup", description="Look up.", parameters={"type": "object", "properties": {}})


async def test_two_calls_of_one_reply_run_and_their_results_are_sent_back(server: ModelServer, tmp_path: Path) -> None:
    cities = tuple(Call(name="weather", args={"city": city}, id=f"c_{city}") for city in ("Oslo", "Atlantis"))
    server.add(Reply(text=("Let me ", "look."), calls=cities), Reply(text=("Sunny.",)))
    async with clerk("openai", tmp_path) as thread:
        result = await run(thread, "Weather in Oslo and Atlantis?")
    assert (result.status, result.data, result.meta.tokens_used) == ("completed", "Sunny.", Usage(input=20, output=10))
    first, second = [request.body for request in server.requests]
    assert first["messages"] == [
        {"role": "system", "content": "You are a clerk."},
        {"role": "user", "content": "Weather in Oslo and Atlantis?"},
    ]
    assert (first["model"], first["stream"], first["stream_options"]) == ("gpt-scripted", True, {"include_usage": True})
    assert [tool["function"]["name"] for tool in first["tools"]] == ["weather"]
    assert first["tools"][0]["function"]["parameters"]["properties"]["city"]["description"] == "Its name."
    said, oslo, atlantis = second["messages"][2:]
    assert (said["role"], said["content"]) == ("assistant", "Let me look.")
    assert [(call["id"], call["type"], call["function"]) for call in said["tool_calls"]] == [
        ("c_Oslo", "function", {"name": "weather", "arguments": '{"city":"Oslo"}'}),
        ("c_Atlantis", "function", {"name": "weather", "arguments": '{"city":"Atlantis"}'}),
    ]
    assert oslo == {"role": "tool", "tool_call_id": "c_Oslo", "content": "sunny in Oslo"}
    assert (atlantis["tool_call_id"], "no such city" in atlantis["content"]) == ("c_Atlantis", True)
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_text_is_an_event_before_the_reply_is_whole(server: ModelServer, tmp_path: Path) -> None:
    server.add(Reply(text=("One ", "two ", "three"), delay=0.02))
    async with clerk("openai", tmp_path) as thread:
        await thread.send("Count.")
        seen = []
        async for event in thread.events():
            seen.append((event.type, event.data.get("delta")))
            if event.type == EventType.MODEL_COMPLETED:
                break
    deltas = [text for kind, text in seen if kind == EventType.MODEL_DELTA]
    assert "".join(str(text) for text in deltas) == "One two three"
    assert len(deltas) > 1


async def test_a_reply_has_its_usage(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",), usage=Counts(input=100, output=40, cached=60, reasoning=30)))
    reply = await ask("openai")
    assert reply.usage == Usage(input=100, output=40, cached_input=60, reasoning=30)


async def test_a_server_that_counts_nothing_is_no_trouble(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",), usage=None))
    reply = await ask("openai")
    assert (reply.text, reply.stop, reply.usage) == ("Hi", "stop", Usage())


@pytest.mark.parametrize(
    ("finish_reason", "stop"),
    [
        ("stop", "stop"),
        ("tool_calls", "tool_use"),
        ("length", "output_limit"),
        ("content_filter", "content_filter"),
        ("something new", "unknown"),
    ],
)
async def test_why_it_stopped(server: ModelServer, finish_reason: str, stop: str) -> None:
    server.add(Reply(text=("Hi",), stop=finish_reason))
    assert (await ask("openai")).stop == stop


async def test_parameters_are_sent_where_they_are_set(server: ModelServer) -> None:
    shape = {"type": "json_object"}
    server.add(Reply(text=("{}",)), Reply(text=("Hi",)))
    await ask(
        "openai",
        tools=[LOOKUP],
        tool_choice="required",
        temperature=0.5,
        max_tokens=99,
        stop=("END",),
        response_format=shape,
    )
    await ask("openai", system="")
    full, bare = [request.body for request in server.requests]
    assert (full["tool_choice"], full["temperature"], full["max_completion_tokens"]) == ("required", 0.5, 99)
    assert (full["stop"], full["response_format"]) == (["END"], shape)
    assert bare.keys() == {"model", "messages", "stream", "stream_options"}
    assert bare["messages"] == [{"role": "user", "content": "Hello?"}]


async def test_a_broken_transcript_is_mended(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)))
    calls = (ToolCall(id="1", name="lookup", args='{"x": '), ToolCall(id="2", name="lookup"))
    messages = [
        Message(role="tool", content="whose is this?", tool_call_id="1"),
        Message(role="assistant", content=""),
        Message(role="assistant", tool_calls=calls),
        Message(role="system", content="Hurry."),
        Message(role="tool", content="two", tool_call_id="2"),
        Message(role="assistant", tool_calls=(ToolCall(id="2", name="lookup"),)),
        Message(role="tool", content="another two", tool_call_id="2"),
    ]
    await ask("openai", messages, system="")
    sent = server.requests[0].body["messages"]
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "system", "assistant", "tool"]
    assert [call["function"]["arguments"] for call in sent[0]["tool_calls"]] == [r'{"unreadable":"{\"x\": "}', "{}"]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["1", "2", "2"]
    assert [message["content"] for message in sent if message["role"] == "tool"][1:] == ["two", "another two"]
    assert "not known" in sent[1]["content"]
    assert "content" not in sent[0]


async def test_calls_that_all_have_the_number_0_are_told_apart_by_their_ids(server: ModelServer) -> None:
    heard: list[str] = []
    server.add(Reply(text=("Both.",), calls=(Call(name="a", id="x"), Call(name="b", id="y")), unnumbered=True))
    reply = await ask("openai", tools=[LOOKUP], heard=heard)
    assert [(call.id, call.name, call.args) for call in reply.tool_calls] == [("x", "a", {}), ("y", "b", {})]
    assert heard == ["Both."]
