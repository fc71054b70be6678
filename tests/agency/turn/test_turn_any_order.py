"""A run keeps its promises whatever comes, in whatever order, and wherever it is lost and brought back.

Hypothesis plays driver, model, tools, person, child threads and power failure at once. The test keeps a model of what
it was told (`Batch` for the calls that are open) and checks every effect against it as it is polled. What it fed and
when it polled is logged; in the end a second machine is given the same log without any crash and must say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pydantic import JsonValue

from agency.messages import Message, Usage
from agency.spending import Spent
from agency.turn import Limits, TurnMachine
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn.batch import distinct
from agency.turn.machine import ABORTED, INTERRUPTED
from agency.turn.modes import ModeName
from agency.turn.replies import HANDED_IN
from tests.support.turn_driver import (
    APPROVAL,
    CHILD,
    HELLO,
    NOW,
    REQUESTS,
    SURFACE,
    call,
    failed,
    flaky,
    ok,
    refused,
    reloaded,
    user,
)

Moment = Literal["never", "before", "between", "after"]


@dataclass(frozen=True)
class Fate:
    """What happens around an input: how much time has passed, what nonsense comes first, when the machine is lost and
    how many effects are polled before somebody else has a word; None polls until there is nothing."""

    tick: int
    nonsense: int
    crash: Moment
    polls: int | None


FATES = some.builds(
    Fate,
    tick=some.integers(0, 700),
    nonsense=some.integers(0, 60),
    crash=some.sampled_from(["never", "never", "never", "before", "between", "after"]),
    polls=some.sampled_from([None, None, None, None, 0, 1, 2]),
)

LIMITS = some.builds(
    Limits,
    turns=some.sampled_from([None, None, 1, 3]),
    time_ms=some.sampled_from([None, None, None, 1_500]),
    tokens=some.sampled_from([None, None, None, 12]),
    cost_usd=some.sampled_from([None, None, None, 0.5]),
)
SURFACES = some.sampled_from(
    [SURFACE, SURFACE, fx.SurfaceRef(digest="s2", model="first", fallbacks=("second", "third"), skipped=("blind",))]
)
CHILDREN = some.sampled_from([None, None, Spent(usage=Usage(input=3), cost_usd=0.1), Spent(cost_usd=None)])
COSTS = some.sampled_from([0.0, 0.2, 0.2, None])
OUTPUTS: some.SearchStrategy[fx.Output] = some.sampled_from(
    [fx.Output(value={"n": 1}), fx.Output(code="ERR_JSON_OUTPUT_SCHEMA", problem="it does not fit")]
)
MODE: some.SearchStrategy[ModeName] = some.sampled_from(["tools", "code"])
PATIENCE = some.sampled_from([1, 4, 9, 20, 40, 60])
CALL_IDS = some.lists(some.sampled_from(["a", "b", "c", "d", "e", "f", ""]), min_size=1, max_size=4)
RESULTS: list[out.Settled] = [
    ok("yes"),
    ok("also"),
    failed(),
    out.Failure(kind="timeout", message="slow", retry="exhausted"),
    out.Canceled(reason="elsewhere"),
    flaky(0),
    flaky(250),
]
ENDS: list[out.Settled] = [
    ok("fin", out.Finish(value=[1, {"two": None}])),
    ok("off", out.Handoff(thread_id="t2")),
    ok("no", out.Fail(message="cannot")),
]
SETTLED = some.sampled_from([*RESULTS * 5, *ENDS])
OUTCOMES: some.SearchStrategy[out.CallOutcome] = some.sampled_from([*RESULTS * 4, *[APPROVAL, CHILD] * 10, *ENDS])
DECISIONS: some.SearchStrategy[out.Decision] = some.one_of(
    some.just(out.Approve()),
    some.builds(out.Edit, args=some.dictionaries(some.sampled_from("qn"), some.integers(), max_size=2)),
    some.builds(out.Deny, reason=some.sampled_from(["", "too dear"])),
    some.builds(out.Respond, content=some.sampled_from(["", "in its place"])),
    some.just(out.Always()),
)
BY: some.SearchStrategy[fx.DecidedBy] = some.sampled_from(["person", "person", "timeout"])
ASKS = some.builds(fx.Ask, timeout_ms=some.sampled_from([None, 50]), on_timeout=some.sampled_from(["deny", "approve"]))
PSST = Message(role="system", content="psst", origin="clock", transient=True)
NEWS = some.lists(some.sampled_from([user("more"), PSST]), max_size=2).map(tuple)
FAILURES = some.builds(
    fx.ModelFailure,
    code=some.just("ERR_API"),
    message=some.just("busy"),
    retryable=some.sampled_from([True, True, True, True, False]),
    retry_after_ms=some.sampled_from([None, 0, 40]),
    room_made=some.sampled_from([False, False, False, True]),
)
USAGE = Usage(input=5, output=1)
REFUSED = out.Failure(kind="resource_limit", message="the run's turns are used up")


@dataclass
class Batch:
    """What the test knows of a batch of calls: who waits for whom, and which have which result."""

    effect: int
    order: list[str]
    waits: dict[str, out.WaitsFor] = field(default_factory=dict)
    results: dict[str, out.Settled] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    edits: dict[str, dict[str, JsonValue]] = field(default_factory=dict)

    def waiting(self, who: Literal["approval", "child"]) -> list[str]:
        return [call_id for call_id in self.order if self.waits.get(call_id) == who]

    def runnable(self) -> list[str]:
        return [call_id for call_id in self.order if call_id not in self.waits and call_id not in self.results]

    def take(self, call_id: str, outcome: out.CallOutcome) -> None:
        if isinstance(outcome, out.Deferred):
            self.waits[call_id] = outcome.waits_for
        else:
            self.waits.pop(call_id, None)
            self.results[call_id] = outcome

    def decide(self, call_id: str, decision: out.Decision, by: fx.DecidedBy) -> None:
        if isinstance(decision, out.Deny):
            self.denied.add(call_id)
            reason = f": {decision.reason}" if decision.reason else ""
            who = "a person denied this call" if by == "person" else "no person approved this call in time"
            self.take(call_id, out.Failure(kind="permission_denied", message=f"{who}, it was not run{reason}"))
            return
        if isinstance(decision, out.Respond):
            self.denied.add(call_id)
            self.take(call_id, ok(decision.content))
            return
        self.waits[call_id] = "batch"
        self.approved.add(call_id)
        if isinstance(decision, out.Edit):
            self.edits[call_id] = decision.args

    def let_through(self) -> None:
        """Once nobody is asked any more, what was held is to run."""
        if not self.waiting("approval"):
            self.waits = {call_id: who for call_id, who in self.waits.items() if who != "batch"}

    def settled(self) -> bool:
        return set(self.results) == set(self.order)

    def called_off(self, instead: out.Canceled) -> dict[str, out.Settled]:
        return {call_id: self.results.get(call_id, instead) for call_id in self.order}

    def to_retry(self) -> list[str]:
        return [i for i, o in self.results.items() if isinstance(o, out.Failure) and o.retry == "safe"]

    def start_over(self) -> None:
        for call_id in self.to_retry():
            del self.results[call_id]
            self.attempts[call_id] = self.attempts.get(call_id, 1) + 1


class AnyOrder(RuleBasedStateMachine):
    @initialize(limits=LIMITS, mode=MODE, patience=PATIENCE)
    def begin(self, limits: Limits, mode: ModeName, patience: int) -> None:
        self._begin(1, limits, mode, patience)

    def _begin(self, run: int, limits: Limits, mode: ModeName, patience: int) -> None:
        self.run, self.limits, self.mode = run, limits, mode
        self.patience = patience
        """So many inputs are taken before anybody thinks of ending the run by force."""
        self.machine = self._fresh()
        self.at = NOW
        self.log: list[fx.Input | Literal["crash"] | None] = []
        """What was done to the machine: an input, None for a poll, or a crash that it may show."""
        self.trace: list[fx.Effect | None] = []
        """What each of those polls gave."""
        self.request: fx.Request | None = None
        """The effect that was polled and has no answer yet."""
        self.lost = False
        """The request has to be handed out again."""
        self.withdrawn: fx.Request | None = None
        """What was outstanding when a held machine was lost: it comes again when the machine is released."""
        self.gap = False
        """An interruption may have left an effect that was never handed out."""
        self.drained = False
        self.last_id = 0
        self.batch: Batch | None = None
        self.due: list[str] = []
        """The calls that were said and have no result in the transcript yet."""
        self.expected: dict[str, out.Settled] = {}
        self.message_ids: set[str] = set()

    def _fresh(self) -> TurnMachine:
        return TurnMachine.begin(
            run=self.run, at=NOW, position=7 * self.run, messages=[HELLO], limits=self.limits, mode=self.mode
        )

    # Polling, with every check that an effect can be put to.

    def _poll(self) -> fx.Effect | None:
        effect = self.machine.poll()
        if self.lost and (effect is None or isinstance(effect, REQUESTS)):
            assert effect == self.request, "what was outstanding comes again, as it was"
            self.lost = False
            return effect
        self.log.append(None)
        self.trace.append(effect)
        self.drained = effect is None
        if isinstance(effect, REQUESTS):
            self._check_request(effect)
        elif isinstance(effect, fx.Progress):
            for message in effect.messages:
                self._check_message(message)
        elif isinstance(effect, fx.Done):
            assert self.due == [], "no call is left without a result"
        return effect

    def _poll_upto(self, polls: int | None) -> None:
        while polls != 0 and self._poll() is not None:
            polls = None if polls is None else polls - 1

    def _check_request(self, request: fx.Request) -> None:
        assert self.request is None, "one outstanding effect at most"
        assert not self.machine.pause_requested, "nothing begins while the run is held"
        self.request = request
        if self.withdrawn is not None:
            assert request == self.withdrawn, "what was outstanding comes again, as it was"
            self.withdrawn = None
            return
        if self.gap:
            assert request.id > self.last_id
            self.last_id, self.gap = request.id - 1, False
        held = isinstance(request, fx.CallTools) and self.batch is not None and self.batch.effect == self.last_id
        if not held:
            self.last_id += 1
        assert request.id == self.last_id, "ids have no gap, and a batch keeps its own"
        if isinstance(request, fx.CallTools):
            self._check_calls(request)

    def _check_calls(self, request: fx.CallTools) -> None:
        batch = self.batch
        assert batch is not None
        batch.effect = request.id
        assert [pending.id for pending in request.calls] == batch.runnable()
        assert not batch.denied & {pending.id for pending in request.calls}
        for pending in request.calls:
            assert pending.attempt == batch.attempts.get(pending.id, 1)
            assert pending.approved == (pending.id in batch.approved)
            assert pending.id not in batch.edits or pending.call.args == batch.edits[pending.id]

    def _check_message(self, message: Message) -> None:
        assert message.id not in self.message_ids or message.id == HELLO.id
        self.message_ids.add(message.id)
        if message.role != "tool":
            assert self.due == [], "results come before anything else is said"
            self.due = [c.id for c in message.tool_calls]
            return
        assert self.due and self.due.pop(0) == message.tool_call_id, "in the order of the calls, and none twice"
        assert self.expected.pop(message.tool_call_id or "").text in message.content

    # Feeding, with what the test has to remember of it.

    def _before(self, fate: Fate) -> int:
        """What comes before an input: a crash, perhaps, and something that does not fit. Returns the time."""
        self.at += fate.tick
        if fate.crash == "before":
            self._crash()
            self._poll_upto(fate.polls)
        misfits = self._misfits(self.at)
        refused(self.machine, misfits[fate.nonsense % len(misfits)])
        return self.at

    def _take(self, given: fx.Input, fate: Fate) -> None:
        self.machine.handle(given)
        self.log.append(given)
        self.drained = False
        self.patience -= 1
        if not isinstance(given, (fx.CallSettled, fx.CallsDecided, fx.PauseRequested, fx.ResumeRequested)):
            self.request, self.lost = None, False
        if isinstance(given, (fx.RunCanceled, fx.RunAborted, fx.RunInterrupted)):
            stopped = {fx.RunInterrupted: INTERRUPTED, fx.RunAborted: ABORTED}
            instead = stopped.get(type(given), out.Canceled())
            self.expected |= self.batch.called_off(instead) if self.batch is not None else {}
            self.batch = self.withdrawn = None
            self.gap = True
        else:
            self._settle_batch()
        if fate.crash == "between":
            self._crash()
        self._poll_upto(fate.polls)
        if fate.crash == "after":
            self._crash()

    def _crash(self) -> None:
        stored = self.machine.dump()
        self.machine = reloaded(stored, self.mode)
        assert self.machine.dump() == stored
        if self.machine.pause_requested and self.request is not None:
            self.log.append("crash")
            self.withdrawn, self.request, self.drained = self.request, None, False
        self.lost = self.request is not None

    def _settle_batch(self) -> None:
        batch = self.batch
        if batch is None:
            return
        batch.let_through()
        if batch.settled() and batch.to_retry():
            batch.start_over()
        elif batch.settled():
            self.expected |= batch.results
            self.batch = None

    def _waits(self, who: Literal["approval", "child"]) -> list[str]:
        return self.batch.waiting(who) if self.batch is not None else []

    # What can happen next. Each rule does something useful in every state: hypothesis leaves out rules at random, and
    # must not be left without one that fits.

    @rule(data=some.data(), fate=FATES)
    def go_on(self, data: some.DataObject, fate: Fate) -> None:
        if self.request is not None:
            self._answer(data, fate)
        elif not self.drained:
            self._poll_upto(None)
        elif self.machine.outcome is not None:
            self._check_replay()
            self._begin(self.run + 1, data.draw(LIMITS), data.draw(MODE), data.draw(PATIENCE))
        elif self.machine.exhausted_by is not None:
            more = data.draw(some.sampled_from([1, 1_000_000]), label="lifted to")
            lifted = fx.LimitsLifted(at=self._before(fate), turns=more, time_ms=more, tokens=more, cost_usd=more)
            self._take(lifted, fate)
        elif self.machine.pause_requested and not (
            self._is_waited_for() and data.draw(some.booleans(), label="stay held")
        ):
            self._take(fx.ResumeRequested(at=self._before(fate)), fate)
        else:
            self._hear_from_outside(data, fate)

    def _is_waited_for(self) -> bool:
        return bool(self._waits("approval") or self._waits("child"))

    @rule(data=some.data(), fate=FATES)
    def hear_from_outside_if_somebody_is_waited_for(self, data: some.DataObject, fate: Fate) -> None:
        if self._is_waited_for():
            self._hear_from_outside(data, fate)
        else:
            self.go_on(data, fate)

    @rule(data=some.data(), fate=FATES)
    def pause_or_go_on_by_hand(self, data: some.DataObject, fate: Fate) -> None:
        if self.machine.outcome is not None:
            self.go_on(data, fate)
            return
        at = self._before(fate)
        if self.lost:
            self._poll_upto(None)
        self._take(fx.ResumeRequested(at=at) if self.machine.pause_requested else fx.PauseRequested(at=at), fate)

    @rule(data=some.data(), fate=FATES, rarely=some.integers(0, 3))
    def interrupt_if_there_is_something_to_interrupt(self, data: some.DataObject, fate: Fate, rarely: int) -> None:
        if rarely or self.machine.outcome is not None or self.machine.exhausted_by is not None:
            self.go_on(data, fate)
            return
        at = self._before(fate)
        if self.machine.exhausted_by is None:  # it may have come to that as it was polled
            self._take(fx.RunInterrupted(at=at, messages=(user("stop"), *data.draw(NEWS, label="news"))), fate)

    @rule(data=some.data(), fate=FATES, abort=some.booleans())
    def end_by_force_if_patience_is_over(self, data: some.DataObject, fate: Fate, abort: bool) -> None:
        if self.patience > 0 or self.machine.outcome is not None:
            self.go_on(data, fate)
            return
        at = self._before(fate)
        aborted = fx.RunAborted(at=at, reason="runtime_error", code="ERR_INTERNAL", message="?")
        self._take(aborted if abort else fx.RunCanceled(at=at), fate)

    # The driver, the model, the tools.

    def _answer(self, data: some.DataObject, fate: Fate) -> None:
        at = self._before(fate)
        match self.request:
            case fx.SyncSurface(id=effect):
                self._take(self._surface(data, effect, at), fate)
            case fx.CallModel() as request:
                self._take(self._model_answer(data, request, at), fate)
            case fx.CallTools() as request:
                self._take(self._tool_results(data, request, at), fate)
            case fx.ExecCode() as request:
                self._take(self._code_ran(data, request, at), fate)
            case fx.Checkpoint(id=effect):
                self._take(fx.CheckpointTaken(id=effect, at=at, messages=data.draw(NEWS, label="news")), fate)
            case fx.Sleep(id=effect, until=until):
                self.at = max(at, until)
                self._take(fx.Woke(id=effect, at=self.at), fate)

    def _surface(self, data: some.DataObject, effect: int, at: int) -> fx.Input:
        if data.draw(some.integers(0, 14), label="budget") == 0:
            return fx.BudgetSpent(id=effect, at=at, code="ERR_AGENCY_COST")
        surface, children = data.draw(SURFACES, label="surface"), data.draw(CHILDREN, label="children")
        return fx.SurfaceSynced(id=effect, at=at, surface=surface, children=children)

    def _model_answer(self, data: some.DataObject, request: fx.CallModel, at: int) -> fx.Input:
        kinds = ["calls", "calls", "calls", "text", "code", "fails", "result", "hands in"]
        kind = data.draw(some.sampled_from(kinds), label="model")
        if kind == "fails":
            return fx.ModelFailed(id=request.id, at=at, failure=data.draw(FAILURES, label="failure"))
        if kind == "calls":
            return self._tool_calls(data, request, at)
        if kind in ("result", "hands in"):
            return self._result(data, request, at, by_call=kind == "hands in")
        stop: fx.ReplyStop = data.draw(some.sampled_from(["stop"] * 15 + ["output_limit"]), label="stop")
        text = "```python\nprint(1)\n```" if kind == "code" else "done"
        cost = data.draw(COSTS, label="cost")
        reply = fx.ModelReply(text=text, stop=stop, usage=USAGE)
        return fx.ModelReplied(id=request.id, at=at, reply=reply, cost_usd=cost)

    def _result(self, data: some.DataObject, request: fx.CallModel, at: int, *, by_call: bool) -> fx.Input:
        output = data.draw(OUTPUTS, label="output")
        if not by_call:
            return fx.ModelReplied(id=request.id, at=at, reply=fx.ModelReply(text="{}", usage=USAGE), output=output)
        wrong = out.Failure(kind="invalid_request", message=output.problem)
        self.expected["r"] = ok(HANDED_IN) if output.code is None else wrong
        reply = fx.ModelReply(tool_calls=(call("r"),), usage=USAGE)
        return fx.ModelReplied(id=request.id, at=at, reply=reply, output=replace(output, call="r"))

    def _tool_calls(self, data: some.DataObject, request: fx.CallModel, at: int) -> fx.Input:
        calls = tuple(call(call_id) for call_id in data.draw(CALL_IDS, label="calls"))
        reply = fx.ModelReply(tool_calls=calls, usage=USAGE)
        order = [c.id for c in distinct(reply).tool_calls]
        ask = data.draw(some.one_of(some.just(()), some.sets(some.sampled_from(order)).map(tuple)), label="ask")
        refusals: dict[str, out.Settled] = {}
        if request.request.final:
            self.expected = dict.fromkeys(order, REFUSED)
        else:
            self.last_id = request.id + 1
            self.batch = Batch(effect=self.last_id, order=order)
            self.batch.waits = {i: "approval" if i in ask else "batch" for i in order} if ask else {}
            unasked = [i for i in order[1:] if i not in ask]
            refuses: bool = data.draw(some.booleans(), label="refuse one")
            if unasked and refuses:
                refusals = {unasked[0]: failed("alone")}
                self.batch.take(unasked[0], refusals[unasked[0]])
        asks: dict[str, fx.Ask] = {i: data.draw(ASKS, label=f"about {i}") for i in ask}
        return fx.ModelReplied(id=request.id, at=at, reply=reply, ask=asks, refused=dict(refusals))

    def _tool_results(self, data: some.DataObject, request: fx.CallTools, at: int) -> fx.Input:
        assert self.batch is not None
        ids = data.draw(some.permutations([pending.id for pending in request.calls]), label="order of ending")
        outcomes: dict[str, out.CallOutcome] = {i: data.draw(OUTCOMES, label=f"outcome of {i}") for i in ids}
        asks = any(isinstance(o, out.Deferred) and o.waits_for == "approval" for o in outcomes.values())
        if asks and data.draw(some.booleans(), label="hold the rest"):
            held = out.Deferred(waits_for="batch")
            outcomes = {i: o if isinstance(o, out.Deferred) else held for i, o in outcomes.items()}
        for call_id, outcome in outcomes.items():
            self.batch.take(call_id, outcome)
        return fx.ToolsAnswered(id=request.id, at=at, outcomes=outcomes)

    def _code_ran(self, data: some.DataObject, request: fx.ExecCode, at: int) -> fx.Input:
        end = data.draw(some.sampled_from(["", "", "", "submit", "error"]), label="end")
        made = fx.CodeCall(id="k1", name="search", outcome=data.draw(SETTLED, label="call of code"))
        return fx.CodeRan(
            id=request.id,
            at=at,
            output="1",
            calls=(made,),
            state={"cells": request.id},
            submitted=(None,) if end == "submit" else None,
            error="cannot" if end == "error" else None,
        )

    # Persons and children.

    def _hear_from_outside(self, data: some.DataObject, fate: Fate) -> None:
        batch, at = self.batch, self._before(fate)
        assert batch is not None
        effect = batch.effect
        call_id = data.draw(some.sampled_from(batch.waiting("approval") + batch.waiting("child")), label="heard of")
        if batch.waits[call_id] == "child":
            outcome = data.draw(SETTLED, label="result of the child")
            batch.take(call_id, outcome)
            self._take(fx.CallSettled(id=effect, at=at, call_id=call_id, outcome=outcome), fate)
            return
        others = data.draw(some.sets(some.sampled_from(batch.waiting("approval"))), label="decided with it")
        decisions = {i: data.draw(DECISIONS, label=f"decision on {i}") for i in sorted(others | {call_id})}
        by = data.draw(BY, label="by")
        for decided, decision in decisions.items():
            batch.decide(decided, decision, by)
        self._take(fx.CallsDecided(id=effect, at=at, decisions=decisions, by=by), fate)

    # Nonsense.

    def _misfits(self, at: int) -> list[fx.Input]:
        right = self.machine.outstanding or 1
        misfits = [given for wrong in (right - 1, right + 1) for given in self._answers(wrong, at)]
        misfits += [given for given in self._answers(right, at) if not self._fits(given)]
        misfits += [fx.CallSettled(id=right, at=at, call_id="nobody", outcome=ok(""))]
        misfits += [fx.CallsDecided(id=right, at=at, decisions={})]
        if self.machine.exhausted_by is None:
            misfits += [fx.LimitsLifted(at=at, turns=9)]
        if not self.machine.pause_requested:
            misfits += [fx.ResumeRequested(at=at)]
        if self.machine.outcome is not None or self.machine.exhausted_by is not None:
            misfits += [fx.RunInterrupted(at=at, messages=(user("late"),))]
        if self.machine.outcome is not None:
            misfits += [fx.RunCanceled(at=at), fx.RunAborted(at=at, reason="runtime_error", code="E", message="")]
            misfits += [fx.PauseRequested(at=at)]
        if self.batch is not None:
            misfits += self._unfit_for_batch(self.batch, at)
        return misfits

    def _answers(self, effect: int, at: int) -> list[fx.Input]:
        """One of each kind of answer, for a state that no test model has to know: it is right for at most one kind."""
        calls = self.batch.runnable() if self.batch is not None else ["a"]
        return [
            fx.SurfaceSynced(id=effect, at=at, surface=SURFACE),
            fx.BudgetSpent(id=effect, at=at, code="E"),
            fx.ModelReplied(id=effect, at=at, reply=fx.ModelReply(text="late")),
            fx.ModelFailed(id=effect, at=at, failure=fx.ModelFailure(code="E", message="late", retryable=True)),
            fx.ToolsAnswered(id=effect, at=at, outcomes={call_id: ok("late") for call_id in calls}),
            fx.CodeRan(id=effect, at=at, output="late"),
            fx.CheckpointTaken(id=effect, at=at, messages=(user("late"),)),
            fx.Woke(id=effect, at=at),
        ]

    def _fits(self, given: fx.Input) -> bool:
        """Whether a right id makes this kind of answer right; what is not polled yet may be answered too."""
        kinds: dict[str, tuple[type[object], ...]] = {
            "waiting_surface": (fx.SurfaceSynced, fx.BudgetSpent),
            "waiting_model": (fx.ModelReplied, fx.ModelFailed),
            "waiting_code": (fx.CodeRan,),
            "waiting_checkpoint": (fx.CheckpointTaken,),
            "waiting_sleep": (fx.Woke,),
            "waiting_tools": (fx.ToolsAnswered,) if self.batch is not None and self.batch.runnable() else (),
        }
        return isinstance(given, kinds.get(self.machine.state.state, ()))

    def _unfit_for_batch(self, batch: Batch, at: int) -> list[fx.Input]:
        runnable = batch.runnable()
        too_many: dict[str, out.CallOutcome] = {i: ok("") for i in [*runnable, "nobody"]}
        too_few: dict[str, out.CallOutcome] = {i: ok("") for i in runnable[1:]}
        unasked = [i for i in batch.order if i not in batch.waiting("approval")]
        childless = [i for i in batch.order if i not in batch.waiting("child")]
        return [
            fx.ToolsAnswered(id=batch.effect, at=at, outcomes=too_many),
            fx.ToolsAnswered(id=batch.effect, at=at, outcomes=too_few),
            *(fx.CallsDecided(id=batch.effect, at=at, decisions={i: out.Approve()}) for i in unasked),
            *(fx.CallSettled(id=batch.effect, at=at, call_id=i, outcome=ok("")) for i in childless),
        ]

    # What always holds.

    @invariant()
    def nothing_comes_after_the_end(self) -> None:
        done = [index for index, effect in enumerate(self.trace) if isinstance(effect, fx.Done)]
        assert len(done) <= 1
        assert not done or all(effect is None for effect in self.trace[done[0] + 1 :])
        if self.drained:
            assert (self.machine.outcome is not None) == bool(done)
            assert self.lost or self.machine.poll() is None

    @invariant()
    def a_drained_run_that_has_not_ended_waits_for_somebody_who_can_move_it(self) -> None:
        if self.drained and self.machine.outcome is None:
            outsiders = self._waits("approval") or self._waits("child") or self.machine.exhausted_by
            assert self.request is not None or outsiders or self.machine.pause_requested
            paused = self.machine.pause_reason
            assert paused != "manual" or self.machine.pause_requested
            assert (paused == "hitl") == bool(self._waits("approval"))
            assert (paused == "exhausted") == (self.machine.exhausted_by is not None)

    def _check_replay(self) -> None:
        """The same inputs and polls without a crash give the same effects in the same order, and the same bytes."""
        second = self._fresh()
        trace: list[fx.Effect | None] = []
        for given in self.log:
            if given is None:
                trace.append(second.poll())
            elif given == "crash":
                second = reloaded(second.dump(), self.mode)
            else:
                second.handle(given)
        assert trace == self.trace
        assert second.dump() == self.machine.dump()

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self._check_replay()


@pytest.mark.timeout(400)  # it takes ten seconds; making a failure small takes minutes
def test_a_run_keeps_its_promises_in_any_order_of_answers_outsiders_and_crashes() -> None:
    profile = settings(
        max_examples=120,
        stateful_step_count=60,
        derandomize=True,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(AnyOrder, settings=profile)
