"""Following a run to its end: its thread and its subagents' threads, with a decision whenever one waits for approval.

Readers of the threads and the question to the person run as tasks of their own and put updates into one queue; the
session takes them one at a time, so the display and the set of threads at work have one writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from agency.approvals.pending import PendingToolCall
from agency.errors import InvalidInput, NotFound, Unavailable, WrongState
from agency.events import Event, EventType
from agency.thread.protocols import AnyThread
from agency.thread.views import RunEnvelope
from dashboard.command.terminal.backends import Backend
from dashboard.command.terminal.console import complain
from dashboard.command.terminal.display import RunDisplay
from dashboard.command.terminal.prompts import Decider

ENDS = (EventType.AGENT_COMPLETED, EventType.AGENT_ERROR, EventType.RUN_CANCELED)

CHILD_SECONDS = 10.0
"""A subagent's thread exists soon after the event that announces it."""


Update = tuple[AnyThread, Event] | Exception | None
"""An event of a thread; what went wrong in a task; or None: look again whether the run is over."""


class Session:
    """One run, followed until it ends or waits for a person who is not there."""

    def __init__(self, backend: Backend, root: AnyThread, display: RunDisplay, decider: Decider) -> None:
        self._backend = backend
        self._root = root
        self._display = display
        self._decider = decider
        self._updates: asyncio.Queue[Update] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work: set[str] = set()
        self._asking = asyncio.Lock()
        self.waiting: dict[str, tuple[PendingToolCall, ...]] = {}
        """The calls that still wait for approval, by the threads that wait for them."""

    async def follow(self) -> RunEnvelope:
        """Follow the run; the run as it is in the end."""
        run = await self._root.wait(0)
        self._display.watch(self._root.id, run.meta.agent_type)
        self._begin(self._read(self._root, run.run_id))
        try:
            while not self._over(await self._updates.get()):
                pass
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return await self._root.wait(0)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Run a task beside the others; what it raises becomes an update."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:  # raised again by `follow`
                self._updates.put_nowait(error)

        self._tasks.add(asyncio.create_task(watched()))

    def _over(self, update: Update) -> bool:
        if isinstance(update, Exception):
            raise update
        if update is not None:
            thread, event = update
            self._take(thread, event)
            if thread is self._root and event.type in ENDS:
                return True
        return bool(self.waiting) and not self._at_work

    def _take(self, thread: AnyThread, event: Event) -> None:
        self._display.take(thread.id, event)
        match event.type, event.data:
            case EventType.SUBAGENT_SPAWNED, {"childThreadId": str(child), "agentType": str(agent)}:
                self._at_work.add(child)
                self._display.watch(child, agent)
                self._begin(self._read_child(child))
            case EventType.HITL_INTERRUPT, _:
                self._begin(self._ask(thread))
            case EventType.RUN_PAUSED, data:
                self._at_work.discard(thread.id)
                if data.get("reason") == "exhausted":
                    self.waiting[thread.id] = ()
            case ((EventType.RUN_STARTED | EventType.RUN_RESUMED), _):
                self._at_work.add(thread.id)
                self.waiting.pop(thread.id, None)
            case kind, _ if kind in ENDS:
                self._at_work.discard(thread.id)
            case _:
                pass

    async def _read(self, thread: AnyThread, run_id: str | None = None) -> None:
        """Read a thread's events, of one run or of all, until that run ends."""
        async for event in thread.events():
            if run_id is None or event.data.get("runId") == run_id:
                self._updates.put_nowait((thread, event))
                if event.type in ENDS:
                    return
        await thread.wait(0)  # raises if the thread failed
        raise Unavailable(f"thread {thread.id} was closed")

    async def _read_child(self, thread_id: str) -> None:
        until = asyncio.get_running_loop().time() + CHILD_SECONDS
        while True:
            try:
                thread = await self._backend.thread(thread_id)
                break
            except NotFound:
                if asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(0.05)
        await self._read(thread)

    async def _ask(self, thread: AnyThread) -> None:
        """Have the decider decide on the calls that a thread waits for, if it still does."""
        async with self._asking:
            while calls := (await thread.wait(0)).meta.pending_tool_calls:
                decisions = await self._decider.decide(calls)
                if decisions is None:
                    self.waiting[thread.id] = calls
                    break
                try:
                    await thread.decide(decisions)
                except (
                    InvalidInput,
                    WrongState,
                ) as error:  # wrong arguments, or decided elsewhere
                    complain(error)
        self._updates.put_nowait(None)
