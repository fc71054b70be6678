"""Running other people's code: a sync tool off the event loop, and telling whose cancellation one meets.

A sync tool gets a thread of its own for each call, and a daemon: a tool that hangs can be left behind, holds up no other call, and does
not keep the process from ending. (An executor's threads do all three.)
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def in_worker_thread(function: Callable[[], Result]) -> Result:
    """What `function` returns or raises. When cancelled, it returns at once and the thread is left to end by itself."""
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
        except StopIteration as stop:  # a future cannot hold it
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="tool", daemon=True).start()
    return await future


def is_being_canceled() -> bool:
    """Whether somebody cancels the task we are in, or the code that it runs has raised `CancelledError` by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
