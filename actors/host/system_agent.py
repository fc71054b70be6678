"""The SystemAgent: one agent thread as an actor in a host. While it is awake it is a `Thread`; asleep, it is a file.

It adds to the thread what only an actor has: the number of its activation, the calls that it serves, and when it was
last used. Calls go to the thread itself; what other processes may call is in `THREAD_OPERATIONS`, or is marked with
`@operation` here. The thread makes changes atomic by never awaiting while its run changes, so calls need no lock, and
reads do not wait for a model call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from actors.agency.creation import Creation
from actors.operations import Seq, operation, operations, operations_of
from actors.settings import Settings
from agency.define.blueprint import Blueprint
from agency.define.system import AgentSystem
from agency.errors import AgencyError, InvalidInput
from agency.metadata import ThreadMetadata
from agency.runtime import Runtime
from agency.store.forking import Cut, make_fork
from agency.store.sqlite import Storage
from agency.thread.thread import Thread
from agency.thread.views import RunEnvelope

PAGE_MOST = 1_000
WAIT_MOST = 300.0


class SystemAgent:
    def __init__(self, thread: Thread, activation: int = 0) -> None:
        self.thread = thread
        self.activation = activation
        """The number that tells this activation from all others of the thread."""
        self.last_used = time.monotonic()
        self._calls = 0  # being served right now

    @classmethod
    async def open(
        cls,
        path: Path,
        settings: Settings,
        system: AgentSystem,
        runtime: Runtime,
        check: Callable[[Blueprint], None],
        create: Creation | None = None,
        *,
        activation: int = 0,
    ) -> SystemAgent:
        """Wake a thread, or make a new one and begin its first run. `check` may refuse its blueprint by raising."""
        new = None if create is None else (create.metadata, create.blueprint)
        if create is not None and create.fork is not None:
            await asyncio.to_thread(_make_fork, path, create.metadata, create.fork, settings.files)
            new = None
        thread = await Thread.open(
            path, system, runtime, create=new, storage=settings.files, check=check, order=activation
        )
        agent = cls(thread, activation)
        try:
            if create is not None:
                thread.introduce()
                await agent.begin(create)
            await thread.durable()
        except BaseException:
            await thread.close()
            raise
        return agent

    async def begin(self, create: Creation) -> None:
        """Begin a new thread's first run. The key of its messages makes it harmless to begin again."""
        if create.messages:
            await self.thread.accept(create.invocation)
        elif create.files:
            await self.thread.put_files(create.files)

    @property
    def alive(self) -> bool:
        return self.thread.alive

    @property
    def idle(self) -> bool:
        return self._calls == 0 and self.thread.idle

    def touch(self) -> None:
        self.last_used = time.monotonic()

    async def doze(self, after: float) -> None:
        """Let go of the file if the thread has not used it for so many seconds. The disk may take its time for that."""
        if self._calls == 0 and self.alive and self.thread.may_doze(after):
            await asyncio.to_thread(self.thread.doze, after)

    async def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call an operation by its name."""
        self._calls += 1
        try:
            await self.thread.quiet()
            answered = await self._call(name, args, kwargs)
            await self.thread.durable()  # whatever a caller is told is on disk
            return answered
        finally:
            self._calls -= 1
            self.touch()

    async def _call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if (of_thread := THREAD_OPERATIONS.get(name)) is not None:
            return await of_thread(self.thread, *args, **kwargs)
        if (own := OWN_OPERATIONS.get(name)) is not None:
            return await own(self, *args, **kwargs)
        raise AgencyError(f"a thread has no operation {name!r:.100}")

    # Operations that need more than the thread's own method: limits for callers in other processes.

    @operation
    async def run(self, wait: float = 0.0) -> RunEnvelope:
        """The latest run; with `wait`, as it is when it has ended or needs a person, or after so many seconds."""
        if not 0 <= wait <= WAIT_MOST:
            raise InvalidInput(f"a run is waited for 0 to {WAIT_MOST:g} seconds")
        return await self.thread.wait(wait) if wait else self.thread.run()

    @operation
    async def events(self, after: Seq = 0, limit: int = 100) -> list[str]:
        """A page of the stored events after a seq, as JSON."""
        if not 1 <= limit <= PAGE_MOST:
            raise InvalidInput(f"a page has 1 to {PAGE_MOST} events")
        found = (event for event in self.thread.reader(after).take(limit) if event.seq is not None)
        return [event.model_dump_json() for event in found]


THREAD_OPERATIONS = operations(
    Thread.accept,
    Thread.decide,
    Thread.approve,
    Thread.deny,
    Thread.settle,
    Thread.cancel,
    Thread.pause,
    Thread.resume,
    Thread.lift_limits,
    Thread.retry,
    Thread.edit_state,
    Thread.state,
    Thread.run_state,
    Thread.tool_call,
    Thread.traces,
    Thread.model_calls,
    Thread.model_call,
    Thread.files,
    Thread.read_file,
    Thread.put_files,
    Thread.delete_file,
    # From other threads, and from the agency.
    Thread.receive,
    Thread.cancel_for_deletion,
    Thread.budget_lifted,
)
OWN_OPERATIONS = operations_of(SystemAgent)


def _make_fork(path: Path, metadata: ThreadMetadata, cut: Cut, storage: Storage) -> None:
    """The original is of the same agency, hence in the same folder."""
    assert metadata.forked_from is not None
    make_fork(path.with_name(f"{metadata.forked_from.thread_id}.db"), path, metadata, cut, storage)
