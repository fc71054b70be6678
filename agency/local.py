"""Threads in this very process: for scripts, notebooks and tests. Each is one file; nothing else is needed.

    async with open_thread(system, "support.db", agent="support") as thread:
        await thread.invoke("Where is order 7?")
        async for event in thread.events():
            …

Open the same file again, after whatever happened, and its run goes on.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal, Self

from pydantic import JsonValue
from typing_extensions import Unpack

from agency.approvals.rules import NO_POLICY, Policy
from agency.children.parcels import THREAD_ID, AnyParcel, Cancel, LateSpending, Note, PersonWait, Report, Spawn
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.context import ToolContext
from agency.define.file_limits import FILE_LIMITS, FileLimits
from agency.define.options import RunOptionFields, RunOptions
from agency.define.output import OutputType
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import (
    AgencyError,
    Damaged,
    DefinitionError,
    HookFailed,
    InvalidInput,
    NewerStore,
    NotFound,
    RunUnfinished,
    StoreError,
    WrongState,
    told_of,
)
from agency.events import OURS, timestamp
from agency.messages import Message
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.runtime import ThreadProgress
from agency.secrets import Secret, remember_environment
from agency.shelves.interface import ShelfStore
from agency.shelves.local import LocalShelves
from agency.spending import Spent
from agency.store.forking import find_origin, make_fork
from agency.store.peek import glance, holds_thread
from agency.store.sqlite import Storage
from agency.thread.calls import perform
from agency.thread.inbox import RunTerms
from agency.thread.invocation import checked_invocation
from agency.thread.openings import openings_of
from agency.thread.results import RunResult, output_of
from agency.thread.thread import Thread
from agency.turn.outcomes import CallOutcome
from agency.turn.state import NO_CEILING, Limits, RunCeiling

log = logging.getLogger(__name__)

NO_TERMS = RunTerms()
HOPELESS = (Damaged, DefinitionError, HookFailed, InvalidInput, NewerStore, NotFound)
"""What keeps a child from starting however often it is tried."""


class LocalRuntime:
    """The threads of one folder, each in its own file, run by this process.

        async with LocalRuntime(system, "data") as runtime:
            thread = await runtime.create_thread("support")

    Entering it wakes every thread that had something to do. A folder belongs to one process at a time: if a second one
    opens a thread, the first loses it (`StaleActivation`) and no harm is done.
    """

    def __init__(
        self,
        system: AgentSystem,
        data_dir: Path | str,
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        providers: Mapping[str, Provider] | None = None,
    ) -> None:
        """`synchronous` is SQLite's: NORMAL survives the death of any process, FULL also that of the power supply.
        `providers` go before those of the system."""
        remember_environment()
        self._system = system
        self._providers = dict(providers or {})
        self._storage = Storage(synchronous)
        self._folder = Path(data_dir)
        self._shelves = LocalShelves(self._folder / "shelves", parents=True)
        self._elsewhere: dict[str, Path] = {}
        self._threads: dict[str, Thread] = {}
        self._kept: set[str] = set()  # threads that callers have open
        self._leaving: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        self._closed = False
        self._holding = False

    async def __aenter__(self) -> Self:
        self._system.check_agents(self._providers)  # a wrong definition shows before anything runs
        self._closed = False
        await self.wake()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Put every thread to rest; runs in progress carry on when they are opened again."""
        async with self._opening:
            self._closed = True
            for task in self._leaving:
                task.cancel()
            for thread in self._threads.values():
                await thread.close()
            self._threads.clear()
            if self._holding:
                self._holding = False
                await openings_of(self._system).release()
        if self._system.observers:
            await asyncio.to_thread(self._system.observers.flush)  # exporters may use the network

    async def wake(self) -> None:
        """Wake every thread that has something to do."""
        for thread_id in self.thread_ids():
            if glance(self._path(thread_id)).due is not None:
                try:
                    await self._awake(thread_id)
                except AgencyError as error:  # the others can work all the same; asking for this one will tell
                    log.warning("%s cannot be woken: %s", thread_id, error)

    async def create_thread(
        self,
        agent: str,
        message: str | Message | Sequence[Message] = (),
        *,
        thread_id: str | None = None,
        files: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        output_schema: OutputType | None = None,
        **options: Unpack[RunOptionFields],
    ) -> Thread:
        """A new thread for an agent, at work at once if there is a message; `files` are texts by path. `limits`,
        `output_schema` and the `options` are for its first run, as in `Thread.invoke`."""
        schema = None if output_schema is None else self._system.note_output(output_schema)
        first = checked_invocation(message, files=files, limits=limits, output_schema=schema, **options)
        if not first.messages and first.terms != NO_TERMS:
            raise InvalidInput("limits, an output schema and options are for a run: give the thread a message, too")
        new = self._new_id(thread_id)
        blueprint = self._blueprint(agent)
        self._kept.add(new)
        thread = await self._awake(new, create=(_metadata(new, blueprint), blueprint))
        if first.messages:
            await thread.accept(first)
        elif first.files:
            await thread.put_files(first.files)
        return thread

    async def fork(
        self,
        source: str,
        message: str | Message | Sequence[Message] = (),
        *,
        after_seq: int | None = None,
        before_message: str | None = None,
        thread_id: str | None = None,
        **options: Unpack[RunOptionFields],
    ) -> Thread:
        """A new thread that begins as another one was: after one of its events, before one of its user's messages, or
        as it is now. With a message it goes on at once, with these `options`. The other one is not changed, whatever it
        is doing."""
        first = None if message == () else checked_invocation(message, **options)
        new = self._new_id(thread_id)
        self._check_open()
        origin = await asyncio.to_thread(find_origin, self._path(source), after=after_seq, before=before_message)
        made = (self._path(source), self._path(new), origin.fork(new), origin.cut, self._storage)
        _make(self._folder)
        await asyncio.to_thread(make_fork, *made)
        self._kept.add(new)
        fork = await self._awake(new)
        fork.introduce()
        if first is not None:
            await fork.accept(first)
        return fork

    async def thread(self, thread_id: str) -> Thread:
        """A thread by its id, woken if need be."""
        self._kept.add(thread_id)
        return await self._awake(thread_id)

    async def open(self, path: Path, agent: str | None) -> Thread:
        """The thread in a file, wherever it is; a new one for `agent` if there is none."""
        async with self._opening:
            self._check_open()
            self.agents()  # a wrong definition shows before anything is created
            create = None
            if agent is not None:
                blueprint = self._blueprint(agent)
                _make(path.parent)
                create = (_metadata(f"thr_{secrets.token_hex(8)}", blueprint), blueprint)
            thread = await self._open(path, create)
            if agent is not None and thread.metadata.agent_type != agent:
                await thread.close()
                raise InvalidInput(f"{path} is a thread of agent {thread.metadata.agent_type!r}, not {agent!r}")
            self._elsewhere[thread.id] = path
            self._threads[thread.id] = thread
            self._kept.add(thread.id)
            return thread

    def thread_ids(self) -> list[str]:
        """The ids of all threads in the folder, in order."""
        return sorted(path.stem for path in self._folder.glob("*.db") if holds_thread(path))

    # What threads ask of it (see `agency.runtime`).

    def agents(self) -> Mapping[str, Blueprint]:
        return {name: blueprint for name, blueprint in self._system.agents.items() if blueprint.status == "active"}

    def policy(self) -> Policy:
        return NO_POLICY  # there is no agency here to have one

    def ceiling(self) -> RunCeiling:
        return NO_CEILING

    def check_secret(self, blueprint: Blueprint, section: str, reference: Secret) -> None:
        pass  # every blueprint is the code's

    def shelves(self) -> ShelfStore:
        return self._shelves

    def file_limits(self) -> FileLimits:
        return FILE_LIMITS

    async def is_paused(self, thread_id: str, reason: str) -> bool:
        known = self._threads.get(thread_id)
        return known is None or not known.alive or known.run_state().reason == reason

    async def deliver(self, parcel: AnyParcel) -> None:
        match parcel:
            case Spawn():
                await self._spawn(parcel)
            case Report():
                await (await self._awake(parcel.to)).receive(parcel)
            case Cancel() | Note() | PersonWait() | LateSpending():
                if holds_thread(self._path(parcel.to)):  # else it was never made
                    await (await self._awake(parcel.to)).receive(parcel)

    async def offload(self, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
        return await perform(tool, args, context)  # there is nowhere else

    def providers(self) -> Mapping[str, Provider]:
        return self._providers

    def budgeted(self) -> bool:
        return False  # there is no agency here to have a budget

    async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
        return None

    def committed(self, thread: ThreadMetadata, progress: ThreadProgress) -> None:
        pass  # callers are in this process and read the thread's events

    async def _spawn(self, order: Spawn) -> None:
        try:
            own = order.blueprint
            blueprint = self._blueprint(order.agent_type) if own is None else Blueprint.model_validate(own)
            metadata = _metadata(order.to, blueprint).model_copy(
                update={"agency_id": order.agency_id, "request": order.request, "parent": order.parent}
            )
            child = await self._awake(order.to, create=(metadata, blueprint))
            key = f"{OURS}spawn:{order.parent.token}"
            first = checked_invocation(order.message, idempotency_key=key, files=order.files or None)
            await child.accept(replace(first, options=RunOptions.model_validate(order.options), handed_down=True))
        except HOPELESS as error:
            log.warning("thread %s cannot be started: %s", order.to, error)
            await self.deliver(order.refused(told_of(error)))

    # Inside.

    async def _awake(self, thread_id: str, create: tuple[ThreadMetadata, Blueprint] | None = None) -> Thread:
        async with self._opening:
            self._check_open()
            known = self._threads.get(thread_id)
            if known is not None and not known.alive:
                await known.close()  # it was overtaken, or could not write
            if known is None or not known.alive:
                if create is not None:
                    _make(self._folder)
                known = await self._open(self._path(thread_id), create)
                self._threads[thread_id] = known
                self._leave_when_at_rest(known)
            return known

    def _check_open(self) -> None:
        if self._closed:
            raise WrongState(f"the runtime of {self._folder} is closed")

    async def _open(self, path: Path, create: tuple[ThreadMetadata, Blueprint] | None) -> Thread:
        if not self._holding:
            openings_of(self._system).hold()
            self._holding = True
        return await Thread.open(path, self._system, self, create=create, storage=self._storage)

    def _leave_when_at_rest(self, thread: Thread) -> None:
        """Threads that no caller opened, such as subagents, are closed when they have nothing left to do."""

        async def leave() -> None:
            await thread.rest()
            async with self._opening:
                unwanted = thread.id not in self._kept and thread.at_rest
                if unwanted and self._threads.get(thread.id) is thread:
                    del self._threads[thread.id]
                    await thread.close()

        task = asyncio.create_task(leave(), name=f"rest {thread.id}")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _blueprint(self, agent: str) -> Blueprint:
        known = self._system.agents
        if agent not in known:
            raise NotFound(f"there is no agent {agent!r}; there are {', '.join(known) or 'none'}")
        if known[agent].status != "active":
            raise InvalidInput(f"agent {agent!r} is {known[agent].status} and starts no threads")
        return known[agent]

    def _new_id(self, wanted: str | None) -> str:
        new = wanted or f"thr_{secrets.token_hex(8)}"
        if not THREAD_ID.fullmatch(new):
            raise InvalidInput(f"a thread's id is letters, digits, '-' and '_', not {new!r}")
        if holds_thread(self._path(new)):
            raise InvalidInput(f"there is a thread {new!r} already")
        return new

    def _path(self, thread_id: str) -> Path:
        return self._elsewhere.get(thread_id) or self._folder / f"{thread_id}.db"


@asynccontextmanager
async def open_thread(
    system: AgentSystem,
    path: Path | str,
    *,
    agent: str | None = None,
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
) -> AsyncIterator[Thread]:
    """A thread in a file of its own: the one that is there, or with `agent` a new one. Its run, if any, goes on.

    Threads that it starts, its subagents, are in the folder `<file>.threads` beside it. A thread keeps the blueprint
    that it began with, whatever the system says about its agent now.
    """
    path = Path(path)
    if not path.name:
        raise InvalidInput(f"{path} names no file")
    runtime = LocalRuntime(system, path.with_name(f"{path.name}.threads"), synchronous=synchronous)
    try:
        thread = await runtime.open(path, agent)  # before its children wake and report to it
        await runtime.wake()
        yield thread
    finally:
        await runtime.close()


async def run_once(
    system: AgentSystem,
    agent: str,
    message: str | Message | Sequence[Message],
    *,
    output: OutputType | None = None,
    file: Path | str | None = None,
    folder: Path | str | None = None,
    timeout: float | None = None,
    limits: Limits | None = None,
    files: Mapping[str, str] | None = None,
    **options: Unpack[RunOptionFields],
) -> RunResult[Any]:
    """What `AgentSystem.run` does."""
    if file is not None and folder is not None:
        raise InvalidInput("name a `file` for this thread, or a `folder` for a new one in it, not both")
    if file is not None:
        opened: AbstractAsyncContextManager[Thread] = open_thread(system, file, agent=agent)
    else:
        opened = _new_thread(system, agent, folder)
    schema = None if output is None else system.note_output(output)
    async with opened as thread:
        await thread.invoke(message, limits=limits, files=files, output_schema=schema, **options)
        run = await thread.wait(timeout)
        try:
            result = output_of(run, output)
        except RunUnfinished as error:
            if file is None and folder is None:
                error.args = (f"{error} (nothing of it is kept: with a `file`, it can be opened again, and goes on)",)
            raise
        return RunResult(result, run, await thread.state())


@asynccontextmanager
async def _new_thread(system: AgentSystem, agent: str, folder: Path | str | None) -> AsyncIterator[Thread]:
    """A new thread in a folder, or in one that is gone afterwards."""
    with ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="agency-", ignore_cleanup_errors=True))
        async with LocalRuntime(system, folder) as runtime:
            yield await runtime.create_thread(agent)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror or error}") from error


def _metadata(thread_id: str, blueprint: Blueprint) -> ThreadMetadata:
    return ThreadMetadata(id=thread_id, agent_type=blueprint.name, created_at=timestamp(now_ms()))
