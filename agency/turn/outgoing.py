"""What leaves the machine: effects with their ids, events, and messages with theirs.

This module owns the checkpoint's `notices`, `next_effect`, `next_message` and `position`, enters waiting
states, and knows whether the outstanding effect is still *due*: to be handed out. A machine that is brought back hands
out its outstanding effect once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pydantic import JsonValue

from agency import events
from agency.events import NewEvent
from agency.messages import Message
from agency.turn import effects as fx
from agency.turn import state as st
from agency.turn.outcomes import Finished, HandedOff, Stopped, TurnOutcome


class Outgoing:
    def __init__(self, m: st.TurnCheckpoint) -> None:
        self._m = m
        self.due = True

    def emit(self, *happened: NewEvent) -> None:
        for event in happened:
            self._m.notices.append(fx.Emit(event=event))

    def warn(self, kind: str, message: str) -> None:
        """Tell the run's owner of something."""
        self._m.notices.append(fx.EmitWarning(kind=kind, message=message))

    def say(self, messages: Iterable[Message]) -> None:
        """Append messages to the thread; those that come from outside have an id already."""
        named = tuple(m if m.id else Message(**{**m.__dict__, "id": self._new_message_id()}) for m in messages)
        if named:
            self._m.position += len(named)
            self._m.notices.append(fx.Progress(messages=named))

    def notify(self, notice: fx.CancelModel | fx.Done) -> None:
        self._m.notices.append(notice)

    def new_effect(self) -> int:
        effect = self._m.next_effect
        self._m.next_effect += 1
        return effect

    def wait(self, state: st.Waiting) -> None:
        """Enter a state whose effect is to be handed out."""
        self._m.state = state
        self.due = True

    def would_begin(self) -> bool:
        """Whether polling would begin something new, but for a requested pause."""
        match self._m.state:
            case st.Exhausted() | st.Ended():
                return False
            case st.WaitingTools() as state:
                return self.due and bool(state.runnable())
            case st.Preparing() | st.PrepareTurn():
                return True
            case _:
                return self.due

    def hand_out(self, state: st.Waiting) -> fx.Request | None:
        """The effect that the state waits for, once."""
        if not self.due:
            return None
        self.due = False
        match state:
            case st.WaitingSurface():
                return fx.SyncSurface(id=state.effect, turn=self._m.turn)
            case st.WaitingModel():
                return fx.CallModel(id=state.effect, request=state.request)
            case st.WaitingTools():
                runnable = state.runnable()
                return fx.CallTools(id=state.effect, calls=runnable) if runnable else None
            case st.WaitingCode():
                return fx.ExecCode(id=state.effect, code=state.code, state=self._m.mode_state)
            case st.WaitingCheckpoint():
                return fx.Checkpoint(id=state.effect, kind=state.kind)
            case st.WaitingSleep():
                return fx.Sleep(id=state.effect, until=state.until)
        assert_never(state)

    def _new_message_id(self) -> str:
        number = self._m.next_message
        self._m.next_message += 1
        return f"m{self._m.run}.{number}"


def started_event(request: fx.ModelCall) -> NewEvent:
    return events.model_started(
        request.model, request.upto, seen=request.since, surface=request.surface.digest, final=request.final
    )


def replied_event(request: fx.ModelCall, given: fx.ModelReplied, m: st.TurnCheckpoint) -> NewEvent:
    """A model has replied, and the run has been charged for it."""
    reply = given.reply
    return events.model_completed(
        request.model,
        reply.usage,
        given.cost_usd,
        m.usage,
        m.cost_usd,
        stop=reply.stop,
        request_id=reply.request_id,
        first_token_ms=given.first_token_ms,
    )


def asked_event(asked: fx.ModelAsked, m: st.TurnCheckpoint) -> NewEvent:
    """A model was asked aside, and the run has been charged for it."""
    return events.model_asked(
        asked.model,
        asked.by,
        asked.call_id,
        asked.took_ms,
        asked.usage,
        asked.cost_usd,
        m.usage,
        m.cost_usd,
        asked.error,
    )


def outcome_event(outcome: TurnOutcome, canceled_by: fx.CanceledBy | None = None) -> NewEvent:
    match outcome:
        case Finished(value=value):
            return events.agent_completed(value)
        case HandedOff(thread_id=thread_id):
            return events.agent_completed({"handoff": thread_id})
        case Stopped(reason="canceled"):
            return events.run_canceled(None if canceled_by is None else _shown(canceled_by))
        case Stopped(code=code, message=message):
            return events.agent_error(code, message)


def _shown(by: fx.CanceledBy) -> dict[str, JsonValue]:
    return {"kind": by.kind} if by.name is None else {"kind": by.kind, "name": by.name}
