"""The wire formats of the two APIs, as their servers write them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import JsonValue

from tests.support.model_script import Call, Counts, Reply

Api = Literal["openai", "anthropic"]
Json = dict[str, Any]

STOPS = {
    "openai": {True: "tool_calls", False: "stop"},
    "anthropic": {True: "tool_use", False: "end_turn"},
}
"""How a reply ends, with calls and without, unless the script says otherwise."""


def stream(api: Api, reply: Reply, model: str) -> Iterator[bytes | float]:
    """A reply as server-sent events, and the pauses between them in seconds."""
    stop = reply.stop or STOPS[api][bool(reply.calls)]
    return _openai(reply, model, stop) if api == "openai" else _anthropic(reply, model, stop)


def error_body(api: Api, error: Mapping[str, JsonValue]) -> Json:
    return {"error": {**error}} if api == "openai" else {"type": "error", "error": {**error}}


def where(messages: Sequence[Json]) -> tuple[str, int]:
    """What the user said last, and how many replies there have been since."""
    said, replies = "", 0
    for message in messages:
        if message["role"] == "assistant":
            replies += 1
        elif message["role"] == "user" and (text := _spoken(message["content"])):
            said, replies = text, 0
    return said, replies


def _spoken(content: str | list[Json]) -> str:
    """The last thing in a user's message that a person has said."""
    texts = [content] if isinstance(content, str) else [block["text"] for block in content if block["type"] == "text"]
    return next((text for text in reversed(texts) if not text.startswith("<system>")), "")


def _halves(call: Call) -> tuple[str, str]:
    """Arguments come in pieces."""
    arguments = call.args if isinstance(call.args, str) else json.dumps(call.args)
    return arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]


# OpenAI: chunks of a Chat Completion.


def _openai(reply: Reply, model: str, stop: str) -> Iterator[bytes | float]:
    def chunk(delta: Json, finish_reason: str | None = None) -> bytes:
        return _data({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    yield chunk({"role": "assistant", "content": ""})
    for delta in reply.deltas:
        yield chunk(delta)
    for piece in reply.text:
        yield reply.delay
        yield chunk({"content": piece})
    for number, call in enumerate(reply.calls):
        index = 0 if reply.unnumbered else number
        function = {"name": call.name, "arguments": ""}
        name = f"call_{number}" if call.id is None else call.id
        head = {"index": index, "id": name, "type": "function", "function": function}
        extra = {} if call.extra is None else {"extra_content": call.extra}
        yield chunk({"tool_calls": [{**head, **extra}]})
        for half in _halves(call):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    if reply.raw is not None:
        yield reply.raw.encode()
    elif reply.error is not None:
        yield _data(error_body("openai", reply.error))
    elif reply.then == "finish":
        yield chunk({}, stop)
        if reply.usage is not None:
            yield _data({**frame, "choices": [], "usage": _openai_usage(reply.usage)})
        yield b"data: [DONE]\n\n"


def _data(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _openai_usage(counts: Counts) -> Json:
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": counts.written},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
    }


# Anthropic: events of a message and its blocks.


def _anthropic(reply: Reply, model: str, stop: str) -> Iterator[bytes | float]:
    counts = reply.usage or Counts()
    fresh = counts.input - counts.cached - counts.written
    cache = {"cache_read_input_tokens": counts.cached, "cache_creation_input_tokens": counts.written}
    usage = {"input_tokens": fresh, **cache, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield _event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
    yield _event("ping")
    for index, (block, deltas) in enumerate(_blocks(reply)):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            if delta["type"] == "text_delta":
                yield reply.delay
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    if reply.raw is not None:
        yield reply.raw.encode()
    elif reply.error is not None:
        yield _event("error", error=reply.error)
    elif reply.then == "finish":
        end = {"output_tokens": counts.output, "output_tokens_details": {"thinking_tokens": counts.reasoning}}
        yield _event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=end)
        yield _event("message_stop")


def _blocks(reply: Reply) -> Iterator[tuple[Json, list[Json]]]:
    """The blocks of a message: as each begins, and what is added to it."""
    if reply.thinking is not None:
        signed = {"type": "signature_delta", "signature": "signed"}
        thought = {"type": "thinking_delta", "thinking": reply.thinking}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [thought, signed]
    if reply.redacted is not None:
        yield {"type": "redacted_thinking", "data": reply.redacted}, []
    if reply.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in reply.text]
    for number, call in enumerate(reply.calls):
        pieces = [{"type": "input_json_delta", "partial_json": half} for half in ("", *_halves(call))]
        yield {"type": "tool_use", "id": call.id or f"call_{number}", "name": call.name, "input": {}}, pieces


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})
