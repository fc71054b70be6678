"""Running a batch: the calls of one effect, in groups that may run side by side, each result committed as it comes.

That a call begins is recorded before it does, in the commit of what came before it. After a crash, results that were
recorded stand, calls that had begun and not ended are in doubt, and the rest runs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agency import events
from agency.clock import now_ms
from agency.define.tools import Tool
from agency.errors import HookFailed
from agency.store import records, tokens
from agency.store.draft import NOTHING, Draft
from agency.store.store import ThreadStore
from agency.thread.calls import IN_DOUBT, STOPPED, CallRunner, is_doubtful
from agency.thread.current_run import CurrentRun
from agency.thread.effect_loop import EffectLoop
from agency.thread.traces import Trace
from agency.tracebacks import stack_of
from agency.turn.effects import CallTools, PendingCall, ToolsAnswered
from agency.turn.outcomes import CallOutcome, Canceled, Deferred, Failure, Settled, Success
from agency.turn.state import WaitingTools

NO_RESULTS: Mapping[str, Settled] = {}


@dataclass(slots=True)
class CallBatch:
    """The calls of one effect: what has come of them, and in which groups the rest is to run."""

    run: int
    effect: int
    calls: dict[str, PendingCall]
    groups: list[list[PendingCall]]
    outcomes: dict[str, CallOutcome] = field(default_factory=dict)
    running: int = 0
    failed_hook: HookFailed | None = None

    @property
    def complete(self) -> bool:
        return len(self.outcomes) == len(self.calls)

    def hand_back(self) -> None:
        """What has no outcome comes again later."""
        for call_id in self.calls:
            self.outcomes.setdefault(call_id, Deferred(waits_for="batch"))

    def next_group(self) -> list[PendingCall]:
        """The calls to run next; empty when none is left."""
        while self.groups:
            if left := [call for call in self.groups[0] if call.id not in self.outcomes]:
                return left
            del self.groups[0]
        return []


def grouped(calls: Iterable[PendingCall], tools: Mapping[str, Tool]) -> list[list[PendingCall]]:
    """Neighbouring safe calls together, every other call by itself, all in order."""
    groups: list[list[PendingCall]] = []
    beside = False
    for call in calls:
        tool = tools.get(call.call.name)
        safe = tool is not None and tool.safe
        if safe and beside:
            groups[-1].append(call)
        else:
            groups.append([call])
        beside = safe
    return groups


class BatchRunner:
    """At most one batch is under way. `commit` writes a draft; `finish` feeds the machine and goes on. If a person
    wants the run to pause, what has begun may end; the rest of the batch is handed back and comes again. While the
    effect loop is stopped, what runs may end too, and nothing begins: the rest is dropped, or recovered when the thread
    is next open."""

    def __init__(
        self,
        store: ThreadStore,
        current: CurrentRun,
        loop: EffectLoop,
        tools: Mapping[str, Tool],
        type_of: Callable[[str], events.ToolType],
        runner: CallRunner,
        commit: Callable[[Draft], None],
        finish: Callable[[Draft, ToolsAnswered, HookFailed | None], None],
    ) -> None:
        self._store = store
        self._current = current
        self._loop = loop
        self._tools = tools
        self._type_of = type_of
        self._runner = runner
        self._commit = commit
        self._finish = finish
        self._batch: CallBatch | None = None
        self.with_tokens = tokens.calls_with_tokens(store)
        """The calls, by run, effect and id, that have handed out tokens and may still be settled by them."""
        self._unfinished: int | None = None
        """The effect of the batch that was under way when the thread was last open, until it is taken up."""

    def prepare(self, draft: Draft, request: CallTools) -> None:
        """Take up a batch, and record that its first calls begin. Of one that was under way when the thread was last
        open, that is recorded already; `recover` takes it up."""
        if self.is_unfinished(request):
            return
        self._batch = self._new(request, draft.run)
        self._begin(draft, self._batch)

    def found(self, state: WaitingTools) -> bool:
        """The thread was opened, and its run waits for this batch; whether calls of it were under way."""
        self._unfinished = state.effect if state.runnable() else None
        return self._unfinished is not None

    def is_unfinished(self, request: CallTools) -> bool:
        """Whether this is the batch that was under way when the thread was last open."""
        return request.id == self._unfinished

    def recover(self, request: CallTools) -> bool:
        """Take up the batch that was under way when the thread was last open; whether anything of it is left to run."""
        self._unfinished = None
        draft = self._current.draft()
        batch, recorded = self._recorded(draft, request)
        asks = any(o.status == "deferred" and o.waits_for == "approval" for o in batch.outcomes.values())
        if asks or self._current.pause_requested:
            batch.hand_back()
        if batch.complete:
            self._end(draft, batch)
            return False
        self._batch = batch
        left = [call for call in batch.next_group() if call.id not in recorded]
        begin(draft, batch.effect, left, self._type_of)
        if draft:
            self._commit(draft)
        return True

    def to_run_again(self, state: WaitingTools) -> tuple[str, ...]:
        """The calls that had begun and not ended when the thread was last open, and that `recover` runs once more."""
        recorded = records.calls(self._store, self._current.n, state.effect)
        begun = [call for call in state.runnable() if isinstance(recorded.get(call.id), records.Began)]
        doubtful = {c.id: tool for c in begun if is_doubtful(tool := self._tools.get(c.call.name)) and tool is not None}
        if self._current.pause_requested or any(tool.in_doubt == "ask" for tool in doubtful.values()):
            return ()  # all of them are handed back
        return tuple(call.id for call in begun if call.id not in doubtful)

    def take_up_to_drop(self, draft: Draft, state: WaitingTools) -> None:
        """If the batch was under way when the thread was last open, take it up, only to drop it: calls that have ended
        keep their results."""
        unfinished, self._unfinished = self._unfinished, None
        if state.effect != unfinished:
            return
        self._batch, _ = self._recorded(draft, unfinished_batch(state))
        for call_id, outcome in list(self._batch.outcomes.items()):
            if outcome.status == "deferred":
                del self._batch.outcomes[call_id]
                if outcome.waits_for == "approval":  # it is in doubt, and no person will be asked
                    self._batch.outcomes[call_id] = doubt = Failure(kind="external", source="runtime", message=IN_DOUBT)
                    emit_end(draft, self._batch.calls[call_id], doubt)

    def _recorded(
        self, draft: Draft, request: CallTools
    ) -> tuple[CallBatch, Mapping[str, CallOutcome | records.Began]]:
        """A batch with the results that its calls had when the process died, and what was recorded of them."""
        batch = self._new(request, draft.run)
        recorded = records.calls(self._store, draft.run, request.id)
        batch.outcomes = {call_id: was for call_id, was in recorded.items() if not isinstance(was, records.Began)}
        for call in request.calls:
            if isinstance(was := recorded.get(call.id), records.Began):
                self._judge(draft, batch, call, was.at)
        return batch, recorded

    async def perform(self, seconds_left: Callable[[], float | None]) -> None:
        """Run what is left of the batch. Stops early if the batch is dropped."""
        batch = self._batch
        assert batch is not None
        while self._batch is batch and not self._loop.stopped and (group := batch.next_group()):
            batch.running = len(group)
            if len(group) == 1:
                await self._run(batch, group[0], seconds_left())
            else:
                async with asyncio.TaskGroup() as tasks:
                    for call in group:
                        tasks.create_task(self._run(batch, call, seconds_left()))

    def drop(
        self, draft: Draft, instead: Canceled, known: Mapping[str, Settled] = NO_RESULTS, *, goes_on: bool = False
    ) -> ToolsAnswered | None:
        """Give up the batch under way: results where there are some, those that are `known` by now, `instead` for the
        rest. If the run `goes_on`, it must know of calls that had begun and must not simply be repeated."""
        batch, self._batch = self._batch, None
        if batch is None:
            return None
        begun = {call.id for call in batch.next_group()} if goes_on and batch.running else ()
        for call in batch.calls.values():
            if call.id in batch.outcomes and call.id not in known:
                continue
            doubted = call.id in begun and is_doubtful(self._tools.get(call.call.name))
            outcome = known.get(call.id) or (STOPPED if doubted else instead)
            batch.outcomes[call.id] = outcome
            emit_end(draft, call, outcome)
            self._runner.keep_trace(draft, call)
        return ToolsAnswered(id=batch.effect, at=now_ms(), outcomes=batch.outcomes)

    def take_result(self, draft: Draft, run: int, effect: int, call: str, outcome: Settled) -> bool:
        """A call that waited has its result while others of its batch still run: keep it until the batch ends."""
        batch = self._batch
        if batch is None or (batch.run, batch.effect) != (run, effect):
            return False
        batch.outcomes[call] = outcome
        records.end_call(draft, effect, call, outcome)
        emit_end(draft, batch.calls[call], outcome)
        self._commit(draft)
        return True

    def _new(self, request: CallTools, run: int) -> CallBatch:
        calls = {call.id: call for call in request.calls}
        return CallBatch(run, request.id, calls, grouped(request.calls, self._tools))

    def _begin(self, draft: Draft, batch: CallBatch) -> None:
        begin(draft, batch.effect, batch.next_group(), self._type_of)

    async def _run(self, batch: CallBatch, call: PendingCall, seconds_left: float | None) -> None:
        outcome, draft, failed_hook = await self._runner.run(call, batch.run, batch.effect, seconds_left)
        if self._batch is not batch:
            return  # the run was ended meanwhile
        batch.failed_hook = batch.failed_hook or failed_hook
        try:
            draft.try_out(NOTHING)
        except sqlite3.Error as error:  # another call of the batch has written since it tried this out
            draft = self._store.draft(batch.run)
            outcome = Failure(kind="execution", message=f"{type(error).__name__}: {error}")
            Trace(call.id, call.begun, traceback=stack_of(error)).keep(draft)
        if (batch.run, batch.effect, call.id) in self.with_tokens:
            outcome = self._after_tokens(draft, batch, call, outcome)
        emit_end(draft, call, outcome)
        batch.outcomes[call.id] = outcome
        batch.running -= 1
        if batch.running == 0 and self._current.pause_requested and not self._loop.stopped:
            batch.hand_back()
        if batch.complete and not self._loop.stopped:
            self._end(draft, batch)
            return
        records.end_call(draft, batch.effect, call.id, outcome)
        if batch.running == 0 and not self._loop.stopped:
            self._begin(draft, batch)
        self._commit(draft)

    def _after_tokens(self, draft: Draft, batch: CallBatch, call: PendingCall, outcome: CallOutcome) -> CallOutcome:
        """The outcome of a call that has handed out tokens. If one was settled while the tool ran, that is it; if the
        tool does not wait after all, its tokens settle nothing more."""
        if isinstance(outcome, Deferred) and outcome.waits_for == "outside":
            early = tokens.early_outcome(self._store, batch.run, batch.effect, call.id)
            if early is None:
                return outcome
            outcome = early
        self.with_tokens.discard((batch.run, batch.effect, call.id))
        tokens.close_tokens_of(draft, batch.run, batch.effect, call.id)
        return outcome

    def waits_outside(self, run: int, effect: int, call: str) -> bool:
        """Whether a call of the batch under way waits for the outside, while others still run."""
        batch = self._batch
        if batch is None or (batch.run, batch.effect) != (run, effect):
            return False
        outcome = batch.outcomes.get(call)
        return isinstance(outcome, Deferred) and outcome.waits_for == "outside"

    def _end(self, draft: Draft, batch: CallBatch) -> None:
        self._batch = None
        records.forget_calls(draft, batch.effect)
        answer = ToolsAnswered(id=batch.effect, at=now_ms(), outcomes=batch.outcomes)
        self._finish(draft, answer, batch.failed_hook)

    def _judge(self, draft: Draft, batch: CallBatch, call: PendingCall, since: int | None) -> None:
        """A call had begun and not ended when the process died."""
        tool = self._tools.get(call.call.name)
        if tool is None or not is_doubtful(tool):
            return
        outcome = batch.outcomes[call.id] = self._runner.in_doubt(tool, since)
        if outcome.status == "deferred":
            return
        records.end_call(draft, batch.effect, call.id, outcome)
        emit_end(draft, call, outcome)


def unfinished_batch(state: WaitingTools) -> CallTools:
    """What is left to run of a batch that was under way when the thread was last open."""
    return CallTools(id=state.effect, calls=state.runnable())


def begin(draft: Draft, effect: int, calls: Sequence[PendingCall], type_of: Callable[[str], events.ToolType]) -> None:
    """Record, before they run, that calls begin."""
    records.begin_calls(draft, effect, [call.id for call in calls], now_ms())
    for call in calls:
        draft.emit(events.tool_started(call.call, call.hidden, type_of(call.call.name)))


def emit_end(draft: Draft, call: PendingCall, outcome: CallOutcome) -> None:
    match outcome:
        case Success(content=content, is_json=is_json, images=images, files=files):
            draft.emit(events.tool_output(call.call.name, call.id, content, images, files, is_json=is_json))
        case Failure(kind=kind):
            draft.emit(events.tool_error(call.call.name, call.id, outcome.text, kind))
        case Canceled():
            draft.emit(events.tool_error(call.call.name, call.id, outcome.text, "canceled"))
        case Deferred(waits_for="outside", about=about, until=until):
            draft.emit(events.tool_waiting(call.call.name, call.id, about, until))
