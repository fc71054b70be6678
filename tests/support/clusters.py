"""Installations on the Ray that the tests share, and what tests ask of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import ray

from actors import AgencyHandle, Cluster, ThreadHandle
from actors.agency_hosts import home_of, names_of
from agency import Event
from tests.support.waiting import eventually

Install = Callable[..., Awaitable[Cluster]]
"""Make an installation with settings of one's own: a fixture of the tests of actors."""


async def asleep(cluster: Cluster, *threads: ThreadHandle) -> bool:
    """Whether all of them hibernate."""
    return not await cluster.where([thread.address for thread in threads])


async def evict(cluster: Cluster, thread: ThreadHandle) -> None:
    """Have a thread's host close it, without a word to the directory."""
    (name,) = (await cluster.where([thread.address])).values()
    host = ray.get_actor(name, namespace=cluster.settings.namespace)
    await host.evict.remote(thread.address)


def directory_of(cluster: Cluster) -> int:
    """The process of an installation's directory."""
    return directory_in(cluster.settings.data_dir)


async def home_process(cluster: Cluster, agency_id: str) -> int:
    """The process of the agency host in which an agency lives, once it says so."""
    home = home_of(agency_id, names_of(cluster.settings.agency_hosts))

    async def found() -> int | None:
        (status,) = (each for each in (await cluster.status()).agency_hosts if each.name == home)
        return status.pid if status.state == "ready" else None

    return await eventually(found) or 0


def directory_in(data_dir: Path) -> int:
    """The process of the directory of the installation in a folder: the one that holds the lock on it."""
    lock = str(data_dir / "directory.lock")
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(str(file.readlink()) == lock for file in (process / "fd").iterdir()):
                return int(process.name)
    raise AssertionError(f"no process holds {lock}")


def follow(thread: ThreadHandle, after: int = 0) -> AsyncGenerator[Event, None]:
    """A thread's events, which can be closed; until then, the thread stays awake."""
    return thread.events(after)


async def all_threads(agency: AgencyHandle) -> list[str]:
    """The ids of all threads of an agency, page after page."""
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = await agency.threads(after, 100)
        found += [thread.id for thread in page.threads]
        after = page.next
    return found
