"""Stopping a run: canceling it, aborting it, interrupting it.

Any number of callers may want it at once, and callers go away; the run is stopped once, in a task that sees it through.
First the effect loop stops, which may take a moment; then, without awaiting, the run ends or goes on. A run that is
only interrupted leaves what it is doing and goes on with what is in the inbox; if a caller wants it to end while it is
being stopped, it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from agency.children.family import Family
from agency.clock import now_ms
from agency.errors import AgencyError
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import drop_timers
from agency.store.tokens import close_all_tokens
from agency.thread.batches import BatchRunner, emit_end
from agency.thread.current_run import Advance, CurrentRun
from agency.thread.effect_loop import EffectLoop
from agency.thread.run_endings import aborted_by
from agency.turn import effects as fx
from agency.turn.machine import ABORTED, INTERRUPTED
from agency.turn.outcomes import Canceled, Settled


class Stopping:
    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        loop: EffectLoop,
        batches: BatchRunner,
        family: Family,
        used: Callable[[], fx.Used],
        advance: Advance,
    ) -> None:
        """`used` is what the model call has used that is being stopped."""
        self._store = store
        self._run = run
        self._loop = loop
        self._batches = batches
        self._family = family
        self._used = used
        self._advance = advance
        self._task: asyncio.Task[None] | None = None
        self._ending: Callable[[], fx.Input] | None = None
        self.drops_queue = False
        """Whether canceling drops what was sent for the next run."""

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def cancel(self, by: fx.CanceledBy, *, drops_queue: bool = False) -> None:
        """End the run as canceled. What was sent for the next run starts it, unless it is dropped, too."""
        self.drops_queue = drops_queue
        await self._stop(lambda: fx.RunCanceled(at=now_ms(), by=by, used=self._used()))

    async def abort(self, error: AgencyError) -> None:
        """End the run as an error that is not the model's."""
        await self._stop(lambda: aborted_by(error))

    async def interrupt(self) -> None:
        """Leave what is being done and go on with what is in the inbox."""
        await self._stop(None)

    async def _stop(self, ending: Callable[[], fx.Input] | None) -> None:
        """Without an ending, the run is only interrupted."""
        if not self.busy:
            self._ending = ending
            self._task = asyncio.create_task(self._stop_once(), name=f"stop {self._run.id}")
        elif self._ending is None:
            self._ending = ending
        assert self._task is not None
        await asyncio.shield(self._task)

    async def _stop_once(self) -> None:
        run = self._run.n
        await self._loop.stop()
        try:  # while that took its time, the run may have ended, and another begun
            if self._run.active and self._run.n == run and not self._loop.closed:
                if self._ending is not None:
                    self.end_now(self._ending())
                elif records.is_interrupted(self._store):  # otherwise the message has joined already
                    self.interrupt_now()
        finally:
            self._loop.restart()

    # With the effect loop stopped, or not yet started. These never await.

    def end_now(self, ending: fx.Input) -> None:
        self._loop.follow(None)
        draft = self._run.draft()
        dropped = self._batches.drop(draft, ABORTED if isinstance(ending, fx.RunAborted) else Canceled())
        self._advance(draft, [ending] if dropped is None else [dropped, ending])

    def interrupt_now(self) -> None:
        self._loop.follow(None)
        draft = self._run.draft()
        known = self._family.leave(draft)
        if (state := self._run.waiting_tools) is not None:
            self._family.cancel_those_of(draft, self._run.n, state.effect)
            self._batches.take_up_to_drop(draft, state)
        drop_timers(draft, "sleep", "approval")
        close_all_tokens(draft)
        records.forget_all_calls(draft)
        self._advance(draft, self._interruption(draft, known))

    def _interruption(self, draft: Draft, known: Mapping[str, Settled]) -> Iterator[fx.Input]:
        """What the machine is fed, each part when it has taken the one before: results of the batch under way, results
        of calls that waited for children, and at last what is in the inbox, unless a tool has ended the run by then:
        then the next run begins with that."""
        if (dropped := self._batches.drop(draft, INTERRUPTED, known, goes_on=True)) is not None:
            yield dropped
        for call_id, outcome in known.items():
            effect = self._run.machine.outstanding or 0
            if (pending := self._run.awaits_call(self._run.n, effect, call_id)) is not None:
                emit_end(draft, pending, outcome)
                yield fx.CallSettled(id=effect, at=now_ms(), call_id=call_id, outcome=outcome)
        if self._run.active:
            said = tuple(post.message for post in records.take_inbox(self._store, draft))
            yield fx.RunInterrupted(at=now_ms(), messages=said, used=self._used())
