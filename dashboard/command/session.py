"""Following a run to its end: its thread and those of its subagents, and asking a person when one of them waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Protocol

from agency.approvals.pending import PendingToolCall
from agency.errors import InvalidInput, NotFound, Unavailable, WrongState
from agency.events import Event, EventType
from agency.thread.views import RunEnvelope
from agency.turn.outcomes import Decision
from dashboard.command.console import complain
from dashboard.command.places import Conversation, Place
from dashboard.command.progress import Progress

ENDS = (EventType.AGENT_COMPLETED, EventType.AGENT_ERROR, EventType.RUN_CANCELED)

CHILD_SECONDS = 10.0
"""A subagent's thread is there soon after it was told of."""


class Person(Protocol):
    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        """What to do with calls that wait; None if there is nobody to say."""


class Session:
    """One run, followed to where it ends, or to where nobody can answer for it."""

    def __init__(self, place: Place, root: Conversation, progress: Progress, person: Person) -> None:
        self._place = place
        self._root = root
        self._progress = progress
        self._person = person
        self._news: asyncio.Queue[tuple[Conversation, Event] | Exception | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work: set[str] = set()
        self._asking = asyncio.Lock()
        self.waiting: dict[str, tuple[PendingToolCall, ...]] = {}
        """What nobody has answered, by the threads that wait with it."""

    async def follow(self) -> RunEnvelope:
        """The run as it is in the end."""
        run = await self._root.wait(0)
        self._progress.watch(self._root.id, run.meta.agent_type)
        self._begin(self._read(self._root, run.run_id))
        try:
            while not self._over(await self._news.get()):
                pass
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return await self._root.wait(0)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Do something beside the rest; what goes wrong with it is news."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:  # for whoever waits for news
                self._news.put_nowait(error)

        self._tasks.add(asyncio.create_task(watched()))

    def _over(self, news: tuple[Conversation, Event] | Exception | None) -> bool:
        if isinstance(news, Exception):
            raise news
        if news is not None:
            thread, event = news
            self._take(thread, event)
            if thread is self._root and event.type in ENDS:
                return True
        return bool(self.waiting) and not self._at_work

    def _take(self, thread: Conversation, event: Event) -> None:
        self._progress.take(thread.id, event)
        match event.type, event.data:
            case EventType.SUBAGENT_SPAWNED, {"childThreadId": str(child), "agentType": str(agent)}:
                self._at_work.add(child)
                self._progress.watch(child, agent)
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

    async def _read(self, thread: Conversation, run_id: str | None = None) -> None:
        """A thread's events, those of one run or all, up to the end of that run."""
        async for event in thread.events():
            if run_id is None or event.data.get("runId") == run_id:
                self._news.put_nowait((thread, event))
                if event.type in ENDS:
                    return
        await thread.wait(0)  # which says so if it failed
        raise Unavailable(f"thread {thread.id} was closed")

    async def _read_child(self, thread_id: str) -> None:
        until = asyncio.get_running_loop().time() + CHILD_SECONDS
        while True:
            try:
                thread = await self._place.conversation(thread_id)
                break
            except NotFound:
                if asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(0.05)
        await self._read(thread)

    async def _ask(self, thread: Conversation) -> None:
        """Have a person answer what a thread waits with, if it still does."""
        async with self._asking:
            while calls := (await thread.wait(0)).meta.pending_tool_calls:
                decisions = await self._person.decide(calls)
                if decisions is None:
                    self.waiting[thread.id] = calls
                    break
                try:
                    await thread.decide(decisions)
                except (InvalidInput, WrongState) as error:  # arguments that do not fit, or somebody was faster
                    complain(error)
        self._news.put_nowait(None)
