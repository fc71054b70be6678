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
from typing import Literal, Protocol

from pydantic_core import from_json, to_json

from agency import events
from agency.blueprint import Blueprint, ThreadMetadata
from agency.clock import now_ms
from agency.code import CodeRunner
from agency.errors import AgencyError, DefinitionError, HookFailed, ModelError, StoreError, WrongState
from agency.hooks import Plan
from agency.messages import Message, Usage
from agency.output import Schema
from agency.parcels import Cancel, ChildStatus
from agency.spending import NOTHING_SPENT, Spent
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.thread.asking import Asker
from agency.thread.batches import BatchRunner, begin, emit_end
from agency.thread.calls import IN_DOUBT, CallRunner, is_doubtful
from agency.thread.execution import Execution
from agency.thread.feed import Feed
from agency.thread.pipeline import Pipeline, Review
from agency.thread.reports import call_outcome, report_of
from agency.thread.views import status_of
from agency.thread.workers import STOP_GRACE, TimedOut, within
from agency.turn import effects as fx
from agency.turn.effects import PendingCall
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import CANCELED, CallOutcome, Failure, Settled, TurnOutcome
from agency.turn.state import Limits, TurnCheckpoint, WaitingTools
from agency.wire import sayable_text

NOT_FROM_CODE = "this call needs a person's approval: call the tool yourself, not from code"


class Budget(Protocol):
    """What is beyond the run's own limits: the budget that many threads share."""

    def is_set(self) -> bool: ...

    async def used_up(self, spent: Spent) -> str | None:
        """Under which code nothing more may be spent, now that this thread has used so much; None to go on."""


class Driver:
    def __init__(
        self,
        store: ThreadStore,
        pipeline: Pipeline,
        asker: Asker,
        runner: CallRunner,
        feed: Feed,
        thread: ThreadMetadata,
        blueprint: Blueprint,
        code_runner: CodeRunner | None,
        budget: Budget,
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
        self._asker = asker
        self._batches = BatchRunner(store, pipeline.tools, runner, self.commit, self._batch_ended)
        self._request: fx.Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._held = False
        self._spent_before = records.spent(store)
        self._children = records.spent_by_children(store)
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
        self._asker.output = None if run.output is None else from_json(run.output)
        self._asker.load_surface()
        self._go_on(self._poll(self._store.draft(self.n)), recovering=True)

    def begin(
        self, draft: Draft, messages: Sequence[Message], limits: Limits | None, output: Schema | None = None
    ) -> None:
        """Start a new run. `limits` and `output` take the place of the blueprint's."""
        at = now_ms()
        schema = self._asker.output = self._blueprint.output_schema if output is None else output
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
        return any(task is not None and not task.done() for task in (self._task, self._stopping))

    @property
    def active(self) -> bool:
        return self.machine is not None and self.machine.outcome is None

    def spent(self) -> tuple[Spent, Spent]:
        """What the thread's runs have used, and what its children have reported."""
        own = self._spent_before
        if self.machine is not None and self.active:
            own += self.machine.spent(now_ms())
        return own, sum(self._children.values(), NOTHING_SPENT)

    def children_spent(self) -> Spent:
        """What the children of this run have reported."""
        return self._children.get(self.n, NOTHING_SPENT)

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
        self._go_on(request)

    def _stage(self, draft: Draft, answers: Sequence[fx.Input]) -> fx.Request | None:
        """Feed the machine and stage all that follows; the effect that comes next."""
        machine = self.machine
        assert machine is not None
        for answer in answers:
            if machine.outcome is None:  # a tool's result may have ended the run before a cancel does
                machine.handle(answer)
        checkpoint_at: int | None = None
        request = self._poll(draft)
        while self._answer_at_once(draft, request):
            if isinstance(request, fx.Checkpoint):
                checkpoint_at = len(draft.events)
            request = self._poll(draft)
        self._prepare(draft, request)
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
        self._asker.committed(draft)
        self._feed.notify()
        self._on_commit(draft)

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
        if isinstance(request, fx.Checkpoint):  # whatever was sent to the run joins it here, if it can still answer
            last = self.machine.grace and request.kind == "before_completion"
            joining = () if last else records.take_inbox(self._store, draft)
            self.machine.handle(fx.CheckpointTaken(id=request.id, at=now_ms(), messages=joining))
        elif isinstance(request, fx.SyncSurface) and not (self._pipeline.shapes_calls or self._budget.is_set()):
            self._take_surface(draft, request, self._asker.plan(self._pipeline.tools))
        else:
            return False
        return True

    def _prepare(self, draft: Draft, request: fx.Request | None) -> None:
        """Stage what must be on disk before an effect begins."""
        match request:
            case fx.CallTools():
                self._batches.prepare(draft, request)
            case fx.Sleep(id=effect, until=until):
                records.set_timer(draft, records.sleep_timer(self.n, effect), until)

    def _go_on(self, request: fx.Request | None, *, recovering: bool = False) -> None:
        if recovering and isinstance(request, fx.CallTools) and not self._batches.recover(request, self.n):
            return
        if request is not None and not isinstance(request, fx.Sleep):
            self._request = request
        if not self.active and self._store.inbox_count:
            self._begin_with_inbox()
        self._start()

    def _begin_with_inbox(self) -> None:
        """Somebody spoke while the last run was ending: that starts the next. What only middleware said waits."""
        draft = self._store.draft(self.n + 1)
        messages = records.take_inbox(self._store, draft)
        if any(message.origin is None for message in messages):
            self.begin(draft, messages, None)

    def _start(self) -> None:
        busy = self._task is not None and not self._task.done()
        if self._request is not None and not busy and not self._held and self.error is None:
            self._task = asyncio.create_task(self._drive(), name=f"run {self.run_id}")

    def _close_run(self, draft: Draft, outcome: TurnOutcome) -> None:
        """The run has ended: call back the children, keep what was sent too late, and tell the parent."""
        at = now_ms()
        for child in records.children(draft, status="waiting"):
            records.end_child(draft, child.token, "canceled", None, at)
            records.drop_timer(draft, records.child_timer(child.token))
            records.send(draft, Cancel(to=child.thread))
            draft.events.insert(-1, events.subagent_completed(child.thread, "canceled", ""))  # before the run's own end
        if outcome == CANCELED:  # else the next run begins with what came too late for this one
            late = records.take_inbox(self._store, draft)
            draft.messages.extend(m.model_copy(update={"id": f"m{self.n}.late{i}"}) for i, m in enumerate(late, 1))
        records.drop_sleeps(draft)
        records.forget_all_calls(draft)
        assert self.machine is not None
        self._spent_before += self.machine.spent(at)
        records.save_spent(draft, self._spent_before)
        if self._thread.parent is not None and self.n == 1:
            own, children = self.spent()
            records.send(draft, report_of(self._thread, outcome, own + children))

    # Stopping.

    def fail(self, error: BaseException) -> None:
        """Give up this activation; the file stays as it was after the last commit."""
        if self.error is None:
            self.error = error
            self._feed.close()
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

    async def cancel(self) -> None:
        """End the run as canceled."""
        await self._stop(lambda: fx.RunCanceled(at=now_ms()))

    async def abort(self, error: AgencyError) -> None:
        """End the run as an error that is not the model's."""
        await self._stop(lambda: _aborted(error))

    async def _stop(self, ending: Callable[[], fx.Input]) -> None:
        """Stop the run once, however many ask for it, and see it through even if they go away."""
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.create_task(self._stop_now(ending), name=f"stop {self.run_id}")
        await asyncio.shield(self._stopping)

    async def _stop_now(self, ending: Callable[[], fx.Input]) -> None:
        run = self.n
        await self.hold()
        try:
            if self.active and self.n == run and self.error is None:
                self._end(ending())
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
        dropped = self._batches.drop(draft)
        self.advance(draft, *([dropped] if dropped else []), ending)

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
        draft, plan = self._store.draft(self.n), self._asker.plan(self._pipeline.tools)
        if self._budget.is_set() and (code := await self._budget.used_up(self.spent()[0])) is not None:
            if self._awaited(draft.run, request.id):
                self.advance(draft, fx.BudgetSpent(id=request.id, at=now_ms(), code=code))
            return
        await self._pipeline.plan(draft, self.run_id, plan)
        if self._awaited(draft.run, request.id):
            self._take_surface(draft, request, plan)
            self.advance(draft)

    def _take_surface(self, draft: Draft, request: fx.SyncSurface, plan: Plan) -> None:
        assert self.machine is not None
        at = now_ms()
        try:
            surface = self._asker.fix_surface(draft, plan)
        except ModelError as error:
            self.machine.handle(_aborted(error))
        else:
            children = self._children.get(self.n)
            self.machine.handle(fx.SurfaceSynced(id=request.id, at=at, surface=surface, children=children))

    async def _call_model(self, request: fx.CallModel) -> None:
        await asyncio.sleep(0)  # a model that never waits must not keep others from running, or from canceling it
        draft, stream = self._store.draft(self.n), self._feed.begin_text(self.n)
        answers: list[fx.Input] = []
        try:
            reply = await self._asker.reply(
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
            plan, mark = self._asker.plan(self._pipeline.tools), draft.mark()
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
            cost_usd=0.0 if error.usage is None else self._asker.cost(request.request, error.usage),
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
        output, refused = self._asker.judge(reply, self.machine.said)
        replied = fx.ModelReplied(
            id=request.id,
            at=now_ms(),
            reply=reply,
            ask=tuple(call for call in review.ask if call not in refused),
            seen_by=tuple(review.seen_by),
            cost_usd=self._asker.cost(request.request, reply.usage),
            output=output,
            refused=refused,
        )
        return [replied] if failed is None else [replied, failed]

    def _seconds_left(self) -> float | None:
        assert self.machine is not None
        remaining = self.machine.remaining_ms(now_ms())
        return None if remaining is None else remaining / 1000

    # Children and timers.

    def child_spent(self, draft: Draft, child: records.Child, spent: Spent) -> None:
        """A child tells what it has used; it does so once."""
        if child.spent is None:
            records.child_spent(draft, child.token, spent)
            self._children[child.run] = self._children.get(child.run, NOTHING_SPENT) + spent

    def child_ended(self, draft: Draft, child: records.Child, status: ChildStatus, report: str) -> None:
        """A child's run has ended, or its time has: that is the result of the call that started it."""
        records.end_child(draft, child.token, status, report, now_ms())
        records.drop_timer(draft, records.child_timer(child.token))
        draft.emit(events.subagent_completed(child.thread, status, report))
        outcome = call_outcome(status, report)
        if self._batches.take_report(draft, child, outcome):
            return
        pending = self._deferred_call(child)
        if pending is None:
            self.commit(draft)
            return
        emit_end(draft, pending, outcome)
        self.advance(draft, fx.CallSettled(id=child.effect, at=now_ms(), call_id=child.call, outcome=outcome))

    def _deferred_call(self, child: records.Child) -> PendingCall | None:
        state = self.machine.state if self.machine is not None and child.run == self.n else None
        if not isinstance(state, WaitingTools) or state.effect != child.effect:
            return None
        return next((call for call in state.deferred("child") if call.id == child.call), None)

    def timer_due(self, name: str) -> None:
        draft = self._store.draft(self.n)
        records.drop_timer(draft, name)
        kind, _, rest = name.partition(":")
        if kind == "sleep":
            run, effect = map(int, rest.split("."))
            if self._awaited(run, effect):
                self.advance(draft, fx.Woke(id=effect, at=now_ms()))
                return
        elif waiting := records.children(self._store, token=rest, status="waiting"):
            records.send(draft, Cancel(to=waiting[0].thread))
            self.child_ended(draft, waiting[0], "timed_out", "it did not end in time and was canceled")
            return
        self.commit(draft)

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
        failed_hook: HookFailed | None = None
        await self._pipeline.on_model_result(draft, self.run_id, fx.ModelReply(tool_calls=(call.call,)), review)
        self._check_code(run, effect)
        if not had_begun:
            begin(draft, effect, [call])
            self.commit(draft)
            draft = self._store.draft(run)
        if review.ask:
            outcome: CallOutcome = Failure(kind="permission_denied", source="policy", message=NOT_FROM_CODE)
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
