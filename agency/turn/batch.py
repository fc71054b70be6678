"""A batch of tool calls, as pure functions: distinct ids, what a decision makes of a call, results in order."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import assert_never

from agency.messages import ToolCall
from agency.turn.effects import DecidedBy, ModelReply, PendingCall
from agency.turn.outcomes import (
    Always,
    Approve,
    Asked,
    CallOutcome,
    Decision,
    Deferred,
    Deny,
    Edit,
    Failure,
    Respond,
    Settled,
    Success,
)
from agency.turn.state import WaitingTools


def distinct(reply: ModelReply) -> ModelReply:
    """The reply, its calls with ids that are there and differ: some models repeat them or leave them out."""
    ids = [call.id for call in reply.tool_calls]
    if all(ids) and len(set(ids)) == len(ids):
        return reply
    taken, used = set(ids), set[str]()
    calls: list[ToolCall] = []
    for call in reply.tool_calls:
        if not call.id or call.id in used:
            named = (f"{call.id or 'call'}#{number}" for number in itertools.count(1))
            free = next(name for name in named if name not in taken)
            call = call.model_copy(update={"id": free})
            taken.add(free)
        used.add(call.id)
        calls.append(call)
    return replace(reply, tool_calls=tuple(calls))


def decided(pending: PendingCall, decision: Decision | None) -> PendingCall:
    """The call as it will run after a decision."""
    match decision:
        case Approve() | Always():
            return replace(pending, approved=True)
        case Edit(args=args):
            call = pending.call.model_copy(update={"args": args})
            return replace(pending, approved=True, edited=True, call=call)
        case Deny() | Respond() | None:
            return pending
    assert_never(decision)


def outcome_after(decision: Decision, asked: Asked, by: DecidedBy) -> CallOutcome:
    """What a decision makes of a call's outcome: one that will not run has its result, another waits for its batch."""
    match decision:
        case Deny(reason=reason):
            return _denied(asked, by, f": {reason}" if reason else "")
        case Respond(content=content):
            return Success(content=content)
        case Approve() | Edit() | Always():
            return Deferred(waits_for="batch")
    assert_never(decision)


def _denied(asked: Asked, by: DecidedBy, because: str) -> Failure:
    who = "a person denied this call" if by == "person" else "nobody has approved this call in time"
    if asked.in_doubt:
        message = f"{asked.note}. It was not run again: {who}{because}"
        return Failure(kind="external", source="runtime", message=message)
    return Failure(kind="permission_denied", source="policy", message=f"{who}, it was not run{because}")


def settled(state: WaitingTools) -> list[tuple[PendingCall, Settled]]:
    """Every call of a batch with its result, in the order of the calls."""
    pairs: list[tuple[PendingCall, Settled]] = []
    for pending in state.calls:
        outcome = state.outcomes[pending.id]
        assert outcome.status != "deferred"
        pairs.append((pending, outcome))
    return pairs
