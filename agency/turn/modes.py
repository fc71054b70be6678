"""How an agent works: what to do with a model's reply. Pure functions from what happened to a list of actions.

`tools` is the standard mode: the model proposes tool calls and ends by answering without any. `code` is the mode in
which the model writes Python blocks that are executed, and ends by answering without one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import JsonValue, TypeAdapter

from agency.messages import Message, ToolCall
from agency.redaction import shown
from agency.turn.actions import Action, End, KeepState, Say, StartCheckpoint, StartCode, StartTools
from agency.turn.effects import CodeCall, CodeRan, ModelReply, PendingCall
from agency.turn.outcomes import (
    Canceled,
    Fail,
    Finish,
    Finished,
    HandedOff,
    Handoff,
    Settled,
    Stopped,
    TurnOutcome,
)

ModeName = Literal["tools", "code"]

CODE_ORIGIN = "code"
"""Of messages with what executed code has printed."""
CODE_CALLS = TypeAdapter(tuple[CodeCall, ...])
"""The calls that it made, in the message's `meta`."""


class Mode(Protocol):
    def on_reply(self, reply: ModelReply, text: str) -> list[Action]:
        """`text` is all of the reply's, with what was said before it was cut off."""
        ...

    def goes_on(self, reply: ModelReply, text: str) -> bool:
        """Whether the reply is no answer yet, but something to be executed."""
        ...

    def on_tools(self, settled: Sequence[tuple[PendingCall, Settled]]) -> list[Action]: ...

    def on_code(self, ran: CodeRan) -> list[Action]: ...


def assistant_message(reply: ModelReply) -> Message:
    return Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls, meta=reply.meta)


def _answer(reply: ModelReply, text: str) -> list[Action]:
    """The model is done, unless messages for the run have come meanwhile."""
    outcome = Finished(by="assistant_message", value=text)
    return [Say((assistant_message(reply),)), StartCheckpoint("before_completion", on_empty=outcome)]


def tool_message(pending: PendingCall, outcome: Settled) -> Message:
    """What the model reads as the result of its call."""
    meta: dict[str, JsonValue] = {}
    content = outcome.text
    if outcome.status != "success":
        meta["status"] = outcome.status
    else:
        if outcome.is_json:
            meta["json"] = True
        if outcome.files:
            meta["files"] = list(outcome.files)
    if pending.edited:
        meta["edited"] = args = shown(pending.call.args, pending.hidden, longest=None)
        note = edit_note(args)
        # An error is told by its first word.
        content = f"{note}\n{content}" if outcome.status == "success" else f"{content}\n{note}"
    images = outcome.images if outcome.status == "success" else ()
    return Message(role="tool", content=content, images=images, tool_call_id=pending.id, meta=meta or None)


def edit_note(args: JsonValue) -> str:
    return f"(A person changed the arguments to {args}.)"


NOT_RUN = Canceled(reason="this call was not run here")


def not_run(call: ToolCall) -> Message:
    """The result of a call that came from outside without one."""
    return tool_message(PendingCall(call=call, key=""), NOT_RUN)


class ToolsMode:
    def on_reply(self, reply: ModelReply, text: str) -> list[Action]:
        return [Say((assistant_message(reply),)), StartTools()] if reply.tool_calls else _answer(reply, text)

    def goes_on(self, reply: ModelReply, text: str) -> bool:
        return False  # calls speak for themselves

    def on_tools(self, settled: Sequence[tuple[PendingCall, Settled]]) -> list[Action]:
        say = Say(tuple(tool_message(pending, outcome) for pending, outcome in settled))
        ends = [end for _, outcome in settled if (end := _control(outcome)) is not None]
        return [say, End(ends[0])] if ends else [say, StartCheckpoint("after_work")]

    def on_code(self, ran: CodeRan) -> list[Action]:
        raise AssertionError("tools mode executes no code")


def _control(outcome: Settled) -> TurnOutcome | None:
    """How a tool's result ends the run, if it does."""
    match outcome.control if outcome.status == "success" else None:
        case Finish(value=value):
            return Finished(by="tool_value", value=value)
        case Handoff(thread_id=thread_id):
            return HandedOff(thread_id=thread_id)
        case Fail(message=message):
            return Stopped(reason="tool_failure", code="ERR_TOOL_FAILURE", message=message)
    return None


class CodeMode(ToolsMode):
    """Code first; where the model calls tools directly all the same, they run as in tools mode."""

    _BLOCK = re.compile(r"^```(?:python|py)\s*\n(.*?)^```\s*$", re.DOTALL | re.MULTILINE)

    def on_reply(self, reply: ModelReply, text: str) -> list[Action]:
        if self.goes_on(reply, text):
            return [Say((assistant_message(reply),)), StartCode("\n".join(self._BLOCK.findall(text)))]
        return super().on_reply(reply, text)

    def goes_on(self, reply: ModelReply, text: str) -> bool:
        return not reply.tool_calls and self._BLOCK.search(text) is not None

    def on_code(self, ran: CodeRan) -> list[Action]:
        meta: JsonValue = {"calls": CODE_CALLS.dump_python(ran.calls, mode="json")} if ran.calls else None
        said: list[Action] = [
            KeepState(ran.state),
            Say((Message(role="user", content=f"Output:\n{ran.output}", origin=CODE_ORIGIN, meta=meta),)),
        ]
        if ran.submitted is not None:
            return [*said, End(Finished(by="submitted_value", value=ran.submitted[0]))]
        if ran.error is not None:
            return [*said, End(Stopped(reason="submitted_error", code="ERR_SUBMITTED", message=ran.error))]
        return [*said, StartCheckpoint("after_work")]


MODES: dict[ModeName, Mode] = {"tools": ToolsMode(), "code": CodeMode()}
