"""Chat Completions: OpenAI's API, and what most other servers speak.

Servers that speak it differ in small things: some send no usage, repeat ids, or number every call 0. What can be read
is read. Many put the conversation into a template that wants one system message, at the beginning, and then user and
assistant in turns; so at an address of one's own they get that. OpenAI itself takes messages as they come.

What some models think they want back as long as they work with tools (DeepSeek's `reasoning_content`, OpenRouter's
`reasoning_details`, the signature that Gemini hangs on a call). It is kept with the reply, and sent back to the same
model under the same name.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from agency.models.providers.failures import Account, ModelExchange, count
from agency.models.providers.pools import Pools, connections, patience, pool_for
from agency.models.providers.schemas import for_openai, in_words
from agency.models.providers.server_sent import Json, read_events
from agency.models.reproduce import HttpRequest, address_of, key_in, shown_headers
from agency.turn.effects import ModelReply, ReplyStop

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk

_STOPS: dict[str, ReplyStop] = {
    "stop": "stop",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "output_limit",
    "content_filter": "content_filter",
}


class ChatCompletions:
    key_variable = "OPENAI_API_KEY"
    address_variable = "OPENAI_BASE_URL"

    def __init__(self, entry: Provider, account: Account) -> None:
        self._entry = entry
        self._account = account

    def sdk(self) -> ModuleType:
        importlib.import_module("openai.types.chat")
        return importlib.import_module("openai")

    async def client(self, key: str | None, headers: Mapping[str, str]) -> AsyncOpenAI | None:
        """None if there is no key. It does not try again by itself: a thread does, and remembers that over a crash."""
        import openai

        entry, pool = self._entry, await pool_for(self._entry, _POOLS)
        try:
            client = openai.AsyncOpenAI(
                api_key=key,
                base_url=entry.own_address,
                default_headers=headers,
                timeout=patience(entry.timeout_ms),
                max_retries=0,
                http_client=pool,
            )
        except openai.OpenAIError:
            return None
        if entry.own_address is not None:
            client.organization = client.project = client.admin_api_key = None  # another server must not get OpenAI's
            client._custom_headers = dict(headers)  # nor OPENAI_CUSTOM_HEADERS
        return client if client.api_key else None

    def secrets(self, client: AsyncOpenAI) -> Sequence[str | None]:
        return (client.api_key,)

    def http(self, request: ModelRequest) -> HttpRequest:
        body = _body(request, self._entry, f"{self._account.provider}:{request.model}")
        more = body.pop("extra_body", {})
        key = key_in(self._entry, self.key_variable)
        return HttpRequest(
            url=f"{address_of(self._entry, self.address_variable, ADDRESSES['openai'])}/chat/completions",
            headers={
                "content-type": "application/json",
                **({} if key is None else {"authorization": f"Bearer {key}"}),
                **shown_headers(self._entry.headers),
            },
            body={**body, **more, "stream": True},
        )

    async def ask(
        self, client: AsyncOpenAI, request: ModelRequest, exchange: ModelExchange, on_delta: OnDelta
    ) -> ModelReply:
        model = f"{self._account.provider}:{request.model}"
        stream = await _post(client, _body(request, self._entry, model))
        exchange.response = stream.response
        async with stream:
            reply = await _read(read_events(stream.response, exchange.sdk), model, exchange, on_delta)
            refused = exchange.refused and request.params.response_format is not None
        if reply is None:
            raise self._account.cut_short(exchange)
        return replace(reply, stop="content_filter") if refused else reply  # words are no answer where a value is due


def _pool() -> httpx2.AsyncClient:
    import openai

    return connections(openai.DefaultAioHttpClient)


_POOLS = Pools(_pool)


# What is sent.


async def _post(client: AsyncOpenAI, body: Json) -> AsyncStream[ChatCompletionChunk]:
    """What `chat.completions.create` does, but for its walk through the whole conversation by the types of its
    parameters: the body is as the API wants it, and that walk costs as much as the rest of the request."""
    from openai import AsyncStream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    more = body.pop("extra_body", {})
    return await client.post(
        "/chat/completions",
        body={**body, **more, "stream": True},
        cast_to=ChatCompletion,
        options={"security": {"bearer_auth": True}},  # as there: by default, an admin's key would be sent, too
        stream=True,
        stream_cls=AsyncStream[ChatCompletionChunk],
    )


def _body(request: ModelRequest, entry: Provider, model: str) -> Json:
    params = request.params
    shape, asked = _format(params)
    system = "\n\n".join(part for part in (request.system, asked) if part)
    body: Json = {
        "model": request.model,
        "messages": _messages(system, request.messages, model, in_turns=entry.base_url is not None),
        "stream_options": {"include_usage": True},
        "temperature": params.temperature,
        entry.max_tokens_field: params.max_tokens,
        "stop": list(params.stop) or None,
        "reasoning_effort": params.reasoning,
        "response_format": shape,
        "tools": [_tool(tool) for tool in request.tools] or None,
        "tool_choice": _choice(params) if request.tools else None,
    }
    body |= {name: value for name, value in entry.sent_body.items() if name in body}
    sent = {name: value for name, value in body.items() if value is not None}
    more = {name: value for name, value in entry.sent_body.items() if name not in body and value is not None}
    return {**sent, "extra_body": more} if more else sent


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _choice(params: ModelParams) -> JsonValue:
    match params.tool_choice:
        case OneTool(name=name):
            return {"type": "function", "function": {"name": name}}
        case "auto":
            return None
        case other:
            return other


def _format(params: ModelParams) -> tuple[Json | None, str]:
    """How the reply is held to a schema: by the API, or in words."""
    match params.response_format:
        case {"type": "json_schema", "json_schema": dict(said)} if isinstance(schema := said.get("schema"), dict):
            if schema.get("type") != "object":  # the API has nothing else
                return None, in_words(schema)
            shape, strict = for_openai(schema)
            described: Json = {"name": "result", **said, "schema": shape, "strict": strict}
            return {"type": "json_schema", "json_schema": described}, ""
        case given:
            return given, ""


def _messages(system: str, messages: Sequence[Message], model: str, *, in_turns: bool) -> list[Json]:
    head: list[Json] = [{"role": "system", "content": system}] if system else []
    sent = list(head)
    ids = CallIds()
    working = False  # with tools, since the user has spoken
    for message, results in with_results(messages):
        if message.role == "assistant":
            working = working or bool(message.tool_calls)
            names = ids.of(message)
            sent += _assistant(message, names, replayed(message, model) if working else {})
            answers = zip(names, results, strict=True)
            sent += [{"role": "tool", "tool_call_id": name, "content": each.content} for name, each in answers]
            if pictures := _pictures(message, results):
                _add(sent, pictures, in_turns)
            continue
        working = working and message.role != "user"
        if message.role == "system" and not in_turns:
            sent += [{"role": "system", "content": message.content}] if message.content.strip() else []
        elif content := _said(message):
            _add(sent, content, in_turns)
    if in_turns and (len(sent) == len(head) or sent[len(head)]["role"] != "user"):
        sent.insert(len(head), {"role": "user", "content": OPENING})
    if in_turns and sent[-1]["role"] == "assistant":
        sent.append({"role": "user", "content": GO_ON})
    return sent or [{"role": "user", "content": OPENING}]  # the API wants at least one


def _add(sent: list[Json], content: str | list[Json], in_turns: bool) -> None:
    last = sent[-1] if sent else {}
    if not in_turns or last.get("role") != "user":
        sent.append({"role": "user", "content": content})
    elif isinstance(last["content"], str) and isinstance(content, str):
        last["content"] += f"\n\n{content}"
    else:
        last["content"] = [*_parts(last["content"]), *_parts(content)]


def _said(message: Message) -> str | list[Json]:
    text = aside(message.content) if message.role == "system" else message.content
    if not message.images:
        return text if text.strip() else ""
    return [*_parts(text), *(_image(image) for image in message.images)]


def _pictures(message: Message, results: Sequence[Message]) -> list[Json]:
    """The images of tools' results. The API takes text in a result and nothing else, so they follow as the user's."""
    shown: list[Json] = []
    for call, result in zip(message.tool_calls, results, strict=True):
        if result.images:
            shown += [*_parts(f"(Images that {called(call)} returned:)"), *(_image(image) for image in result.images)]
    return shown


def _parts(content: str | list[Json]) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return content


def _image(image: Image) -> Json:
    address = image.url or f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": address}}


def _assistant(message: Message, names: Sequence[str], thoughts: Mapping[str, JsonValue]) -> Iterator[Json]:
    if not (message.content or message.tool_calls):
        return
    said: Json = {"role": "assistant"}
    if message.content:
        said["content"] = message.content
    if message.tool_calls:
        calls = zip(message.tool_calls, names, strict=True)
        said["tool_calls"] = [_call(call, name, replay=bool(thoughts)) for call, name in calls]
    yield {**said, **{name: value for name, value in thoughts.items() if name != _SIGNED}}


_SIGNED = "signed"
"""Says that calls of the reply have data of their own, which goes back with them."""


def _call(call: ToolCall, name: str, *, replay: bool) -> Json:
    arguments = to_json(arguments_object(call)).decode()
    sent = {"id": name, "type": "function", "function": {"name": called(call), "arguments": arguments}}
    return {**sent, "extra_content": call.meta} if replay and call.meta is not None else sent


# What comes back.


@dataclass(slots=True)
class _Call:
    """A call, as far as it has come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: JsonValue = None

    def whole(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, args=read_arguments("".join(self.arguments)), meta=self.extra)


class _Calls:
    """The calls of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self._begun: list[_Call] = []
        self._at: dict[int | None, _Call] = {}

    def add(self, piece: Json) -> None:
        at = piece.get("index")
        call = self._at.get(at)
        if call is None or _begins(piece, call):
            call = self._at[at] = _Call()
            self._begun.append(call)
        call.id = piece.get("id") or call.id
        if (function := piece.get("function")) is not None:
            call.name = call.name or function.get("name") or ""
            call.arguments.append(function.get("arguments") or "")
        if (extra := piece.get("extra_content")) is not None:
            call.extra = extra

    def whole(self) -> tuple[ToolCall, ...]:
        return tuple(call.whole() for call in self._begun)


def _begins(piece: Json, call: _Call) -> bool:
    """Whether it is a new call, under an old number: by its id, or, where there are none, by its name."""
    if (given := piece.get("id")) and call.id:
        return bool(given != call.id)
    named = (piece.get("function") or {}).get("name") and call.name
    return bool(named) and not isinstance(read_arguments("".join(call.arguments)), str)


class _Thoughts:
    """What the model thinks, in whichever fields it comes."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._details: dict[object, Json] = {}

    def add(self, delta: Json) -> None:
        for name in ("reasoning_content", "reasoning"):
            if isinstance(text := delta.get(name), str):
                self._texts.setdefault(name, []).append(text)
        for piece in delta.get("reasoning_details") or ():
            self._add_detail(piece)

    def _add_detail(self, piece: Json) -> None:
        at = (piece.get("index", len(self._details)), piece.get("type"))
        known = self._details.setdefault(at, {})
        for name, value in piece.items():
            if name in ("text", "summary", "data") and isinstance(known.get(name), str) and isinstance(value, str):
                known[name] += value
            elif value is not None or name not in known:
                known[name] = value

    def whole(self) -> dict[str, JsonValue]:
        if self._details:
            return {"reasoning_details": list(self._details.values())}
        return {name: "".join(texts) for name, texts in self._texts.items()}


async def _read(
    stream: AsyncIterator[list[Json]], model: str, exchange: ModelExchange, on_delta: OnDelta
) -> ModelReply | None:
    """The reply, or None if it ended before it was whole."""
    text: list[str] = []
    calls, thoughts, finished = _Calls(), _Thoughts(), None
    async for chunks in stream:
        before = len(text)
        for chunk in chunks:
            if (counted := chunk.get("usage")) is not None:
                exchange.usage = _usage(counted)
            for choice in chunk.get("choices") or ():
                finished = choice.get("finish_reason") or finished
                delta = choice.get("delta")
                if not delta:
                    continue
                refusal = delta.get("refusal")
                if said := delta.get("content") or refusal:
                    text.append(said)
                exchange.refused = exchange.refused or bool(refusal)
                for piece in delta.get("tool_calls") or ():
                    calls.add(piece)
                thoughts.add(delta)
        if len(text) > before:
            on_delta("".join(text[before:]))
    if finished is None:
        return None
    made, thought = calls.whole(), thoughts.whole()
    if any(call.meta is not None for call in made):
        thought[_SIGNED] = True
    return ModelReply(
        text="".join(text),
        tool_calls=made,
        stop="tool_use" if made and finished == "stop" else _STOPS.get(finished, "unknown"),
        usage=exchange.usage or Usage(),
        request_id=exchange.request_id,
        meta=kept(model, thought),
    )


def _usage(counted: Json) -> Usage:
    asked, answered = counted.get("prompt_tokens_details"), counted.get("completion_tokens_details")
    hits = counted.get("prompt_cache_hit_tokens")  # DeepSeek's
    return Usage(
        input=count(counted.get("prompt_tokens")),
        output=count(counted.get("completion_tokens")),
        cached_input=count(asked.get("cached_tokens") if asked else hits),
        cache_write=count(asked.get("cache_write_tokens") if asked else None),
        reasoning=count(answered.get("reasoning_tokens") if answered else None),
    )
