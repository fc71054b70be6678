"""Waiting for something to become true, which it may do in another process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, overload

from actors import Cluster, ThreadHandle
from agency import Event

PATIENCE = 20.0
EVERY = 0.03

Value = TypeVar("Value")


@overload
async def eventually(condition: Callable[[], Awaitable[Value]], seconds: float = ...) -> Value: ...


@overload
async def eventually(condition: Callable[[], Value], seconds: float = ...) -> Value: ...


async def eventually(condition: Callable[[], Awaitable[Value] | Value], seconds: float = PATIENCE) -> Value:
    """What the condition gives as soon as that is true; it fails if it never is."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        found = condition()
        value: Value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {seconds:g} s; the last value was {value!r}")
        await asyncio.sleep(EVERY)


async def asleep(cluster: Cluster, *threads: ThreadHandle) -> bool:
    """Whether all of them hibernate."""
    return not await cluster.where([thread.address for thread in threads])


def directory_of(cluster: Cluster) -> int:
    """The process of an installation's directory, which is the one that holds the lock on its folder."""
    lock = str(cluster.settings.data_dir / "directory.lock")
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(str(file.readlink()) == lock for file in (process / "fd").iterdir()):
                return int(process.name)
    raise AssertionError(f"nobody holds {lock}")


def follow(thread: ThreadHandle, after: int = 0) -> AsyncGenerator[Event, None]:
    """A thread's events, which can be closed; until then, the thread stays awake."""
    return thread.events(after)
