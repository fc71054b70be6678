"""What a conversation is made of. A message, once appended to a thread, never changes."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from agency.wire import Wire

MESSAGE_CHARS = 1_000_000
"""The longest message that is accepted."""

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(Wire):
    """A call as the model proposed it. `meta` is the provider's own replay data, kept and sent back verbatim."""

    id: str
    name: str
    args: JsonValue = {}
    meta: JsonValue = None


class Message(Wire):
    """`origin` names the middleware that added it; a `transient` message is shown to the next model call only."""

    id: str = ""
    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    origin: str | None = None
    transient: bool = False
    meta: JsonValue = None


class Usage(Wire):
    """Tokens of one or more model calls; `cached_input` and `reasoning` are parts of `input` and `output`."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached_input=self.cached_input + other.cached_input,
            reasoning=self.reasoning + other.reasoning,
        )
