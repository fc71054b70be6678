"""A run's limits, and the time that it has been at work.

This module owns the checkpoint's clock (`now`, `active_since`, `elapsed_ms`), its `limits`, `grace` and `turn`. Time
counts only while the run is at work: `stop_clock` is called when it pauses, goes on or ends.

When the turns are used up, the model gets one more turn, the *grace turn*, to answer without tools. If it calls tools
all the same, or when time, tokens or money are used up, the run pauses until a person lifts the limit.
"""

from __future__ import annotations

from agency.errors import ResultMismatch
from agency.messages import Message
from agency.spending import NOTHING_SPENT, add_costs
from agency.turn.actions import Action, RepeatTurn, Say
from agency.turn.effects import LimitsLifted
from agency.turn.state import Ended, Exhausted, RunCeiling, TurnCheckpoint

LAST_TURN = (
    "You have used all the turns of this run. Do not call any tool. "
    "Answer now, in plain prose, with what you have; say what is left undone."
)
MORE_TURNS = "You have been given more turns. You may call tools again."


# Time.


def move_clock(m: TurnCheckpoint, at: int) -> None:
    """Take over the driver's time; the wall clock may have been set back meanwhile, the run's never goes back."""
    m.now = max(at, m.now)


def stop_clock(m: TurnCheckpoint) -> None:
    """Bank the time at work so far. Call it before the pause reason changes: a paused run banks nothing."""
    m.elapsed_ms = active_ms(m, m.now)
    m.active_since = m.now


def active_ms(m: TurnCheckpoint, at: int) -> int:
    """How long the run has been at work, pauses left out."""
    idle = m.pause_reason is not None or isinstance(m.state, Ended)
    return m.elapsed_ms + (0 if idle else max(0, at - m.active_since))


def remaining_ms(m: TurnCheckpoint, at: int) -> int | None:
    """How much of the time limit is left; None without a limit."""
    limit = m.limits.time_ms
    return None if limit is None else max(0, limit - active_ms(m, at))


# Limits.


def exhausted_by(m: TurnCheckpoint) -> str | None:
    """The code of the limit that is used up, if one is."""
    limits = m.limits
    if limits.turns is not None and m.turn > limits.turns + 1:  # the grace turn is over, too
        return "ERR_MAX_TURNS"
    if limits.time_ms is not None and active_ms(m, m.now) >= limits.time_ms:
        return "ERR_TIME_LIMIT"
    if limits.tokens is None and limits.cost_usd is None:
        return None
    children = m.children or NOTHING_SPENT
    if limits.tokens is not None and m.usage.total + children.usage.total >= limits.tokens:
        return "ERR_TOKEN_LIMIT"
    if limits.cost_usd is not None:
        cost = add_costs(m.cost_usd, children.cost_usd)
        return "ERR_COST_UNKNOWN" if cost is None else "ERR_COST_LIMIT" if cost >= limits.cost_usd else None
    return None


def begin_turn(m: TurnCheckpoint) -> list[Action]:
    """Count the next turn; past the last one it is the grace turn, and the model is told so."""
    m.turn += 1
    if not _is_beyond(m, m.turn) or m.grace:
        return []
    m.grace = True
    return [Say((Message(role="system", content=LAST_TURN, origin="limits"),))]


def lower(m: TurnCheckpoint, ceiling: RunCeiling | None) -> None:
    """Take over a ceiling that may have been set while the run was at work."""
    if ceiling is not None:
        m.limits = ceiling.over(m.limits)


def lift(m: TurnCheckpoint, given: LimitsLifted) -> list[Action]:
    """Set new limits for a run that has used one up. Raises `ResultMismatch`, and changes nothing, if none is."""
    if not isinstance(m.state, Exhausted):
        raise ResultMismatch(f"no limit to lift in {m.state!r}")
    changes = {"turns": given.turns, "time_ms": given.time_ms, "tokens": given.tokens, "cost_usd": given.cost_usd}
    changed: dict[str, float | None] = {name: value for name, value in changes.items() if value is not None}
    if any(value is not None and value <= 0 for value in changed.values()):
        raise ResultMismatch(f"limits are positive numbers, not {changed}")
    if m.state.code == "ERR_COST_UNKNOWN":
        changed["cost_usd"] = None  # an unknown cost cannot be limited
    move_clock(m, given.at)
    m.limits = m.limits.model_copy(update=changed)
    if not m.grace or _is_beyond(m, m.turn):
        return [RepeatTurn()]
    m.grace = False
    return [Say((Message(role="system", content=MORE_TURNS, origin="limits"),)), RepeatTurn()]


def _is_beyond(m: TurnCheckpoint, turn: int) -> bool:
    return m.limits.turns is not None and turn > m.limits.turns
