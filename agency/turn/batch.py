"""A batch: the calls of one reply, from what the model wrote to a result for every call. Pure functions.

A call of a batch runs, or it has an outcome: a result, or `Deferred` while it waits for a person (`approval`), for a
child thread (`child`), for something outside (`outside`) or for the rest of its batch (`batch`). As long as one call
waits for approval, no call of its batch runs (decision 4). Results reach the transcript together, in the order of the
calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import assert_never

from pydantic import JsonValue
from pydantic_core import to_json

from agency import events
from agency.errors import ResultMismatch
from agency.events import NewEvent
from agency.messages import Message, ToolCall
from agency.turn.actions import Action, Announce, SleepUntil
from agency.turn.effects import (
    Ask,
    CallsDecided,
    CallSettled,
    DecidedBy,
    ModelReplied,
    ModelReply,
    PendingCall,
    ToolsAnswered,
)
from agency.turn.modes import tool_message
from agency.turn.outcomes import (
    Always,
    Approve,
    Asked,
    AskedKind,
    CallOutcome,
    Canceled,
    Decision,
    Deferred,
    Deny,
    Edit,
    Failure,
    Happened,
    Rerun,
    Respond,
    Settled,
    Success,
    WaitsFor,
)
from agency.turn.state import PauseReason, RetryTools, State, WaitingTools

IN_BATCH = Deferred(waits_for="batch")

Results = list[tuple[PendingCall, Settled]]


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


# Starting.


def pending_call(run: int, effect: int, call: ToolCall, hidden: tuple[str, ...] = ()) -> PendingCall:
    return PendingCall(call=call, key=f"{run}.{effect}.{call.id}", hidden=hidden)


def started(run: int, effect: int, now: int, given: ModelReplied) -> tuple[WaitingTools, list[NewEvent]]:
    """The batch of a reply: calls that a person has to approve keep all others waiting, refused calls have ended."""
    calls = given.reply.tool_calls
    pending = tuple(pending_call(run, effect, call, given.hidden.get(call.id, ())) for call in calls)
    outcomes: dict[str, CallOutcome] = {}
    if given.ask:
        outcomes = {p.id: _deferred(given.ask[p.id], now) if p.id in given.ask else IN_BATCH for p in pending}
    told = [_refused_event(call, given.refused[call.id]) for call in pending if call.id in given.refused]
    state = WaitingTools(effect=effect, calls=pending, outcomes={**outcomes, **given.refused})
    return state, told + _asked_events(state, given.ask) if given.ask else told


def _deferred(ask: Ask, now: int) -> Deferred:
    until = None if ask.timeout_ms is None else now + ask.timeout_ms
    asked = Asked(risk=ask.risk, note=ask.note, until=until, on_timeout=ask.on_timeout)
    return Deferred(waits_for="approval", asked=asked)


def _refused_event(call: PendingCall, refusal: Settled) -> NewEvent:
    kind = refusal.kind if isinstance(refusal, Failure) else "invalid_request"
    return events.tool_error(call.call.name, call.id, refusal.text, kind)


# Outcomes that come in.


def changed(
    state: WaitingTools, given: ToolsAnswered | CallSettled | CallsDecided
) -> tuple[WaitingTools, list[NewEvent]]:
    """The batch after an input, and what is told of that. An input that does not fit raises `ResultMismatch`."""
    match given:
        case ToolsAnswered():
            return _answered(state, given)
        case CallSettled():
            return _settled_late(state, given), []
        case CallsDecided():
            return _decided(state, given)


def _answered(state: WaitingTools, given: ToolsAnswered) -> tuple[WaitingTools, list[NewEvent]]:
    """The batch with the outcomes of the calls that ran: one of each of them, no more and no fewer."""
    expected, got = {call.id for call in state.runnable()}, set(given.outcomes)
    if not expected or expected != got:
        raise ResultMismatch(f"effect {given.id} wants outcomes for {sorted(expected)}, got {sorted(got)}")
    after = WaitingTools(effect=state.effect, calls=state.calls, outcomes={**state.outcomes, **given.outcomes})
    return after, _asked_events(after, given.outcomes)


def _settled_late(state: WaitingTools, given: CallSettled) -> WaitingTools:
    if given.call_id not in {call.id for call in state.deferred("child", "outside")}:
        raise ResultMismatch(f"call {given.call_id!r} waits neither for a child nor for the outside")
    return replace(state, outcomes={**state.outcomes, given.call_id: given.outcome})


# Approvals.


def _asked_events(state: WaitingTools, newly: Collection[str]) -> list[NewEvent]:
    """Tell a person of the calls among `newly` that wait for approval, and of those in doubt: in one event of each
    kind, if there are any."""
    asked = [pending for pending in state.deferred("approval") if pending.id in newly]
    by_kind: dict[AskedKind, list[tuple[ToolCall, tuple[str, ...]]]] = {}
    for pending in asked:
        by_kind.setdefault(state.asked(pending.id).kind, []).append((pending.call, pending.hidden))
    return [events.hitl_interrupt(some, kind) for kind, some in by_kind.items()]


def _decided(state: WaitingTools, given: CallsDecided) -> tuple[WaitingTools, list[NewEvent]]:
    """The batch after decisions on calls that wait for approval."""
    waiting = {call.id for call in state.deferred("approval")}
    if not given.decisions or not given.decisions.keys() <= waiting:
        raise ResultMismatch(f"decisions for {sorted(given.decisions)}, waiting are {sorted(waiting)}")
    calls = tuple(_decided_call(call, given.decisions.get(call.id)) for call in state.calls)
    after = {i: _decided_outcome(d, state.asked(i), given.by) for i, d in given.decisions.items()}
    told = [
        events.hitl_resume(
            approved=all(d.decision != "deny" for d in given.decisions.values()),
            decisions={call_id: d.decision for call_id, d in given.decisions.items()},
            modified=[(call.call, call.hidden) for call in calls if call.edited and call.id in given.decisions],
            by=given.by,
            who=given.who,
        )
    ]
    for call in calls:
        if isinstance(outcome := after.get(call.id), Success):
            told.append(events.tool_output(call.call.name, call.id, outcome.content, is_json=outcome.is_json))
        elif isinstance(given.decisions.get(call.id), Rerun):
            told.append(events.tool_retried(call.call.name, call.id, call.begun, "decided"))
    return replace(state, calls=calls, outcomes={**state.outcomes, **after}), told


def _decided_call(pending: PendingCall, decision: Decision | None) -> PendingCall:
    """The call as it will run after a decision."""
    match decision:
        case Approve() | Always():
            return replace(pending, approved=True)
        case Rerun():
            return replace(pending, approved=True, reruns=pending.reruns + 1)
        case Edit(args=args):
            call = pending.call.model_copy(update={"args": args})
            return replace(pending, approved=True, edited=True, call=call)
        case Deny() | Respond() | Happened() | None:
            return pending
    assert_never(decision)


def _decided_outcome(decision: Decision, asked: Asked, by: DecidedBy) -> CallOutcome:
    """What a decision makes of a call's outcome: one that will not run has its result, another waits for its batch."""
    match decision:
        case Deny(reason=reason):
            return _denied(asked, by, f": {reason}" if reason else "")
        case Respond(content=content):
            return Success(content=content)
        case Happened(result=result):
            return _reported(result)
        case Approve() | Edit() | Always() | Rerun():
            return IN_BATCH
    assert_never(decision)


def _reported(result: JsonValue) -> Success:
    """What a person says that a call came to, as if the tool had returned it."""
    if result is None or isinstance(result, str):
        return Success(content=result or "")
    return Success(content=to_json(result).decode(), is_json=True)


def _denied(asked: Asked, by: DecidedBy, because: str) -> Failure:
    who = "a person denied this call" if by == "person" else "no person approved this call in time"
    if asked.in_doubt:
        message = f"{asked.note}. It was not run again: {who}{because}"
        return Failure(kind="external", source="runtime", message=message)
    return Failure(kind="permission_denied", source="policy", message=f"{who}, it was not run{because}")


def let_through(state: WaitingTools) -> WaitingTools:
    """The batch, its waiting calls ready to run, once every approval is decided; else the same batch."""
    if not any(_waits(outcome) == "batch" for outcome in state.outcomes.values()) or state.deferred("approval"):
        return state
    return replace(state, outcomes={i: o for i, o in state.outcomes.items() if _waits(o) != "batch"})


def _waits(outcome: CallOutcome) -> str | None:
    return outcome.waits_for if outcome.status == "deferred" else None


def pause_reason(deferred: Collection[WaitsFor]) -> PauseReason:
    """What a run waits for whose calls wait for all of these, and of which none is to run."""
    return "hitl" if "approval" in deferred else "subagent" if "child" in deferred else "outside"


def handed_out(state: State, effect: int) -> set[str]:
    """The calls of a batch that the driver is running, if the run is at that batch."""
    if not isinstance(state, WaitingTools) or state.effect != effect:
        return set()
    return {call.id for call in state.runnable()}


# Ending.


def settled(state: WaitingTools) -> Results:
    """Every call of a batch with its result, in the order of the calls."""
    pairs: Results = []
    for pending in state.calls:
        outcome = state.outcomes[pending.id]
        assert outcome.status != "deferred"
        pairs.append((pending, outcome))
    return pairs


def retry(state: WaitingTools, results: Results, now: int) -> list[Action]:
    """The wait before the calls run again whose policy wants a retry; nothing if no call does. Nothing of the batch
    reaches the transcript before the last retry is over; a retried call keeps its key."""
    again = {p.id: o for p, o in results if isinstance(o, Failure) and o.retry == "safe"}
    if not again:
        return []
    calls = tuple(replace(p, attempt=p.attempt + (p.id in again)) for p in state.calls)
    kept = {call_id: outcome for call_id, outcome in state.outcomes.items() if call_id not in again}
    until = now + max(failure.after_ms for failure in again.values())
    told = [_retried_event(call, again[call.id], until) for call in calls if call.id in again]
    return [*map(Announce, told), SleepUntil(until, RetryTools(calls=calls, outcomes=kept))]


def _retried_event(call: PendingCall, failure: Failure, until: int) -> NewEvent:
    why = (failure.kind, failure.message)
    return events.tool_retried(call.call.name, call.id, call.begun, "error", why, until)


def abandoned(
    calls: tuple[PendingCall, ...], outcomes: Mapping[str, CallOutcome], instead: Canceled
) -> tuple[list[Message], list[NewEvent]]:
    """A result for every call of a batch that is left: its own if it has one, else `instead`."""
    results = [tool_message(pending, _left(outcomes.get(pending.id), instead)) for pending in calls]
    told = [
        events.tool_error(pending.call.name, pending.id, instead.text, "canceled")
        for pending in calls
        if (outcome := outcomes.get(pending.id)) is not None and _waits(outcome) in ("child", "outside")
    ]
    return results, told


def _left(outcome: CallOutcome | None, instead: Canceled) -> Settled:
    """What a call that is left comes to: its result, if it has one; one that is in doubt stays so."""
    if outcome is None:
        return instead
    if outcome.status != "deferred":
        return outcome
    if outcome.asked is not None and outcome.asked.in_doubt:
        return Failure(kind="external", source="runtime", message=outcome.asked.note)
    return instead
