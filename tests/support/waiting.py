"""Waiting until something holds, which may come about in another process. The one way that tests wait: no fixed sleeps.

A wait is bounded: a condition that never holds fails the test, with the last value that was seen.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, overload

PATIENCE = 20.0
EVERY = 0.03

Value = TypeVar("Value")


@overload
async def eventually(
    condition: Callable[[], Awaitable[Value]], seconds: float = ..., *, every: float = ...
) -> Value: ...


@overload
async def eventually(condition: Callable[[], Value], seconds: float = ..., *, every: float = ...) -> Value: ...


async def eventually(
    condition: Callable[[], Awaitable[Value] | Value], seconds: float = PATIENCE, *, every: float = EVERY
) -> Value:
    """What the condition gives as soon as that is true. With `every=0`, it is looked at after each step of the loop."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        value: Value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s; the last value was {value!r}")
        await asyncio.sleep(every)


def eventually_sync(condition: Callable[[], Value], seconds: float = PATIENCE, *, every: float = EVERY) -> Value:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s; the last value was {value!r}")
        time.sleep(every)
    return value


async def turns_of_the_loop(count: int = 20) -> None:
    """Let everything in this process that could go on go on: for tests that nothing happens."""
    for _ in range(count):
        await asyncio.sleep(0)


async def cancel_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
