"""An agency's budget: what all its threads may use together, and telling those that were refused when there is more.

What has been used is in the accounts. A thread that asks before a model call and is refused is written down there, so
that it is told (`lift`) when the budget is raised, also by an agency that has died and woken in between.
"""

from __future__ import annotations

import asyncio
import logging

from actors.agency.accounts import Accounts
from actors.agency.context import AgencyContext
from actors.operations import index_operation, operation, urgent
from agency.api.tenancy import AgencyUsage, Budget, Layer
from agency.errors import AgencyError, Forbidden
from agency.local import HOPELESS
from agency.spending import Spent
from agency.turn.state import RunCeiling, least
from agency.wire import Wire

log = logging.getLogger(__name__)

TELLING_AT_ONCE = 16
AGAIN_SECONDS = 1.0


class BudgetKeeper:
    def __init__(self, context: AgencyContext, accounts: Accounts) -> None:
        self._context = context
        self._accounts = accounts

    @index_operation
    async def usage(self) -> AgencyUsage:
        """What all its threads have used, those that were deleted too, and its budget."""
        return self._accounts.usage()

    @operation
    async def set_budget(self, budget: Budget, by: Layer = "owner") -> AgencyUsage:
        """What all threads may use together. Those that had used it up go on, if there is more now. An agency's own is
        refused if it is above the owner's."""
        if by == "agency":
            check_below(self._context.store.layers(Budget).owner, budget, "budget")
        self._context.store.set_layer(budget, by)
        await self._context.installation.announce(self._context.id)
        self._context.installation.lift_soon(self._context.id)
        return self._accounts.usage()

    @operation
    async def ceiling(self) -> RunCeiling:
        """What no run may be above, whatever its blueprint, its caller or its schedule says."""
        both = self._context.store.layers(RunCeiling)
        return RunCeiling(**least(both.owner, both.agency))

    @operation
    async def set_ceiling(self, limits: RunCeiling, by: Layer = "owner") -> RunCeiling:
        """What no run may be above. It counts for runs that are at work, before their next call of a model."""
        if by == "agency":
            check_below(self._context.store.layers(RunCeiling).owner, limits, "limits of a run")
        self._context.store.set_layer(limits, by)
        await self._context.installation.announce(self._context.id)
        return await self.ceiling()

    @urgent
    @index_operation
    async def allowance(self, thread_id: str, spent: Spent) -> str | None:
        """Whether a thread that has used so much may call a model, or the code of the budget that is used up."""
        return self._accounts.allow(thread_id, spent)

    def paused_exhausted(self) -> None:
        """A thread has paused because the budget was used up. If it was refused before the budget was raised and has
        paused after, `set_budget` did not find it: look again."""
        if self._accounts.exhausted is None:
            self._context.installation.lift_soon(self._context.id)

    async def lift(self) -> None:
        """Tell all threads that were refused that there is more to spend, if there is, until each has been told. After
        a crash this begins again, so a thread may be told twice, which changes nothing."""
        told: set[str] = set()
        while not self._context.deleting and self._accounts.exhausted is None:
            left = [each for each in self._accounts.refused() if each not in told]
            if not left:
                return
            told |= await self._tell(left)
            if not told.issuperset(left):
                await asyncio.sleep(AGAIN_SECONDS)

    async def _tell(self, threads: list[str]) -> set[str]:
        """Returns the threads that need not be told again: they know it, or can never be told."""
        at_once = asyncio.Semaphore(TELLING_AT_ONCE)

        async def tell(thread_id: str) -> bool:
            async with at_once:
                try:
                    await self._context.installation.lift(self._context.address(thread_id))
                except HOPELESS as error:
                    log.warning("thread %s cannot be told that it may go on: %s", thread_id, error)
                except AgencyError as error:
                    log.warning("thread %s cannot be told yet that it may go on: %s", thread_id, error)
                    return False
            return True

        done = await asyncio.gather(*map(tell, threads))
        return {thread_id for thread_id, is_done in zip(threads, done, strict=True) if is_done}


def check_below(owners: Wire, agencys: Wire, what: str) -> None:
    """Refuse numbers of an agency that are above the owner's."""
    over = [
        f"{field.alias} can be at most {most:,.15g}, not {wanted:,.15g}"
        for name, field in type(owners).model_fields.items()
        if (most := getattr(owners, name)) is not None
        and (wanted := getattr(agencys, name)) is not None
        and wanted > most
    ]
    if over:
        raise Forbidden(f"the owner of this installation has set the {what}: {'; '.join(over)}")
