"""Letting a run go on that waits for a person: by decisions on its calls, after a pause by hand, under new limits.

Each goes the same way. Check that the run waits for this; run the hooks `on_resume` on a draft, which takes time; check
again, for the run may have ended meanwhile, and another may wait; then advance it with that draft, without awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from agency.approvals.always import approve_always
from agency.approvals.decisions import ApproveResult, Decided, approved_calls, as_decisions, checked_decisions
from agency.approvals.pending import PendingToolCall, pending_approvals
from agency.clock import now_ms
from agency.errors import HookFailed, InvalidInput, WrongState
from agency.idempotency import check_repeated
from agency.messages import ToolCall
from agency.metadata import ThreadMetadata
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.thread.driver import Driver
from agency.thread.pipeline import Pipeline
from agency.thread.views import AGENCY_BUDGET
from agency.turn.effects import CallsDecided, LimitsLifted, ResumeRequested
from agency.turn.outcomes import Decision
from agency.turn.state import Limits, RunCeiling

NONE: Mapping[str, Decision] = {}


class Resuming:
    def __init__(
        self,
        store: ThreadStore,
        thread: ThreadMetadata,
        pipeline: Pipeline,
        driver: Driver,
        ceiling: Callable[[], RunCeiling],
    ) -> None:
        self._store = store
        self._ceiling = ceiling
        self._thread = thread
        self._pipeline = pipeline
        self._driver = driver
        self._run = driver.run

    # Decisions on calls.

    def pending(self) -> tuple[PendingToolCall, ...]:
        """The calls that wait for a person."""
        state = self._run.waiting_tools
        return () if state is None else pending_approvals(self._thread.id, state, self._pipeline.tools)

    async def approve(
        self, modified: Sequence[ToolCall], key: str | None, digest: str, by: str | None
    ) -> ApproveResult:
        """Approve all calls that wait but those in doubt, which go on waiting."""
        pending = self.pending()
        given = as_decisions(approved_calls(pending, modified))
        left = tuple(call.id for call in pending if call.kind == "in_doubt" and call.id not in given)
        if given or not left:
            await self.decide(given, key, digest, by)
        self._driver.check_alive()
        return ApproveResult(in_doubt=left)

    async def decide(self, given: Mapping[str, Decision], key: str | None, digest: str, by: str | None) -> None:
        """Decide on calls, by their ids or their `approval_id`s. With a key that is known, nothing changes; `digest` is
        that of what the caller asked for, `by` the name of the person."""
        if self._is_known(key, digest):
            return
        decided = self._checked(given)
        draft = self._run.draft()
        await self._run_hooks(draft, "hitl", decided.decisions)
        if self._is_known(key, digest):  # the same request came twice, and the other one was quicker
            return
        effect, decided = decided.effect, self._checked(given)
        if (self._run.n, decided.effect) != (draft.run, effect):  # that run ended, and another one asks
            raise WrongState(f"the calls that were to be decided on no longer wait in thread {self._thread.id}")
        if key is not None:
            records.remember_request(draft, key, "running", digest)
        if decided.always:
            approve_always(draft, decided.always)
        self._driver.advance(draft, [CallsDecided(id=effect, at=now_ms(), decisions=decided.decisions, who=by)])

    def _is_known(self, key: str | None, digest: str) -> bool:
        known = None if key is None else records.request(self._store, key)
        if known is not None:
            check_repeated(known.digest, digest)
        return known is not None

    def _checked(self, given: Mapping[str, Decision]) -> Decided:
        self._driver.check_alive()
        state = self._run.waiting_tools
        if state is None:
            raise WrongState(f"no call of thread {self._thread.id} waits for a person")
        return checked_decisions(self._thread.id, state, self._pipeline.tools, given)

    # After a pause by hand.

    async def resume(self) -> None:
        draft = self._run.draft()
        self._check_paused(draft.run)
        await self._run_hooks(draft, "manual")
        self._check_paused(draft.run)
        self._driver.advance(draft, [ResumeRequested(at=now_ms())])

    def _check_paused(self, run: int) -> None:
        self._driver.check_alive()
        if not (self._run.active and self._run.pause_requested and self._run.n == run):
            raise WrongState(f"the run of thread {self._thread.id} was not paused by hand")

    # When a limit is used up.

    async def lift_limits(self, lifted: LimitsLifted) -> None:
        """Go on under these limits, if the run can."""
        if any(value is not None and not value > 0 for value in _limits(lifted)):
            raise InvalidInput("limits are positive numbers")
        self._check_exhausted(self._run.n)
        if self.waits_for_agency():
            raise WrongState(f"the budget of agency {self._thread.agency_id} is used up: raise that")
        code = self._run.exhausted_by
        if lifted.cost_usd is not None and code == "ERR_COST_UNKNOWN":
            raise InvalidInput("what the run costs is not known: lift its limit without a new one, or give the price")
        self._check_ceiling(lifted, code)
        if not self._run.machine.lifts(lifted):
            raise InvalidInput(f"the run would stop at once, as {code}: give it more than it has used")
        await self._lift(lifted)

    def _check_ceiling(self, lifted: LimitsLifted, code: str | None) -> None:
        """What is above the agency's ceiling would be taken back before the next call of a model."""
        most = self._ceiling()
        for name, value in zip(Limits.model_fields, _limits(lifted), strict=True):
            ceiling: float | None = getattr(most, name)
            if value is not None and ceiling is not None and value > ceiling:
                raise InvalidInput(f"no run of agency {self._thread.agency_id} may have more {name} than {ceiling:g}")
        if code == "ERR_COST_UNKNOWN" and most.cost_usd is not None:
            raise WrongState(
                f"no run of agency {self._thread.agency_id} may cost more than {most.cost_usd:g} US dollars, and what "
                "this one costs is not known: give the price, or change the agency's limits"
            )

    async def budget_lifted(self) -> None:
        """Go on, if it was the agency's budget that was used up; otherwise nothing changes."""
        if self.waits_for_agency():
            await self._lift(LimitsLifted(at=now_ms()))

    def waits_for_agency(self) -> bool:
        return (self._run.exhausted_by or "").startswith(AGENCY_BUDGET)

    async def _lift(self, lifted: LimitsLifted) -> None:
        draft = self._run.draft()
        await self._run_hooks(draft, "exhausted")
        self._check_exhausted(draft.run)
        self._driver.advance(draft, [replace(lifted, at=now_ms())])

    def _check_exhausted(self, run: int) -> None:
        self._driver.check_alive()
        if self._run.exhausted_by is None or run != self._run.n:
            raise WrongState(f"no limit of thread {self._thread.id} is used up")

    async def _run_hooks(
        self,
        draft: Draft,
        reason: Literal["hitl", "manual", "exhausted"],
        decisions: Mapping[str, Decision] = NONE,
    ) -> None:
        """Run hooks on behalf of a caller; one that fails ends the run under its own name."""
        try:
            await self._pipeline.on_resume(draft, self._run.id, reason, decisions)
        except HookFailed as error:
            if self._run.active:
                await self._driver.stopping.abort(error)
            raise


def _limits(lifted: LimitsLifted) -> tuple[float | None, ...]:
    return lifted.turns, lifted.time_ms, lifted.tokens, lifted.cost_usd
