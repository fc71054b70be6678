"""A thread's messages as every provider wants them: each call with its result, arguments as a JSON object.

Our transcripts are like that already, unless one was cut somewhere or a model wrote nonsense. But providers refuse a
whole request for one call without its result, so nothing is left to chance.

What a model has thought comes back to it with the conversation, where its API wants that. It is kept with the reply
(`meta`), under the name of the model that thought it: to any other model it is not shown, which may refuse it, or could
not read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from agency.messages import Message, ToolCall
from agency.wire import read_json, sayable

NO_RESULT = "(The result of this call is not known.)"
OPENING = "(The beginning of this conversation is not shown.)"
"""What the user says where a conversation begins with the assistant, and the server wants a user first."""

GO_ON = "Go on."
"""What the user says where a conversation ends with the assistant, and the server answers users only."""

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


def aside(text: str) -> str:
    """What the system says in the middle of a conversation, for a server that hears it only at the beginning."""
    return f"<system>\n{text}\n</system>" if text.strip() else ""


def read_arguments(text: str) -> JsonValue:
    """What a model wrote as arguments. What is no JSON stays the text it is: the tool will refuse it, and say why."""
    if not text.strip():
        return {}
    try:
        return read_json(text)
    except ValueError:
        return text


class CallIds:
    """Ids that every API accepts: not long, of letters, digits, '_' and '-', and each of them once. What a model of
    another provider has made up may be none of that."""

    _FITTING = re.compile(r"[a-zA-Z0-9_-]{1,40}")

    def __init__(self) -> None:
        self._used: set[str] = set()

    def of(self, message: Message) -> list[str]:
        """The ids of a message's calls."""
        return [self._fitting(call) for call in message.tool_calls]

    def _fitting(self, call: ToolCall) -> str:
        name, number = call.id, len(self._used)
        while name in self._used or not self._FITTING.fullmatch(name):
            name, number = f"call_{number}", number + 1
        self._used.add(name)
        return name


def called(call: ToolCall) -> str:
    """The name of the tool, as APIs accept it: a model may have called one that cannot be."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unknown"


def arguments_object(call: ToolCall) -> dict[str, JsonValue]:
    """The arguments of a call of the past."""
    return call.args if isinstance(call.args, dict) else {UNREADABLE: call.args}


def kept(model: str, thoughts: Mapping[str, JsonValue]) -> JsonValue:
    """What is kept with a reply, to be sent back to the same model. `model` is named with its provider."""
    return sayable({"model": model, "replay": dict(thoughts)}) if thoughts else None


def replayed(message: Message, model: str) -> Mapping[str, JsonValue]:
    """What was kept, if it was this model that thought it."""
    match message.meta:
        case {"model": str(thinker), "replay": dict(thoughts)} if thinker == model:
            return thoughts
        case _:
            return {}
