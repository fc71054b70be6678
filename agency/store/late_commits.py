"""Commits whose sync takes its time, as on storage that nodes share: a worker thread ends them, never the event loop.

A draft is applied on the loop, in a transaction that stays open, so the thread that made it goes on at once and reads
what it wrote. The transaction is committed by a worker thread, with all that was applied meanwhile: several drafts of a
thread may become one commit, and the syncs of different threads overlap. What leaves the process waits for that:
`when_durable` and `durable` keep the order apply, commit, publish. A crash before the commit loses what no client, tool
or model has seen.

While the worker commits, the connection is its own, and a use of it on the loop would hold up all threads of the
process. `quiet` waits for that without holding up the loop.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

WORKERS = 64
"""They do nothing but wait for the disk."""

GATHER_SECONDS = 0.001
"""How long a transaction stays open for what else the same result leads to."""

_pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="commit")


def _begin_pool() -> None:
    """A forked process has none of the threads that its pool remembers."""
    global _pool
    _pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="commit")


os.register_at_fork(after_in_child=_begin_pool)


def _ignore(error: BaseException) -> None:
    pass


Then = Callable[[], None]
Failed = Callable[[BaseException], None]


class LateCommits:
    def __init__(self, commit: Callable[[], None], on_error: Failed, seq: int) -> None:
        """`commit` commits the open transaction; it is called in a worker thread. `on_error` is called with what has
        kept a commit from disk: all that was applied since the one before is lost. `seq` is the latest event's."""
        self._commit = commit
        self._on_error = on_error
        self._applied = 0
        self._durable = 0
        self._committing: asyncio.Future[None] | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[int, Then, Failed]] = deque()
        self._closing = False
        self.error: BaseException | None = None
        self.seq = self._applied_seq = seq
        """Of the latest event that is on disk."""

    @property
    def committing(self) -> bool:
        """Whether a worker has the connection."""
        return self._committing is not None

    def applied(self, seq: int) -> None:
        """One more draft is in the open transaction, with events up to `seq`."""
        self._applied += 1
        self._applied_seq = seq
        self._soon()

    def lose(self, error: BaseException) -> None:
        """What was applied is gone from the open transaction: an error while one more was applied took it all back."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._fail(error)
        self._on_error(error)

    def when_durable(self, then: Then, failed: Failed = _ignore) -> None:
        """Call `then` once all that is applied by now is on disk, in the order of these calls; `failed` if it never
        is."""
        if self.error is not None:
            failed(self.error)
        elif self._durable >= self._applied:
            then()
        else:
            self._waiting.append((self._applied, then, failed))

    async def durable(self) -> None:
        """Return once all that is applied by now is on disk; raises what keeps it from that."""
        on_disk: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then() -> None:
            if not on_disk.done():
                on_disk.set_result(None)

        def failed(error: BaseException) -> None:
            if not on_disk.done():
                on_disk.set_exception(error)

        self.when_durable(then, failed)
        await on_disk

    async def quiet(self) -> None:
        """Return when no worker has the connection."""
        while self._committing is not None:
            await asyncio.wait({self._committing})

    def when_quiet(self, then: Then) -> None:
        """Call `then` when no worker has the connection."""
        if self._committing is None:
            then()
        else:
            self._committing.add_done_callback(lambda _: self.when_quiet(then))

    async def close(self, close: Callable[[], None]) -> None:
        """Close the connection by `close`, which commits what is left, in a worker thread."""
        self._closing = True
        if self._gathering is not None:
            self._gathering.cancel()
        await self.quiet()
        try:
            await asyncio.to_thread(close)
        except BaseException as error:
            self._fail(error)
            raise
        self._reached(self._applied, self._applied_seq)

    def _soon(self) -> None:
        if self._committing is None and self._gathering is None and not self._closing:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._gathering = None
        self._committing = asyncio.get_running_loop().run_in_executor(_pool, self._commit)
        self._committing.add_done_callback(partial(self._ended, self._applied, self._applied_seq))

    def _ended(self, upto: int, seq: int, committed: asyncio.Future[None]) -> None:
        self._committing = None
        if (error := committed.exception()) is not None:
            self._fail(error)
            self._on_error(error)
            return
        self._reached(upto, seq)
        if self._durable < self._applied:
            self._soon()

    def _reached(self, upto: int, seq: int) -> None:
        self._durable, self.seq = upto, seq
        while self._waiting and self._waiting[0][0] <= upto:
            self._waiting.popleft()[1]()

    def _fail(self, error: BaseException) -> None:
        self.error = error
        waiting, self._waiting = self._waiting, deque()
        for _, _, failed in waiting:
            failed(error)
