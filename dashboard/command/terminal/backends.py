"""Where `agency run` runs: in this process, or at a server. Both give threads with the same methods.

A run in this process has a folder of its own below `<data>/runs`, with its thread and those of its subagents, so that
several can run side by side. The folder also records which system the run began with.
"""

from __future__ import annotations

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

from filelock import FileLock, Timeout

from agency.define.blueprint import Blueprint
from agency.define.options import RunOptionFields
from agency.define.system import load_system
from agency.errors import DefinitionError, NotFound, WrongState
from agency.local import LocalRuntime
from agency.messages import Message
from agency.thread.protocols import AnyThread
from dashboard.command.terminal.targets import configured_providers, only

if TYPE_CHECKING:
    from agency.client import AsyncAgency, AsyncClient

_THREAD = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Backend(Protocol):
    def name(self, thread_id: str) -> str:
        """The name that `--continue` takes for a thread."""

    async def begin(self, agent: str | None, task: str | Message, options: RunOptionFields) -> AnyThread:
        """Create a thread that begins with a task."""

    async def resume(self, thread_id: str, task: str | Message | None, options: RunOptionFields) -> AnyThread:
        """An existing thread; a task is sent to it as another message."""

    async def thread(self, thread_id: str) -> AnyThread:
        """A thread by its id, such as a subagent's; `NotFound` if it does not exist yet."""

    async def settle(self, thread: AnyThread) -> None:
        """Return when the other threads have received everything that this thread sent them."""


@dataclass(frozen=True, slots=True)
class LocalBackend:
    """Threads in this process."""

    runtime: LocalRuntime
    thread_id: str
    default: str

    def name(self, thread_id: str) -> str:
        return thread_id

    async def begin(self, agent: str | None, task: str | Message, options: RunOptionFields) -> AnyThread:
        thread = await self.runtime.create_thread(agent or self.default, thread_id=self.thread_id)
        await thread.invoke(task, **options)
        return thread

    async def resume(self, thread_id: str, task: str | Message | None, options: RunOptionFields) -> AnyThread:
        thread = await self.runtime.thread(thread_id)
        if task is not None:
            await thread.invoke(task, **options)
        return thread

    async def thread(self, thread_id: str) -> AnyThread:
        return await self.runtime.thread(thread_id)

    async def settle(self, thread: AnyThread) -> None:
        await (await self.runtime.thread(thread.id)).rest()


@asynccontextmanager
async def local_backend(
    data_dir: Path, system: str | None, default: str, resume: str | None
) -> AsyncIterator[LocalBackend]:
    """Threads in this process; `resume` names the thread of an earlier run."""
    thread_id = resume or f"thr_{secrets.token_hex(4)}"
    folder = _folder(data_dir, thread_id, exists=resume is not None)
    with _exclusive(folder, thread_id):
        noted = folder / "system"
        reference = system or (noted.read_text().strip() if noted.exists() else default)
        providers = configured_providers()
        loaded = load_system(reference, (os.getcwd(),), providers)  # noqa: PTH109  # an entry of sys.path
        first = _default_agent(reference, loaded.agents)
        noted.write_text(reference)
        async with LocalRuntime(loaded, folder, providers=providers) as runtime:
            yield LocalBackend(runtime, thread_id, first)


def _folder(data_dir: Path, thread_id: str, *, exists: bool) -> Path:
    runs = data_dir / "runs"
    folder = runs / thread_id
    if exists and not (_THREAD.fullmatch(thread_id) and folder.is_dir()):
        raise NotFound(f"there is no run {thread_id!r:.100} in {runs}")
    return folder


@contextmanager
def _exclusive(folder: Path, thread_id: str) -> Iterator[None]:
    """Lock a run's folder: a thread belongs to one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise WrongState(f"another process is at work on {thread_id}") from None
    try:
        yield
    finally:
        if not any(folder.glob("*.db")):  # no thread was created
            shutil.rmtree(folder)
        lock.release()


def _default_agent(reference: str, agents: Mapping[str, Blueprint]) -> str:
    """The agent for a task without `--agent`: the one that the module names as `AGENT`, or the first active one."""
    active = [name for name, each in agents.items() if each.status == "active"]
    if not active:
        raise DefinitionError(f"{reference} has no active agent")
    named = getattr(sys.modules[reference.partition(":")[0]], "AGENT", None)
    return named if named in active else active[0]


@dataclass(frozen=True, slots=True)
class ServerBackend:
    """Threads of an agency at a server."""

    agency: AsyncAgency

    def name(self, thread_id: str) -> str:
        return f"{self.agency.id}/{thread_id}"

    async def begin(self, agent: str | None, task: str | Message, options: RunOptionFields) -> AnyThread:
        return await self.agency.create_thread(agent or await self._default_agent(), task, **options)

    async def resume(self, thread_id: str, task: str | Message | None, options: RunOptionFields) -> AnyThread:
        thread = self.agency.thread(thread_id.rpartition("/")[2])
        if task is not None:
            await thread.invoke(task, **options)
        return thread

    async def thread(self, thread_id: str) -> AnyThread:
        thread = self.agency.thread(thread_id)
        await thread.info()  # raises `NotFound` if it does not exist yet
        return thread

    async def settle(self, thread: AnyThread) -> None:
        pass  # the server continues without this process

    async def _default_agent(self) -> str:
        active = [each.name async for each in self.agency.blueprints() if each.status == "active"]
        return only(active, "an agent", "--agent", str)


async def server_backend(client: AsyncClient, agency_id: str | None, resume: str | None) -> ServerBackend:
    """Threads of an agency at a server: the one that `agency_id` or `resume` names, the only one, or a new one."""
    if resume is not None and "/" in resume:
        agency_id = resume.partition("/")[0]
    if agency_id is not None:
        return ServerBackend(client.agency(agency_id))
    known = [each.id async for each in client.agencies()]
    if not known and resume is None:
        return ServerBackend(await client.create_agency("default"))
    return ServerBackend(client.agency(only(known, "an agency", "--agency", str)))
