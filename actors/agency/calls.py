"""Operations of an agency as other processes call them, one line each with the operation's own signature.

Here are those that hosts and feeds call, and those that `AgencyHandle` and `ThreadHandle` complete with ids and checks.
Operations that clients call as they are, are lines of `AgencyHandle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.agency.access import Access
from actors.agency.budget_keeper import BudgetKeeper
from actors.agency.journal_feed import JournalFeed
from actors.agency.scheduling import Scheduler
from actors.agency.threads import AgencyThreads
from actors.caller import Caller
from actors.operations import remote
from agency.errors import AgencyError


class AgencyCalls:
    def __init__(self, caller: Caller, agency_id: str) -> None:
        self._caller = caller
        self._agency_id = agency_id

    async def _call(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], done: type[AgencyError] | None
    ) -> Any:
        return await self._caller.call_agency(self._agency_id, name, args, kwargs, done)

    create_thread = remote(AgencyThreads.create_thread)
    fork_thread = remote(AgencyThreads.fork_thread)
    spawn = remote(AgencyThreads.spawn)
    thread = remote(AgencyThreads.thread)
    summary = remote(AgencyThreads.summary)
    stored_run = remote(AgencyThreads.stored_run)
    allowance = remote(BudgetKeeper.allowance)
    journal = remote(JournalFeed.journal)
    next_journal_page = remote(JournalFeed.next_journal_page)
    add_key = remote(Access.add_key)
    check_key = remote(Access.check_key)
    create_schedule = remote(Scheduler.create_schedule)
    run_schedule = remote(Scheduler.run_schedule)
