"""A thread's messages as every provider wants them: each call with its result, arguments as a JSON object.

Our transcripts are like that already, unless one was cut somewhere or a model wrote nonsense. But providers refuse a
whole request for one call without its result, so nothing is left to chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import JsonValue
from pydantic_core import from_json

from agency.messages import Message, ToolCall

NO_RESULT = "(The result of this call is not known.)"
UNREADABLE = "unreadable"
"""Under this name arguments that are no JSON object are sent back, so that the model sees what it wrote."""


def with_results(messages: Sequence[Message]) -> Iterator[tuple[Message, list[Message]]]:
    """Every message but the tools' results; each with the results of its calls, one for each, in their order.

    A result belongs to the latest reply before it: ids may repeat, because some models count from one in every reply.
    One that belongs to no call is left out.
    """
    said: list[tuple[Message, dict[str | None, Message]]] = []
    results: dict[str | None, Message] = {}
    for message in messages:
        if message.role == "tool":
            results.setdefault(message.tool_call_id, message)
            continue
        if message.role == "assistant":
            results = {}
        said.append((message, results))
    for message, found in said:
        yield message, [found.get(call.id) or _unknown(call) for call in message.tool_calls]


def _unknown(call: ToolCall) -> Message:
    return Message(role="tool", content=NO_RESULT, tool_call_id=call.id, meta={"status": "failure"})


def read_arguments(text: str) -> JsonValue:
    """What a model wrote as arguments. What is no JSON stays the text it is: the tool will refuse it, and say why."""
    if not text.strip():
        return {}
    try:
        value: JsonValue = from_json(text)
    except ValueError:
        return text
    return value


def arguments_object(call: ToolCall) -> dict[str, JsonValue]:
    """The arguments of a call of the past."""
    return call.args if isinstance(call.args, dict) else {UNREADABLE: call.args}
