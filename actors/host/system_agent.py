"""The SystemAgent: one agent thread as an actor. While it is awake it is a `Thread`; asleep, it is a file.

Calls that change it are made atomic by the thread itself, which never awaits while its run changes; so reads wait for
nobody, and there is no lock to hold during a model call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from actors.agency.store import Creation
from actors.settings import Settings
from actors.validation import Seq, checked
from agency.children.parcels import Cancel, Note, Report
from agency.define.blueprint import Blueprint
from agency.define.system import AgentSystem
from agency.errors import InvalidInput
from agency.json_schema import Schema
from agency.messages import Message
from agency.metadata import ThreadMetadata
from agency.runtime import Runtime
from agency.store.draft import When
from agency.store.forking import Cut, make_fork
from agency.store.sqlite import Storage
from agency.thread.feed import Reader
from agency.thread.invocation import checked_invocation
from agency.thread.thread import Thread
from agency.thread.views import Accepted, FileInfo, RunEnvelope, RunState, ThreadState
from agency.turn.outcomes import Decision
from agency.turn.state import Limits

PAGE_MOST = 1_000
WAIT_MOST = 300.0


class SystemAgent:
    EXPOSED = frozenset(
        {"invoke", "decide", "approve", "deny", "cancel", "pause", "resume", "lift_limits"}
        | {"state", "run_state", "run", "events", "receive", "budget_lifted"}
        | {"files", "read_file", "put_files", "delete_file"}
    )
    """What can be called from outside."""

    def __init__(self, thread: Thread, settings: Settings) -> None:
        self._thread = thread
        self._message_chars = settings.message_chars

    @classmethod
    async def open(
        cls,
        path: Path,
        settings: Settings,
        system: AgentSystem,
        runtime: Runtime,
        check: Callable[[Blueprint], None],
        create: Creation | None = None,
    ) -> SystemAgent:
        """Wake a thread, or make a new one and begin its first run."""
        new = None if create is None else (create.metadata, create.blueprint)
        if create is not None and create.fork is not None:
            await asyncio.to_thread(_make_fork, path, create.metadata, create.fork, settings.files)
            new = None
        thread = await Thread.open(path, system, runtime, create=new, storage=settings.files, check=check)
        try:
            if create is not None:
                thread.introduce()
            if create is not None and create.messages:
                await thread.send(
                    create.messages,
                    idempotency_key=create.key,
                    limits=create.limits,
                    files=create.files,
                    output_schema=create.output_schema,
                )
            elif create is not None and create.files:
                await thread.put_files(create.files)
        except BaseException:
            await thread.close()
            raise
        return cls(thread, settings)

    async def close(self) -> None:
        await self._thread.close()

    @property
    def alive(self) -> bool:
        return self._thread.alive

    @property
    def idle(self) -> bool:
        return self._thread.idle

    @property
    def wake_at(self) -> int | None:
        return self._thread.wake_at if self._thread.alive else None

    async def doze(self, after: float) -> None:
        """Let go of its file if it has not been used for so many seconds; the disk may take its time for that."""
        await asyncio.to_thread(self._thread.doze, after)

    # What its users call.

    @checked
    async def invoke(
        self,
        message: str | Message | Sequence[Message],
        *,
        key: str | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: Schema | None = None,
        when: When = "next_step",
    ) -> Accepted:
        invocation = checked_invocation(
            message,
            idempotency_key=key,
            limits=limits,
            files=files,
            output_schema=output_schema,
            when=when,
            longest=self._message_chars,
        )
        return await self._thread.accept(invocation)

    @checked
    async def decide(self, decisions: Mapping[str, Decision], *, key: str | None = None) -> None:
        await self._thread.decide(decisions, idempotency_key=key)

    async def approve(self, *, key: str | None = None) -> None:
        await self._thread.approve(idempotency_key=key)

    @checked
    async def deny(self, reason: str = "", *, key: str | None = None) -> None:
        await self._thread.deny(reason, idempotency_key=key)

    async def cancel(self) -> None:
        await self._thread.cancel()

    async def pause(self) -> None:
        await self._thread.pause()

    async def resume(self) -> None:
        await self._thread.resume()

    @checked
    async def lift_limits(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        await self._thread.lift_limits(turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)

    async def state(self) -> ThreadState:
        return await self._thread.state()

    async def run_state(self) -> RunState:
        return self._thread.run_state()

    @checked
    async def run(self, wait: float = 0.0) -> RunEnvelope:
        """The latest run; with `wait`, as it is when it has ended or needs a person, or after so many seconds."""
        if not 0 <= wait <= WAIT_MOST:
            raise InvalidInput(f"a run is waited for 0 to {WAIT_MOST:g} seconds")
        return await self._thread.wait(wait) if wait else self._thread.run()

    @checked
    async def events(self, after: Seq = 0, limit: int = 100) -> list[str]:
        """Stored events after a seq, as JSON."""
        if not 1 <= limit <= PAGE_MOST:
            raise InvalidInput(f"a page has 1 to {PAGE_MOST} events")
        found = (event for event in self._thread.reader(after).take(limit) if event.seq is not None)
        return [event.model_dump_json() for event in found]

    async def files(self) -> tuple[FileInfo, ...]:
        return await self._thread.files()

    @checked
    async def read_file(self, path: str) -> bytes:
        return await self._thread.read_file(path)

    @checked
    async def put_files(self, files: Mapping[str, str | bytes]) -> None:
        await self._thread.put_files(files)

    @checked
    async def delete_file(self, path: str) -> None:
        await self._thread.delete_file(path)

    # What other threads send it, and what feeds read.

    async def receive(self, parcel: Report | Cancel | Note) -> None:
        await self._thread.receive(parcel)

    async def budget_lifted(self) -> None:
        await self._thread.budget_lifted()

    def reader(self, after: int) -> Reader:
        return self._thread.reader(after)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self._thread.listen(listener)


def _make_fork(path: Path, metadata: ThreadMetadata, cut: Cut, storage: Storage) -> None:
    """The original is of the same agency, hence in the same folder."""
    assert metadata.forked_from is not None
    make_fork(path.with_name(f"{metadata.forked_from.thread_id}.db"), path, metadata, cut, storage)
