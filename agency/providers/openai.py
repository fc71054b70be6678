"""`openai:…`: OpenAI, and whatever speaks its Chat Completions API at `OPENAI_BASE_URL`.

Servers that speak this API differ in small things: some send no usage, repeat ids, or number every call 0. What can be
read is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from agency.messages import Message, ToolCall, Usage
from agency.models import ModelRequest, OnDelta, ToolSpec
from agency.providers.clients import Clients
from agency.providers.conversation import arguments_object, read_arguments, with_results
from agency.providers.failures import Account
from agency.turn.effects import ModelReply, ReplyStop

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
    from openai.types.completion_usage import CompletionUsage

ACCOUNT = Account("openai", key_variable="OPENAI_API_KEY", address_variable="OPENAI_BASE_URL")

_STOPS: dict[str, ReplyStop] = {
    "stop": "stop",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "output_limit",
    "content_filter": "content_filter",
}

Json = dict[str, Any]  # as the SDK takes it


class OpenAIModel:
    def __init__(self) -> None:
        self.clients = Clients(_client)

    def prepare(self) -> None:
        importlib.import_module("openai.resources.chat.completions")

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        import openai

        client = await self.clients.get()
        with ACCOUNT.failures(openai, [client.api_key]):
            stream: AsyncStream[ChatCompletionChunk] = await client.chat.completions.create(
                stream=True, **_body(request)
            )
            async with stream:
                return await _read(stream, on_delta)


def _client() -> AsyncOpenAI:
    import openai

    try:  # without retries: a thread tries again by itself, and remembers that over a crash
        client = openai.AsyncOpenAI(max_retries=0)
    except openai.OpenAIError:
        raise ACCOUNT.no_key() from None
    if not client.api_key:
        raise ACCOUNT.no_key()
    return client


# What is sent.


def _body(request: ModelRequest) -> Json:
    params = request.params
    given: Json = {
        "temperature": params.temperature,
        "max_completion_tokens": params.max_tokens,
        "stop": list(params.stop) or None,
        "response_format": params.response_format,
        "tools": [_tool(tool) for tool in request.tools] or None,
        "tool_choice": params.tool_choice if request.tools and params.tool_choice != "auto" else None,
    }
    return {
        "model": request.model,
        "messages": list(_messages(request)),
        "stream_options": {"include_usage": True},
        **{name: value for name, value in given.items() if value is not None},
    }


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(request: ModelRequest) -> Iterator[Json]:
    if request.system:
        yield {"role": "system", "content": request.system}
    for message, results in with_results(request.messages):
        if message.role != "assistant":
            yield {"role": message.role, "content": message.content}
        elif message.content or message.tool_calls:
            yield _assistant(message)
            for result in results:
                yield {"role": "tool", "tool_call_id": result.tool_call_id, "content": result.content}


def _assistant(message: Message) -> Json:
    said: Json = {"role": "assistant"}
    if message.content:
        said["content"] = message.content
    if message.tool_calls:
        said["tool_calls"] = [_call(call) for call in message.tool_calls]
    return said


def _call(call: ToolCall) -> Json:
    arguments = to_json(arguments_object(call)).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# What comes back.


@dataclass(slots=True)
class _Call:
    """A call, as far as it has come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def whole(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, args=read_arguments("".join(self.arguments)))


class _Calls:
    """The calls of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self._begun: list[_Call] = []
        self._at: dict[int | None, _Call] = {}

    def add(self, piece: ChoiceDeltaToolCall) -> None:
        call = self._at.get(piece.index)
        if call is None or (piece.id and call.id and piece.id != call.id):  # a new one, even under an old index
            call = self._at[piece.index] = _Call()
            self._begun.append(call)
        call.id = piece.id or call.id
        if piece.function is not None:
            call.name = call.name or piece.function.name or ""
            call.arguments.append(piece.function.arguments or "")

    def whole(self) -> tuple[ToolCall, ...]:
        return tuple(call.whole() for call in self._begun)


async def _read(stream: AsyncStream[ChatCompletionChunk], on_delta: OnDelta) -> ModelReply:
    text: list[str] = []
    calls, usage, finished = _Calls(), Usage(), None
    async for chunk in stream:
        if chunk.usage is not None:
            usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            if said := choice.delta.content or choice.delta.refusal:
                text.append(said)
                on_delta(said)
            for piece in choice.delta.tool_calls or ():
                calls.add(piece)
            finished = choice.finish_reason or finished
    if finished is None:
        raise ACCOUNT.cut_short()
    stop = _STOPS.get(finished, "unknown")
    return ModelReply(text="".join(text), tool_calls=calls.whole(), stop=stop, usage=usage)


def _usage(counted: CompletionUsage) -> Usage:
    asked, answered = counted.prompt_tokens_details, counted.completion_tokens_details
    return Usage(
        input=counted.prompt_tokens or 0,
        output=counted.completion_tokens or 0,
        cached_input=(asked.cached_tokens or 0) if asked else 0,
        reasoning=(answered.reasoning_tokens or 0) if answered else 0,
    )
