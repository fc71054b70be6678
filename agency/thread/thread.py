"""A thread that is awake: what its users call. Each method checks that the thread is usable and hands over to the part
that owns the state: accepting, resuming, receiving, announcing, and the driver for the run itself.

Large because it is the one list of what can be done with a thread.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, overload

from pydantic import JsonValue, TypeAdapter, ValidationError
from typing_extensions import Unpack

from agency import events
from agency.approvals.decisions import ApproveResult, as_decisions
from agency.children import outbox
from agency.children.parcels import Cancel, LateSpending, Note, PersonWait, Report
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.options import RunOptionFields
from agency.define.output import OutputType
from agency.define.system import AgentSystem
from agency.errors import AgencyError, Damaged, NotFound, WrongState
from agency.events import Event
from agency.idempotency import request_digest
from agency.messages import Message, ToolCall
from agency.metadata import ThreadMetadata
from agency.runtime import Runtime
from agency.store import records
from agency.store.draft import Draft, When
from agency.store.sqlite import LOCAL, Storage
from agency.store.store import ThreadStore
from agency.store.timers import next_due
from agency.thread.accepting import Acceptor
from agency.thread.announcing import Announcer
from agency.thread.call_records import CallReader, CallRecord
from agency.thread.calls import CallRunner
from agency.thread.driver import Driver
from agency.thread.editing import StateEditing
from agency.thread.feed import Feed, Reader
from agency.thread.files import file_sizes, read_file
from agency.thread.invocation import Invocation, checked_invocation, checked_key
from agency.thread.model_calls import ModelCaller
from agency.thread.model_records import ModelCallReader, ModelCallRecord, ModelCallSummary
from agency.thread.openings import openings_of
from agency.thread.outside import Settlement, settled_by
from agency.thread.pipeline import Pipeline
from agency.thread.postman import Postman
from agency.thread.receiving import ParcelReceiver
from agency.thread.results import AnyOutput, checked_output, output_of
from agency.thread.resuming import Resuming
from agency.thread.retrying import Retrying
from agency.thread.traces import TraceRecord, trace_records
from agency.thread.views import (
    Accepted,
    Beside,
    FileInfo,
    RunEnvelope,
    RunState,
    ThreadState,
    envelope,
    for_people,
)
from agency.turn import effects as fx
from agency.turn.outcomes import Decision, Deny
from agency.turn.state import Limits
from agency.validation import valid

_TOKEN: TypeAdapter[str] = TypeAdapter(str)
_FILES: TypeAdapter[dict[str, str | bytes]] = TypeAdapter(dict[str, str | bytes])
_CHANGES: TypeAdapter[Mapping[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


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
        shared = (runtime.policy, runtime.shelves, openings_of(system), runtime.check_secret, runtime.file_limits())
        self._pipeline = Pipeline(middleware, tools, metadata, blueprint, agents, *shared)
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
            runtime,
            self._committed,
        )
        self._run = self._driver.run
        self._postman = Postman(store, runtime, self._driver.commit)
        self._announcer = Announcer(store, metadata, self._run, runtime, system.observers, self._driver.spent)
        self._acceptor = Acceptor(store, metadata, self._pipeline, self._driver)
        self._receiver = ParcelReceiver(store, metadata, self._pipeline, self._driver, self._announcer.spent_more)
        self._resuming = Resuming(store, metadata, self._pipeline, self._driver, runtime.ceiling)
        self._retrying = Retrying(store, metadata, self._driver)
        self._editing = StateEditing(store, metadata, self._pipeline, self._driver)
        self._calls = CallReader(store, self._run, self._pipeline.tools)
        self._model_calls = ModelCallReader(store, system, runtime.providers, self._pipeline.tools)

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
        order: int = 0,
    ) -> Thread:
        """Wake a thread, or create it, and carry on with whatever it was doing.

        `check` may refuse its blueprint, by raising, before anything of it runs. `order` is the number of the order to
        wake it: if a later one was carried out, that one counts (`ThreadStore.open`).
        """
        rows, tables = None, None
        if create is not None:
            system.check_usable(create[1], runtime.providers())
            tables = _tables(system, create[1])
            rows = {
                "thread_id": create[0].id,
                "metadata": create[0].model_dump_json(),
                "blueprint": create[1].model_dump_json(),
            }
        opening = functools.partial(ThreadStore.open, path, create=rows, tables=tables, storage=storage, order=order)
        store = await asyncio.to_thread(opening) if storage.shared else opening()
        try:
            thread = cls.of(store, system, runtime)
            if check is not None:
                check(thread.blueprint)
            tables = _tables(system, thread.blueprint)
            if storage.shared:
                await asyncio.to_thread(store.prepare_tables, tables)
                store.commit_late(thread._driver.fail)
            else:
                store.prepare_tables(tables)
            await thread._wake()
        except BaseException:
            system.observers.left(store.thread_id)
            await store.close_in_worker()
            raise
        return thread

    @classmethod
    def of(cls, store: ThreadStore, system: AgentSystem, runtime: Runtime) -> Thread:
        """The thread in a file that is open; nothing of it runs yet."""
        try:
            metadata = ThreadMetadata.model_validate_json(str(store.meta("metadata")))
            blueprint = Blueprint.model_validate_json(str(store.meta("blueprint")))
        except ValidationError as error:
            raise Damaged(f"{store.path} is damaged: it does not say what its thread is: {error}") from error
        return cls(store, system, runtime, metadata, blueprint)

    async def _wake(self) -> None:
        self._announcer.run_taken_up()
        draft = self._store.draft()
        if self._store.last_seq == 0:
            draft.emit(events.thread_created(self.metadata.agent_type))
        await self._pipeline.provide()
        await self._pipeline.on_init(draft)
        if self._store.last_seq == 0:
            self._pipeline.risk.check(self._system.guards)
        try:
            await self._pipeline.open(draft)
            if draft:
                self._driver.commit(draft)
            self._driver.take_up()
        except BaseException:
            await self._pipeline.close()
            raise
        self._postman.start()
        self._driver.timers.schedule()

    def give_up(self, error: AgencyError) -> None:
        """End the run as an error, instead of waking the thread (see `agency.thread.parking`)."""
        self._announcer.run_taken_up()
        self._driver.give_up(error)

    def warn(self, run_id: str, kind: str, message: str) -> None:
        """Tell the run's owner of something, if that run is still the one in progress."""
        if self._run.active and self._run.id == run_id:
            draft = self._run.draft()
            draft.warn(kind, message)
            self._driver.commit(draft)

    def introduce(self) -> None:
        """Tell of a fork that has done nothing yet."""
        self._announcer.introduce_fork()

    @property
    def id(self) -> str:
        return self.metadata.id

    @property
    def damaged(self) -> bool:
        """Whether this activation has ended because the file is damaged: opening it again does not help."""
        return isinstance(self._driver.error, Damaged)

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

    async def invoke(
        self,
        message: str | Message | Sequence[Message] = (),
        *,
        idempotency_key: str | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: OutputType | None = None,
        when: When = "next_step",
        **options: Unpack[RunOptionFields],
    ) -> Accepted:
        """Start a run with a message. During a run, the message joins it at its next turn; with `when="next_run"` it
        starts the run after it; with `when="now"` it interrupts it: the model or the tools that are at work are
        stopped, finished calls keep their results, and the run goes on with the message.

        Without a message, a run starts with the conversation as it is; one in progress goes on. Messages of the
        assistant, and the results of its calls, become part of the conversation as if they had been said here.

        With an `idempotency_key`, asking again gives the first answer and does nothing, and asking for anything else
        raises `KeyReused`. `limits` and `output_schema` (a pydantic model or a JSON schema) replace the blueprint's for
        a run that this starts, and so do the `options` (`RunOptions`): its models, their parameters, which tools it
        has, and options for middleware. `files`, text by path, are there when the message is.
        """
        self._driver.check_alive()
        invocation = checked_invocation(
            message,
            idempotency_key=idempotency_key,
            limits=limits,
            files=files,
            output_schema=None if output_schema is None else self._system.note_output(output_schema),
            when=when,
            **options,
        )
        return await self.accept(invocation)

    async def accept(self, invocation: Invocation) -> Accepted:
        """Take what `invoke` takes, checked already."""
        self._driver.check_alive()
        return await self._acceptor.accept(invocation)

    async def retry(self, *, limits: Limits | None = None, idempotency_key: str | None = None) -> Accepted:
        """Try the latest run again, which has failed, from where it failed: a new run with the same terms goes on with
        the conversation, so that what was done is kept. `limits` replace those of the run that failed. With an
        `idempotency_key`, asking again changes nothing. Raises `WrongState` if the latest run has not failed."""
        self._driver.check_alive()
        return self._retrying.retry(limits, checked_key(idempotency_key) or secrets.token_hex(12))

    async def put_files(self, files: Mapping[str, str | bytes], *, by: str | None = None) -> None:
        """Give the agent files, by path, in the place of those it has under these paths. `by` names the person."""
        self._driver.check_alive()
        given = valid(_FILES, dict(files), "files")
        await self._acceptor.put_files(given, by)

    async def delete_file(self, path: str, *, by: str | None = None) -> None:
        """Take a file from the agent."""
        self._driver.check_alive()
        await self._acceptor.delete_file(path, by)

    async def edit_state(
        self, changes: Mapping[str, JsonValue], *, by: str | None = None, seq: int | None = None
    ) -> None:
        """Change what the agent keeps, by the parts of its state: `todos` to a new list, `files` by path to new text,
        or to None to delete one. All of it or nothing; `state.edited` tells of it. It is refused while a run is at
        work, and, with the `seq` of the latest event that you know, if anything has happened since."""
        self._driver.check_alive()
        await self._editing.edit(valid(_CHANGES, changes, "changes"), by, seq)

    async def decide(
        self, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None, by: str | None = None
    ) -> None:
        """Decide on calls that wait for a person, by their ids. Calls that are not named go on waiting.

        A call's `approval_id` names it with exactly its arguments: if they are others by now, or another
        person has decided, nothing changes and `WrongState` is raised. With an `idempotency_key`, deciding again
        changes nothing. `by` names the person who decides, for the events.
        """
        given = as_decisions(decisions)
        await self._resuming.decide(given, checked_key(idempotency_key), request_digest(decisions=given), by)

    async def approve(
        self, modified: Sequence[ToolCall] = (), *, idempotency_key: str | None = None, by: str | None = None
    ) -> ApproveResult:
        """Let every call that waits for approval run, those in `modified` with the arguments that they have there.

        Calls in doubt may have happened, and are never run again by this: they go on waiting, and the answer names
        them. Decide on them by `Rerun()` or `Happened(result)`.
        """
        digest = request_digest(approved=True, modified=[(call.id, call.name, call.args) for call in modified])
        return await self._resuming.approve(modified, checked_key(idempotency_key), digest, by)

    async def deny(self, reason: str = "", *, idempotency_key: str | None = None, by: str | None = None) -> None:
        """Let no call that waits for a person run; the model is told why."""
        given = as_decisions({call.id: Deny(reason=reason) for call in self._resuming.pending()})
        digest = request_digest(approved=False, reason=reason)
        await self._resuming.decide(given, checked_key(idempotency_key), digest, by)

    async def settle(self, token: str, result: JsonValue = None, *, error: str | None = None) -> Settlement:
        """Give a call that waits for the outside its result, or the `error` that it fails with, by the token that its
        tool has handed out. A token settles its call once: settling again changes nothing, and the answer says so.
        Raises `NotFound` if the token is of no call of this thread.
        """
        self._driver.check_alive()
        return self._driver.outside.settle(valid(_TOKEN, token, "token"), settled_by(result, error))

    async def cancel(self, *, by: str | None = None) -> None:
        """End the run. Running models and tools are stopped, children too; every call gets a result. Without a run,
        children that work in the background are canceled. `by` names the person who wants it, for the run's record:
        `meta.canceled_by`."""
        self._driver.check_alive()
        if self._run.active:
            await self._driver.stopping.cancel(fx.CanceledBy(name=by))
            self._driver.check_alive()
        elif self._driver.family.at_work:
            draft = self._run.draft()
            self._driver.family.cancel_all(draft)
            self._driver.commit(draft)
        else:
            raise WrongState(f"thread {self.id} has no run in progress")

    async def cancel_for_deletion(self) -> None:
        """End the run because the thread is about to be deleted, and begin no other."""
        self._driver.check_alive()
        if self._run.active:
            await self._driver.stopping.cancel(fx.CanceledBy(kind="deletion"), drops_queue=True)

    async def pause(self) -> None:
        """Have the run wait until `resume`. What is being done just now may end; nothing new begins."""
        self._driver.check_alive()
        if not self._run.active:
            raise WrongState(f"thread {self.id} has no run in progress")
        if self._run.pause_requested:
            raise WrongState(f"the run of thread {self.id} is paused already")
        self._driver.advance(self._run.draft(), [fx.PauseRequested(at=now_ms())])

    async def resume(self) -> None:
        """Let a run go on that was paused by hand."""
        await self._resuming.resume()

    async def lift_limits(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Let a run that has used up a limit go on, under these new ones."""
        lifted = fx.LimitsLifted(at=now_ms(), turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
        await self._resuming.lift_limits(lifted)

    async def budget_lifted(self) -> None:
        """Go on, if it was the agency's budget that was used up; otherwise nothing changes."""
        self._driver.check_alive()
        await self._resuming.budget_lifted()

    async def receive(self, parcel: Report | Cancel | Note | PersonWait | LateSpending) -> None:
        """Take what another thread sent. Taking it again does nothing."""
        self._driver.check_alive()
        await self._receiver.receive(parcel)

    async def quiet(self) -> None:
        """Return when it can be used without waiting for a commit that is under way, as on shared storage."""
        await self._store.quiet()

    async def durable(self) -> None:
        """Return once all that has changed by now is on disk. Until then, callers are not told of it."""
        await self._store.durable()

    def may_doze(self, after: float) -> bool:
        """Whether its file is open and has not been used for so many seconds."""
        return self._store.is_open and time.monotonic() - self._store.used >= after

    def doze(self, after: float) -> None:
        """Let go of its file if it may doze; the next use opens it again."""
        if self.may_doze(after):
            self._store.doze()

    # Looking at it.

    def events(self, after: int = 0, *, follow: bool = True) -> AsyncGenerator[Event, None]:
        """Every event after a seq, then those to come until the thread is closed, unless `follow` is False."""
        return self._feed.read(after, follow=follow)

    def reader(self, after: int = 0) -> Reader:
        """A place in the events, for those who read many threads at once."""
        return Reader(self._feed, after)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever a reader may find something new. Returns what ends that."""
        return self._feed.listen(listener)

    @overload
    async def wait(self, timeout: float | None = None) -> RunEnvelope: ...
    @overload
    async def wait(self, timeout: float | None = None, *, output: type[AnyOutput]) -> AnyOutput: ...
    async def wait(
        self, timeout: float | None = None, *, output: type[AnyOutput] | None = None
    ) -> RunEnvelope | AnyOutput:
        """Wait until the run has ended or needs a person, at most `timeout` seconds; the run as it is then. It also
        needs one if it waits for a descendant that does: `meta.waiting_for` names that.

        With `output`, a pydantic model, the result as an instance of it; `RunFailed` or `RunUnfinished` if there is
        none."""
        wanted = None if output is None else checked_output(output)
        run = await self._wait(timeout)
        return run if wanted is None else output_of(run, wanted)

    async def _wait(self, timeout: float | None) -> RunEnvelope:
        try:
            async with asyncio.timeout(timeout):
                while self._busy():
                    told = self._person_wait()
                    if told is not None and await self._still_waits(told):
                        break
                    if told is None or self._person_wait() == told:  # nothing has come meanwhile
                        await self._feed.wait()
        except TimeoutError:
            pass
        self._driver.check_alive()
        return self.run()

    def run(self) -> RunEnvelope:
        """The latest run, as it is now."""
        self._driver.check_alive()
        stored = records.last_run(self._store)
        if stored is None:
            raise NotFound(f"thread {self.id} has not run yet")
        beside = Beside(
            tools=self._pipeline.tools,
            children=self._driver.children_spent(),
            agents=self._driver.family.agents_of(self._run.draft(), stored.n),
            person_wait=self._driver.person_waits.first,
            warnings=records.warnings(self._store, stored.n),
            heartbeat_at=max(self._store.committed_at, self._feed.last_text_at),
            compacting=self._driver.compacting,
            request=records.latest_request(self._store),
            retry_of=records.retry_of(self._store, stored.n),
        )
        return envelope(self.metadata, stored, beside)

    def run_state(self) -> RunState:
        """What the latest run is doing: its id, its status, its turn and why it is paused."""
        return self._run.view()

    async def state(self) -> ThreadState:
        """The thread and its latest run. Messages and run are of the same commit; what middleware add may be of the one
        before it."""
        self._driver.check_alive()
        more = await self._pipeline.state(self._store.draft())
        return ThreadState(  # nothing is awaited from here on, so messages and run agree
            messages=tuple(for_people(message, self._pipeline.tools) for message in self._store.messages()),
            tools=tuple(tool.spec for tool in self._pipeline.tools.values()),
            thread=self.metadata,
            run=self.run_state(),
            model=self._system.chain(self._pipeline.options.model or self.blueprint.model)[0].model,
            pending_tool_calls=self._resuming.pending(),
            unattended_tools=self._pipeline.risk.unattended_tools(),
            more=more,
        )

    async def tool_call(self, call_id: str, *, seq: int | None = None, traces: bool = True) -> CallRecord:
        """A call of a tool with all of its arguments and its output, which events show cut if they are long. Of several
        calls with this id it is the latest, or the one that the event `seq` tells of. Its `traces` are what it raised
        and printed."""
        self._driver.check_alive()
        return self._calls.find(call_id, seq, traces=traces)

    async def traces(self, after: int = 0) -> tuple[TraceRecord, ...]:
        """What failed with a traceback or printed something, oldest first; with `after`, what later events tell of."""
        self._driver.check_alive()
        return trace_records(self._store, after)

    async def model_calls(self, run: int | None = None) -> tuple[ModelCallSummary, ...]:
        """The model calls of a run in figures, also those of hooks and tools; of the latest run if none is named."""
        self._driver.check_alive()
        return self._model_calls.of_run(run)

    async def model_call(self, seq: int) -> ModelCallRecord:
        """A model call with what was sent and what came back, by an event that tells of it."""
        self._driver.check_alive()
        return self._model_calls.find(seq)

    async def files(self) -> tuple[FileInfo, ...]:
        """The agent's files, by path."""
        self._driver.check_alive()
        kept = await file_sizes(self._pipeline, self._store.draft())
        return tuple(FileInfo(path=path, size=size) for path, size in sorted(kept.items()))

    async def read_file(self, path: str) -> bytes:
        """The content of one of the agent's files. Raises `NotFound` if there is none."""
        self._driver.check_alive()
        content = await read_file(self._pipeline, self._store.draft(), path)
        if content is None:
            raise NotFound(f"thread {self.id} has no file {path!r:.200}")
        return content

    # Ending.

    async def close(self) -> None:
        """Stop here. A run in progress is left as it is and carries on when the thread is opened again."""
        await self._driver.stop()
        self._leave_run()
        self._driver.timers.stop()
        await self._postman.stop()
        await self._pipeline.close()
        self._driver.fail(WrongState(f"thread {self.id} is closed"))
        self._system.observers.left(self.id)
        await self._store.close_in_worker()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # Inside.

    def _leave_run(self) -> None:
        """If the run is at work, note that it was left in good order: the next activation tells that from a death."""
        if self.alive and self._run.at_work:
            draft = self._store.draft()
            records.note_left(draft, self._store.epoch)
            with suppress(AgencyError):  # the run goes on all the same
                self._store.commit(draft)

    def _committed(self, draft: Draft) -> None:
        if draft.sends:
            self._postman.start()
        self._store.when_durable(self._announcer.about(draft))

    def _person_wait(self) -> PersonWait | None:
        """The descendant that waits for a person, if the run waits for it."""
        return self._driver.person_waits.first if self._run.pause_reason == "subagent" else None

    async def _still_waits(self, told: PersonWait) -> bool:
        """Whether a descendant waits as it has told: a person may have decided, and word of that is on its way."""
        return told.reason is not None and await self._runtime.is_paused(told.thread_id, told.reason)

    def _busy(self) -> bool:
        """Whether the run will go on without a person."""
        return self._run.goes_on and self.alive


def _tables(system: AgentSystem, blueprint: Blueprint) -> dict[str, tuple[str, ...]]:
    return {
        middleware.name: middleware.tables for middleware, _ in system.middleware_for(blueprint) if middleware.tables
    }
