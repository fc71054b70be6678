"""The driver: performs what the turn machine asks for, and commits what comes of it.

One idea holds it together. A run changes only in `advance`, which never awaits: it feeds the machine, stages all that
follows, commits once, publishes what was committed and notes the next effect. Whatever takes time (models, tools,
hooks) is done outside, on drafts of its own, and then checks that the run still waits for its answer. So calls from
outside need no lock, and a crash finds the file between two answers.

If anything in that fails, the machine in memory may be ahead of the file, so the driver stops for good; the file is
right, and opening it again carries on from there.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from pydantic_core import from_json, to_json

from agency import events
from agency.approvals.deadlines import ApprovalDeadline, overdue
from agency.children import outbox, rows
from agency.children.family import NOTE_ORIGIN, Family
from agency.children.reports import report_of
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.code import CodeRunner
from agency.define.hooks import Plan, RunEnd
from agency.errors import AgencyError, DefinitionError, HookFailed, ModelError, StoreError, WrongState
from agency.json_schema import Schema
from agency.messages import Message, Usage
from agency.metadata import ThreadMetadata
from agency.spending import NOTHING_SPENT, Spent
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.store.timers import Timer, drop_timer, drop_timers, set_timer
from agency.thread.batches import BatchRunner, begin, emit_end
from agency.thread.calls import IN_DOUBT, CallRunner, is_doubtful
from agency.thread.code_execution import Execution
from agency.thread.feed import Feed
from agency.thread.model_calls import ModelCaller
from agency.thread.pipeline import Pipeline, Review
from agency.thread.views import run_end, status_of
from agency.thread.workers import STOP_GRACE, TimedOut, within
from agency.turn import effects as fx
from agency.turn.effects import PendingCall
from agency.turn.machine import INTERRUPTED, TurnMachine
from agency.turn.outcomes import (
    CANCELED,
    CallOutcome,
    Canceled,
    Failure,
    Settled,
    Stopped,
    TurnOutcome,
)
from agency.turn.state import Limits, TurnCheckpoint, WaitingModel, WaitingTools
from agency.wire import Wire, sayable_text

AGENT_ORIGIN = "agent"
"""Of messages from other agents of the family."""
NOT_FROM_CODE = "this call needs a person's approval: call the tool yourself, not from code"


class SharedBudget(Protocol):
    """What is beyond the run's own limits: the budget that many threads share."""

    def is_set(self) -> bool: ...

    async def used_up(self, spent: Spent) -> str | None:
        """Under which code nothing more may be spent, now that this thread has used so much; None to go on."""


class RunTerms(Wire):
    """What a message says of the run that it is to start."""

    limits: Limits | None = None
    output: Schema | None = None


class Driver:
    def __init__(
        self,
        store: ThreadStore,
        pipeline: Pipeline,
        caller: ModelCaller,
        runner: CallRunner,
        feed: Feed,
        thread: ThreadMetadata,
        blueprint: Blueprint,
        code_runner: CodeRunner | None,
        budget: SharedBudget,
        on_commit: Callable[[Draft], None],
    ) -> None:
        self._store = store
        self._code_runner = code_runner
        self._pipeline = pipeline
        self._runner = runner
        self._feed = feed
        self._thread = thread
        self._blueprint = blueprint
        self._budget = budget
        self._on_commit = on_commit
        self._caller = caller
        self._batches = BatchRunner(store, pipeline.tools, runner, self.commit, self._batch_ended, lambda: self.paused)
        self._request: fx.Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._ending: Callable[[], fx.Input] | None = None
        self._held = False
        self._endings: set[asyncio.Task[None]] = set()
        self._unfinished: int | None = None
        """The batch that was under way when the thread was last open, until it is taken up."""
        self._deadline = ApprovalDeadline()
        self._drops_queue = False
        self._spent_before = records.spent(store)
        self.family = Family(store, self._settle_call, self.take)
        self.n = 0
        self.machine: TurnMachine | None = None
        self.error: BaseException | None = None

    # Beginning.

    def resume(self) -> None:
        """Carry on from what the file says."""
        run = records.last_run(self._store)
        if run is None:
            return
        self.n = run.n
        self.machine = TurnMachine(TurnCheckpoint.load(run.machine), self._blueprint.mode)
        self._caller.output = None if run.output is None else from_json(run.output)
        self._caller.load_surface()
        for untold in records.untold_ends(self._store):
            self._tell_end(untold)
        if isinstance(state := self.machine.state, WaitingTools):
            self._unfinished = state.effect if state.runnable() else None
            self._deadline.found(Timer("approval", self.n, state.effect))
        if self.active and self.interruptible and records.is_interrupted(self._store):
            self._interrupt_now()
        elif isinstance(state, WaitingTools) and self._unfinished is not None and self.paused:
            self._unfinished = None
            self._batches.recover(fx.CallTools(id=state.effect, calls=state.runnable()), self.n)
        else:
            draft = self._store.draft(self.n)
            request = self._poll(draft)
            if draft:  # what was being done when a person paused the run begins no more
                records.save_run(draft, self.n, status_of(self.machine), self.machine.dump())
                self.commit(draft)
            self._go_on(request)
        self.family.look(self.n)

    def begin(
        self, draft: Draft, messages: Sequence[Message], limits: Limits | None, output: Schema | None = None
    ) -> None:
        """Start a new run. `limits` and `output` take the place of the blueprint's."""
        at = now_ms()
        schema = self._caller.output = self._blueprint.output_schema if output is None else output
        self.n = draft.run
        self.machine = TurnMachine.begin(
            run=self.n,
            at=at,
            position=self._store.message_count,
            messages=messages,
            limits=limits or self._blueprint.limits,
            mode=self._blueprint.mode,
        )
        records.add_run(draft, self.n, "running", b"", at, None if schema is None else to_json(schema))
        self.advance(draft)

    @property
    def performing(self) -> bool:
        """Whether a model, a tool or a hook is at work for the run, or the run is being stopped."""
        tasks = (self._task, self._stopping, *self._endings)
        return any(task is not None and not task.done() for task in tasks)

    @property
    def interruptible(self) -> bool:
        """Whether the run does something that can be interrupted; one that has used up a limit does not."""
        return self.machine is not None and self.machine.exhausted_by is None

    @property
    def paused(self) -> bool:
        """Whether a person wants nothing new to begin."""
        return self.machine is not None and self.machine.held

    @property
    def active(self) -> bool:
        return self.machine is not None and self.machine.outcome is None

    def spent(self) -> tuple[Spent, Spent]:
        """What the thread's runs have used, and what its children have reported."""
        own = self._spent_before
        if self.machine is not None and self.active:
            own += self.machine.spent(now_ms())
        return own, self.family.spent()

    def children_spent(self) -> Spent:
        """What the children of this run have reported."""
        return self.family.spent_in(self.n) or NOTHING_SPENT

    @property
    def run_id(self) -> str:
        return run_id(self._thread.id, self.n) if self.n else ""

    # The one place where a run changes.

    def advance(self, draft: Draft, *answers: fx.Input) -> None:
        """Feed the machine, commit all that follows, and go on. Never awaits."""
        try:
            request = self._stage(draft, answers)
        except BaseException as error:
            self.fail(error)
            raise
        self.commit(draft)
        if not self.active and self._pipeline.sees_runs_end:
            for untold in records.untold_ends(self._store, self.n):
                self._tell_end(untold)
        self._go_on(request)

    def _stage(self, draft: Draft, answers: Sequence[fx.Input]) -> fx.Request | None:
        """Feed the machine and stage all that follows; the effect that comes next."""
        machine = self.machine
        assert machine is not None
        at_checkpoint = any(isinstance(answer, fx.CheckpointTaken) for answer in answers)
        checkpoint_at = len(draft.events) if at_checkpoint else None
        for answer in answers:
            if machine.outcome is None:  # a tool's result may have ended the run before a cancel does
                machine.handle(answer)
        request = self._poll(draft)
        while self._answer_at_once(draft, request):
            if isinstance(request, fx.Checkpoint):
                checkpoint_at = len(draft.events)
            request = self._poll(draft)
        self._prepare(draft, request)
        self._deadline.keep(draft, self.n, machine.state if machine.paused == "hitl" else None)
        state = machine.dump()
        if checkpoint_at is not None:
            digest = hashlib.blake2b(state, digest_size=8).hexdigest()
            draft.events.insert(checkpoint_at, events.checkpoint_saved(digest, len(state)))
        records.save_run(draft, self.n, status_of(machine), state)
        return request

    def commit(self, draft: Draft) -> None:
        try:
            self._store.commit(draft)
        except BaseException as error:
            self.fail(error)
            raise
        self._caller.committed(draft)
        self._feed.notify()
        self._on_commit(draft)
        if draft.ends_children:
            asyncio.get_running_loop().call_soon(self._children_changed)

    def _children_changed(self) -> None:
        """Somebody may have waited for that."""
        if self.error is None and not self._store.closed:
            self.family.look(self.n)

    def _poll(self, draft: Draft) -> fx.Request | None:
        """Stage the machine's notices; the effect that wants an answer, if there is one."""
        machine = self.machine
        assert machine is not None
        while (effect := machine.poll()) is not None:
            match effect:
                case fx.Emit(event=event):
                    draft.emit(event)
                case fx.Progress(messages=messages):
                    draft.messages.extend(messages)
                case fx.Done(outcome=outcome):
                    self._close_run(draft, outcome)
                case fx.CancelModel():
                    pass  # whoever feeds `RunCanceled` has stopped the work before
                case _:
                    return effect
        return None

    def _answer_at_once(self, draft: Draft, request: fx.Request | None) -> bool:
        """Answer an effect that needs nobody else, within the same transaction."""
        assert self.machine is not None
        if isinstance(request, fx.Checkpoint) and not self._pipeline.ends_turns:
            self.machine.handle(self._taken(draft, request))
        elif isinstance(request, fx.SyncSurface) and not (self._pipeline.shapes_calls or self._budget.is_set()):
            self._take_surface(draft, request, self._caller.plan(self._pipeline.tools))
        else:
            return False
        return True

    def _taken(self, draft: Draft, request: fx.Checkpoint, stop: TurnOutcome | None = None) -> fx.CheckpointTaken:
        """Whatever was sent to the run joins it at a checkpoint, if it can still answer."""
        assert self.machine is not None
        last = stop is not None or (self.machine.grace and request.kind == "before_completion")
        joining = () if last else records.take_inbox(self._store, draft)
        said = tuple(post.message for post in joining)
        return fx.CheckpointTaken(id=request.id, at=now_ms(), messages=said, stop=stop)

    def _prepare(self, draft: Draft, request: fx.Request | None) -> None:
        """Stage what must be on disk before an effect begins."""
        match request:
            case fx.CallTools(id=effect) if effect != self._unfinished:
                self._batches.prepare(draft, request)
            case fx.Sleep(id=effect, until=until):
                set_timer(draft, Timer("sleep", self.n, effect), until)

    def _go_on(self, request: fx.Request | None) -> None:
        if isinstance(request, fx.CallTools) and request.id == self._unfinished:  # it was under way when we died
            self._unfinished = None
            if not self._batches.recover(request, self.n):
                return
        if request is not None and not isinstance(request, fx.Sleep):
            self._request = request
        if not self.active and self._store.inbox_count:
            self._begin_with_inbox()
        self._start()

    def _begin_with_inbox(self) -> None:
        """Somebody spoke while the last run was ending, or for the run after it: that starts the next. What only
        middleware said waits, and so does everything that is said to a child that has reported."""
        draft = self._store.draft(self.n + 1)
        posted = records.take_inbox(self._store, draft, next_run=True)
        starts = {None} if self._thread.parent is not None else {None, NOTE_ORIGIN, AGENT_ORIGIN}
        if any(post.message.origin in starts for post in posted):
            terms = [RunTerms.model_validate_json(post.terms) for post in posted if post.terms is not None]
            limits = next((each.limits for each in reversed(terms) if each.limits is not None), None)
            output = next((each.output for each in reversed(terms) if each.output is not None), None)
            self.begin(draft, [post.message for post in posted], limits, output)

    def _start(self) -> None:
        busy = self._task is not None and not self._task.done()
        if self._request is not None and not busy and not self._held and self.error is None:
            self._task = asyncio.create_task(self._drive(), name=f"run {self.run_id}")

    def _close_run(self, draft: Draft, outcome: TurnOutcome) -> None:
        """The run has ended: call back the children, keep what was sent too late, and tell the parent."""
        at = now_ms()
        last = draft.events.pop()  # the run's own end comes after that of its children
        self.family.call_back(draft, but_background=not isinstance(outcome, Stopped) and self._thread.parent is None)
        draft.emit(last)
        if outcome == CANCELED:  # else the next run begins with what came too late for this one
            late = records.take_inbox(self._store, draft, next_run=self._drops_queue)
            said = (post.message.model_copy(update={"id": f"m{self.n}.late{i}"}) for i, post in enumerate(late, 1))
            draft.messages.extend(said)
        drop_timers(draft, "sleep", "approval")
        rows.drop_waits(draft)
        records.forget_all_calls(draft)
        if self._pipeline.sees_runs_end:
            records.keep_end(draft, self.n)
        assert self.machine is not None
        self._spent_before += self.machine.spent(at)
        records.save_spent(draft, self._spent_before)
        parent = self._thread.parent
        if parent is not None and self.n == 1:
            own, children = self.spent()
            files = self._pipeline.handed_back(draft, parent.returns)
            outbox.send(draft, report_of(self._thread, outcome, own + children, files))

    def _tell_end(self, run: records.StoredRun) -> None:
        """Let the middleware know of a run that has ended; if that is cut short, again when the thread is next open."""
        ended = run_end(run_id(self._thread.id, run.n), TurnMachine(TurnCheckpoint.load(run.machine)))
        task = asyncio.create_task(self._told_end(run.n, ended), name=f"after {ended.run_id}")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _told_end(self, run: int, ended: RunEnd) -> None:
        draft = self._store.draft(run)
        try:
            await self._pipeline.on_run_end(draft, ended)
            records.forget_end(draft, run)
            if self.error is None:
                self.commit(draft)
        except Exception as error:
            self.fail(error)

    # Stopping.

    def fail(self, error: BaseException) -> None:
        """Give up this activation; the file stays as it was after the last commit."""
        if self.error is None:
            self.error = error
            self._feed.close()
        for ending in self._endings - {asyncio.current_task()}:
            ending.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def hold(self) -> None:
        """Stop what is being performed and begin nothing new. Finished calls have their results; others have none."""
        self._held = self._batches.held = True
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=2 * STOP_GRACE)
        if self._task is task:
            self._task = None  # one that will not stop is left behind

    async def cancel(self, *, drops_queue: bool = False) -> None:
        """End the run as canceled. What was sent for the next run starts it, unless it is dropped, too."""
        self._drops_queue = drops_queue
        await self._stop(lambda: fx.RunCanceled(at=now_ms(), used=self._used()))

    def pause(self) -> None:
        """Begin nothing new until `release`; what is being done may end."""
        self.advance(self._store.draft(self.n), fx.RunHeld(at=now_ms()))

    def release(self, draft: Draft) -> None:
        self.advance(draft, fx.RunReleased(at=now_ms()))

    def take(self, draft: Draft) -> None:
        """Commit what has come from outside; a message may start a run."""
        self.commit(draft)
        self._go_on(None)

    async def interrupt(self) -> None:
        """Leave what is being done and go on with what is in the inbox."""
        await self._stop(None)

    async def abort(self, error: AgencyError) -> None:
        """End the run as an error that is not the model's."""
        await self._stop(lambda: _aborted(error))

    async def _stop(self, ending: Callable[[], fx.Input] | None) -> None:
        """Stop the run once, however many ask for it, and see it through even if they go away. Without an ending, it is
        only interrupted, unless somebody wants it to end meanwhile."""
        if self._stopping is None or self._stopping.done():
            self._ending = ending
            self._stopping = asyncio.create_task(self._stop_now(), name=f"stop {self.run_id}")
        elif self._ending is None:
            self._ending = ending
        await asyncio.shield(self._stopping)

    async def _stop_now(self) -> None:
        run = self.n
        await self.hold()
        try:
            if self.active and self.n == run and self.error is None:
                if self._ending is not None:
                    self._end(self._ending())
                elif records.is_interrupted(self._store):  # else it has joined already
                    self._interrupt_now()
        finally:
            self._held = self._batches.held = False
            self._start()

    def give_up(self, error: AgencyError) -> None:
        """Take up the run only to end it as an error: nothing of it is performed."""
        self._held = self._batches.held = True
        self.resume()
        if self.active:
            self._end(_aborted(error))

    def _end(self, ending: fx.Input) -> None:
        self._request = None
        draft = self._store.draft(self.n)
        dropped = self._batches.drop(draft, Canceled())
        self.advance(draft, *([dropped] if dropped else []), ending)

    def _used(self) -> fx.Used:
        """What the model call has used that is being stopped, if one is."""
        state = self.machine.state if self.machine is not None else None
        usage = self._caller.meter.usage if isinstance(state, WaitingModel) else None
        if usage is None or not isinstance(state, WaitingModel):
            return fx.Used()
        return fx.Used(usage=usage, cost_usd=self._caller.cost(state.request, usage))

    def _interrupt_now(self) -> None:
        assert self.machine is not None
        self._request = None
        draft, state = self._store.draft(self.n), self.machine.state
        known = self.family.leave(draft)
        if isinstance(state, WaitingTools):
            self.family.call_back_calls(draft, self.n, state.effect)
            if state.effect == self._unfinished:
                self._batches.take_up(draft, fx.CallTools(id=state.effect, calls=state.runnable()))
        self._unfinished = None
        drop_timers(draft, "sleep", "approval")
        records.forget_all_calls(draft)
        try:
            if (dropped := self._batches.drop(draft, INTERRUPTED, known, goes_on=True)) is not None:
                self.machine.handle(dropped)
            for call_id, outcome in known.items():
                self._take_result(draft, call_id, outcome)
            if self.machine.outcome is None:  # else a tool has ended the run, and the next begins with the message
                said = tuple(post.message for post in records.take_inbox(self._store, draft))
                self.machine.handle(fx.RunInterrupted(at=now_ms(), messages=said, used=self._used()))
        except BaseException as error:
            self.fail(error)
            raise
        self.advance(draft)

    def _take_result(self, draft: Draft, call_id: str, outcome: Settled) -> None:
        """Give a call its result that still waits for children."""
        assert self.machine is not None
        effect = self.machine.outstanding or 0
        if (pending := self._deferred_call(self.n, effect, call_id)) is not None:
            emit_end(draft, pending, outcome)
            self.machine.handle(fx.CallSettled(id=effect, at=now_ms(), call_id=call_id, outcome=outcome))

    def _batch_ended(self, draft: Draft, answer: fx.ToolsAnswered, failed_hook: HookFailed | None) -> None:
        self.advance(draft, answer, *([_aborted(failed_hook)] if failed_hook else []))

    # Performing effects.

    async def _drive(self) -> None:
        try:
            while self._request is not None and not self._held and self._task is asyncio.current_task():
                request, self._request = self._request, None
                await self._perform(request)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.fail(error)

    async def _perform(self, request: fx.Request) -> None:
        run = self.n
        try:
            match request:
                case fx.SyncSurface():
                    await self._sync_surface(request)
                case fx.CallModel():
                    await self._call_model(request)
                case fx.CallTools():
                    await self._batches.perform(self._seconds_left)
                case fx.ExecCode():
                    await self._exec_code(request)
                case fx.Checkpoint():
                    await self._end_turn(request)
                case _:
                    raise AssertionError(f"{request!r} is not performed here")
        except StoreError:
            raise
        except Exception as error:  # a run ends with a code, whatever happens
            if self.error is None and self._awaited(run, request.id):
                self.advance(self._store.draft(run), _aborted(error))

    def _awaited(self, run: int, effect: int) -> bool:
        """Whether this effect still waits for its answer; the run may have been ended meanwhile, and another begun."""
        return run == self.n and self.machine is not None and self.machine.outstanding == effect

    async def _sync_surface(self, request: fx.SyncSurface) -> None:
        draft, plan = self._store.draft(self.n), self._caller.plan(self._pipeline.tools)
        if self._budget.is_set() and (code := await self._budget.used_up(self.spent()[0])) is not None:
            if self._awaited(draft.run, request.id):
                self.advance(draft, fx.BudgetSpent(id=request.id, at=now_ms(), code=code))
            return
        if self._pipeline.sees_runs_start and not records.is_start_told(self._store, self.n):
            await self._pipeline.on_run_start(draft, self.run_id)
            records.keep_start(draft, self.n)
        await self._pipeline.plan(draft, self.run_id, plan)
        if self._awaited(draft.run, request.id):
            self._take_surface(draft, request, plan)
            self.advance(draft)

    async def _end_turn(self, request: fx.Checkpoint) -> None:
        draft = self._store.draft(self.n)
        stop = await self._pipeline.on_turn_end(draft, self.run_id)
        if self._awaited(draft.run, request.id):
            self.advance(draft, self._taken(draft, request, stop))

    def _take_surface(self, draft: Draft, request: fx.SyncSurface, plan: Plan) -> None:
        assert self.machine is not None
        at = now_ms()
        try:
            surface = self._caller.fix_surface(draft, plan)
        except ModelError as error:
            self.machine.handle(_aborted(error))
        else:
            children = self.family.spent_in(self.n)
            self.machine.handle(fx.SurfaceSynced(id=request.id, at=at, surface=surface, children=children))

    async def _call_model(self, request: fx.CallModel) -> None:
        await asyncio.sleep(0)  # a model that never waits must not keep others from running, or from canceling it
        draft, stream = self._store.draft(self.n), self._feed.begin_text(self.n)
        answers: list[fx.Input] = []
        try:
            reply = await self._caller.reply(
                request, self.n, self._seconds_left(), lambda delta: self._feed.add_text(stream, delta)
            )
            answers = await self._review(draft, request, reply)
        except ModelError as error:
            answers = await self._failed(draft, request, error)
        finally:
            self._feed.end_text(stream)
        if self._awaited(draft.run, request.id):
            self.advance(draft, *answers)

    async def _failed(self, draft: Draft, request: fx.CallModel, error: ModelError) -> list[fx.Input]:
        """What the machine is told of a failure. If the request was too large, the middleware may make room."""
        room_made, aborted = False, None
        if error.model_code == "ERR_CONTEXT_OVERFLOW":
            plan, mark = self._caller.plan(self._pipeline.tools), draft.mark()
            try:
                room_made = await self._pipeline.on_overflow(draft, self.run_id, plan)
            except HookFailed as failed:
                draft.undo(mark)
                aborted = _aborted(failed)
        failure = fx.ModelFailure(
            code=error.model_code,
            message=sayable_text(str(error)),
            retryable=error.retryable,
            retry_after_ms=error.retry_after_ms,
            request_id=error.request_id,
            room_made=room_made,
            usage=error.usage or Usage(),
            cost_usd=0.0 if error.usage is None else self._caller.cost(request.request, error.usage),
        )
        answer = fx.ModelFailed(id=request.id, at=now_ms(), failure=failure)
        return [answer] if aborted is None else [aborted]

    async def _review(self, draft: Draft, request: fx.CallModel, reply: fx.ModelReply) -> list[fx.Input]:
        """Show a reply to the middleware. It is kept even if one of them fails on it."""
        assert self.machine is not None
        review, failed, mark = Review(), None, draft.mark()
        try:
            await self._pipeline.on_model_result(draft, self.run_id, reply, review)
        except HookFailed as error:
            draft.undo(mark)
            failed = _aborted(error)
        output, refused = self._caller.judge(reply, self.machine.said)
        refused = {**review.refused, **refused}
        replied = fx.ModelReplied(
            id=request.id,
            at=now_ms(),
            reply=reply,
            ask={call_id: ask for call_id, ask in review.ask.items() if call_id not in refused},
            seen_by=tuple(review.seen_by),
            cost_usd=self._caller.cost(request.request, reply.usage),
            output=output,
            refused=refused,
            hidden=self._hidden(reply),
        )
        return [replied] if failed is None else [replied, failed]

    def _hidden(self, reply: fx.ModelReply) -> dict[str, tuple[str, ...]]:
        """The arguments of its calls that people are not shown."""
        tools = ((call.id, self._pipeline.tools.get(call.name)) for call in reply.tool_calls)
        return {call_id: tool.hidden for call_id, tool in tools if tool is not None and tool.hidden}

    def _seconds_left(self) -> float | None:
        assert self.machine is not None
        remaining = self.machine.remaining_ms(now_ms())
        return None if remaining is None else remaining / 1000

    # Children and timers.

    def _settle_call(self, draft: Draft, run: int, effect: int, call: str, outcome: Settled) -> None:
        """A call that waits for children has its result."""
        if self._batches.take_result(draft, run, effect, call, outcome):
            return
        pending = self._deferred_call(run, effect, call)
        if pending is None:
            self.commit(draft)
            return
        emit_end(draft, pending, outcome)
        self.advance(draft, fx.CallSettled(id=effect, at=now_ms(), call_id=call, outcome=outcome))

    def _deferred_call(self, run: int, effect: int, call_id: str) -> PendingCall | None:
        state = self.machine.state if self.machine is not None and run == self.n else None
        if not isinstance(state, WaitingTools) or state.effect != effect:
            return None
        return next((call for call in state.deferred("child") if call.id == call_id), None)

    def timer_due(self, timer: Timer) -> None:
        draft = self._store.draft(self.n)
        drop_timer(draft, timer)
        awaited = self._awaited(timer.run, timer.effect)
        match timer.kind:
            case "sleep" if awaited:
                self.advance(draft, fx.Woke(id=timer.effect, at=now_ms()))
            case "approval" if awaited:
                self._approvals_overdue(draft, timer.effect)
            case "child" if self.family.timed_out(draft, timer.key):
                pass
            case "wait" if self.family.waited(timer):
                pass
            case _:
                self.commit(draft)

    def _approvals_overdue(self, draft: Draft, effect: int) -> None:
        assert self.machine is not None
        now = now_ms()
        decisions = overdue(self.machine.state, now)
        answers = [fx.CallsDecided(id=effect, at=now, decisions=decisions, by="timeout")] if decisions else []
        self.advance(draft, *answers)

    # Code.

    async def _exec_code(self, request: fx.ExecCode) -> None:
        run, runner = self.n, self._code_runner
        if runner is None:
            error = DefinitionError("this agent works in code mode and the system has no code_runner")
            self.advance(self._store.draft(run), _aborted(error))
            return
        execution = Execution(request, run, self._store, self._run_code_call)
        seconds_left = self._seconds_left()
        try:
            ran = await (
                execution.perform(runner) if seconds_left is None else within(seconds_left, execution.perform(runner))
            )
        except TimedOut:
            ran = execution.stopped("the run's time is used up")
        if self._awaited(run, request.id):
            draft = self._store.draft(run)
            records.forget_calls(draft, request.id)
            self.advance(draft, ran)

    async def _run_code_call(self, run: int, effect: int, call: PendingCall, had_begun: bool) -> Settled:
        """Run a call that executed code makes."""
        self._check_code(run, effect)
        draft, review = self._store.draft(run), Review()
        tool = self._pipeline.tools.get(call.call.name)
        call = replace(call, hidden=() if tool is None else tool.hidden)
        failed_hook: HookFailed | None = None
        await self._pipeline.on_model_result(draft, self.run_id, fx.ModelReply(tool_calls=(call.call,)), review)
        self._check_code(run, effect)
        if not had_begun:
            begin(draft, effect, [call])
            self.commit(draft)
            draft = self._store.draft(run)
        if call.id in review.refused:
            outcome: CallOutcome = review.refused[call.id]
        elif review.ask:
            outcome = Failure(kind="permission_denied", source="policy", message=NOT_FROM_CODE)
        elif had_begun and is_doubtful(tool):
            outcome = Failure(kind="external", source="runtime", message=IN_DOUBT)
        else:
            outcome, draft, failed_hook = await self._runner.run(call, run, effect, self._seconds_left())
            self._check_code(run, effect)
        if outcome.status == "deferred":
            draft = self._store.draft(run)
            outcome = Failure(kind="invalid_request", source="runtime", message="code cannot wait for this tool")
        emit_end(draft, call, outcome)
        records.end_call(draft, effect, call.id, outcome)
        self.commit(draft)
        if failed_hook is not None:
            raise failed_hook
        return outcome

    def _check_code(self, run: int, effect: int) -> None:
        """Code may run on in a thread of its own after its run has ended; it calls nothing any more."""
        if self._held or not self._awaited(run, effect):
            raise WrongState(f"run {run_id(self._thread.id, run)} no longer waits for this code")


def _aborted(error: Exception) -> fx.RunAborted:
    reason: Literal["middleware_abort", "runtime_error"] = (
        "middleware_abort" if isinstance(error, HookFailed) else "runtime_error"
    )
    code, message = AgencyError.code, f"{type(error).__name__}: {error}"
    if isinstance(error, AgencyError):
        code, message = error.model_code if isinstance(error, ModelError) else error.code, str(error)
    return fx.RunAborted(at=now_ms(), reason=reason, code=code, message=sayable_text(message))
