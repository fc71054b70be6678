"""The driver: performs what the turn machine asks for, and commits what comes of it.

One idea holds it together. A run changes only in `advance`, which never awaits: it feeds the machine, stages all that
follows, commits once, publishes what was committed and notes the next effect. Whatever takes time (models, tools,
hooks) is done outside, on drafts of its own, and then checks that the run still waits for its answer. So calls from
outside need no lock, and a crash finds the file between two answers.

The parts of it own what is theirs: `EffectLoop` the task that performs effects, `ModelEffects`, `BatchRunner` and
`CodeExecutor` how each kind is performed, `Stopping` a run that is being stopped, `RunEndings` one that has ended,
`Timers` what happens later, `Family` the children. All of them ask the `CurrentRun`, and change it by `advance` alone.

If anything in that fails, the machine in memory may be ahead of the file, so the driver stops for good; the file is
right, and opening it again carries on from there.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence

from pydantic_core import from_json, to_json

from agency import events
from agency.approvals.deadlines import ApprovalDeadline
from agency.children.family import Family
from agency.children.person_waits import PersonWaits
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.code import CodeRunner
from agency.define.options import NO_OPTIONS, RunOptions
from agency.errors import AgencyError, HookFailed, StoreError
from agency.messages import Message
from agency.metadata import ThreadMetadata
from agency.runtime import Runtime
from agency.spending import NOTHING_SPENT, Spent
from agency.store import records
from agency.store.details import keep_detail
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import Timer, set_timer
from agency.thread.asides import Asides
from agency.thread.batches import BatchRunner, emit_end, unfinished_batch
from agency.thread.calls import CallRunner
from agency.thread.code_execution import CodeExecutor
from agency.thread.current_run import CurrentRun
from agency.thread.effect_loop import EffectLoop
from agency.thread.feed import Feed
from agency.thread.inbox import RunTerms, starts_run, terms_of
from agency.thread.model_calls import ModelCaller
from agency.thread.model_effects import ModelEffects
from agency.thread.outside import Outside
from agency.thread.pipeline import Pipeline
from agency.thread.run_endings import RunEndings, aborted_by
from agency.thread.stopping import Stopping
from agency.thread.timers import Timers
from agency.thread.views import status_of
from agency.turn import effects as fx
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import Settled, TurnOutcome
from agency.turn.state import WaitingTools


class Driver:
    def __init__(
        self,
        store: ThreadStore,
        pipeline: Pipeline,
        caller: ModelCaller,
        calls: CallRunner,
        feed: Feed,
        thread: ThreadMetadata,
        blueprint: Blueprint,
        code_runner: CodeRunner | None,
        runtime: Runtime,
        on_commit: Callable[[Draft], None],
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._caller = caller
        self._feed = feed
        self._thread = thread
        self._blueprint = blueprint
        self._on_commit = on_commit
        self._ceiling = runtime.ceiling
        self._deadline = ApprovalDeadline()
        self.error: BaseException | None = None
        """Why this activation can no longer be used."""
        commit, advance = self.commit, self.advance
        self.run = run = CurrentRun(store)
        self.family = family = Family(store, self._settle_call, self.take)
        self.person_waits = PersonWaits(store, thread)
        self._loop = loop = EffectLoop(run, self._perform, self.fail)
        self._batches = BatchRunner(
            store, run, loop, pipeline.tools, pipeline.type_of, calls, commit, self._batch_ended
        )
        self._code = CodeExecutor(store, run, loop, pipeline, calls, code_runner, commit, advance)
        self._endings = RunEndings(store, run, thread, pipeline, family, commit, self.fail)
        self._models = ModelEffects(
            store, run, thread, pipeline, caller, feed, family, self._endings, runtime, advance, commit
        )
        budget, alive = self._models.used_up_budget, lambda: self.error is None
        pipeline.asks = calls.asks = Asides(store, run, caller, budget, advance, alive)
        self.stopping = Stopping(store, run, loop, self._batches, family, self._models.used, advance)
        self.outside = calls.tokens = Outside(store, run, thread, self._batches, self._settle_call, commit)
        self.timers = Timers(store, run, family, self.outside, commit, advance, pipeline, self.take)

    @property
    def performing(self) -> bool:
        """Whether a model, a tool or a hook is at work for the run, or the run is being stopped."""
        return self._loop.busy or self.stopping.busy or self._endings.busy or self.timers.busy

    @property
    def compacting(self) -> bool:
        """Whether middleware are making room for a conversation that is too long."""
        return self._models.compacting

    def spent(self) -> tuple[Spent, Spent]:
        """What the thread's runs have used, and what its children have reported."""
        return self._endings.spent(), self.family.spent()

    def report_late(self, draft: Draft) -> None:
        """Tell the parent what a child of ours has used that reported late."""
        self._endings.report_late(draft)

    def children_spent(self) -> Spent:
        """What the children of this run have reported."""
        return self.family.spent_in(self.run.n) or NOTHING_SPENT

    # Beginning.

    def take_up(self) -> None:
        """Carry on from what the file says."""
        stored = records.last_run(self._store)
        if stored is None:
            return
        self.run.enter(stored.n, TurnMachine(stored.checkpoint, self._blueprint.mode))
        self._caller.output = None if stored.output is None else from_json(stored.output)
        if stored.options is not None and self.run.active:
            draft = self.run.draft()
            if self._use(draft, RunOptions.model_validate_json(stored.options)):
                self.commit(draft)
        self._caller.load_surface()
        self._endings.tell()
        unfinished = False
        if (state := self.run.waiting_tools) is not None:
            unfinished = self._batches.found(state)
            self._deadline.found(Timer("approval", stored.n, state.effect))
        if self.run.at_work and not self._loop.stopped:
            self._note_recovery(state)
        if self.run.active and self.run.interruptible and records.is_interrupted(self._store):
            self.stopping.interrupt_now()
        elif state is not None and unfinished and self.run.pause_requested:
            self._batches.recover(unfinished_batch(state))
        else:
            self._hand_out_again()
        self.family.look(self.run.n)

    def _note_recovery(self, batch: WaitingTools | None) -> None:
        """The run was at work when its process went away. What is told of that is committed before it goes on."""
        recovered = fx.RunRecovered(
            at=now_ms(),
            why="stopped" if records.was_left(self._store) else "died",
            last_at=records.last_event_at(self._store),
            activation=self._store.epoch,
            again=() if batch is None else self._batches.to_run_again(batch),
        )
        self.run.machine.handle(recovered)
        self._code.recovered = recovered.why

    def _hand_out_again(self) -> None:
        """Have the machine hand out the effect that it was waiting for."""
        draft = self.run.draft()
        request = self._poll(self.run.machine, draft)
        if draft:  # what was being done when a person paused the run begins no more
            self._save(self.run.machine, draft)
            self.commit(draft)
        self._go_on(request)

    def check_options(self, options: RunOptions, *, handed_down: bool) -> None:
        """Refuse options that a run cannot have here. Those of a parent's run, handed down, need not concern it."""
        self._caller.check_options(options, handed_down=handed_down)
        if options.tools is not None and not handed_down:
            self._pipeline.check_tools(options.tools)

    def begin(self, draft: Draft, messages: Sequence[Message], terms: RunTerms) -> None:
        """Start a new run. What the terms say takes the place of the blueprint's."""
        at = now_ms()
        schema = self._caller.output = self._blueprint.output_schema if terms.output is None else terms.output
        self._use(draft, terms.options)
        self._pipeline.risk.warn(draft)
        machine = TurnMachine.begin(
            run=draft.run,
            at=at,
            position=self._store.message_count,
            messages=messages,
            limits=self._ceiling().over(terms.limits or self._blueprint.limits),
            mode=self._blueprint.mode,
        )
        self.run.enter(draft.run, machine)
        options = None if terms.options == NO_OPTIONS else to_json(terms.options)
        records.add_run(draft, draft.run, at, None if schema is None else to_json(schema), options)
        self.advance(draft)

    def _use(self, draft: Draft, options: RunOptions) -> bool:
        """Whether it warns of options that this code does not take."""
        self._caller.options = options
        wrong = self._pipeline.use_options(options)
        for each in wrong:
            draft.warn("options_left_out", f"{each}; the code has changed since, and the run has the defaults")
        return bool(wrong)

    def take(self, draft: Draft) -> None:
        """Commit what has come from outside; a message may start a run."""
        self.commit(draft)
        self._go_on(None)

    def _begin_with_inbox(self) -> None:
        """Start the next run, if something in the inbox is a reason to; if not, it waits there."""
        draft = self._store.draft(self.run.n + 1)
        posted = records.take_inbox(self._store, draft, next_run=True)
        if starts_run(self._thread, posted):
            self.begin(draft, [post.message for post in posted], terms_of(posted))

    # The one place where a run changes.

    def advance(self, draft: Draft, answers: Iterable[fx.Input] = ()) -> None:
        """Feed the machine, commit all that follows, and go on. Never awaits.

        `answers` may be a generator: each answer is asked for when the machine has taken the one before.
        """
        try:
            request = self._stage(draft, answers)
        except BaseException as error:
            self.fail(error)
            raise
        self.commit(draft)
        if not self.run.active and self._pipeline.sees_runs_end:
            self._endings.tell(self.run.n)
        self._go_on(request)

    def _stage(self, draft: Draft, answers: Iterable[fx.Input]) -> fx.Request | None:
        """Feed the machine and stage all that follows; the effect that comes next."""
        machine = self.run.machine
        checkpoint_at: int | None = None
        for answer in answers:
            if isinstance(answer, fx.CheckpointTaken):
                checkpoint_at = len(draft.events)
            if machine.outcome is None:  # a tool's result may have ended the run before a cancel does
                if isinstance(answer, fx.RunAborted) and answer.stack:
                    keep_detail(draft, "run", "", {"traceback": answer.stack})
                machine.handle(answer)
        request = self._poll(machine, draft)
        while (at_once := self._answer_at_once(draft, request)) is not None:
            if isinstance(request, fx.Checkpoint):
                checkpoint_at = len(draft.events)
            machine.handle(at_once)
            request = self._poll(machine, draft)
        self._prepare(draft, request)
        if self.person_waits.concern_others:
            self._tell_parent(draft, machine)
        self._deadline.keep(draft, self.run.n, machine.state if machine.pause_reason == "hitl" else None)
        stored = self._save(machine, draft)
        if checkpoint_at is not None:
            digest = hashlib.blake2b(stored, digest_size=8).hexdigest()
            draft.events.insert(checkpoint_at, events.checkpoint_saved(digest, len(stored)))
        return request

    def _tell_parent(self, draft: Draft, machine: TurnMachine) -> None:
        """A parent knows whether its child waits for a person, from the commit in which the child does."""
        if machine.outcome is None and machine.pause_reason in ("hitl", "exhausted", "manual"):
            state = self.run.waiting_tools
            asked = state.deferred("approval") if state is not None else []
            self.person_waits.pause(draft, machine.pause_reason, asked[0].id if asked else None)
        else:
            self.person_waits.go_on(draft)
        self.person_waits.forget_ended(draft)

    def _save(self, machine: TurnMachine, draft: Draft) -> bytes:
        """Stage the machine as it is now."""
        stored = machine.dump()
        records.save_run(draft, self.run.n, status_of(machine), stored)
        return stored

    def commit(self, draft: Draft) -> None:
        """Write a draft, then tell readers and observers. If it cannot be written, this activation is over."""
        try:
            self._store.commit(draft)
        except BaseException as error:
            self.fail(error)
            raise
        self._caller.committed(draft)
        self._store.when_durable(self._feed.notify)
        if draft.sets_timer:
            self.timers.schedule()
        self._on_commit(draft)
        if draft.ends_children:
            asyncio.get_running_loop().call_soon(self._children_changed)

    def _children_changed(self) -> None:
        """Complete the calls that waited for these children."""
        if self.error is None and not self._store.closed:
            self.family.look(self.run.n)

    def _poll(self, machine: TurnMachine, draft: Draft) -> fx.Request | None:
        """Stage the machine's notices; the effect that wants an answer, if there is one."""
        while (effect := machine.poll()) is not None:
            match effect:
                case fx.Emit(event=event):
                    draft.emit(event)
                case fx.EmitWarning(kind=kind, message=message):
                    draft.warn(kind, message)
                case fx.Progress(messages=messages):
                    draft.messages.extend(messages)
                case fx.Done(outcome=outcome):
                    fits = self._caller.output is not None
                    self._endings.close(draft, outcome, fits_schema=fits, drops_queue=self.stopping.drops_queue)
                case fx.CancelModel():
                    pass  # the effect loop was stopped before the machine was told
                case _:
                    return effect
        return None

    def _answer_at_once(self, draft: Draft, request: fx.Request | None) -> fx.Input | None:
        """The answer to an effect that needs no hook, model or tool: it becomes part of the same transaction."""
        match request:
            case fx.Checkpoint() if not self._pipeline.ends_turns:
                return self._taken(draft, request)
            case fx.SyncSurface():
                return self._models.surface_at_once(draft, request)
            case _:
                return None

    def _taken(self, draft: Draft, request: fx.Checkpoint, stop: TurnOutcome | None = None) -> fx.CheckpointTaken:
        """Whatever was sent to the run joins it at a checkpoint, if the model can still answer it."""
        last = stop is not None or (self.run.machine.grace and request.kind == "before_completion")
        joining = () if last else records.take_inbox(self._store, draft)
        said = tuple(post.message for post in joining)
        return fx.CheckpointTaken(id=request.id, at=now_ms(), messages=said, stop=stop)

    def _prepare(self, draft: Draft, request: fx.Request | None) -> None:
        """Stage what must be on disk before an effect begins."""
        match request:
            case fx.CallTools():
                self._batches.prepare(draft, request)
            case fx.Sleep(id=effect, until=until):
                set_timer(draft, Timer("sleep", self.run.n, effect), until)

    def _go_on(self, request: fx.Request | None) -> None:
        """Have the next effect performed; once a run has ended, begin the next with what is in the inbox."""
        if (
            isinstance(request, fx.CallTools)
            and self._batches.is_unfinished(request)
            and not self._batches.recover(request)
        ):
            return  # nothing of it was left to run: its answer was fed, and the run has gone on with that
        if request is not None and not isinstance(request, fx.Sleep):
            self._loop.follow(request)
        if not self.run.active and self._store.inbox_count:
            self._begin_with_inbox()
        self._loop.start()

    # Performing effects, outside of `advance`.

    async def _perform(self, request: fx.Request) -> None:
        run = self.run.n
        await self._store.durable()  # whatever is performed follows from what is on disk
        try:
            match request:
                case fx.SyncSurface():
                    await self._models.sync_surface(request)
                case fx.CallModel():
                    await self._models.call_model(request)
                case fx.CallTools():
                    await self._batches.perform(self.run.seconds_left)
                case fx.ExecCode():
                    await self._code.perform(request)
                case fx.Checkpoint():
                    await self._end_turn(request)
                case _:
                    raise AssertionError(f"{request!r} is not performed here")
        except StoreError:
            raise
        except Exception as error:  # a run ends with a code, whatever happens
            if self.error is None and self.run.awaits(run, request.id):
                self.advance(self._store.draft(run), [aborted_by(error)])

    async def _end_turn(self, request: fx.Checkpoint) -> None:
        draft = self.run.draft()
        stop = await self._pipeline.on_turn_end(draft, self.run.id)
        if self.run.awaits(draft.run, request.id):
            self.advance(draft, [self._taken(draft, request, stop)])

    def _batch_ended(self, draft: Draft, answer: fx.ToolsAnswered, failed_hook: HookFailed | None) -> None:
        self.advance(draft, [answer] if failed_hook is None else [answer, aborted_by(failed_hook)])

    def _settle_call(self, draft: Draft, run: int, effect: int, call: str, outcome: Settled) -> None:
        """A call that waits for children, or for the outside, has its result."""
        if self._batches.take_result(draft, run, effect, call, outcome):
            return
        pending = self.run.awaits_call(run, effect, call)
        if pending is None:
            self.commit(draft)
            return
        emit_end(draft, pending, outcome)
        self.advance(draft, [fx.CallSettled(id=effect, at=now_ms(), call_id=call, outcome=outcome)])

    # Ending this activation.

    def check_alive(self) -> None:
        """Raise what has ended this activation, if something has."""
        if self.error is not None:
            raise self.error

    def fail(self, error: BaseException) -> None:
        """Give up this activation; the file stays as it was after the last commit."""
        if self.error is None:
            self.error = error
            self._feed.close()
        self._endings.stop()
        self._loop.close()

    async def stop(self) -> None:
        """Stop what is being performed and begin nothing new. Finished calls have their results; others have none."""
        await self._loop.stop()

    def give_up(self, error: AgencyError) -> None:
        """Take up the run only to end it as an error: nothing of it is performed."""
        self._loop.stopped = True
        self.take_up()
        if self.run.active:
            self.stopping.end_now(aborted_by(error))
