"""Running other people's code: a sync tool off the event loop, and stopping what will not stop.

Each call of a sync tool gets a thread of its own, a daemon: a tool that hangs can be left behind, holds up no other
call, and does not keep the process from ending. The threads of an executor would fail at all three: a hung tool keeps
one of few workers, and the interpreter waits for it at exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from agency.errors import AgencyError, told_of
from agency.secrets import without_secrets
from agency.wire import sayable_text

log = logging.getLogger(__name__)

STOP_GRACE = 2.0
"""Seconds that code which is stopped gets to clean up before it is left behind."""

Result = TypeVar("Result")


async def in_worker_thread(function: Callable[[], Result]) -> Result:
    """What `function` returns or raises. When canceled, it returns at once and the thread is left to end by itself."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # there is a result if there is no error

    def work() -> None:
        result: Result | None = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except (StopIteration, GeneratorExit) as stop:  # a future cannot carry these: in a coroutine they mean its end
            error = RuntimeError(f"{type(stop).__name__}: {stop}")
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="tool", daemon=True).start()
    return await future


def is_ours(error: BaseException) -> bool:
    """Whether what other people's code raised is meant for us: Ctrl-C, or the cancellation of the task we are in.

    Anything else, exit() and a `CancelledError` of its own included, is a failure of that code.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


def what_failed(error: BaseException) -> str:
    """What other people's code has raised, as it may be stored and shown: nothing of the machine that a server runs on,
    which the log has instead."""
    if isinstance(error, AgencyError) and error.told:
        log.warning("other people's code met with %s: %s", type(error).__name__, error)
    return without_secrets(sayable_text(f"{type(error).__name__}: {told_of(error)}"))


class TimedOut(Exception):
    """Ours, and not the `TimeoutError` that the code itself may raise."""


async def within(seconds: float, work: Awaitable[Result]) -> Result:
    """Like `asyncio.timeout`, but code that ignores its cancellation is left behind, not waited for."""
    exits: list[SystemExit] = []

    async def guarded() -> Result | None:
        try:
            return await work
        except SystemExit as error:  # out of a task, it would end the whole event loop
            exits.append(error)
            return None

    task = asyncio.create_task(guarded())
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not task.done():
        await _stop(task)
        raise TimedOut
    if exits:
        raise exits[0]
    return task.result()  # type: ignore[return-value]  # None only if it exited


async def _stop(task: asyncio.Task[Result]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=STOP_GRACE)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
