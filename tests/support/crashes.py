"""Work in a forked process, which may be killed at any of its commits."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable
from typing import Literal

from agency import (
    EventType,
    Thread,
)
from agency.testing import die_at_commit

ENDS = {EventType.TOOL_OUTPUT, EventType.TOOL_ERROR}
PARTS = 4
"""Into how many tests a crash at every commit is split, so that they run side by side."""
IN_DOUBT = "may or may not have taken effect"


def commits_of(part: int) -> range:
    """Every fourth commit, from the part's first one on. Who tries them goes on until one is not reached."""
    return range(part + 1, 500, PARTS)


async def started(thread: Thread, call_id: str) -> None:
    async with asyncio.timeout(20):
        async for event in thread.events():
            if event.type == EventType.TOOL_STARTED and event.data["callId"] == call_id:
                return


def killed_at(n: int, when: Literal["before", "after"], work: Callable[[], None]) -> int:
    """Do something in a forked process that is killed before or after its n-th commit; its exit status. It is 0 if the
    work has fewer commits: a test that tries every commit ends there."""

    def until_killed() -> None:
        die_at_commit(n, when)
        work()

    return in_a_process(until_killed)


def in_a_process(work: Callable[[], None]) -> int:
    """Run something in a forked process; its exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
