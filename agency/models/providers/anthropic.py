"""Messages: Anthropic's API, of Claude and of servers that speak it too.

It wants user and assistant to take turns, the user first and last, so whatever comes between two replies is one message
of the user: results first, then what was said. Only its newest models take a system message between the others, so such
a one is said by the user, and marked. What the model thought is sent back to it as it was and where it was: the API
checks its signature. A temperature is left out: the API has none any more.

The API caches what it is told to: up to four marks, each of which stands for all that comes before it. They go behind
the tools, the system prompt, the conversation as it is now, and the conversation as it was at the last call, which is
where this call finds the most.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

from pydantic import JsonValue
from pydantic_core import to_json

from agency.messages import Image, Message, ToolCall, Usage
from agency.models.interface import ModelParams, ModelRequest, OnDelta, OneTool, ToolSpec
from agency.models.providers.conversation import (
    GO_ON,
    OPENING,
    CallIds,
    arguments_object,
    aside,
    called,
    kept,
    read_arguments,
    replayed,
    with_results,
)
from agency.models.providers.entry import ADDRESSES, Provider
from agency.models.providers.failures import Account, ModelExchange, count, failure
from agency.models.providers.pools import Pools, connections, patience, pool_for
from agency.models.providers.schemas import for_anthropic, in_words
from agency.models.providers.server_sent import Json, read_events
from agency.models.reproduce import HttpRequest, address_of, key_in, shown_headers
from agency.turn.effects import ModelReply, ReplyStop

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

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
_MARK = {"type": "ephemeral"}

_THOUGHTS = ("thinking", "redacted_thinking")
_BUDGETED = re.compile(r"claude-(3|opus-4-[015]|opus-4-2|sonnet-4-[05]|sonnet-4-2|haiku-4)")
"""Older models, which are told for how many tokens they may think. Newer ones refuse that, and take an effort."""
_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 31_000}
_EFFORTS = {"minimal": "low"}

_TOO_LONG_FROM = 50_000
"""Bytes of a request that may be too long for a model: none has a window so small that fewer would fill it."""


class Messages:
    key_variable = "ANTHROPIC_API_KEY"
    address_variable = "ANTHROPIC_BASE_URL"

    def __init__(self, entry: Provider, account: Account) -> None:
        self._entry = entry
        self._account = account

    def sdk(self) -> ModuleType:
        importlib.import_module("anthropic.resources.messages")
        return importlib.import_module("anthropic")

    async def client(self, key: str | None, headers: Mapping[str, str]) -> AsyncAnthropic | None:
        """None if there is no key. It does not try again by itself: a thread does, and remembers that over a crash."""
        import anthropic

        entry, pool = self._entry, await pool_for(self._entry, _POOLS)
        try:
            client = anthropic.AsyncAnthropic(
                api_key=key,
                base_url=entry.own_address,
                default_headers=headers,
                timeout=patience(entry.timeout_ms),
                max_retries=0,
                http_client=pool,
            )
        except anthropic.AnthropicError:
            return None
        if entry.own_address is not None:
            client._custom_headers = dict(headers)  # another server must not get ANTHROPIC_CUSTOM_HEADERS
        return client if client.api_key or client.auth_token or client.credentials else None

    def secrets(self, client: AsyncAnthropic) -> Sequence[str | None]:
        return (client.api_key, client.auth_token)

    def http(self, request: ModelRequest) -> HttpRequest:
        key = key_in(self._entry, self.key_variable)
        return HttpRequest(
            url=f"{address_of(self._entry, self.address_variable, ADDRESSES['anthropic'])}/v1/messages",
            headers={
                "content-type": "application/json",
                "anthropic-version": "2023-06-01",
                **({} if key is None else {"x-api-key": key}),
                **shown_headers(self._entry.headers),
            },
            body=_body(request, self._entry, f"{self._account.provider}:{request.model}"),
        )

    async def ask(
        self, client: AsyncAnthropic, request: ModelRequest, exchange: ModelExchange, on_delta: OnDelta
    ) -> ModelReply:
        import anthropic

        model = f"{self._account.provider}:{request.model}"
        body = _body(request, self._entry, model)
        try:
            stream = await client.post(  # from an object, the SDK would make several others before it has the bytes
                "/v1/messages",
                content=to_json(body),
                cast_to=anthropic.types.Message,
                stream=True,
                stream_cls=anthropic.AsyncStream[anthropic.types.RawMessageStreamEvent],
            )
        except anthropic.BadRequestError as error:
            if error.error_code is None and await _is_too_long(client, body):
                message = f"the conversation is too long for {model}"
                raise failure("ERR_CONTEXT_OVERFLOW", message, request_id=error.request_id) from None
            raise
        exchange.response = stream.response
        async with stream:
            reply = await _read(read_events(stream.response, exchange.sdk), model, exchange, on_delta)
        if reply is None:
            raise self._account.cut_short(exchange)
        return reply


async def _is_too_long(client: AsyncAnthropic, body: Json) -> bool:
    """Whether a request that was refused is longer than its model takes. The API says so in prose only, so it is asked
    to count."""
    if len(to_json(body["messages"])) < _TOO_LONG_FROM:
        return False
    import anthropic

    counted = {name: body[name] for name in ("model", "messages", "system", "tools", "tool_choice") if name in body}
    try:
        known = await client.models.retrieve(body["model"])
        count = await client.messages.count_tokens(**counted)
    except anthropic.APIError:
        return False
    window = known.max_input_tokens  # older models want room in it for the longest reply
    return window is not None and count.input_tokens + body["max_tokens"] > window


def _pool() -> httpx2.AsyncClient:
    import anthropic

    return connections(anthropic.DefaultAioHttpClient)


_POOLS = Pools(_pool)


# What is sent.


def _body(request: ModelRequest, entry: Provider, model: str) -> Json:
    params = request.params
    shape, asked = _format(params)
    marked = entry.capabilities is None or "prompt_caching" in entry.capabilities
    turns = _turns(request.messages, model, marked=marked)
    body: Json = {
        "model": request.model,
        "messages": turns,
        "max_tokens": params.max_tokens or MAX_TOKENS,
        "system": _marked([*_text(request.system), *_text(asked)], marked) or None,
        "stop_sequences": list(params.stop) or None,
        "tools": _marked([_tool(tool) for tool in request.tools], marked) or None,
        "tool_choice": _choice(params) if request.tools else None,
    }
    effort, body["thinking"] = _thinking(request, turns)
    given = {name: value for name, value in (("effort", effort), ("format", shape)) if value is not None}
    body["output_config"] = given or None
    body |= {name: value for name, value in entry.sent_body.items() if name in body}
    sent = {name: value for name, value in body.items() if value is not None}
    more = {name: value for name, value in entry.sent_body.items() if name not in body and value is not None}
    return {**sent, **more, "stream": True}


def _tool(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _choice(params: ModelParams) -> Json | None:
    match params.tool_choice:
        case OneTool(name=name):
            return {"type": "tool", "name": name}
        case "required":
            return {"type": "any"}
        case "none":
            return {"type": "none"}
        case _:
            return None


def _format(params: ModelParams) -> tuple[Json | None, str]:
    """How the reply is held to a schema: by the API, or in words."""
    match params.response_format:
        case None:
            return None, ""
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            shape = for_anthropic(schema)
            return ({"type": "json_schema", "schema": shape}, "") if shape is not None else (None, in_words(schema))
        case other:
            message = f"anthropic takes a response_format of the type json_schema only, not {other!r:.100}"
            raise failure("ERR_BAD_REQUEST", message)


def _thinking(request: ModelRequest, turns: Sequence[Json]) -> tuple[str | None, Json | None]:
    """How hard it thinks, as the API has it: an effort, and how thinking goes on."""
    params = request.params
    if params.reasoning is None:
        return None, None
    if params.reasoning == "none":
        return None, {"type": "disabled"}
    forced = bool(request.tools) and params.tool_choice not in ("auto", "none")  # then the API lets no model think
    if not _BUDGETED.match(request.model):
        return _EFFORTS.get(params.reasoning, params.reasoning), None if forced else {"type": "adaptive"}
    budget = min(_BUDGETS[params.reasoning], (params.max_tokens or MAX_TOKENS) - 1)
    may_think = not forced and budget >= _BUDGETS["minimal"] and _thinks_already(turns)
    return None, {"type": "enabled", "budget_tokens": budget} if may_think else None


def _thinks_already(turns: Sequence[Json]) -> bool:
    """Whether it may think on: an older model cannot begin to while it works with tools, after another model's call."""
    if turns[-1]["content"][0]["type"] != "tool_result":
        return True
    return bool(turns[-2]["content"][0]["type"] in _THOUGHTS)


def _turns(messages: Sequence[Message], model: str, *, marked: bool) -> list[Json]:
    turns: list[Json] = []
    ids = CallIds()
    lasting: Json | None = None  # the last block that the next call will have too
    for message, results in with_results(messages):
        if message.role != "assistant":
            _add(turns, "user", _said(message))
        else:
            names = ids.of(message)
            _add(turns, "assistant", _assistant(message, names, replayed(message, model)))
            _add(turns, "user", [_result(result, name) for result, name in zip(results, names, strict=True)])
        if turns and not message.transient:
            lasting = turns[-1]["content"][-1]
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": _text(OPENING)})
    if turns[-1]["role"] != "user":
        turns.append({"role": "user", "content": _text(GO_ON)})
    before = [turn["content"][-1] for turn in turns[:-1] if turn["role"] == "user"]
    for block in (lasting, before[-1] if before else None):
        if marked and block is not None and block["type"] not in _THOUGHTS:
            block["cache_control"] = _MARK
    return turns


def _marked(blocks: list[Json], marked: bool) -> list[Json]:
    if blocks and marked:
        blocks[-1]["cache_control"] = _MARK
    return blocks


def _add(turns: list[Json], role: str, blocks: list[Json]) -> None:
    if blocks and turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    elif blocks:
        turns.append({"role": role, "content": blocks})


def _said(message: Message) -> list[Json]:
    text = aside(message.content) if message.role == "system" else message.content
    return [*(_image(image) for image in message.images), *_text(text)]


def _text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text.strip() else []  # the API refuses blank text


def _image(image: Image) -> Json:
    if image.url is not None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _assistant(message: Message, names: Sequence[str], thoughts: Mapping[str, JsonValue]) -> list[Json]:
    """What it said and called, with what it thought in between."""
    text, calls = message.content, [_call(call, name) for call, name in zip(message.tool_calls, names, strict=True)]
    blocks: list[Json] = []
    match thoughts.get("blocks"):
        case [*layout]:
            for part in layout:
                if isinstance(part, dict):
                    blocks.append(part)
                elif isinstance(part, int) and part:
                    blocks += _text(text[:part])
                    text = text[part:]
                elif calls:
                    blocks.append(calls.pop(0))
    spoken = [*blocks, *_text(text), *calls]
    return spoken if any(block["type"] in ("text", "tool_use") for block in spoken) else []


def _call(call: ToolCall, name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": called(call), "input": arguments_object(call)}


def _result(result: Message, name: str) -> Json:
    said = [*_text(result.content), *(_image(image) for image in result.images)] if result.images else result.content
    block: Json = {"type": "tool_result", "tool_use_id": name, "content": said}
    failed = isinstance(result.meta, dict) and "status" in result.meta
    return {**block, "is_error": True} if failed else block


# What comes back.


@dataclass(slots=True)
class _Block:
    """One block of the reply, as far as it has come."""

    start: Json
    text: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)

    def add(self, delta: Json, said: list[str]) -> None:
        """Take a piece in; `said` gets what it says to the user."""
        match delta["type"]:
            case "text_delta":
                self.text.append(delta["text"])
                said.append(delta["text"])
            case "input_json_delta":
                self.text.append(delta["partial_json"])
            case "thinking_delta":
                self.text.append(delta["thinking"])
            case "signature_delta":
                self.signature.append(delta["signature"])

    @property
    def type(self) -> str:
        return str(self.start["type"])

    def call(self) -> ToolCall:
        written = "".join(self.text)
        args = read_arguments(written) if written else self.start.get("input") or {}
        return ToolCall(id=self.start["id"], name=self.start["name"], args=args)

    def place(self) -> JsonValue:
        """Its place in the reply: a thought itself, the length of a text, null for a call."""
        match self.type:
            case "thinking":
                return {"type": "thinking", "thinking": "".join(self.text), "signature": "".join(self.signature)}
            case "redacted_thinking":
                return self.start
            case "text":
                return sum(len(piece) for piece in self.text)
            case _:
                return None


async def _read(
    stream: AsyncIterator[list[Json]], model: str, exchange: ModelExchange, on_delta: OnDelta
) -> ModelReply | None:
    """The reply, or None if it ended before it was whole."""
    blocks: dict[int, _Block] = {}
    counts: dict[str, int] = {}
    stop = None
    async for events in stream:
        said: list[str] = []
        for event in events:
            match event.get("type"):
                case "content_block_delta":
                    blocks[event["index"]].add(event["delta"], said)
                case "message_start":
                    counts |= _counts(event["message"].get("usage"))
                    exchange.usage = _usage(counts)
                case "content_block_start":
                    blocks[event["index"]] = _Block(event["content_block"])
                case "message_delta":
                    counts |= _counts(event.get("usage"))
                    exchange.usage = _usage(counts)
                    stop = event["delta"].get("stop_reason") or stop
        if said:
            on_delta("".join(said))
    return None if stop is None else _reply(list(blocks.values()), _usage(counts), stop, model, exchange.request_id)


def _reply(blocks: Sequence[_Block], usage: Usage, stop: str, model: str, request_id: str | None) -> ModelReply:
    thought = any(block.type in _THOUGHTS for block in blocks)
    told = [block for block in blocks if block.type in (*_THOUGHTS, "text", "tool_use")]
    return ModelReply(
        text="".join(piece for block in blocks if block.type == "text" for piece in block.text),
        tool_calls=tuple(block.call() for block in blocks if block.type == "tool_use"),
        stop=_STOPS.get(stop, "unknown"),
        usage=usage,
        request_id=request_id,
        meta=kept(model, {"blocks": [block.place() for block in told]} if thought else {}),
    )


def _counts(counted: Json | None) -> dict[str, int]:
    """What it says; counts are of the whole reply so far, so later ones replace earlier ones."""
    if counted is None:
        return {}
    details = counted.get("output_tokens_details") or {}
    counts = {
        "fresh": counted.get("input_tokens"),
        "written": counted.get("cache_creation_input_tokens"),
        "cached": counted.get("cache_read_input_tokens"),
        "output": counted.get("output_tokens"),
        "thinking": details.get("thinking_tokens"),
    }
    return {name: count(said) for name, said in counts.items() if said is not None}


def _usage(counts: Mapping[str, int]) -> Usage:
    written, cached = counts.get("written", 0), counts.get("cached", 0)
    return Usage(
        input=counts.get("fresh", 0) + written + cached,
        output=counts.get("output", 0),
        cached_input=cached,
        cache_write=written,
        reasoning=counts.get("thinking", 0),
    )
