"""Where `agency run` runs: in this process, or at a server. A thread is used the same way in both.

A run in this process has a folder of its own below `<data>/runs`, with its thread and those of its subagents, so that
several can run beside each other. The folder also keeps which system it began with.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agency.define.blueprint import Blueprint
from agency.define.system import load_system
from agency.errors import DefinitionError, NotFound, WrongState
from agency.events import Event
from agency.local import LocalRuntime
from agency.thread.views import RunEnvelope
from agency.turn.outcomes import Decision
from dashboard.command.finding import configured_providers, only

if TYPE_CHECKING:
    from agency.client import AsyncAgency, AsyncClient

_THREAD = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Conversation(Protocol):
    """A thread, wherever it is."""

    @property
    def id(self) -> str: ...

    def events(self, after: int = 0) -> AsyncIterator[Event]: ...

    async def wait(self, timeout: float | None = None) -> RunEnvelope: ...

    async def decide(self, decisions: Mapping[str, Decision]) -> None: ...

    async def cancel(self) -> None: ...


class Place(Protocol):
    def name(self, thread_id: str) -> str:
        """By what a thread is found again."""

    async def begin(self, agent: str | None, task: str) -> Conversation:
        """A new thread, at work on a task."""

    async def resume(self, thread_id: str, task: str | None) -> Conversation:
        """A thread that is there, with another message if there is a task."""

    async def conversation(self, thread_id: str) -> Conversation:
        """A thread by its id, such as a subagent's."""

    async def settle(self, thread: Conversation) -> None:
        """Return when what a thread has told others has reached them."""


@dataclass(frozen=True, slots=True)
class Here:
    """This process."""

    runtime: LocalRuntime
    thread_id: str
    default: str

    def name(self, thread_id: str) -> str:
        return thread_id

    async def begin(self, agent: str | None, task: str) -> Conversation:
        thread = await self.runtime.create(agent or self.default, thread_id=self.thread_id)
        await thread.send(task)
        return thread

    async def resume(self, thread_id: str, task: str | None) -> Conversation:
        thread = await self.runtime.thread(thread_id)
        if task is not None:
            await thread.send(task)
        return thread

    async def conversation(self, thread_id: str) -> Conversation:
        return await self.runtime.thread(thread_id)

    async def settle(self, thread: Conversation) -> None:
        await (await self.runtime.thread(thread.id)).rest()


@asynccontextmanager
async def here(data_dir: Path, system: str | None, default: str, resume: str | None) -> AsyncIterator[Here]:
    """This process as a place; `resume` names the thread of a run that is there already."""
    thread_id = resume or f"thr_{secrets.token_hex(4)}"
    folder = _folder(data_dir, thread_id, exists=resume is not None)
    with _alone(folder, thread_id):
        noted = folder / "system"
        reference = system or (noted.read_text().strip() if noted.exists() else default)
        providers = configured_providers()
        loaded = load_system(reference, (os.getcwd(),), providers)  # noqa: PTH109  # an entry of sys.path
        first = _first(reference, loaded.agents)
        noted.write_text(reference)
        async with LocalRuntime(loaded, folder, providers=providers) as runtime:
            yield Here(runtime, thread_id, first)


def _folder(data_dir: Path, thread_id: str, *, exists: bool) -> Path:
    runs = data_dir / "runs"
    folder = runs / thread_id
    if exists and not (_THREAD.fullmatch(thread_id) and folder.is_dir()):
        raise NotFound(f"there is no run {thread_id!r:.100} in {runs}")
    return folder


@contextmanager
def _alone(folder: Path, thread_id: str) -> Iterator[None]:
    """A thread belongs to one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WrongState(f"another process is at work on {thread_id}") from None
        try:
            yield
        finally:
            if not any(folder.glob("*.db")):  # nothing came of it
                shutil.rmtree(folder)


def _first(reference: str, agents: Mapping[str, Blueprint]) -> str:
    """Whom to give a task to: the only agent, the one that the module names as `AGENT`, or the first."""
    active = [name for name, each in agents.items() if each.status == "active"]
    if not active:
        raise DefinitionError(f"{reference} has no active agent")
    named = getattr(sys.modules[reference.partition(":")[0]], "AGENT", None)
    return named if named in active else active[0]


@dataclass(frozen=True, slots=True)
class There:
    """An agency at a server."""

    agency: AsyncAgency

    def name(self, thread_id: str) -> str:
        return f"{self.agency.id}/{thread_id}"

    async def begin(self, agent: str | None, task: str) -> Conversation:
        return await self.agency.create_thread(agent or await self._first(), task)

    async def resume(self, thread_id: str, task: str | None) -> Conversation:
        thread = self.agency.thread(thread_id.rpartition("/")[2])
        if task is not None:
            await thread.invoke(task)
        return thread

    async def conversation(self, thread_id: str) -> Conversation:
        thread = self.agency.thread(thread_id)
        await thread.info()  # which says so if there is none yet
        return thread

    async def settle(self, thread: Conversation) -> None:
        pass  # the server goes on

    async def _first(self) -> str:
        active = [each.name async for each in self.agency.blueprints() if each.status == "active"]
        return only(active, "an agent", "--agent", str)


async def there(client: AsyncClient, agency_id: str | None, resume: str | None) -> There:
    """An agency at a server: the one that was named, the only one, or a first one."""
    if resume is not None and "/" in resume:
        agency_id = resume.partition("/")[0]
    if agency_id is not None:
        return There(client.agency(agency_id))
    known = [each.id async for each in client.agencies()]
    if not known and resume is None:
        return There(await client.create_agency("default"))
    return There(client.agency(only(known, "an agency", "--agency", str)))
