"""The end of a run: what is closed in the commit that ends it, and what the middleware are told after it.

`close` stages and never awaits, for it is part of the commit in which the run ends. The hooks `on_run_end` take time,
so they run after that commit, each end in a task of its own. The file remembers which ends are untold: if telling is
cut short, it is done again when the thread is next open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

from agency import events
from agency.children import outbox, rows
from agency.children.family import Family
from agency.children.parcels import LateSpending
from agency.children.reports import report_of
from agency.clock import now_ms
from agency.define.hooks import RunEnd
from agency.errors import AgencyError, HookFailed, ModelError, told_of
from agency.events import NewEvent
from agency.metadata import ThreadMetadata
from agency.spending import NOTHING_SPENT, Spent
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.store.timers import drop_timers
from agency.store.tokens import close_all_tokens
from agency.thread.current_run import CurrentRun
from agency.thread.files import files_for_parent
from agency.thread.pipeline import Pipeline
from agency.thread.run_facts import capabilities_used
from agency.thread.views import run_end
from agency.tracebacks import is_unexpected, log_failure, stack_of
from agency.turn.effects import RunAborted
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import Stopped, TurnOutcome
from agency.wire import sayable_text

log = logging.getLogger(__name__)


class RunEndings:
    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        thread: ThreadMetadata,
        pipeline: Pipeline,
        family: Family,
        commit: Callable[[Draft], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._run = run
        self._thread = thread
        self._pipeline = pipeline
        self._family = family
        self._commit = commit
        self._fail = fail
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._spent = records.spent(store)  # by the runs that have ended

    def spent(self) -> Spent:
        """What all runs of the thread have used so far, children left out."""
        return self._spent + self._run.spent()

    def close(self, draft: Draft, outcome: TurnOutcome, *, fits_schema: bool, drops_queue: bool) -> None:
        """The run has ended: cancel its children, keep what was sent too late, and report to the parent. `fits_schema`:
        its result had to."""
        last = draft.events.pop()  # the run's own end comes after that of its children
        may_go_on = not isinstance(outcome, Stopped) and self._thread.parent is None
        self._family.cancel_all(draft, but_background=may_go_on)
        draft.emit(self._capabilities(draft, fits_schema))
        draft.emit(last)
        if (
            isinstance(outcome, Stopped) and outcome.reason == "canceled"
        ):  # otherwise the next run begins with what came too late for this one
            self._keep_late_messages(draft, drops_queue)
        drop_timers(draft, "sleep", "approval")
        rows.drop_waits(draft)
        close_all_tokens(draft)
        records.forget_all_calls(draft)
        records.forget_asides(draft)
        if self._pipeline.sees_runs_end:
            records.keep_end(draft, self._run.n)
        self._spent += self._run.machine.spent(now_ms())
        records.save_spent(draft, self._spent)
        self._report(draft, outcome)

    def _capabilities(self, draft: Draft, fits_schema: bool) -> NewEvent:
        run, agents = self._run.n, self._family.agents_of(draft, self._run.n)
        warnings = records.warnings(draft, run)
        used = capabilities_used(self._run.machine, agents, warnings, fits_schema=fits_schema)
        return events.capabilities_resolved(used.model_dump(mode="json"))

    def _keep_late_messages(self, draft: Draft, drops_queue: bool) -> None:
        late = records.take_inbox(self._store, draft, next_run=drops_queue)
        ids = (f"m{self._run.n}.late{i}" for i in range(1, len(late) + 1))
        draft.messages += (post.message.model_copy(update={"id": each}) for post, each in zip(late, ids, strict=True))

    def _report(self, draft: Draft, outcome: TurnOutcome) -> None:
        """Tell the parent, once: what a child does in later runs is not what its parent asked for."""
        parent = self._thread.parent
        if parent is not None and self._run.n == 1:
            files = files_for_parent(self._pipeline, draft, parent.returns)
            outbox.send(draft, report_of(self._thread, outcome, self._spent + self._family.spent(), files))

    def report_late(self, draft: Draft) -> None:
        """A child of the run that the parent started has told what it used, after the parent was told of that run's
        end: the parent is told once more what it has cost."""
        parent, first = self._thread.parent, records.run(self._store, 1)
        if parent is None or first is None:
            return
        machine = TurnMachine(first.checkpoint)
        if machine.outcome is not None:
            spent = machine.spent(now_ms()) + (self._family.spent_in(1) or NOTHING_SPENT)
            outbox.send(draft, LateSpending(to=parent.thread_id, token=parent.token, spent=spent))

    # Telling the middleware.

    @property
    def busy(self) -> bool:
        """Whether the end of a run is being told."""
        return any(not task.done() for task in self._tasks)

    def tell(self, n: int | None = None) -> None:
        """Tell the middleware of the ends that are still untold: all, or that of one run."""
        for run in records.untold_ends(self._store, n):
            ended = run_end(run_id(self._thread.id, run.n), TurnMachine(run.checkpoint))
            task = asyncio.create_task(self._tell(run.n, ended), name=f"after {ended.run_id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell(self, n: int, ended: RunEnd) -> None:
        draft = self._store.draft(n)
        try:
            await self._pipeline.on_run_end(draft, ended)
            records.forget_end(draft, n)
            if not self._closed:
                self._commit(draft)
        except Exception as error:
            self._fail(error)

    def stop(self) -> None:
        """Tell no more, and commit nothing of what is being told."""
        self._closed = True
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()


def aborted_by(error: Exception) -> RunAborted:
    """The end of a run by an error that is not the model's own: a hook's, or ours."""
    reason: Literal["middleware_abort", "runtime_error"] = (
        "middleware_abort" if isinstance(error, HookFailed) else "runtime_error"
    )
    code, message = AgencyError.code, f"{type(error).__name__}: {error}"
    if isinstance(error, AgencyError):
        code, message = error.model_code if isinstance(error, ModelError) else error.code, told_of(error)
        if error.told:
            log.warning("a run cannot go on: %s", error)
    stack = error.stack if isinstance(error, HookFailed) else ""
    if is_unexpected(error):
        stack = stack_of(error)
        log_failure(log, "a run cannot go on", error)
    return RunAborted(at=now_ms(), reason=reason, code=code, message=sayable_text(message), stack=stack)
