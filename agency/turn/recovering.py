"""A run that goes on after its process went away: what is told of that, and what is counted. Pure functions.

Nothing else changes: the machine hands out the effect that it was waiting for, as ever. This module owns the
checkpoint's `recoveries`. The time since the last sign of life is not work, so it does not count against a limit.
"""

from __future__ import annotations

from dataclasses import replace

from agency import events
from agency.errors import ResultMismatch
from agency.events import AtWork, NewEvent
from agency.turn.effects import RunRecovered
from agency.turn.limits import move_clock, stop_clock
from agency.turn.state import Ended, State, TurnCheckpoint, WaitingCode, WaitingModel, WaitingSleep, WaitingTools


def is_at_work(m: TurnCheckpoint) -> bool:
    """Whether the run is doing something that is lost with its process. One that waits, for a person or a time, is
    not: it may leave memory in good order, and then goes on as if nothing had happened."""
    return m.pause_reason is None and not isinstance(m.state, Ended | WaitingSleep)


def recovered(m: TurnCheckpoint, given: RunRecovered) -> list[NewEvent]:
    """Count the recovery; the events that tell of it and of what is done once more."""
    if not is_at_work(m):
        raise ResultMismatch(f"{given!r} does not fit {m.state!r}: nothing was lost")
    stop_clock(m)
    move_clock(m, given.at)
    m.active_since = m.now
    m.recoveries += 1
    told = [events.run_recovered(m.recoveries + 1, given.why, _doing(m.state), given.last_at, given.activation)]
    match m.state:
        case WaitingModel(request=request):
            m.tries += 1
            told.append(events.model_retried(request.model, m.tries + 1, given.why))
        case WaitingTools(calls=calls) as state:
            begun = tuple(replace(c, reruns=c.reruns + 1) if c.id in given.again else c for c in calls)
            m.state = replace(state, calls=begun)
            told += [events.tool_retried(c.call.name, c.id, c.begun, given.why) for c in begun if c.id in given.again]
    return told


def _doing(state: State) -> AtWork:
    match state:
        case WaitingModel():
            return "model"
        case WaitingTools():
            return "tools"
        case WaitingCode():
            return "code"
        case _:
            return "turn"
