"""A thread that is awake: what its users call. The work itself is the driver's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import JsonValue, TypeAdapter

from agency import events
from agency.approvals.always import approve_always
from agency.approvals.decisions import Decided, as_decisions, checked_decisions
from agency.approvals.pending import pending_approvals
from agency.approvals.rules import NO_POLICY, Policy
from agency.children import outbox, rows
from agency.children.parcels import AnyParcel, Cancel, Note, Report
from agency.clock import now_ms
from agency.define.blueprint import Blueprint, chain_of
from agency.define.context import ToolContext
from agency.define.hooks import ChildReport
from agency.define.output import OutputType
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import AgencyError, HookFailed, InvalidInput, NotFound, WrongState
from agency.events import Event, EventType, NewEvent
from agency.messages import Message, ToolCall
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.redaction import shown
from agency.runtime import Runtime, ThreadProgress
from agency.spending import Spent
from agency.store import records
from agency.store.draft import Draft, When
from agency.store.forking import OWN_EVENTS
from agency.store.run_so_far import run_so_far
from agency.store.sqlite import LOCAL, Storage
from agency.store.store import ThreadStore, run_id
from agency.store.timers import next_due
from agency.thread.calls import CallRunner
from agency.thread.driver import Driver
from agency.thread.feed import Feed, Reader
from agency.thread.files import delete_file, file_sizes, keep_files, keeps_files, read_file
from agency.thread.inbox import AGENT_ORIGIN, RunTerms
from agency.thread.invocation import Invocation, checked_invocation, checked_key
from agency.thread.model_calls import ModelCaller
from agency.thread.pipeline import Pipeline
from agency.thread.postman import Postman
from agency.thread.views import (
    AGENCY_BUDGET,
    Accepted,
    AcceptedStatus,
    FileInfo,
    RunEnvelope,
    RunState,
    RunStatus,
    ThreadState,
    envelope,
    status_of,
)
from agency.turn import effects as fx
from agency.turn.outcomes import Approve, CallOutcome, Decision, Deny
from agency.turn.state import Limits, WaitingTools
from agency.validation import valid

log = logging.getLogger(__name__)

SPENDING = frozenset(
    {
        EventType.MODEL_COMPLETED,
        EventType.SUBAGENT_COMPLETED,
        EventType.RUN_PAUSED,
        EventType.RUN_CANCELED,
        EventType.AGENT_COMPLETED,
        EventType.AGENT_ERROR,
    }
)
"""The events after which a thread has used more than before."""


class Thread:
    """Open one with `agency.open_thread` or `agency.LocalRuntime`."""

    def __init__(
        self, store: ThreadStore, system: AgentSystem, runtime: Runtime, metadata: ThreadMetadata, blueprint: Blueprint
    ) -> None:
        self.metadata = metadata
        self.blueprint = blueprint
        self._store = store
        self._system = system
        self._runtime = runtime
        agents = runtime.agents()
        middleware, tools = system.middleware_for(blueprint), system.tools_for(blueprint)
        self._pipeline = Pipeline(middleware, tools, metadata, blueprint, agents, runtime.policy)
        self._feed = Feed(store)
        caller = ModelCaller(store, system, blueprint, runtime.providers)
        runner = CallRunner(store, self._pipeline, metadata, blueprint, runtime, agents, caller.offered)
        self._driver = Driver(
            store,
            self._pipeline,
            caller,
            runner,
            self._feed,
            metadata,
            blueprint,
            system.code_runner,
            RuntimeBudget(runtime, metadata),
            self._committed,
        )
        self._spent: tuple[Spent, Spent] | None = None
        self._postman = Postman(store, runtime, self._driver.commit)

    @classmethod
    async def open(
        cls,
        path: Path,
        system: AgentSystem,
        runtime: Runtime,
        *,
        create: tuple[ThreadMetadata, Blueprint] | None = None,
        storage: Storage = LOCAL,
        check: Callable[[Blueprint], None] | None = None,
    ) -> Thread:
        """Wake a thread, or create it, and carry on with whatever it was doing.

        `check` may refuse its blueprint, by raising, before anything of it runs.
        """
        rows, tables = None, None
        if create is not None:
            system.check(create[1], runtime.providers())
            tables = _tables(system, create[1])
            rows = {
                "thread_id": create[0].id,
                "metadata": create[0].model_dump_json(),
                "blueprint": create[1].model_dump_json(),
            }
        store = ThreadStore.open(path, create=rows, tables=tables, storage=storage)
        try:
            thread = cls._of(store, system, runtime)
            if check is not None:
                check(thread.blueprint)
            store.prepare_tables(_tables(system, thread.blueprint))
            await thread._wake()
        except BaseException:
            system.observers.left(store.thread_id)
            store.close()
            raise
        return thread

    @classmethod
    async def park(cls, path: Path, system: AgentSystem, error: AgencyError, *, storage: Storage = LOCAL) -> None:
        """End the run of a thread that cannot be woken, as an error. Nothing of its agent's is run for that."""
        store = ThreadStore.open(path, storage=storage)
        try:
            thread = cls._of(store, system, _Nowhere())
        except BaseException:
            store.close()
            raise
        try:
            thread._show()
            thread._driver.give_up(error)
        finally:
            await thread.close()

    @classmethod
    def _of(cls, store: ThreadStore, system: AgentSystem, runtime: Runtime) -> Thread:
        metadata = ThreadMetadata.model_validate_json(str(store.meta("metadata")))
        blueprint = Blueprint.model_validate_json(str(store.meta("blueprint")))
        return cls(store, system, runtime, metadata, blueprint)

    def _show(self) -> None:
        """Let observers know how far a run in progress has got, before it goes on."""
        if self._system.observers.follow and (run := run_so_far(self._store)) is not None:
            self._system.observers.resumed(self.metadata, run)

    async def _wake(self) -> None:
        self._show()
        draft = self._store.draft()
        if self._store.last_seq == 0:
            draft.emit(events.thread_created(self.metadata.agent_type))
        await self._pipeline.on_init(draft)
        if draft:
            self._driver.commit(draft)
        self._driver.resume()
        self._postman.start()
        self._driver.timers.schedule()

    def introduce(self) -> None:
        """Tell of a fork that has done nothing yet: its first events came with its file, and nobody has been told."""
        origin = self.metadata.forked_from
        if origin is None or self._store.last_seq > origin.seq + OWN_EVENTS:
            return
        (created,) = self._store.events(after=origin.seq, limit=1)
        told = [NewEvent(created.type, created.data)]
        self._tell(told)
        if observers := self._system.observers:
            observers.tell(self.metadata, 0, origin.seq + 1, now_ms(), told)

    @property
    def id(self) -> str:
        return self.metadata.id

    @property
    def alive(self) -> bool:
        """Whether this activation can still be used; if not, open the thread again."""
        return self._driver.error is None

    @property
    def idle(self) -> bool:
        """Whether nothing is being done just now: it may be closed, and goes on when opened again, at `wake_at` if set.

        A run may be in progress: one that waits for a person, a child or a timer.
        """
        return not self.alive or not (self._driver.performing or self._postman.busy)

    @property
    def wake_at(self) -> int | None:
        """When the next timer is due."""
        return next_due(self._store)

    @property
    def at_rest(self) -> bool:
        """Whether there is nothing left to do here: no run at work, nothing to deliver, no timer."""
        if not self.alive:
            return True
        return not (self._busy() or outbox.parcels(self._store) or next_due(self._store) is not None)

    async def rest(self) -> None:
        """Return when it is at rest."""
        while not self.at_rest:
            await self._feed.wait()

    # Changing it.

    async def send(
        self,
        message: str | Message | Sequence[Message],
        *,
        idempotency_key: str | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: OutputType | None = None,
        when: When = "next_step",
    ) -> Accepted:
        """Start a run with a message. During a run, the message joins it at its next step; with `when="next_run"` it
        starts the run after it; with `when="now"` it interrupts it: the model or the tools that are at work are
        stopped, finished calls keep their results, and the run goes on with the message.

        With an `idempotency_key`, sending again gives the first answer and does nothing. `limits` and `output_schema`
        (a pydantic model or a JSON schema) replace the blueprint's for a run that this starts. `files`, text by path,
        are there when the message is.
        """
        self._check_alive()
        invocation = checked_invocation(
            message,
            idempotency_key=idempotency_key,
            limits=limits,
            files=files,
            output_schema=output_schema,
            when=when,
        )
        return await self.accept(invocation)

    async def accept(self, invocation: Invocation) -> Accepted:
        """Take what `send` takes, checked already."""
        self._check_alive()
        handed_in = await self._with_files(invocation.files) if invocation.files else self._store.draft()
        key, when = invocation.idempotency_key, invocation.when
        if key is not None and (known := records.request(self._store, key)) is not None:
            return Accepted.model_validate({"run_id": run_id(self.id, known[0]), "status": known[1]})
        joins = self._driver.run.active
        draft = self._store.draft(self._driver.run.n if joins else self._driver.run.n + 1)
        draft.statements += handed_in.statements
        draft.emit(events.request_accepted(key))
        waits = joins and when == "next_run"
        run = draft.run + waits
        status: AcceptedStatus = "queued" if waits else self._status() if joins else "running"
        if key is not None:
            records.remember_request(draft, key, status, run)
        if joins:
            given = RunTerms(limits=invocation.limits, output=invocation.output_schema)
            terms = given.model_dump_json() if waits else None
            for message in invocation.messages:
                draft.post(message, when, terms)
            self._driver.commit(draft)
            if when == "now" and self._driver.run.interruptible:
                await self._driver.stopping.interrupt()
        else:
            self._driver.begin(draft, invocation.messages, invocation.limits, invocation.output_schema)
        return Accepted(run_id=run_id(self.id, run), status=status)

    async def put_files(self, files: Mapping[str, str | bytes]) -> None:
        """Give the agent files, by path, in the place of those it has under these paths."""
        self._check_alive()
        given = valid(_FILES, dict(files), "files")
        self._driver.commit(await self._with_files(given))

    async def delete_file(self, path: str) -> None:
        """Take a file from the agent."""
        self._check_alive()
        draft = self._store.draft()
        there = await delete_file(self._pipeline, draft, path)
        self._check_alive()
        if not there:
            raise NotFound(f"thread {self.id} has no file {path!r:.200}")
        self._driver.commit(draft)

    async def _with_files(self, files: Mapping[str, str | bytes]) -> Draft:
        self._check_alive()
        draft = self._store.draft()
        await keep_files(self._pipeline, draft, files)
        self._check_alive()
        return draft

    async def decide(self, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None) -> None:
        """Answer calls that wait for a person, by their ids. Calls that are not named go on waiting.

        A call's `approval_id` names it with exactly its arguments: if they are others by now, or somebody else has
        answered, nothing changes and `WrongState` is raised. With an `idempotency_key`, deciding again changes nothing.
        """
        given = as_decisions(decisions)
        idempotency_key = checked_key(idempotency_key)
        if self._is_known(idempotency_key):
            return
        decided = self._checked_decisions(given)
        draft = self._driver.run.draft()
        answered = (self._driver.run.n, decided.effect)
        await self._run_hooks(self._pipeline.on_resume(draft, self._driver.run.id, "hitl", decided.decisions))
        if self._is_known(idempotency_key):  # the same request came twice, and the other one was quicker
            return
        decided = self._checked_decisions(given)
        if (self._driver.run.n, decided.effect) != answered:  # while the hooks ran, that run ended and another one asks
            raise WrongState(f"the calls that were to be decided on no longer wait in thread {self.id}")
        if idempotency_key is not None:
            records.remember_request(draft, idempotency_key, "running")
        if decided.always:
            approve_always(draft, decided.always)
        answer = fx.CallsDecided(id=decided.effect, at=now_ms(), decisions=decided.decisions)
        self._driver.advance(draft, [answer])

    def _is_known(self, idempotency_key: str | None) -> bool:
        return idempotency_key is not None and records.request(self._store, idempotency_key) is not None

    async def approve(self, *, idempotency_key: str | None = None) -> None:
        """Let every call that waits for a person run."""
        await self.decide({call.id: Approve() for call in self._waiting()}, idempotency_key=idempotency_key)

    async def deny(self, reason: str = "", *, idempotency_key: str | None = None) -> None:
        """Let no call that waits for a person run; the model is told why."""
        decisions: dict[str, Decision] = {call.id: Deny(reason=reason) for call in self._waiting()}
        await self.decide(decisions, idempotency_key=idempotency_key)

    async def cancel(self) -> None:
        """End the run. Running models and tools are stopped, children too; every call gets a result. Without a run,
        children that work in the background are called back."""
        self._check_alive()
        if self._driver.run.active:
            await self._driver.stopping.cancel()
            self._check_alive()
        elif self._driver.family.at_work:
            draft = self._driver.run.draft()
            self._driver.family.call_back(draft)
            self._driver.commit(draft)
        else:
            raise WrongState(f"thread {self.id} has no run in progress")

    async def pause(self) -> None:
        """Have the run wait until somebody resumes it. What is being done just now may end; nothing new begins."""
        self._check_alive()
        machine = self._driver.run._machine
        if machine is None or machine.outcome is not None:
            raise WrongState(f"thread {self.id} has no run in progress")
        if machine.pause_requested:
            raise WrongState(f"the run of thread {self.id} is paused already")
        self._driver.advance(self._driver.run.draft(), [fx.PauseRequested(at=now_ms())])

    async def resume(self) -> None:
        """Let a run go on that was paused by hand."""
        draft = self._driver.run.draft()
        self._check_held(draft.run)
        await self._run_hooks(self._pipeline.on_resume(draft, self._driver.run.id, "manual", {}))
        self._check_held(draft.run)
        self._driver.advance(draft, [fx.ResumeRequested(at=now_ms())])

    def _check_held(self, run: int) -> None:
        self._check_alive()
        machine = self._driver.run._machine
        if machine is None or machine.outcome is not None or not machine.pause_requested or run != self._driver.run.n:
            raise WrongState(f"the run of thread {self.id} was not paused by hand")

    async def lift_limits(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Let a run that has used up a limit go on, under these new ones."""
        if any(value is not None and not value > 0 for value in (turns, time_ms, tokens, cost_usd)):
            raise InvalidInput("limits are positive numbers")
        self._check_exhausted(self._driver.run.n)
        if self._waits_for_agency():
            raise WrongState(f"the budget of agency {self.metadata.agency_id} is used up: raise that")
        machine = self._driver.run._machine
        if cost_usd is not None and machine is not None and machine.exhausted_by == "ERR_COST_UNKNOWN":
            raise InvalidInput("what the run costs is not known: lift its limit without a new one, or give the price")
        lifted = fx.LimitsLifted(at=now_ms(), turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
        if machine is not None and not machine.lifts(lifted):
            raise InvalidInput(f"the run would stop at once, as {machine.exhausted_by}: give it more than it has used")
        await self._resume_exhausted(turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)

    async def budget_lifted(self) -> None:
        """Go on, if it was the agency's budget that was used up; else nothing changes."""
        self._check_alive()
        if self._waits_for_agency():
            await self._resume_exhausted()

    def _waits_for_agency(self) -> bool:
        machine = self._driver.run._machine
        return machine is not None and (machine.exhausted_by or "").startswith(AGENCY_BUDGET)

    async def _resume_exhausted(
        self,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        draft = self._driver.run.draft()
        await self._run_hooks(self._pipeline.on_resume(draft, self._driver.run.id, "exhausted", {}))
        self._check_exhausted(draft.run)
        lifted = fx.LimitsLifted(at=now_ms(), turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
        self._driver.advance(draft, [lifted])

    async def receive(self, parcel: Report | Cancel | Note) -> None:
        """Take what another thread sent. Taking it again does nothing."""
        self._check_alive()
        match parcel:
            case Cancel():
                run = self._driver.run
                if run.active and run.n == 1:  # the run that the parent started, and no later one
                    await self._driver.stopping.cancel(drops_queue=True)
            case Report():
                await self._child_reported(parcel)
            case Note():
                self._take_note(parcel)

    def _take_note(self, note: Note) -> None:
        key = f"{events.OURS}note:{note.key}"
        if note.family != self.metadata.family or records.request(self._store, key) is not None:
            return
        draft = self._driver.run.draft()
        records.remember_request(draft, key, self._status())
        said = f"Message from {note.agent_type} ({note.sender}):\n\n{note.text}"
        draft.post(Message(role="user", content=said, origin=AGENT_ORIGIN))
        self._driver.take(draft)

    async def _child_reported(self, report: Report) -> None:
        draft = self._driver.run.draft()
        told = ChildReport(thread_id=report.thread_id, token=report.token, status=report.status, report=report.report)
        failed: HookFailed | None = None
        if self._waits_for(report.token):
            try:
                await self._pipeline.on_child_report(draft, self._driver.run.id, told)
            except HookFailed as error:  # the report stands all the same
                draft, failed = self._driver.run.draft(), error
        said = report.report
        if report.files and keeps_files(self._pipeline) and self._waits_for(report.token):
            said += await self._keep_files(draft, report.files)
        known = rows.children(self._store, token=report.token)
        waiting = [child for child in known if child.status == "waiting"]
        if not waiting:  # nor is what the hooks made of it
            draft = self._driver.run.draft()
        if known and report.spent is not None:
            self._driver.family.report_spent(draft, known[0], report.spent)
        if waiting:
            self._driver.family.ended(draft, waiting[0], report.status, said)
            if failed is not None and self._driver.run.active and self._driver.run.n == waiting[0].run:
                await self._driver.stopping.abort(failed)
        elif draft:  # it was no longer waited for, but it has used something
            self._driver.commit(draft)
            self._spent = None
            self._tell(())

    def _waits_for(self, token: str) -> bool:
        return bool(rows.children(self._store, token=token, status="waiting"))

    async def _keep_files(self, draft: Draft, files: Mapping[str, str]) -> str:
        """Take the files that a child hands back; what its report says of them."""
        mark = draft.mark()
        try:
            await keep_files(self._pipeline, draft, files)
        except AgencyError as error:  # the report stands all the same
            draft.undo(mark)
            return f"\n\n(The files that it handed back could not be kept: {error})"
        return f"\n\n(Files handed back: {', '.join(files)})"

    def doze(self, after: float) -> None:
        """Let go of its file if it has not been used for so many seconds; the next use opens it again."""
        if time.monotonic() - self._store.used >= after:
            self._store.doze()

    # Looking at it.

    def events(self, after: int = 0, *, follow: bool = True) -> AsyncIterator[Event]:
        """Every event after a seq, then those to come until the thread is closed, unless `follow` is False."""
        return self._feed.read(after, follow=follow)

    def reader(self, after: int = 0) -> Reader:
        """A place in the events, for those who read many threads at once."""
        return Reader(self._feed, after)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever a reader may find something new. Returns what ends that."""
        return self._feed.listen(listener)

    async def wait(self, timeout: float | None = None) -> RunEnvelope:
        """Wait until the run has ended or needs a person, at most `timeout` seconds; the run as it is then."""
        try:
            async with asyncio.timeout(timeout):
                while self._busy():
                    await self._feed.wait()
        except TimeoutError:
            pass
        self._check_alive()
        return self.run()

    def run(self) -> RunEnvelope:
        """The latest run, as it is now."""
        self._check_alive()
        stored = records.last_run(self._store)
        if stored is None:
            raise NotFound(f"thread {self.id} has not run yet")
        return envelope(self.metadata, stored, self._pipeline.tools, self._driver.children_spent())

    def run_state(self) -> RunState:
        machine = self._driver.run._machine
        if machine is None:
            return RunState()
        return RunState(
            run_id=self._driver.run.id, status=status_of(machine), step=machine.turn, reason=machine.pause_reason
        )

    async def state(self) -> ThreadState:
        """The thread and its latest run, both as they are after the same commit."""
        self._check_alive()
        more = await self._pipeline.state(self._store.draft())
        return ThreadState(  # nothing is awaited from here on, so messages and run agree
            messages=tuple(_for_people(message, self._pipeline.tools) for message in self._store.messages()),
            tools=tuple(tool.spec for tool in self._pipeline.tools.values()),
            thread=self.metadata,
            run=self.run_state(),
            model=chain_of(self.blueprint.model or self._system.default_model)[0].model,
            more=more,
        )

    async def files(self) -> tuple[FileInfo, ...]:
        """The agent's files, by path."""
        self._check_alive()
        kept = await file_sizes(self._pipeline, self._store.draft())
        return tuple(FileInfo(path=path, size=size) for path, size in sorted(kept.items()))

    async def read_file(self, path: str) -> bytes:
        self._check_alive()
        content = await read_file(self._pipeline, self._store.draft(), path)
        if content is None:
            raise NotFound(f"thread {self.id} has no file {path!r:.200}")
        return content

    # Ending.

    async def close(self) -> None:
        """Stop here. A run in progress is left as it is and carries on when the thread is opened again."""
        await self._driver.stop()
        self._driver.timers.stop()
        await self._postman.stop()
        self._driver.fail(WrongState(f"thread {self.id} is closed"))
        self._system.observers.left(self.id)
        await asyncio.to_thread(self._store.close)  # it checkpoints, and the disk may take its time

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # Inside.

    def _committed(self, draft: Draft) -> None:
        if draft.sends:
            self._postman.start()
        if draft.events:
            self._tell(draft.events)
            if observers := self._system.observers:
                store = self._store
                observers.tell(self.metadata, draft.run, store.last_seq, store.committed_at, draft.events)

    def _tell(self, happened: Sequence[NewEvent]) -> None:
        machine = self._driver.run._machine
        run, status, reason = (
            ("", "idle", None) if machine is None else (self._driver.run.id, status_of(machine), machine.pause_reason)
        )
        try:
            if self._spent is None or any(event.type in SPENDING for event in happened):
                self._spent = self._driver.spent()
            progress = ThreadProgress(self._store.last_seq, run, status, reason, happened, *self._spent)
            self._runtime.committed(self.metadata, progress)
        except Exception:  # it is on disk, whatever they make of it
            log.exception("what thread %s has done cannot be told", self.id)

    def _status(self) -> RunStatus:
        return self.run_state().status

    def _busy(self) -> bool:
        """Whether the run will go on without anybody's help."""
        machine = self._driver.run._machine
        going = machine is not None and machine.outcome is None and machine.pause_reason in (None, "subagent")
        return going and self.alive

    def _check_alive(self) -> None:
        if self._driver.error is not None:
            raise self._driver.error

    def _waiting(self) -> tuple[ToolCall, ...]:
        machine = self._driver.run._machine
        return () if machine is None else pending_approvals(self.id, machine.state, self._pipeline.tools)

    def _checked_decisions(self, decisions: Mapping[str, Decision]) -> Decided:
        self._check_alive()
        machine = self._driver.run._machine
        state = None if machine is None else machine.state
        if not isinstance(state, WaitingTools):
            raise WrongState(f"no call of thread {self.id} waits for a person")
        return checked_decisions(self.id, state, self._pipeline.tools, decisions)

    def _check_exhausted(self, run: int) -> None:
        self._check_alive()
        machine = self._driver.run._machine
        if machine is None or machine.exhausted_by is None or run != self._driver.run.n:
            raise WrongState(f"no limit of thread {self.id} is used up")

    async def _run_hooks(self, hooks: Awaitable[None]) -> None:
        """Run hooks on behalf of a caller; one that fails ends the run under its own name."""
        try:
            await hooks
        except HookFailed as error:
            if self._driver.run.active:
                await self._driver.stopping.abort(error)
            raise


class RuntimeBudget:
    """The budget of a thread's agency, by way of where the thread runs."""

    def __init__(self, runtime: Runtime, thread: ThreadMetadata) -> None:
        self.is_set = runtime.budgeted
        self._runtime = runtime
        self._thread = thread

    async def used_up(self, spent: Spent) -> str | None:
        return await self._runtime.allowance(self._thread, spent)


class _Nowhere:
    """Where a thread runs that is opened only to be parked: nothing of it runs."""

    def agents(self) -> Mapping[str, Blueprint]:
        return {}

    def policy(self) -> Policy:
        return NO_POLICY

    async def deliver(self, parcel: AnyParcel) -> None:
        raise WrongState("it is delivered when the thread is next awake")

    async def offload(self, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
        raise WrongState("nothing of a parked thread runs")

    def providers(self) -> Mapping[str, Provider]:
        return {}

    def budgeted(self) -> bool:
        return False

    async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
        raise WrongState("nothing of a parked thread runs")

    def committed(self, thread: ThreadMetadata, progress: ThreadProgress) -> None:
        pass  # whoever parks it knows


def _tables(system: AgentSystem, blueprint: Blueprint) -> dict[str, tuple[str, ...]]:
    return {
        middleware.name: middleware.tables for middleware, _ in system.middleware_for(blueprint) if middleware.tables
    }


_FILES: TypeAdapter[dict[str, str | bytes]] = TypeAdapter(dict[str, str | bytes])


def _for_people(message: Message, tools: Mapping[str, Tool]) -> Message:
    """A message as people are shown it: without the secrets in its calls."""
    if not message.tool_calls:
        return message
    calls = tuple(
        call.model_copy(update={"args": shown(call.args, tool.hidden if tool else (), longest=None)})
        for call, tool in ((call, tools.get(call.name)) for call in message.tool_calls)
    )
    return message.model_copy(update={"tool_calls": calls})
