"""`anthropic:…`: Claude, over the Messages API.

That API wants user and assistant to take turns, so whatever comes between two replies is one message of the user:
results first, then what was said. Only its newest models take a system message between the others, so such a one is
said by the user, and marked. What the model thought is kept with its reply (`meta`) and sent back as it was: the API
checks its signature. A temperature is left out: the API has none any more.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agency.errors import ModelError
from agency.messages import Message, ToolCall, Usage
from agency.models import ModelParams, ModelRequest, OnDelta, ToolSpec
from agency.providers.clients import Clients
from agency.providers.conversation import arguments_object, read_arguments, with_results
from agency.providers.failures import Account
from agency.turn.effects import ModelReply, ReplyStop
from agency.wire import sayable

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import MessageDeltaUsage, RawContentBlockDelta, RawMessageStreamEvent
    from anthropic.types import Usage as MessageUsage

ACCOUNT = Account("anthropic", key_variable="ANTHROPIC_API_KEY", address_variable="ANTHROPIC_BASE_URL")

MAX_TOKENS = 32_000
"""The API wants a limit, for thinking and answer together. Every current model allows this one."""

_STOPS: dict[str, ReplyStop] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "max_tokens": "output_limit",
    "model_context_window_exceeded": "context_overflow",
    "refusal": "content_filter",
}
_CHOICES = {"none": "none", "required": "any"}
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")

Json = dict[str, Any]  # as the SDK takes it


class AnthropicModel:
    def __init__(self) -> None:
        self.clients = Clients(_client)

    def prepare(self) -> None:
        importlib.import_module("anthropic.resources.messages")

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        import anthropic

        client = await self.clients.get()
        with ACCOUNT.failures(anthropic, [client.api_key, client.auth_token]):
            stream: AsyncStream[RawMessageStreamEvent] = await client.messages.create(stream=True, **_body(request))
            async with stream:
                return await _read(stream, on_delta)


def _client() -> AsyncAnthropic:
    import anthropic

    try:  # without retries: a thread tries again by itself, and remembers that over a crash
        client = anthropic.AsyncAnthropic(max_retries=0)
    except anthropic.AnthropicError:
        raise ACCOUNT.no_key() from None
    if not (client.api_key or client.auth_token or client.credentials):
        raise ACCOUNT.no_key()
    return client


# What is sent.


def _body(request: ModelRequest) -> Json:
    params = request.params
    choice = _CHOICES.get(params.tool_choice) if request.tools else None
    given: Json = {
        "system": request.system or None,
        "stop_sequences": list(params.stop) or None,
        "output_config": _output(params),
        "tools": [_tool(tool) for tool in request.tools] or None,
        "tool_choice": {"type": choice} if choice else None,
    }
    return {
        "model": request.model,
        "messages": _messages(request.messages),
        "max_tokens": params.max_tokens or MAX_TOKENS,
        **{name: value for name, value in given.items() if value is not None},
    }


def _tool(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _output(params: ModelParams) -> Json | None:
    match params.response_format:
        case None:
            return None
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return {"format": {"type": "json_schema", "schema": schema}}
        case other:
            message = f"anthropic takes a response_format of the type json_schema only, not {other!r:.100}"
            raise ModelError(message, model_code="ERR_BAD_REQUEST")


def _messages(messages: Sequence[Message]) -> list[Json]:
    turns: list[Json] = []
    ids = _CallIds()
    for message, results in with_results(messages):
        if message.role != "assistant":
            _add(turns, "user", _said(message))
            continue
        names = [ids.fitting(call) for call in message.tool_calls]
        calls = [_call(call, name) for call, name in zip(message.tool_calls, names, strict=True)]
        if spoken := [*_text(message.content), *calls]:
            _add(turns, "assistant", [*_thoughts(message), *spoken])
        _add(turns, "user", [_result(result, name) for result, name in zip(results, names, strict=True)])
    return turns


def _add(turns: list[Json], role: str, blocks: list[Json]) -> None:
    if blocks and turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    elif blocks:
        turns.append({"role": role, "content": blocks})


def _said(message: Message) -> list[Json]:
    text = message.content
    return _text(f"<system>\n{text}\n</system>" if message.role == "system" and text.strip() else text)


def _text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text.strip() else []  # the API refuses blank text


def _thoughts(message: Message) -> list[Json]:
    """What the model thought before it spoke; another provider's replay data is not for us."""
    match message.meta:
        case {"anthropic": {"thinking": [*blocks]}}:
            return [block for block in blocks if isinstance(block, dict)]
        case _:
            return []


def _call(call: ToolCall, name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": call.name, "input": arguments_object(call)}


def _result(result: Message, name: str) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": name, "content": result.content}
    failed = isinstance(result.meta, dict) and "status" in result.meta
    return {**block, "is_error": True} if failed else block


class _CallIds:
    """Ids that the API accepts: of letters, digits, '_' and '-', and each of them once. Others' ids may be neither."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def fitting(self, call: ToolCall) -> str:
        name, number = call.id, len(self._used)
        while name in self._used or not _CALL_ID.fullmatch(name):
            name, number = f"call_{number}", number + 1
        self._used.add(name)
        return name


# What comes back.


@dataclass(slots=True)
class _Block:
    """One block of the reply, as far as it has come."""

    start: Json
    text: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)

    def add(self, delta: RawContentBlockDelta, on_delta: OnDelta) -> None:
        match delta.type:
            case "text_delta":
                self.text.append(delta.text)
                on_delta(delta.text)
            case "input_json_delta":
                self.text.append(delta.partial_json)
            case "thinking_delta":
                self.text.append(delta.thinking)
            case "signature_delta":
                self.signature.append(delta.signature)

    def call(self) -> ToolCall:
        written = "".join(self.text)
        args = read_arguments(written) if written else self.start.get("input") or {}
        return ToolCall(id=self.start["id"], name=self.start["name"], args=args)

    def thought(self) -> JsonValue:
        if self.start["type"] == "redacted_thinking":
            return self.start
        return {"type": "thinking", "thinking": "".join(self.text), "signature": "".join(self.signature)}


async def _read(stream: AsyncStream[RawMessageStreamEvent], on_delta: OnDelta) -> ModelReply:
    blocks: dict[int, _Block] = {}
    counts: dict[str, int] = {}
    stop = None
    async for event in stream:
        match event.type:
            case "message_start":
                counts |= _counts(event.message.usage)
            case "content_block_start":
                blocks[event.index] = _Block(event.content_block.to_dict())
            case "content_block_delta":
                blocks[event.index].add(event.delta, on_delta)
            case "message_delta":
                counts |= _counts(event.usage)
                stop = event.delta.stop_reason or stop
    if stop is None:
        raise ACCOUNT.cut_short()
    return _reply(list(blocks.values()), _usage(counts), _STOPS.get(stop, "unknown"))


def _reply(blocks: Sequence[_Block], usage: Usage, stop: ReplyStop) -> ModelReply:
    thoughts = [block.thought() for block in blocks if block.start["type"] in ("thinking", "redacted_thinking")]
    return ModelReply(
        text="".join(piece for block in blocks if block.start["type"] == "text" for piece in block.text),
        tool_calls=tuple(block.call() for block in blocks if block.start["type"] == "tool_use"),
        stop=stop,
        usage=usage,
        meta=sayable({"anthropic": {"thinking": thoughts}}) if thoughts else None,
    )


def _counts(counted: MessageUsage | MessageDeltaUsage) -> dict[str, int]:
    """What it says; counts are of the whole reply so far, so later ones replace earlier ones."""
    details = counted.output_tokens_details
    counts = {
        "fresh": counted.input_tokens,
        "written": counted.cache_creation_input_tokens,
        "cached": counted.cache_read_input_tokens,
        "output": counted.output_tokens,
        "thinking": details.thinking_tokens if details else None,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _usage(counts: Mapping[str, int]) -> Usage:
    cached = counts.get("cached", 0)
    return Usage(
        input=counts.get("fresh", 0) + counts.get("written", 0) + cached,
        output=counts.get("output", 0),
        cached_input=cached,
        reasoning=counts.get("thinking", 0),
    )
