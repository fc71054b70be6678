"""The calls that wait for a person: what the person is shown of them, and the ids by which decisions name them.

A person decides on exactly what was shown. So an approval's id is a digest of the call with its arguments: if either
changes, the id changes too, and a decision that names the old one is refused (`agency.approvals.decisions`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pydantic_core import to_json

from agency.approvals.tools import GuardedTool
from agency.errors import InvalidInput
from agency.events import timestamp
from agency.messages import ToolCall
from agency.redaction import shown
from agency.turn.effects import PendingCall
from agency.turn.outcomes import Asked, AskedKind, OnTimeout, Risk
from agency.turn.state import State, WaitingTools


class PendingToolCall(ToolCall):
    """A call that waits for a person, with what the person should know. Its arguments are without secrets, and long
    texts are cut. `approval_id` names it with exactly these arguments. One that is in doubt had begun, at `since`, when
    its process died. Without a decision until `expires_at`, `on_timeout` counts as the decision."""

    risk: Risk = "low"
    note: str = ""
    kind: AskedKind = "approval"
    approval_id: str = ""
    since: str | None = None
    expires_at: str | None = None
    on_timeout: OnTimeout = "deny"


def pending_approvals(thread_id: str, state: State, tools: Mapping[str, GuardedTool]) -> tuple[PendingToolCall, ...]:
    """The calls that a person has to decide on."""
    if not isinstance(state, WaitingTools):
        return ()
    waiting = state.deferred("approval")
    return tuple(_pending(thread_id, p, state.asked(p.id), tools.get(p.call.name)) for p in waiting)


def _pending(thread_id: str, pending: PendingCall, asked: Asked, tool: GuardedTool | None) -> PendingToolCall:
    call = pending.call
    own_risk = tool.risk_of(call.args) if tool is not None else "high"
    return PendingToolCall(
        id=call.id,
        name=call.name,
        args=shown(call.args, pending.hidden),
        risk=asked.risk or own_risk,
        note=asked.note,
        kind=asked.kind,
        approval_id=approval_id(thread_id, pending, asked),
        since=None if asked.since is None else timestamp(asked.since),
        expires_at=None if asked.until is None else timestamp(asked.until),
        on_timeout=asked.on_timeout,
    )


def approval_id(thread_id: str, call: PendingCall, asked: Asked) -> str:
    """The name of exactly this call with exactly these arguments, of this thread and this moment of it: a call that is
    in doubt after it was approved once is another question."""
    what = to_json([call.key, call.attempt, call.call.name, call.call.args, call.approved, asked.in_doubt, asked.since])
    return f"{thread_id}:{hashlib.blake2b(what, digest_size=10).hexdigest()}"


def thread_of(approval: str) -> str:
    """The thread that an approval's id belongs to."""
    thread_id, colon, _ = approval.partition(":")
    if not colon or not thread_id:
        raise InvalidInput(f"{approval!r:.100} is no `approvalId`: these are in the list of what waits")
    return thread_id
