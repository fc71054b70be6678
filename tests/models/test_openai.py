"""`openai:…`, through its SDK, to a server that speaks Chat Completions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agency import EventType, Message, ToolCall, ToolSpec, Usage
from agency.messages import Image
from agency.models.interface import OneTool
from agency.models.providers.conversation import GO_ON, OPENING
from agency.models.providers.entry import Provider
from tests.support.model_clerk import clerk, run
from tests.support.model_requests import ask, said_by
from tests.support.model_script import Call, Counts, Reply
from tests.support.model_server import KEY, ModelServer

LOOKUP = ToolSpec(name="lookup", description="Look up.", parameters={"type": "object", "properties": {}})
ASKED = [Message(role="user", content="Look.")]
RESULT = Message(role="tool", content="found", tool_call_id="c1")


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


async def test_an_admins_key_in_the_environment_is_not_sent(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-SECRET")
    server.add(Reply(text=("Done.",)))
    async with clerk("openai", tmp_path) as thread:
        await run(thread, "Go.")
    headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not [name for name, value in headers.items() if "admin" in value]


async def test_text_is_an_event_before_the_reply_is_whole(server: ModelServer, tmp_path: Path) -> None:
    server.add(Reply(text=("One ", "two ", "three"), delay=0.02))
    async with clerk("openai", tmp_path) as thread:
        await thread.invoke("Count.")
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
    ids = ["1", "2", "call_2"]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids
    assert [call["id"] for message in sent for call in message.get("tool_calls", ())] == ids
    assert [message["content"] for message in sent if message["role"] == "tool"][1:] == ["two", "another two"]
    assert "not known" in sent[1]["content"]
    assert "content" not in sent[0]


async def test_calls_that_all_have_the_number_0_are_told_apart_by_their_ids(server: ModelServer) -> None:
    heard: list[str] = []
    server.add(Reply(text=("Both.",), calls=(Call(name="a", id="x"), Call(name="b", id="y")), unnumbered=True))
    reply = await ask("openai", tools=[LOOKUP], heard=heard)
    assert [(call.id, call.name, call.args) for call in reply.tool_calls] == [("x", "a", {}), ("y", "b", {})]
    assert heard == ["Both."]


async def test_calls_without_ids_are_told_apart_by_their_names(server: ModelServer) -> None:
    calls = (Call(name="a", id="", args={"x": 1}), Call(name="b", id="", args={"y": 2}))
    server.add(Reply(calls=calls, unnumbered=True, stop="stop"))
    reply = await ask("openai", tools=[LOOKUP])
    assert [(call.name, call.args) for call in reply.tool_calls] == [("a", {"x": 1}), ("b", {"y": 2})]
    assert reply.stop == "tool_use"


async def test_what_was_written_to_the_cache_is_counted(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",), usage=Counts(input=100, output=40, cached=60, written=25)))
    assert (await ask("openai")).usage == Usage(input=100, output=40, cached_input=60, cache_write=25)


# What is asked for.


async def test_images_are_sent_by_bytes_and_by_address(server: ModelServer) -> None:
    server.add(Reply(text=("A cat.",)))
    images = (Image(media_type="image/png", data="aGk="), Image(url="https://example.org/cat.jpg"))
    await ask("openai", [Message(role="user", content="What is it?", images=images)])
    assert server.requests[0].body["messages"][1]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.jpg"}},
    ]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_images_of_results_follow_in_a_message_of_the_user(server: ModelServer, elsewhere: bool) -> None:
    server.add(Reply(text=("A cat.",)))
    cat, dog = Image(media_type="image/png", data="aGk="), Image(url="https://example.org/dog.jpg")
    messages = [
        Message(role="user", content="Look."),
        Message(role="assistant", tool_calls=(ToolCall(id="1", name="look"), ToolCall(id="2", name="find"))),
        Message(role="tool", content="seen", tool_call_id="1", images=(cat,)),
        Message(role="tool", content="found", tool_call_id="2", images=(dog,)),
        Message(role="user", content="And?"),
    ]
    entry = Provider(api="openai", base_url=f"{server.url}/v1") if elsewhere else None
    await ask("openai", messages, entry=entry)
    sent = server.requests[0].body["messages"][3:]
    shown = [
        {"type": "text", "text": "(Images that look returned:)"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "text", "text": "(Images that find returned:)"},
        {"type": "image_url", "image_url": {"url": "https://example.org/dog.jpg"}},
    ]
    assert sent[:2] == [
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
        {"role": "tool", "tool_call_id": "2", "content": "found"},
    ]
    if elsewhere:  # where user and assistant take turns
        assert sent[2:] == [{"role": "user", "content": [*shown, {"type": "text", "text": "And?"}]}]
    else:
        assert sent[2:] == [{"role": "user", "content": shown}, {"role": "user", "content": "And?"}]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (OneTool(name="lookup"), {"type": "function", "function": {"name": "lookup"}}),
    ],
)
async def test_which_tool_it_may_call(server: ModelServer, choice: Any, sent: object) -> None:
    server.add(Reply(text=("Hi",)))
    await ask("openai", tools=[LOOKUP], tool_choice=choice)
    assert server.requests[0].body.get("tool_choice") == sent


async def test_how_hard_it_thinks(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)), Reply(text=("Hi",)))
    await ask("openai", reasoning="xhigh")
    await ask("openai")
    assert [request.body.get("reasoning_effort") for request in server.requests] == ["xhigh", None]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, False),
    ],
)
async def test_a_schema_is_strict_where_it_can_be(server: ModelServer, schema: dict[str, Any], strict: bool) -> None:
    server.add(Reply(text=("{}",)))
    await ask("openai", response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}})
    closed = {**schema, "additionalProperties": False} if strict else schema
    assert server.requests[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": closed, "strict": strict},
    }


async def test_a_schema_of_no_object_is_asked_for_in_words(server: ModelServer) -> None:
    server.add(Reply(text=("[]",)))
    schema = {"type": "array", "items": {"type": "string"}}
    await ask("openai", response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    body = server.requests[0].body
    assert "response_format" not in body
    assert json.dumps(schema) in body["messages"][0]["content"]


# Thoughts.

DETAILS = [
    {"type": "reasoning.text", "text": "Oslo", "index": 0, "format": "f"},
    {"type": "reasoning.text", "text": ", then.", "index": 0, "signature": "signed"},
    {"type": "reasoning.encrypted", "data": "sealed", "index": 1},
]
WHOLE = [
    {"type": "reasoning.text", "text": "Oslo, then.", "index": 0, "format": "f", "signature": "signed"},
    {"type": "reasoning.encrypted", "data": "sealed", "index": 1},
]


@pytest.mark.parametrize(
    ("deltas", "sent"),
    [
        (({"reasoning_content": "Oslo"}, {"reasoning_content": ", then."}), {"reasoning_content": "Oslo, then."}),
        (({"reasoning_content": ""},), {"reasoning_content": ""}),  # DeepSeek misses even an empty one
        (({"reasoning": "Oslo, then."},), {"reasoning": "Oslo, then."}),
        (tuple({"reasoning": "-", "reasoning_details": [each]} for each in DETAILS), {"reasoning_details": WHOLE}),
        ((), {}),
    ],
)
async def test_thoughts_go_back_under_their_own_name_while_it_works_with_tools(
    server: ModelServer, deltas: tuple[dict[str, Any], ...], sent: dict[str, Any]
) -> None:
    server.add(Reply(deltas=deltas, calls=(Call(name="lookup", id="c1"),)), Reply(deltas=deltas, text=("So.",)))
    heard: list[str] = []
    called = said_by(await ask("openai", tools=[LOOKUP], heard=heard))
    answered = said_by(await ask("openai", [*ASKED, called, RESULT], heard=heard))
    assert heard == ["So."]  # what it thinks is not what it says
    server.add(Reply(text=("Hi",)), Reply(text=("Hi",)), Reply(text=("Hi",)))
    await ask("openai", [*ASKED, called, RESULT, answered, *ASKED])
    await ask("openai", [*ASKED, answered, *ASKED])
    await ask("openai", [*ASKED, called, RESULT, answered, *ASKED], model="gpt-other")
    working, talking, switched = [thoughts(request.body) for request in server.requests[2:]]
    assert working == [sent, sent]
    assert talking == [{}]
    assert switched == [{}, {}]


def thoughts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What the assistant's messages have beside what was said and called."""
    said = [message for message in body["messages"] if message["role"] == "assistant"]
    usual = ("role", "content", "tool_calls")
    return [{name: value for name, value in each.items() if name not in usual} for each in said]


async def test_the_signature_on_a_call_goes_back_to_the_model_that_signed(server: ModelServer) -> None:
    signature: Any = {"google": {"thought_signature": "signed"}}
    server.add(Reply(calls=(Call(name="lookup", id="c1", extra=signature),)), Reply(text=("Hi",)), Reply(text=("Hi",)))
    called = said_by(await ask("openai", tools=[LOOKUP]))
    for model in ("gpt-scripted", "gpt-other"):
        await ask("openai", [*ASKED, called, RESULT], model=model)
    calls = [request.body["messages"][2]["tool_calls"][0] for request in server.requests[1:]]
    assert [call.get("extra_content") for call in calls] == [signature, None]
    assert thoughts(server.requests[1].body) == [{}]


# Servers that are not OpenAI's.


async def test_elsewhere_user_and_assistant_take_turns_and_the_system_speaks_first(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)), Reply(text=("Hi",)), Reply(text=("Hi",)))
    entry = Provider(api="openai", base_url=f"{server.url}/v1")
    cat = Image(url="https://example.org/cat.jpg")
    messages = [
        Message(role="assistant", content="Welcome."),
        Message(role="user", content="One."),
        Message(role="user", content=" "),
        Message(role="system", content="It is Monday."),
        Message(role="user", content="Two.", images=(cat,)),
    ]
    await ask("mine", messages[:4], entry=entry, model="m")
    await ask("mine", messages[1:], entry=entry, model="m", system="")
    await ask("mine", messages[1::-1], entry=entry, model="m", system="")
    first, second, third = [request.body["messages"] for request in server.requests]
    assert first == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": OPENING},
        {"role": "assistant", "content": "Welcome."},
        {"role": "user", "content": "One.\n\n<system>\nIt is Monday.\n</system>"},
    ]
    assert second == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "One.\n\n<system>\nIt is Monday.\n</system>"},
                {"type": "text", "text": "Two."},
                {"type": "image_url", "image_url": {"url": "https://example.org/cat.jpg"}},
            ],
        }
    ]
    assert [(each["role"], each["content"]) for each in third] == [
        ("user", "One."),
        ("assistant", "Welcome."),
        ("user", GO_ON),
    ], "a server that answers users only has one to answer"


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_conversation_that_is_empty_has_one_message_all_the_same(server: ModelServer, elsewhere: bool) -> None:
    server.add(Reply(text=("Hi",)))
    entry = Provider(api="openai", base_url=f"{server.url}/v1") if elsewhere else None
    await ask("openai", [], entry=entry, system="")
    assert server.requests[0].body["messages"] == [{"role": "user", "content": OPENING}]
