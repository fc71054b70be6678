"""What people decide on calls that wait for them: checked against what really waits, before anything changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NoReturn

from pydantic import Field, TypeAdapter

from agency.approvals.pending import PendingToolCall, approval_id
from agency.approvals.tools import GuardedTool
from agency.errors import InvalidInput, WrongState
from agency.messages import ToolCall
from agency.redaction import restored
from agency.turn.effects import PendingCall
from agency.turn.outcomes import Always, Approve, Decision, Deny, Edit, Happened, Rerun, Respond
from agency.turn.state import WaitingTools
from agency.validation import valid
from agency.wire import Wire, sayable, sayable_text

_DECISIONS: TypeAdapter[dict[str, Decision]] = TypeAdapter(dict[str, Decision])


@dataclass(frozen=True, slots=True)
class Decided:
    effect: int
    decisions: dict[str, Decision]
    """By the ids of the calls, with arguments as they will run."""
    always: frozenset[str]
    """The tools whose calls need no approval from now on."""


class ApproveResult(Wire):
    """What approving has left: the ids of the calls in doubt, which go on waiting. Decide on these one by one:
    `Rerun()`, or `Happened(result)`."""

    ok: Literal[True] = True
    in_doubt: Annotated[tuple[str, ...], Field(exclude_if=lambda ids: not ids)] = ()


def as_decisions(given: Mapping[str, Decision]) -> dict[str, Decision]:
    """What a caller gives, as decisions: of the right types, and in texts that can be stored."""
    return {name: _sayable(decision) for name, decision in valid(_DECISIONS, dict(given), "decisions").items()}


def approved_calls(pending: Iterable[PendingToolCall], modified: Iterable[ToolCall]) -> dict[str, Decision]:
    """Every call that waits for approval is approved, those in `modified` with the arguments that they have there. One
    that does not wait is named, too, and will be refused. Calls in doubt are left out: they may have happened."""
    waiting = {call.id: call for call in pending}
    decisions: dict[str, Decision] = {call.id: Approve() for call in waiting.values() if call.kind != "in_doubt"}
    for call in modified:
        known = waiting.get(call.id)
        if not isinstance(call.args, dict):
            raise InvalidInput(f"the arguments of call {call.id!r:.100} are an object")
        if known is not None and call.name != known.name:
            raise InvalidInput(f"call {call.id!r} is one of {known.name!r}: only its arguments can be changed")
        as_it_was = known is not None and call.args == known.args
        if not (as_it_was and known is not None and known.kind == "in_doubt"):
            decisions[call.id] = Approve() if as_it_was else Edit(call.args)
    return decisions


def _sayable(decision: Decision) -> Decision:
    match decision:
        case Deny(reason=reason):
            return Deny(reason=sayable_text(reason))
        case Respond(content=content):
            return Respond(content=sayable_text(content))
        case Edit(args=args):
            return Edit(args={sayable_text(name): sayable(value) for name, value in args.items()})
        case Happened(result=result):
            return Happened(result=sayable(result))
        case Approve() | Always() | Rerun():
            return decision


def checked_decisions(
    thread_id: str, state: WaitingTools, tools: Mapping[str, GuardedTool], given: Mapping[str, Decision]
) -> Decided:
    """Refuse decisions that do not fit what waits. A call is named by its id, or by its `approval_id`."""
    waiting = {call.id: call for call in state.deferred("approval")}
    if not waiting:
        raise WrongState(f"no call of thread {thread_id} waits for a person")
    if not given:
        raise InvalidInput("there are no decisions; name at least one call")
    named = {approval_id(thread_id, call, state.asked(call.id)): call.id for call in waiting.values()}
    decisions: dict[str, Decision] = {}
    for name, decision in given.items():
        call_id = named.get(name, name)
        if call_id not in waiting:
            _refuse(thread_id, name, waiting)
        if call_id in decisions:
            raise InvalidInput(f"call {call_id!r} is decided on twice")
        _check_fits(call_id, decision, in_doubt=state.asked(call_id).in_doubt)
        decisions[call_id] = _as_it_runs(decision, waiting[call_id], tools)
    always = frozenset(waiting[i].call.name for i, each in decisions.items() if isinstance(each, Always))
    return Decided(state.effect, decisions, always)


def _check_fits(call_id: str, decision: Decision, *, in_doubt: bool) -> None:
    """A call that may have happened runs again only if a person says exactly that."""
    if in_doubt and isinstance(decision, Approve | Edit | Always):
        raise InvalidInput(
            f"call {call_id!r} is in doubt, it may have happened: run it again (`rerun`), say that it `happened`, with "
            f"its result, or `deny` it; `{decision.decision}` is for calls that have not begun"
        )
    if not in_doubt and isinstance(decision, Rerun | Happened):
        raise InvalidInput(f"call {call_id!r} is not in doubt, it has not begun: `{decision.decision}` does not fit it")


def _refuse(thread_id: str, name: str, waiting: Mapping[str, PendingCall]) -> NoReturn:
    if name.startswith(f"{thread_id}:"):
        raise WrongState(f"what {name!r} names was decided already, or has changed: look at what waits now")
    raise InvalidInput(f"[{name!r:.100}] do not wait for a person; {sorted(waiting)} do")


def _as_it_runs(decision: Decision, call: PendingCall, tools: Mapping[str, GuardedTool]) -> Decision:
    if not isinstance(decision, Edit):
        return decision
    args = restored(decision.args, call.call.args, call.hidden)
    if (tool := tools.get(call.call.name)) is not None:
        tool.bind(args)
    return Edit(args=args if isinstance(args, dict) else decision.args)
