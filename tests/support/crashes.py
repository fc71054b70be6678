"""Work in a forked process, which may be killed at any of its commits."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Literal

from agency import Event, EventType, Thread
from agency.testing import die_at_commit

ENDS = {EventType.TOOL_OUTPUT, EventType.TOOL_ERROR}
RECOVERIES = {EventType.RUN_RECOVERED, EventType.TOOL_RETRIED, EventType.MODEL_RETRIED}
GONE = ("died", "stopped")
"""Why a process that went away is told of."""
PARTS = 4
"""Into how many tests a crash at every commit is split, so that they run side by side."""
IN_DOUBT = "may or may not have taken effect"


def commits_of(part: int) -> range:
    """Every fourth commit, from the part's first one on. Who tries them goes on until one is not reached."""
    return range(part + 1, 500, PARTS)


def as_undisturbed(events: Iterable[Event]) -> list[Event]:
    """The events without those that tell of a process that went away, and of what was done once more because of that:
    the only ones that a run may have more of than the same run without a crash. Retries after a failure stay."""
    return [event for event in events if event.type not in RECOVERIES or event.data["why"] not in GONE]


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


Operate = Callable[[Path], Coroutine[None, None, None]]
"""What a patient user does in a folder, whatever is there already."""


def killed_and_resumed(
    folder: Path, when: Literal["before", "after"], operate: Operate, *, least: int
) -> Iterator[Path]:
    """Do something, killed at its first commit, then at its second, and so on until it has no more; each time in a
    folder of its own, and once more to the end, which must succeed. The folders, for a look. More than `least` times
    it must have been killed."""
    for n in range(1, 200):
        own = folder / str(n)
        own.mkdir()

        def work(own: Path = own) -> None:
            asyncio.run(operate(own))

        status = killed_at(n, when, work)
        assert status in (0, -signal.SIGKILL), n
        assert in_a_process(work) == 0, n
        yield own
        if status == 0:
            assert n > least
            return
    raise AssertionError("it is killed however many commits it is left")


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
