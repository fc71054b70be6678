"""The turn machine: what a run does next, and nothing else.

Theory of operation
===================

One machine carries one run, from the messages that start it to its outcome. It has two rules:

1. It does no I/O. It has no clock, no randomness and never awaits. What it wants done it hands out as *effects*
   (`poll`), and it is told what came of them (`handle`). The same inputs give the same effects with the same ids.
2. It is at every moment a small value (`checkpoint`, `dump`) that can be stored and brought back anywhere.
   Brought back, it hands out the effect it was waiting for once more, identical to the first time, and nothing else.

The driver's loop is: feed an answer, poll until there is nothing, commit everything that was polled together with the
new checkpoint in one transaction, and only then perform the one effect that wants an answer. So a crash falls between
two answers, never inside one.

Effects that want an answer take an id from a counter that starts at 1 in each run and is part of the checkpoint:
`(thread, run, effect)` names one logical side effect for ever. There is at most one outstanding. Notices (`Emit`,
`Progress`, `CancelModel`, `Done`) have no id and are polled first, in order.

    Preparing ─> PrepareTurn ─> WaitingSurface ─> WaitingModel ─┬─> WaitingTools ─┐
                     ^   │                          ^   │ fail  ├─> WaitingCode ──┤
                     │   └─> Exhausted              └─ WaitingSleep (also tools)  │
                     │                                          └─────────────────┴─> WaitingCheckpoint ─> Ended
                     └──────────────────────────────────────────────────────────────────────┘

A turn is one round of that loop. Its surface (prompt, tools, model) is asked for once. The machine is the seam: it
checks inputs, keeps the state and the ids, and applies *actions* (`actions.py`). What follows from an input is decided
by its parts, each of which owns some of the checkpoint's fields:

* `modes.py`: what an ordinary reply leads to: tools, code, or the end.
* `replies.py`: replies that are no answer: cut off at the output limit, or a result that does not fit its schema.
* `chain.py`: which model is asked, and what follows when it fails: the next model, a `Sleep` and a retry, or the end.
* `batch.py`: the calls of a reply. The machine stays in `WaitingTools`, under one effect id, until every call has a
  result. A call may be *deferred*: to a person, to a child thread, or because another call of its batch waits for
  approval. Once every approval is decided, `CallTools` is handed out again, under the same id, with the calls that are
  to run. Retries of tools are a `Sleep` and then a new effect; `PendingCall.key` stays the same.
* `limits.py`: turns, time, tokens and money, and the clock. A run that has used one up is `Exhausted` and paused until
  a person lifts the limit.

Pausing and interrupting: after `PauseRequested` the run finishes what it is doing and begins nothing new, until
`ResumeRequested`. One that is interrupted leaves what it is doing, keeps the results of calls that have ended, and goes
on with the new messages.

Ending: `Progress` with whatever is new, then `Emit` of the outcome, then `Done`. However a run ends, no call in the
transcript is without a result.

An input that does not fit the state raises `ResultMismatch` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from agency import events
from agency.errors import ResultMismatch
from agency.messages import Message, Usage, unpaired
from agency.spending import add_costs
from agency.turn import batch, chain, limits, recovering, replies
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn import state as st
from agency.turn.actions import (
    Action,
    Announce,
    AskModel,
    End,
    KeepState,
    NextTurn,
    RepeatTurn,
    Say,
    SleepUntil,
    StartCheckpoint,
    StartCode,
    StartTools,
    Warn,
)
from agency.turn.modes import CODE_ORIGIN, MODES, ModeName
from agency.turn.outgoing import Outgoing, asked_event, outcome_event, replied_event, started_event
from agency.turn.view import TurnView

INTERRUPTED = out.Canceled(reason="a new message came first")
ABORTED = out.Canceled(reason="the run failed before this call had ended")

Awaited = TypeVar("Awaited", bound=st.Waiting)
_Numbered = fx.Answer | fx.CallSettled | fx.CallsDecided


class TurnMachine(TurnView):
    def __init__(self, checkpoint: st.TurnCheckpoint, mode: ModeName = "tools") -> None:
        """Bring a machine back; `begin` makes a new one. The mode is configuration and is not stored."""
        super().__init__(_copy(checkpoint))
        self._mode = MODES[mode]
        self._outgoing = Outgoing(self._m)

    @classmethod
    def begin(
        cls,
        *,
        run: int,
        at: int,
        position: int,
        messages: Iterable[Message],
        limits: st.Limits | None = None,
        mode: ModeName = "tools",
    ) -> TurnMachine:
        """A machine for a new run of a thread that holds `position` messages; `messages` are what starts it."""
        return cls(
            st.TurnCheckpoint(
                run=run,
                state=st.Preparing(messages=tuple(messages)),
                position=position,
                shown=position,
                limits=limits or st.Limits(),
                cost_usd=0.0,
                now=at,
                active_since=at,
            ),
            mode,
        )

    def checkpoint(self) -> st.TurnCheckpoint:
        return _copy(self._m)

    def dump(self) -> bytes:
        """The checkpoint as JSON, for `TurnCheckpoint.load`."""
        return self._m.dump()

    def lifts(self, given: fx.LimitsLifted) -> bool:
        """Whether the run could go on under these limits."""
        after = TurnMachine(self._m)
        after.handle(given)
        return limits.exhausted_by(after._m) is None

    # The two halves of the seam.

    def poll(self) -> fx.Effect | None:
        """The next effect, or None when the machine waits for an input."""
        while True:
            if self._m.notices:
                return self._m.notices.pop(0)
            if self._m.pause_requested and self._outgoing.would_begin():
                if self._m.pause_reason == "manual":
                    return None
                self._set_pause("manual")
                continue
            match self._m.state:
                case st.Preparing(messages=messages):
                    self._start(messages)
                case st.PrepareTurn():
                    self._prepare_turn()
                case st.Exhausted() | st.Ended():
                    return None
                case waiting:
                    return self._outgoing.hand_out(waiting)

    def handle(self, given: fx.Input) -> None:
        """Take an answer, or something from outside. What does not fit raises `ResultMismatch` and changes nothing."""
        match given:
            case fx.SurfaceSynced():
                self._surface_synced(given)
            case fx.BudgetSpent():
                self._expect(st.WaitingSurface, given)
                self._exhaust(given.code)
            case fx.ModelReplied():
                self._model_replied(given)
            case fx.ModelFailed():
                request = self._expect(st.WaitingModel, given).request
                self._count(given.failure.usage, given.failure.cost_usd)
                self._apply(chain.after_failure(self._m, request, given.failure))
            case fx.ToolsAnswered() | fx.CallSettled() | fx.CallsDecided():
                self._batch_changed(given)
            case fx.CheckpointTaken():
                self._checkpoint_taken(given)
            case fx.Woke():
                self._woke(given)
            case fx.CodeRan():
                self._expect(st.WaitingCode, given)
                self._apply(self._mode.on_code(given))
            case fx.LimitsLifted():
                self._apply(limits.lift(self._m, given))
                self._set_pause(None)
            case fx.ModelAsked():
                self._expect_running(given)
                self._count(given.usage, given.cost_usd)
                self._outgoing.emit(asked_event(given, self._m))
            case fx.PauseRequested():
                self._expect_running(given)
                self._m.pause_requested = True
            case fx.ResumeRequested():
                self._resume(given)
            case fx.RunRecovered():
                self._outgoing.emit(*recovering.recovered(self._m, given))
            case fx.RunInterrupted():
                self._interrupt(given)
            case fx.RunCanceled():
                deleted = given.by.kind == "deletion"
                self._stop(given, out.DELETED if deleted else out.CANCELED, given.by)
            case fx.RunAborted():
                self._stop(given, out.Stopped(reason=given.reason, code=given.code, message=given.message))
            case _:
                assert_never(given)

    # Inputs are checked first, and only then the clock moves: what does not fit changes nothing.

    def _expect(self, kind: type[Awaited], given: _Numbered) -> Awaited:
        """The state, if it is of this kind and waits for the effect that `given` names."""
        state = self._awaited(kind, given)
        limits.move_clock(self._m, given.at)
        return state

    def _awaited(self, kind: type[Awaited], given: _Numbered) -> Awaited:
        """Like `_expect`, for inputs that are checked further before the clock moves."""
        state = self._m.state
        if not isinstance(state, kind) or state.effect != given.id:
            raise ResultMismatch(f"{given!r} does not fit {state!r}")
        return state

    def _expect_running(self, given: fx.Input) -> None:
        if isinstance(self._m.state, st.Ended):
            raise ResultMismatch(f"{given!r} comes after the run has ended")
        limits.move_clock(self._m, given.at)

    # Applying what the parts decide.

    def _count(self, usage: Usage, cost_usd: float | None) -> None:
        self._m.usage += usage
        self._m.cost_usd = add_costs(self._m.cost_usd, cost_usd)

    def _apply(self, actions: Sequence[Action], replied: fx.ModelReplied | None = None) -> None:
        """Do what a part has decided; `replied` is the reply that `StartTools` speaks of."""
        for action in actions:
            match action:
                case Say(messages=messages):
                    self._outgoing.say(messages)
                case Announce(event=event):
                    self._outgoing.emit(event)
                case Warn(kind=kind, message=message):
                    self._outgoing.warn(kind, message)
                case AskModel(request=request):
                    self._call_model(request)
                case SleepUntil(until=until, then=then):
                    self._outgoing.wait(st.WaitingSleep(effect=self._outgoing.new_effect(), until=until, then=then))
                case StartTools():
                    assert replied is not None
                    self._start_tools(replied)
                case StartCode() if self._m.grace:
                    self._next_turn()
                case StartCode(code=code):
                    self._outgoing.wait(st.WaitingCode(effect=self._outgoing.new_effect(), code=code))
                case StartCheckpoint(kind=kind, on_empty=on_empty):
                    self._outgoing.wait(
                        st.WaitingCheckpoint(effect=self._outgoing.new_effect(), kind=kind, on_empty=on_empty)
                    )
                case KeepState(state=state):
                    self._m.mode_state = state
                case RepeatTurn():
                    self._m.state = st.PrepareTurn()
                case NextTurn():
                    self._next_turn()
                case End(outcome=outcome):
                    self._end(outcome)
                case _:
                    assert_never(action)

    # The course of a turn.

    def _start(self, messages: tuple[Message, ...]) -> None:
        self._outgoing.emit(events.run_started(), events.agent_started())
        self._outgoing.say(messages)
        self._m.turn = 1
        self._m.state = st.PrepareTurn()

    def _prepare_turn(self) -> None:
        if (code := limits.exhausted_by(self._m)) is not None:
            self._exhaust(code)
            return
        if self._m.turns_begun < self._m.turn:
            self._m.turns_begun = self._m.turn
            self._outgoing.emit(events.run_tick(self._m.turn))
        self._outgoing.wait(st.WaitingSurface(effect=self._outgoing.new_effect()))

    def _surface_synced(self, given: fx.SurfaceSynced) -> None:
        self._expect(st.WaitingSurface, given)
        self._m.children = given.children
        self._m.compacted = self._m.compacted or given.compacted
        chain.note_skipped(self._m, given.surface)
        limits.lower(self._m, given.ceiling)
        if (code := limits.exhausted_by(self._m)) is not None:
            self._exhaust(code)
        else:
            self._call_model(chain.first_call(self._m, given.surface))

    def _call_model(self, request: fx.ModelCall) -> None:
        self._m.model = request.model
        self._outgoing.emit(started_event(request))
        self._outgoing.wait(st.WaitingModel(effect=self._outgoing.new_effect(), request=request))

    def _model_replied(self, given: fx.ModelReplied) -> None:
        request, reply = self._awaited(st.WaitingModel, given).request, batch.distinct(given.reply)
        given = given if reply is given.reply else replace(given, reply=reply)
        if given.ask and (unknown := set(given.ask) - {call.id for call in reply.tool_calls}):
            raise ResultMismatch(f"approval asked for calls that the reply does not have: {sorted(unknown)}")
        limits.move_clock(self._m, given.at)
        chain.forget_attempts(self._m)
        self._m.shown = request.upto
        self._count(reply.usage, given.cost_usd)
        self._outgoing.emit(
            replied_event(request, given, self._m),
            *(events.after_model(middleware) for middleware in given.seen_by),
        )
        self._apply(replies.after_reply(self._m, self._mode, reply, given.output), given)

    def _woke(self, given: fx.Woke) -> None:
        match self._expect(st.WaitingSleep, given).then:
            case st.RetryModel() if limits.exhausted_by(self._m) is not None:
                self._m.state = st.PrepareTurn()
            case st.RetryModel(request=request):
                self._call_model(request)
            case st.RetryTools(calls=calls, outcomes=outcomes):
                self._outgoing.wait(st.WaitingTools(effect=self._outgoing.new_effect(), calls=calls, outcomes=outcomes))

    def _checkpoint_taken(self, given: fx.CheckpointTaken) -> None:
        state = self._awaited(st.WaitingCheckpoint, given)
        if (problem := unpaired(given.messages)) is not None:
            raise ResultMismatch(f"a checkpoint takes calls with their results: {problem}")
        limits.move_clock(self._m, given.at)
        self._outgoing.say(given.messages)
        if given.stop is not None:
            self._end(given.stop)
        elif state.on_empty is not None and (self._m.grace or not given.messages):
            self._end(state.on_empty)
        else:
            self._next_turn()

    def _next_turn(self) -> None:
        self._apply(limits.begin_turn(self._m))
        self._m.state = st.PrepareTurn()

    # A batch of tool calls.

    def _start_tools(self, given: fx.ModelReplied) -> None:
        state, told = batch.started(self._m.run, self._outgoing.new_effect(), self._m.now, given)
        self._outgoing.emit(*told)
        self._settle(state)

    def _batch_changed(self, given: fx.ToolsAnswered | fx.CallSettled | fx.CallsDecided) -> None:
        after, told = batch.changed(self._awaited(st.WaitingTools, given), given)
        limits.move_clock(self._m, given.at)
        self._outgoing.emit(*told)
        self._settle(after)

    def _settle(self, state: st.WaitingTools) -> None:
        """Go on with a batch as far as its outcomes allow."""
        after = batch.let_through(state)
        self._outgoing.due = self._outgoing.due or after is not state
        runnable = {call.id for call in after.runnable()}
        deferred = {outcome.waits_for for outcome in after.outcomes.values() if outcome.status == "deferred"}
        if runnable or deferred:
            # The driver runs some of these calls already: they are handed out again only if others join them.
            self._outgoing.due = self._outgoing.due or not runnable <= batch.handed_out(self._m.state, state.effect)
            self._m.state = after
            self._set_pause(batch.pause_reason(deferred) if "approval" in deferred or not runnable else None)
            return
        self._set_pause(None)
        results = batch.settled(after)
        again = batch.retry(after, results, self._m.now)
        self._apply(again or self._mode.on_tools(results))

    # Pausing, resuming and interrupting.

    def _exhaust(self, code: str) -> None:
        self._m.state = st.Exhausted(code=code)
        self._set_pause("exhausted", code)

    def _set_pause(self, reason: st.PauseReason | None, code: str | None = None) -> None:
        if reason == self._m.pause_reason or (reason is None and self._m.pause_requested):
            return  # a run that was paused by hand goes on only by hand: `poll` says so
        limits.stop_clock(self._m)
        self._m.pause_reason = reason
        self._outgoing.emit(events.run_resumed() if reason is None else events.run_paused(reason, code))

    def _resume(self, given: fx.ResumeRequested) -> None:
        if not self._m.pause_requested:
            raise ResultMismatch("the run was not paused by hand")
        limits.move_clock(self._m, given.at)
        self._m.pause_requested = False
        if self._m.pause_reason == "manual" or self._outgoing.would_begin():
            self._set_pause(None)  # also from what the run waited for before the pause, and no longer does

    def _interrupt(self, given: fx.RunInterrupted) -> None:
        """Leave what is being done, and begin the next turn with the messages."""
        state = self._m.state
        if isinstance(state, st.Exhausted):
            raise ResultMismatch("a run that has used up a limit does nothing that could be interrupted")
        self._expect_running(given)
        self._count(given.used.usage, given.used.cost_usd)
        if isinstance(state, st.WaitingModel):
            failure = fx.ModelFailure(code="ERR_INTERRUPTED", message=INTERRUPTED.reason)
            self._outgoing.emit(chain.failed_event(state.request, failure))
        self._stop_work(INTERRUPTED)
        if isinstance(state, st.WaitingCode):
            self._outgoing.say([Message(role="user", content=f"Output:\n{INTERRUPTED.text}", origin=CODE_ORIGIN)])
        self._outgoing.say(given.messages)
        chain.forget_attempts(self._m)
        replies.forget_cut(self._m)
        self._set_pause(None)
        if isinstance(state, st.PrepareTurn | st.WaitingSurface):
            self._m.state = st.PrepareTurn()  # the turn has hardly begun
        else:
            self._next_turn()

    # Endings.

    def _stop(
        self, given: fx.RunCanceled | fx.RunAborted, outcome: out.Stopped, by: fx.CanceledBy | None = None
    ) -> None:
        self._expect_running(given)
        self._m.canceled_by = by
        self._count(given.used.usage, given.used.cost_usd)
        self._stop_work(ABORTED if isinstance(given, fx.RunAborted) else out.Canceled())
        self._end(outcome)

    def _stop_work(self, instead: out.Canceled) -> None:
        """Leave nothing running and no call without a result: `instead` is that of calls that have none."""
        match self._m.state:
            case st.Preparing(messages=messages):
                self._outgoing.say(messages)
            case st.WaitingModel(effect=effect):
                self._outgoing.notify(fx.CancelModel(call=effect))
            case (
                st.WaitingTools(calls=calls, outcomes=outcomes)
                | st.WaitingSleep(then=st.RetryTools(calls=calls, outcomes=outcomes))
            ):
                results, told = batch.abandoned(calls, outcomes, instead)
                self._outgoing.emit(*told)
                self._outgoing.say(results)

    def _end(self, outcome: out.TurnOutcome) -> None:
        limits.stop_clock(self._m)
        self._m.pause_reason = None
        self._outgoing.emit(outcome_event(outcome, self._m.canceled_by))
        self._outgoing.notify(fx.Done(outcome=outcome))
        self._m.state = st.Ended(outcome=outcome)


def _copy(checkpoint: st.TurnCheckpoint) -> st.TurnCheckpoint:
    return replace(checkpoint, notices=list(checkpoint.notices))
