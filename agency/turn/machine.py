"""The turn machine: what a run does next, and nothing else.

Theory of operation
===================

One machine carries one run, from the messages that start it to its outcome. It has two rules:

1. It does no I/O. It has no clock, no randomness and never awaits. What it wants done it hands out as *effects*
   (`poll`), what came of it it is told (`handle`). The same inputs give the same effects with the same ids.
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

A turn is one round of that loop. Its surface (prompt, tools, model) is asked for once. What a reply leads to is the
mode's business (`modes.py`); the machine applies the actions that the mode returns.

* Tools: the machine stays in `WaitingTools`, under one effect id, until every call has a result. A call may be
  *deferred*: to a person, to a child thread, or because its batch is held. Nothing of a held batch runs before the
  person has decided on every call that was asked about; then `CallTools` is handed out again, under the same id, with
  the calls that are to run. Results reach the transcript together, in the order of the calls.
* Retries: a retryable failure, of the model or of a tool whose policy says so, becomes a `Sleep` and then a new effect
  with the same request. `PendingCall.key` stays the same. Where the surface has a chain of models, a retryable failure
  is first of all a call of the next one, with the same conversation; only after the last of them comes the `Sleep`.
  The run stays with the model that answered. A failure that is not retryable ends the run under its own name.
* Replies that are no answer: one that was cut off at the output limit is kept and the model asked to go on, three
  times; a result that does not fit the output's schema is sent back with what is wrong, twice.
* Limits: when the turns are used up the model gets one more turn without tools, to answer in prose. If it calls tools
  all the same, or when time, tokens or money are used up, the run pauses as `Exhausted` until a person lifts the limit.
* People: a run that is held finishes what it is doing and begins nothing new, until it is released; one that is
  interrupted leaves what it is doing, keeps the results of calls that have ended, and goes on with the new messages.
* Ending: `Progress` with whatever is new, then `Emit` of the outcome, then `Done`. However a run ends, no call in the
  transcript is without a result.

An input that does not fit the state raises `ResultMismatch` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TypeVar, assert_never

from agency import events
from agency.errors import ResultMismatch
from agency.events import NewEvent
from agency.messages import Message, ToolCall
from agency.spending import NOTHING_SPENT, Spent, add_costs
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn import state as st
from agency.turn.batch import decided, distinct, outcome_after, settled
from agency.turn.modes import (
    MODES,
    Action,
    End,
    KeepState,
    ModeName,
    Say,
    StartCheckpoint,
    StartCode,
    StartTools,
    assistant_message,
    tool_message,
)

MODEL_ATTEMPTS = 5
MAX_CUT = 3
MAX_OVERFLOWS = 3
MAX_REPAIRS = 2
KEPT_FAILURES = 50
RETRY_BASE_MS = 500
RETRY_MAX_MS = 30_000

LAST_TURN = (
    "You have used all the turns of this run. Do not call any tool. "
    "Answer now, in plain prose, with what you have; say what is left undone."
)
MORE_TURNS = "You have been given more turns. You may call tools again."
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

_BAD_STOPS = {
    "output_limit": out.Stopped(
        reason="incomplete", code="ERR_MAX_TOKENS", message="the model's reply was cut off at its output limit"
    ),
    "context_overflow": out.Stopped(
        reason="provider_error", code="ERR_CONTEXT_OVERFLOW", message="the conversation is too long for the model"
    ),
    "content_filter": out.Stopped(
        reason="provider_error", code="ERR_CONTENT_FILTER", message="the provider's content filter stopped the reply"
    ),
    "canceled": out.CANCELED,
}


def retry_delay(attempt: int, after_ms: int | None) -> int:
    """How long to wait after failed attempt number `attempt`, and at least as long as the other side asks for."""
    backoff: int = min(RETRY_BASE_MS * 2 ** (attempt - 1), RETRY_MAX_MS)
    return max(after_ms or 0, backoff)


IN_BATCH = out.Deferred(waits_for="batch")
INTERRUPTED = out.Canceled(reason="a new message came first")

Awaited = TypeVar("Awaited", bound=st.Waiting)
_Numbered = fx.Answer | fx.CallSettled | fx.CallsDecided


class TurnMachine:
    def __init__(self, checkpoint: st.TurnCheckpoint, mode: ModeName = "tools") -> None:
        """Bring a machine back; `begin` makes a new one. The mode is configuration and is not stored."""
        self._m = _copy(checkpoint)
        self._mode = MODES[mode]
        self._due = True  # the outstanding effect is still to be handed out

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

    # What a driver may ask.

    @property
    def state(self) -> st.State:
        return self._m.state

    @property
    def turn(self) -> int:
        return self._m.turn

    @property
    def model(self) -> str | None:
        """The model that was asked last."""
        return self._m.model

    @property
    def failures(self) -> tuple[st.Attempt, ...]:
        return tuple(self._m.failures)

    @property
    def said(self) -> str:
        """What the model has said so far of a reply that was cut off."""
        return self._m.said

    def spent(self, at: int) -> Spent:
        """What the run has used, without its children."""
        turns = self._m.ticked or self._m.turn
        return Spent(usage=self._m.usage, cost_usd=self._m.cost_usd, turns=turns, active_ms=self.active_ms(at))

    @property
    def limits(self) -> st.Limits:
        return self._m.limits

    @property
    def paused(self) -> st.PauseReason | None:
        return self._m.paused

    @property
    def held(self) -> bool:
        """Whether a person has paused the run; what was being done may not have ended yet."""
        return self._m.hold

    @property
    def outcome(self) -> out.TurnOutcome | None:
        state = self._m.state
        return state.outcome if isinstance(state, st.Ended) else None

    @property
    def grace(self) -> bool:
        """Whether this is the turn after the last one: what it says ends the run."""
        return self._m.grace

    @property
    def outstanding(self) -> int | None:
        """The id of the effect that waits for an answer."""
        return getattr(self._m.state, "effect", None)

    @property
    def exhausted_by(self) -> str | None:
        """The code of the limit that the run waits to have lifted."""
        state = self._m.state
        return state.code if isinstance(state, st.Exhausted) else None

    def lifts(self, given: fx.LimitsLifted) -> bool:
        """Whether the run could go on under these limits."""
        after = TurnMachine(self._m)
        after.handle(given)
        return after._exhausted() is None

    def active_ms(self, at: int) -> int:
        """How long the run has been at work, pauses left out."""
        idle = self._m.paused is not None or isinstance(self._m.state, st.Ended)
        return self._m.elapsed_ms + (0 if idle else max(0, at - self._m.active_since))

    def remaining_ms(self, at: int) -> int | None:
        """How much of the time limit is left."""
        limit = self._m.limits.time_ms
        return None if limit is None else max(0, limit - self.active_ms(at))

    # The two halves of the seam.

    def poll(self) -> fx.Effect | None:
        """The next effect, or None when it is somebody else's turn."""
        while True:
            if self._m.notices:
                return self._m.notices.pop(0)
            if self._m.hold and self._would_begin():
                if self._m.paused == "manual":
                    return None
                self._set_paused("manual")
                continue
            match self._m.state:
                case st.Preparing(messages=messages):
                    self._start(messages)
                case st.PrepareTurn():
                    self._prepare_turn()
                case st.Exhausted() | st.Ended():
                    return None
                case waiting:
                    return self._hand_out(waiting)

    def handle(self, given: fx.Input) -> None:
        """Take an answer, or something from outside. What does not fit raises `ResultMismatch` and changes nothing."""
        match given:
            case fx.SurfaceSynced():
                self._surface_synced(given)
            case fx.BudgetSpent():
                self._expect(st.WaitingSurface, given)
                self._at(given.at)
                self._exhaust(given.code)
            case fx.ModelReplied():
                self._model_replied(given)
            case fx.ModelFailed():
                self._model_failed(given)
            case fx.ToolsAnswered():
                self._tools_answered(given)
            case fx.CheckpointTaken():
                self._checkpoint_taken(given)
            case fx.Woke():
                self._woke(given)
            case fx.CallSettled():
                self._call_settled(given)
            case fx.CallsDecided():
                self._calls_decided(given)
            case fx.CodeRan():
                self._code_ran(given)
            case fx.LimitsLifted():
                self._limits_lifted(given)
            case fx.RunHeld():
                self._check_running(given)
                self._at(given.at)
                self._m.hold = True
            case fx.RunReleased():
                self._released(given)
            case fx.RunInterrupted():
                self._interrupted(given)
            case fx.RunCanceled():
                self._stop(given, out.CANCELED)
            case fx.RunAborted():
                self._stop(given, out.Stopped(reason=given.reason, code=given.code, message=given.message))
            case _:
                assert_never(given)

    def _expect(self, kind: type[Awaited], given: _Numbered) -> Awaited:
        """The state, if it is of this kind and waits for the effect that `given` names."""
        state = self._m.state
        if not isinstance(state, kind) or state.effect != given.id:
            raise ResultMismatch(f"{given!r} does not fit {state!r}")
        return state

    def _would_begin(self) -> bool:
        """Whether there is something to be begun, if nobody has paused the run."""
        match self._m.state:
            case st.Exhausted() | st.Ended():
                return False
            case st.WaitingTools() as state:
                return self._due and bool(state.runnable())
            case st.Preparing() | st.PrepareTurn():
                return True
            case _:
                return self._due

    # Handing out effects.

    def _hand_out(self, state: st.Waiting) -> fx.Request | None:
        if not self._due:
            return None
        self._due = False
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

    def _wait(self, state: st.Waiting) -> None:
        self._m.state = state
        self._due = True

    def _new_effect(self) -> int:
        effect = self._m.next_effect
        self._m.next_effect += 1
        return effect

    def _emit(self, event: NewEvent) -> None:
        self._m.notices.append(fx.Emit(event=event))

    def _say(self, messages: Iterable[Message]) -> None:
        """Append messages; those that come from outside have an id already."""
        named = tuple(m if m.id else Message(**{**m.__dict__, "id": self._new_message_id()}) for m in messages)
        if named:
            self._m.position += len(named)
            self._m.notices.append(fx.Progress(messages=named))

    def _new_message_id(self) -> str:
        number = self._m.next_message
        self._m.next_message += 1
        return f"m{self._m.run}.{number}"

    # The course of a turn.

    def _start(self, messages: tuple[Message, ...]) -> None:
        self._emit(events.run_started())
        self._emit(events.agent_started())
        self._say(messages)
        self._m.turn = 1
        self._m.state = st.PrepareTurn()

    def _prepare_turn(self) -> None:
        if (code := self._exhausted()) is not None:
            self._exhaust(code)
            return
        if self._m.ticked < self._m.turn:
            self._m.ticked = self._m.turn
            self._emit(events.run_tick(self._m.turn))
        self._wait(st.WaitingSurface(effect=self._new_effect()))

    def _exhaust(self, code: str) -> None:
        self._m.state = st.Exhausted(code=code)
        self._set_paused("exhausted", code)

    def _exhausted(self) -> str | None:
        limits = self._m.limits
        if limits.turns is not None and self._m.turn > limits.turns + 1:  # the grace turn is over, too
            return "ERR_MAX_TURNS"
        if limits.time_ms is not None and self.active_ms(self._m.now) >= limits.time_ms:
            return "ERR_TIME_LIMIT"
        if limits.tokens is None and limits.cost_usd is None:
            return None
        children = self._m.children or NOTHING_SPENT
        if limits.tokens is not None and self._m.usage.total + children.usage.total >= limits.tokens:
            return "ERR_TOKEN_LIMIT"
        if limits.cost_usd is not None:
            cost = add_costs(self._m.cost_usd, children.cost_usd)
            return "ERR_COST_UNKNOWN" if cost is None else "ERR_COST_LIMIT" if cost >= limits.cost_usd else None
        return None

    def _call_model(self, request: fx.ModelCall) -> None:
        self._m.model = request.model
        self._emit(events.model_started(request.model, request.upto))
        self._wait(st.WaitingModel(effect=self._new_effect(), request=request))

    def _next_turn(self) -> None:
        self._m.turn += 1
        if self._out_of_reach(self._m.turn) and not self._m.grace:
            self._m.grace = True
            self._say([Message(role="system", content=LAST_TURN, origin="limits")])
        self._m.state = st.PrepareTurn()

    def _out_of_reach(self, turn: int) -> bool:
        limit = self._m.limits.turns
        return limit is not None and turn > limit

    # Answers to the outstanding effect.

    def _surface_synced(self, given: fx.SurfaceSynced) -> None:
        self._expect(st.WaitingSurface, given)
        self._at(given.at)
        self._m.children = given.children
        known = {failure.model for failure in self._m.failures if failure.code == "ERR_CAPABILITY"}
        for model in given.surface.skipped:
            if model not in known:
                self._note(model, "ERR_CAPABILITY", "it cannot do what is required")
        if (code := self._exhausted()) is not None:
            self._exhaust(code)
            return
        chain, upto, since = given.surface.chain, self._m.position, self._m.shown
        choice = chain.index(self._m.model) if self._m.model in chain else 0
        self._call_model(
            fx.ModelCall(surface=given.surface, upto=upto, since=since, final=self._m.grace, choice=choice)
        )

    def _model_replied(self, given: fx.ModelReplied) -> None:
        state = self._expect(st.WaitingModel, given)
        reply = distinct(given.reply)
        unknown = set(given.ask) - {call.id for call in reply.tool_calls}
        if unknown:
            raise ResultMismatch(f"approval asked for calls that the reply does not have: {sorted(unknown)}")
        self._at(given.at)
        self._m.attempts = self._m.overflows = 0
        self._m.shown = state.request.upto
        self._m.usage += reply.usage
        self._m.cost_usd = add_costs(self._m.cost_usd, given.cost_usd)
        self._emit(
            events.model_completed(state.request.model, reply.usage, given.cost_usd, self._m.usage, self._m.cost_usd)
        )
        for middleware in given.seen_by:
            self._emit(events.after_model(middleware))
        if reply.stop == "output_limit" and self._m.cut < MAX_CUT:
            self._ask_to_go_on(reply)
            return
        text = self._m.said + reply.text
        self._m.cut, self._m.said = 0, ""
        if reply.stop in _BAD_STOPS:
            self._end(_BAD_STOPS[reply.stop])
        elif given.output is not None:
            self._hand_in(reply, given.output)
        elif self._m.grace and reply.tool_calls:
            self._refuse_calls(reply)
        else:
            self._apply(self._mode.on_reply(reply, text), given)

    def _ask_to_go_on(self, reply: fx.ModelReply) -> None:
        """The reply was cut off. Its words are kept, its calls are not: nobody knows whether they are whole."""
        self._m.cut += 1
        self._m.said += reply.text
        kept = [Message(role="assistant", content=reply.text)] if reply.text.strip() else []
        told = CUT_CALLS if reply.tool_calls else CUT_OFF if self._m.said.strip() else CUT_BEFORE_WORDS
        self._say([*kept, Message(role="user", content=told, origin="limits")])
        self._m.state = st.PrepareTurn()

    def _hand_in(self, reply: fx.ModelReply, output: fx.Output) -> None:
        """The reply is the run's result, if it fits what was asked for."""
        wrong = output.code is not None
        hopeless = wrong and (self._m.grace or self._m.repairs >= MAX_REPAIRS)
        said = [assistant_message(reply)]
        if output.call is not None:
            (call,) = (call for call in reply.tool_calls if call.id == output.call)
            refusal = out.Failure(kind="invalid_request", source="policy", message=output.problem)
            said.append(tool_message(self._pending(call, 0), refusal if wrong else out.Success(content=HANDED_IN)))
        elif wrong and not hopeless:
            said.append(Message(role="user", content=WRONG_OUTPUT.format(problem=output.problem), origin="output"))
        self._say(said)
        if output.code is None:
            self._m.repairs = 0
            outcome = out.Finished(by="structured_output", value=output.value)
            self._apply([StartCheckpoint("before_completion", on_empty=outcome)])
        elif hopeless:
            self._end(out.Stopped(reason="invalid_output", code=output.code, message=output.problem))
        else:
            self._m.repairs += 1
            self._apply([StartCheckpoint("after_work")])

    def _refuse_calls(self, reply: fx.ModelReply) -> None:
        """The model called tools in its grace turn: none of them runs."""
        refusal = out.Failure(kind="resource_limit", source="policy", message="the run's turns are used up")
        results = [tool_message(self._pending(call, 0), refusal) for call in reply.tool_calls]
        self._say([assistant_message(reply), *results])
        self._next_turn()

    def _model_failed(self, given: fx.ModelFailed) -> None:
        request, failure = self._expect(st.WaitingModel, given).request, given.failure
        self._at(given.at)
        self._m.usage += failure.usage
        self._m.cost_usd = add_costs(self._m.cost_usd, failure.cost_usd)
        self._note(request.model, failure.code, failure.message, failure.request_id, failure.retry_after_ms)
        following = self._following(request, request.choice + 1, self._m.now)
        if self._exhausted() is not None:
            self._emit(_failed(request, failure))
            self._m.state = st.PrepareTurn()
        elif failure.room_made and self._m.overflows < MAX_OVERFLOWS:
            self._m.overflows += 1
            self._emit(_failed(request, failure, then=request.model))
            self._m.state = st.PrepareTurn()
        elif following is not None and (failure.retryable or failure.code == "ERR_CAPABILITY"):
            self._emit(_failed(request, failure, then=following.model))
            self._call_model(following)
        elif not failure.retryable:
            self._emit(_failed(request, failure))
            self._end(out.Stopped(reason="provider_error", code=failure.code, message=failure.message))
        else:
            self._try_later(request, failure)

    def _following(self, request: fx.ModelCall, first: int, at: int) -> fx.ModelCall | None:
        """The call of the next model of the chain, from the place `first` on, that may be asked at a time."""
        for choice, model in enumerate(request.surface.chain[first:], first):
            if self._not_before(model) <= at:
                return replace(request, choice=choice)
        return None

    def _not_before(self, model: str) -> int:
        """Until when a model wants to be left alone."""
        return next((failure.not_before for failure in reversed(self._m.failures) if failure.model == model), 0)

    def _try_later(self, request: fx.ModelCall, failure: fx.ModelFailure) -> None:
        """The model, or the last one of the chain, has failed."""
        self._m.attempts += 1
        is_chain = len(request.surface.chain) + len(request.surface.skipped) > 1
        if self._m.attempts >= MODEL_ATTEMPTS:
            self._emit(_failed(request, failure))
            code, message = failure.code, failure.message
            if is_chain:
                tried = [
                    each for each in self._m.failures if each.turn == self._m.turn or each.code == "ERR_CAPABILITY"
                ]
                code = "ERR_CHAIN_EXHAUSTED"
                message = f"every model of the chain failed: {', '.join(f'{t.model} {t.code}' for t in tried)}"
            self._end(out.Stopped(reason="provider_error", code=code, message=message))
            return
        wanted = min(self._not_before(model) for model in request.surface.chain) - self._m.now
        delay = retry_delay(self._m.attempts, wanted)
        again = self._following(request, 0, self._m.now + delay) or request
        remaining = self.remaining_ms(self._m.now)
        until = self._m.now + (delay if remaining is None else min(delay, remaining))
        self._emit(_failed(request, failure, retry_at=until, then=again.model if is_chain else None))
        self._wait(st.WaitingSleep(effect=self._new_effect(), until=until, then=st.RetryModel(request=again)))

    def _note(
        self, model: str, code: str, message: str, request_id: str | None = None, after_ms: int | None = None
    ) -> None:
        """Remember what went wrong with a model."""
        failure = st.Attempt(
            model=model,
            turn=self._m.turn,
            code=code,
            message=message,
            at=self._m.now,
            request_id=request_id,
            not_before=0 if after_ms is None else self._m.now + after_ms,
        )
        self._m.failures = [*self._m.failures, failure][-KEPT_FAILURES:]

    def _woke(self, given: fx.Woke) -> None:
        state = self._expect(st.WaitingSleep, given)
        self._at(given.at)
        match state.then:
            case st.RetryModel() if self._exhausted() is not None:
                self._m.state = st.PrepareTurn()
            case st.RetryModel(request=request):
                self._call_model(request)
            case st.RetryTools(calls=calls, outcomes=outcomes):
                self._wait(st.WaitingTools(effect=self._new_effect(), calls=calls, outcomes=outcomes))

    def _code_ran(self, given: fx.CodeRan) -> None:
        self._expect(st.WaitingCode, given)
        self._at(given.at)
        self._apply(self._mode.on_code(given))

    def _checkpoint_taken(self, given: fx.CheckpointTaken) -> None:
        state = self._expect(st.WaitingCheckpoint, given)
        wrong = [message.role for message in given.messages if message.role not in ("user", "system")]
        if wrong:
            raise ResultMismatch(f"a checkpoint takes user and system messages, not {wrong}")
        self._at(given.at)
        self._say(given.messages)
        if given.stop is not None:
            self._end(given.stop)
        elif state.on_empty is not None and (self._m.grace or not given.messages):
            self._end(state.on_empty)
        else:
            self._next_turn()

    def _apply(self, actions: list[Action], replied: fx.ModelReplied | None = None) -> None:
        for action in actions:
            match action:
                case Say(messages=messages):
                    self._say(messages)
                case StartTools():
                    assert replied is not None
                    self._start_tools(replied)
                case StartCode() if self._m.grace:
                    self._next_turn()
                case StartCode(code=code):
                    self._wait(st.WaitingCode(effect=self._new_effect(), code=code))
                case StartCheckpoint(kind=kind, on_empty=on_empty):
                    effect = self._new_effect()
                    self._wait(st.WaitingCheckpoint(effect=effect, kind=kind, on_empty=on_empty))
                case KeepState(state=state):
                    self._m.mode_state = state
                case End(outcome=outcome):
                    self._end(outcome)
                case _:
                    assert_never(action)

    # A batch of tool calls.

    def _pending(self, call: ToolCall, effect: int, hidden: tuple[str, ...] = ()) -> fx.PendingCall:
        return fx.PendingCall(call=call, key=f"{self._m.run}.{effect}.{call.id}", hidden=hidden)

    def _start_tools(self, given: fx.ModelReplied) -> None:
        effect, refused = self._new_effect(), given.refused
        calls = distinct(given.reply).tool_calls
        pending = tuple(self._pending(call, effect, given.hidden.get(call.id, ())) for call in calls)
        held: dict[str, out.CallOutcome] = {}
        if given.ask:
            held = {p.id: self._asked(given.ask[p.id]) if p.id in given.ask else IN_BATCH for p in pending}
        for call in pending:
            if (refusal := refused.get(call.id)) is not None:
                kind = refusal.kind if isinstance(refusal, out.Failure) else "invalid_request"
                self._emit(events.tool_error(call.call.name, call.id, refusal.text, kind))
        self._settle(st.WaitingTools(effect=effect, calls=pending, outcomes={**held, **refused}), newly=set(given.ask))

    def _asked(self, ask: fx.Ask) -> out.Deferred:
        until = None if ask.timeout_ms is None else self._m.now + ask.timeout_ms
        asked = out.Asked(risk=ask.risk, note=ask.note, until=until, on_timeout=ask.on_timeout)
        return out.Deferred(waits_for="approval", asked=asked)

    def _tools_answered(self, given: fx.ToolsAnswered) -> None:
        state = self._expect(st.WaitingTools, given)
        expected, got = {call.id for call in state.runnable()}, set(given.outcomes)
        if not expected or expected != got:
            raise ResultMismatch(f"effect {given.id} wants outcomes for {sorted(expected)}, got {sorted(got)}")
        self._at(given.at)
        after = st.WaitingTools(effect=given.id, calls=state.calls, outcomes={**state.outcomes, **given.outcomes})
        self._settle(after, newly=got)

    def _call_settled(self, given: fx.CallSettled) -> None:
        state = self._expect(st.WaitingTools, given)
        if given.call_id not in {call.id for call in state.deferred("child")}:
            raise ResultMismatch(f"call {given.call_id!r} does not wait for a child")
        self._at(given.at)
        self._settle(replace(state, outcomes={**state.outcomes, given.call_id: given.outcome}))

    def _calls_decided(self, given: fx.CallsDecided) -> None:
        state = self._expect(st.WaitingTools, given)
        waiting = {call.id for call in state.deferred("approval")}
        if not given.decisions or not given.decisions.keys() <= waiting:
            raise ResultMismatch(f"decisions for {sorted(given.decisions)}, waiting are {sorted(waiting)}")
        self._at(given.at)
        calls = tuple(decided(call, given.decisions.get(call.id)) for call in state.calls)
        after = {i: outcome_after(d, state.asked(i), given.by) for i, d in given.decisions.items()}
        self._emit(
            events.hitl_resume(
                approved=all(d.decision != "deny" for d in given.decisions.values()),
                decisions={call_id: d.decision for call_id, d in given.decisions.items()},
                modified=[(call.call, call.hidden) for call in calls if call.edited and call.id in given.decisions],
                by=given.by,
            )
        )
        for call in calls:
            if isinstance(outcome := after.get(call.id), out.Success):
                self._emit(events.tool_output(call.call.name, call.id, outcome.content))
        self._settle(replace(state, calls=calls, outcomes={**state.outcomes, **after}))

    def _settle(self, state: st.WaitingTools, newly: Collection[str] = ()) -> None:
        """Go on with a batch as far as its outcomes allow; a person is told of calls that are `newly` deferred."""
        waits_for = {o.waits_for for o in state.outcomes.values() if o.status == "deferred"}
        if "approval" in waits_for and newly:
            asked = [(pending.call, pending.hidden) for pending in state.deferred("approval") if pending.id in newly]
            if asked:
                self._emit(events.hitl_interrupt(asked))
        if "batch" in waits_for and "approval" not in waits_for:
            released = {call.id for call in state.deferred("batch")}
            waits_for.discard("batch")
            state = replace(state, outcomes={i: o for i, o in state.outcomes.items() if i not in released})
            self._due = True
        runnable = {call.id for call in state.runnable()}
        if runnable or waits_for:
            self._due = self._due or not runnable <= self._handed_out(state.effect)
            self._m.state = state
            self._set_paused("hitl" if "approval" in waits_for else None if runnable else "subagent")
        else:
            self._set_paused(None)
            self._batch_settled(state)

    def _handed_out(self, effect: int) -> set[str]:
        """The calls that the driver is running already."""
        state = self._m.state
        if not isinstance(state, st.WaitingTools) or state.effect != effect:
            return set()
        return {call.id for call in state.runnable()}

    def _batch_settled(self, state: st.WaitingTools) -> None:
        results = settled(state)
        retry = {p.id: o.after_ms for p, o in results if isinstance(o, out.Failure) and o.retry == "safe"}
        if not retry:
            self._apply(self._mode.on_tools(results))
            return
        again = tuple(replace(p, attempt=p.attempt + (p.id in retry)) for p in state.calls)
        kept = {call_id: o for call_id, o in state.outcomes.items() if call_id not in retry}
        until = self._m.now + max(retry.values())
        then = st.RetryTools(calls=again, outcomes=kept)
        self._wait(st.WaitingSleep(effect=self._new_effect(), until=until, then=then))

    # Time, pauses and limits.

    def _at(self, at: int) -> None:
        self._m.now = max(at, self._m.now)

    def _set_paused(self, reason: st.PauseReason | None, code: str | None = None) -> None:
        if reason == self._m.paused or (reason is None and self._m.hold):
            return  # a run that was paused by hand goes on only by hand: `poll` says so
        self._m.elapsed_ms = self.active_ms(self._m.now)
        self._m.active_since = self._m.now
        self._m.paused = reason
        self._emit(events.run_resumed() if reason is None else events.run_paused(reason, code))

    def _limits_lifted(self, given: fx.LimitsLifted) -> None:
        if not isinstance(self._m.state, st.Exhausted):
            raise ResultMismatch(f"no limit to lift in {self._m.state!r}")
        changes = {"turns": given.turns, "time_ms": given.time_ms, "tokens": given.tokens, "cost_usd": given.cost_usd}
        changed: dict[str, float | None] = {name: value for name, value in changes.items() if value is not None}
        if any(value is not None and value <= 0 for value in changed.values()):
            raise ResultMismatch(f"limits are positive numbers, not {changed}")
        if self._m.state.code == "ERR_COST_UNKNOWN":
            changed["cost_usd"] = None  # what is not known cannot be limited
        self._at(given.at)
        self._m.limits = self._m.limits.model_copy(update=changed)
        if self._m.grace and not self._out_of_reach(self._m.turn):
            self._m.grace = False
            self._say([Message(role="system", content=MORE_TURNS, origin="limits")])
        self._set_paused(None)
        self._m.state = st.PrepareTurn()

    # People who pause, go on and interrupt.

    def _check_running(self, given: fx.Input) -> None:
        if isinstance(self._m.state, st.Ended):
            raise ResultMismatch(f"{given!r} comes after the run has ended")

    def _released(self, given: fx.RunReleased) -> None:
        if not self._m.hold:
            raise ResultMismatch("the run was not paused by hand")
        self._at(given.at)
        self._m.hold = False
        if self._m.paused == "manual" or self._would_begin():
            self._set_paused(None)  # also of what it waited for before, and no longer does

    def _interrupted(self, given: fx.RunInterrupted) -> None:
        """Whatever is being done is left, and the next turn begins with the messages."""
        self._check_running(given)
        state = self._m.state
        if isinstance(state, st.Exhausted):
            raise ResultMismatch("a run that has used up a limit does nothing that could be interrupted")
        self._at(given.at)
        self._use(given.used)
        if isinstance(state, st.WaitingModel):
            failure = fx.ModelFailure(code="ERR_INTERRUPTED", message=INTERRUPTED.reason)
            self._emit(_failed(state.request, failure))
        self._stop_work(INTERRUPTED)
        if isinstance(state, st.WaitingCode):
            self._say([Message(role="user", content=f"Output:\n{INTERRUPTED.text}", origin="code")])
        self._say(given.messages)
        self._m.attempts = self._m.overflows = self._m.cut = 0
        self._m.said = ""
        self._set_paused(None)
        if isinstance(state, st.PrepareTurn | st.WaitingSurface):
            self._m.state = st.PrepareTurn()  # the turn has hardly begun
        else:
            self._next_turn()

    # Endings.

    def _stop(self, given: fx.RunCanceled | fx.RunAborted, outcome: out.Stopped) -> None:
        self._check_running(given)
        self._at(given.at)
        self._use(given.used)
        self._stop_work(out.Canceled())
        self._end(outcome)

    def _use(self, used: fx.Used) -> None:
        self._m.usage += used.usage
        self._m.cost_usd = add_costs(self._m.cost_usd, used.cost_usd)

    def _stop_work(self, instead: out.Canceled) -> None:
        """Leave nothing running and no call without a result: `instead` is that of those that have none."""
        match self._m.state:
            case st.Preparing(messages=messages):
                self._say(messages)
            case st.WaitingModel(effect=effect):
                self._m.notices.append(fx.CancelModel(call=effect))
            case st.WaitingTools() as state:
                self._cancel_calls(state.calls, state.outcomes, instead)
            case st.WaitingSleep(then=st.RetryTools(calls=calls, outcomes=outcomes)):
                self._cancel_calls(calls, outcomes, instead)

    def _cancel_calls(
        self, calls: tuple[fx.PendingCall, ...], outcomes: dict[str, out.CallOutcome], instead: out.Canceled
    ) -> None:
        results: list[Message] = []
        for pending in calls:
            outcome = outcomes.get(pending.id)
            if outcome is not None and outcome.status == "deferred" and outcome.waits_for == "child":
                self._emit(events.tool_error(pending.call.name, pending.id, instead.text, "canceled"))
            results.append(tool_message(pending, _left(outcome, instead)))
        self._say(results)

    def _end(self, outcome: out.TurnOutcome) -> None:
        self._m.elapsed_ms = self.active_ms(self._m.now)
        self._m.active_since = self._m.now
        self._m.paused = None
        self._emit(_outcome_event(outcome))
        self._m.notices.append(fx.Done(outcome=outcome))
        self._m.state = st.Ended(outcome=outcome)


def _left(outcome: out.CallOutcome | None, instead: out.Canceled) -> out.Settled:
    """What a call that is left comes to: its result, if it has one; one that is in doubt stays so."""
    if outcome is None:
        return instead
    if outcome.status != "deferred":
        return outcome
    if outcome.asked is not None and outcome.asked.in_doubt:
        return out.Failure(kind="external", source="runtime", message=outcome.asked.note)
    return instead


def _copy(checkpoint: st.TurnCheckpoint) -> st.TurnCheckpoint:
    return replace(checkpoint, notices=list(checkpoint.notices))


def _failed(
    request: fx.ModelCall, failure: fx.ModelFailure, *, retry_at: int | None = None, then: str | None = None
) -> NewEvent:
    return events.model_failed(
        request.model, failure.code, failure.message, request_id=failure.request_id, retry_at=retry_at, then=then
    )


def _outcome_event(outcome: out.TurnOutcome) -> NewEvent:
    match outcome:
        case out.Finished(value=value):
            return events.agent_completed(value)
        case out.HandedOff(thread_id=thread_id):
            return events.agent_completed({"handoff": thread_id})
        case out.Stopped(reason="canceled"):
            return events.run_canceled()
        case out.Stopped(code=code, message=message):
            return events.agent_error(code, message)
