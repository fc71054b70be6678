"""Replies that are no plain answer, and what follows from them.

This module owns the checkpoint's `cut`, `said`, `repairs` and `unknown_stops`. A reply that was cut off at the output
limit is kept, and the model is asked to go on, three times; a result that does not fit the output's schema is sent back
with what is wrong, twice; an answer that ended for a reason that is not known may be half of one, so the model gets
another turn, three times in a row: a provider that never says why must not use up every run's turns. Calls in the grace
turn are refused. All other replies are the mode's business.
"""

from __future__ import annotations

from agency.messages import Message
from agency.turn.actions import Action, End, NextTurn, RepeatTurn, Say, StartCheckpoint, Warn
from agency.turn.batch import pending_call
from agency.turn.effects import ModelReply, Output
from agency.turn.modes import Mode, assistant_message, tool_message
from agency.turn.outcomes import CANCELED, Failure, Finished, Stopped, Success
from agency.turn.state import TurnCheckpoint

MAX_CUT = 3
MAX_REPAIRS = 2
MAX_UNKNOWN = 3

CUT_OFF = "Your reply was cut off at its output limit. Go on exactly where it ended, and repeat nothing of it."
CUT_CALLS = (
    "Your reply was cut off at its output limit before its tool calls were whole, and none of them was run. "
    "Call again, with less in one reply."
)
CUT_BEFORE_WORDS = (
    "Your reply was cut off at its output limit before you said anything. Think less, and answer briefly."
)
WRONG_OUTPUT = "This is not the result that was asked for: {problem}\nReply with the corrected result and nothing else."
HANDED_IN = "Accepted."
UNKNOWN_STOP = "the model ended a reply for a reason that is not known"
FAILED_THEN = "The run failed after this ({code}) and is tried again. Go on from here."
ENDED_UNKNOWN = (
    "Your reply ended for a reason that is not known. If your answer was complete, give it once more; if not, go on."
)

_BAD_STOPS = {
    "output_limit": Stopped(
        reason="incomplete", code="ERR_MAX_TOKENS", message="the model's reply was cut off at its output limit"
    ),
    "context_overflow": Stopped(
        reason="provider_error", code="ERR_CONTEXT_OVERFLOW", message="the conversation is too long for the model"
    ),
    "content_filter": Stopped(
        reason="provider_error", code="ERR_CONTENT_FILTER", message="the provider's content filter stopped the reply"
    ),
    "canceled": CANCELED,
}


def after_reply(m: TurnCheckpoint, mode: Mode, reply: ModelReply, output: Output | None) -> list[Action]:
    """What follows from a reply; `output` is what it comes to as the run's result, if that must fit a schema."""
    if reply.stop == "output_limit" and m.cut < MAX_CUT:
        return _ask_to_go_on(m, reply)
    text = m.said + reply.text
    forget_cut(m)
    if reply.stop in _BAD_STOPS:
        return [End(_BAD_STOPS[reply.stop])]
    if output is not None:
        return _hand_in(m, reply, output)
    if m.grace and reply.tool_calls:
        return _refuse_calls(m, reply)
    if reply.stop == "unknown":
        return [Warn("unknown_stop", UNKNOWN_STOP), *_after_unknown_stop(m, mode, reply, text)]
    m.unknown_stops = 0
    return mode.on_reply(reply, text)


def _after_unknown_stop(m: TurnCheckpoint, mode: Mode, reply: ModelReply, text: str) -> list[Action]:
    """Calls and code are done as ever. What would be the answer may not be all of it: it is kept, and the model goes on
    in another turn."""
    m.unknown_stops += 1
    if m.grace or m.unknown_stops > MAX_UNKNOWN or reply.tool_calls or mode.goes_on(reply, text):
        return mode.on_reply(reply, text)
    kept = (assistant_message(reply),) if reply.text.strip() else ()
    asked = Message(role="user", content=ENDED_UNKNOWN, origin="limits")
    return [Say((*kept, asked)), StartCheckpoint("after_work")]


def said_again(outcome: Stopped, last: Message | None) -> tuple[Message, ...]:
    """What a run begins with that tries again what another one failed at. The conversation says all there is to say,
    unless it ends with the model's own words: then the model is told why it is asked once more."""
    if last is None or last.role != "assistant":
        return ()
    wrong = outcome.reason == "invalid_output"
    told = WRONG_OUTPUT.format(problem=outcome.message) if wrong else FAILED_THEN.format(code=outcome.code)
    return (Message(role="user", content=told, origin="output" if wrong else "retry"),)


def forget_cut(m: TurnCheckpoint) -> None:
    """The next reply does not continue one that was cut off."""
    m.cut, m.said = 0, ""


def _ask_to_go_on(m: TurnCheckpoint, reply: ModelReply) -> list[Action]:
    """Keep the words of a reply that was cut off, and not its calls: the last one may be incomplete."""
    m.cut += 1
    m.said += reply.text
    kept = [Message(role="assistant", content=reply.text)] if reply.text.strip() else []
    told = CUT_CALLS if reply.tool_calls else CUT_OFF if m.said.strip() else CUT_BEFORE_WORDS
    return [Say((*kept, Message(role="user", content=told, origin="limits"))), RepeatTurn()]


def _hand_in(m: TurnCheckpoint, reply: ModelReply, output: Output) -> list[Action]:
    """The reply is the run's result, if it fits what was asked for."""
    wrong = output.code is not None
    hopeless = wrong and (m.grace or m.repairs >= MAX_REPAIRS)
    said = [assistant_message(reply)]
    if output.call is not None:
        (call,) = (call for call in reply.tool_calls if call.id == output.call)
        refusal = Failure(kind="invalid_request", source="policy", message=output.problem)
        accepted = Success(content=HANDED_IN)
        said.append(tool_message(pending_call(m.run, 0, call), refusal if wrong else accepted))
    elif wrong and not hopeless:
        said.append(Message(role="user", content=WRONG_OUTPUT.format(problem=output.problem), origin="output"))
    if output.code is None:
        m.repairs = 0
        outcome = Finished(by="structured_output", value=output.value)
        return [Say(tuple(said)), StartCheckpoint("before_completion", on_empty=outcome)]
    if hopeless:
        return [Say(tuple(said)), End(Stopped(reason="invalid_output", code=output.code, message=output.problem))]
    m.repairs += 1
    return [Say(tuple(said)), StartCheckpoint("after_work")]


def _refuse_calls(m: TurnCheckpoint, reply: ModelReply) -> list[Action]:
    """The model called tools in its grace turn: none of them runs."""
    refusal = Failure(kind="resource_limit", source="policy", message="the run's turns are used up")
    results = [tool_message(pending_call(m.run, 0, call), refusal) for call in reply.tool_calls]
    return [Say((assistant_message(reply), *results)), NextTurn()]
