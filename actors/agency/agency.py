"""The Agency: the control plane of one tenant. It knows its threads, its blueprints, where its models are and what it
may spend, when it starts threads by itself, and never calls a model.

It consists of parts, each with its own operations: `catalogue` (blueprints, providers), `threads` and `deletion`,
`access` (keys), `budget_keeper`, `scheduling` and `journal_feed`. All of them keep what lasts in the agency's one file;
only `shelves`, which hosts write as well, and the `overview`, which is made of the threads' files, have their own.
Whatever enters here is performed by that file (`agency_file`): it is answered once it is on disk.

What it begins, it finishes: that a thread is to be made or deleted is written down first, so an agency that dies in
the middle goes on with it when it is next awake.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.address import Files
from actors.agency.access import Access
from actors.agency.accounts import Accounts
from actors.agency.budget_keeper import BudgetKeeper
from actors.agency.catalogue import Catalogue
from actors.agency.context import AgencyContext, System, checked_name
from actors.agency.deletion import ThreadDeletion
from actors.agency.durable_orders import DurableOrders
from actors.agency.installation import Installation
from actors.agency.journal_feed import JournalFeed
from actors.agency.limits import StorageLimits
from actors.agency.overview import Overview
from actors.agency.schedules import ENDED
from actors.agency.scheduling import Scheduler
from actors.agency.shelves import AgencyShelves
from actors.agency.store import AgencyStore
from actors.agency.threads import AgencyThreads
from actors.operations import Operation, is_index_operation, is_urgent_operation, operation, operations_of
from actors.settings import Settings
from actors.updates import ThreadUpdate
from agency.api.tenancy import AgencyInfo, AgencyLayers, Budget, Layer
from agency.approvals.ceilings import layered, milder
from agency.approvals.rules import RULES_MOST, Policy
from agency.errors import AgencyError, Forbidden, InvalidInput
from agency.names import check_name
from agency.turn.state import RunCeiling


class Agency:
    def __init__(self, context: AgencyContext) -> None:
        self._context = context
        self._store = context.store
        self._file = context.store.file
        accounts = Accounts(context.store)
        self._catalogue = Catalogue(context)
        self._threads = AgencyThreads(context, self._catalogue)
        self._scheduler = Scheduler(context, self._threads)
        self._overview = Overview(context)
        self._deletion = ThreadDeletion(context, accounts, self._scheduler, self._overview)
        self._budget = BudgetKeeper(context, accounts)
        self._feed = JournalFeed(context)
        self._access = Access(context)
        self._shelves = AgencyShelves(context)
        self.deleted = False

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Settings,
        system: System,
        installation: Installation,
        create: AgencyInfo | None = None,
    ) -> Agency:
        if create is not None and not path.exists():
            # A late write may have brought back shelves of a deleted agency with this id; a new one begins without.
            shutil.rmtree(Files(settings.data_dir).shelves(create.id), ignore_errors=True)
        store = AgencyStore.open(path, settings.files, create)
        try:
            orders = DurableOrders(installation, store.file)
            context = AgencyContext(path.parent.name, store, settings, system, orders, store.is_deleting)
            return cls(context)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """It may take its time for the disk."""
        self._store.close()

    async def close_in_worker(self) -> None:
        """Close without keeping the event loop waiting for the disk."""
        await self._file.close_in_worker()

    async def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call an operation of one of its parts by name."""
        for part in self._parts:
            if (method := AGENCY_OPERATIONS[type(part)].get(name)) is not None:
                return await self._file.perform(method(part, *args, **kwargs))
        raise AgencyError(f"an agency has no operation {name!r:.100}")

    @property
    def _parts(self) -> tuple[object, ...]:
        return (
            self,
            self._threads,
            self._budget,
            self._feed,
            self._access,
            self._catalogue,
            self._scheduler,
            self._deletion,
            self._shelves,
            self._overview,
        )

    @property
    def deleting(self) -> bool:
        return self._context.deleting

    @property
    def watched(self) -> bool:
        """Whether a client waits for events, or did a moment ago."""
        return self._feed.watched

    # The agency itself.

    async def check_made_as(self, info: AgencyInfo) -> None:
        """Refuse a request that wants this agency made with another name than it was."""
        await self._file.quiet()
        self._store.check_made_as(info)

    @operation
    async def info(self) -> AgencyInfo:
        """Its name, when it was created, and its budget."""
        return self._store.info()

    @operation
    async def rename(self, name: str) -> AgencyInfo:
        """Give the agency another name. Its id stays."""
        self._store.rename(checked_name(name))
        return self._store.info()

    @operation
    async def layers(self, by: Layer = "owner") -> AgencyLayers:
        """What the owner has set for the agency, and what the agency has for itself."""
        return AgencyLayers(
            yours=by,
            budget=self._store.layers(Budget),
            policy=self._store.layers(Policy),
            limits=self._store.layers(RunCeiling),
        )

    @operation
    async def policy(self) -> Policy:
        """Which calls a person has to approve, whatever the blueprints say."""
        both = self._store.layers(Policy)
        whole = layered(both.owner, both.agency)
        return Policy(rules=whole.rules, timeout_ms=whole.timeout_ms, on_timeout=whole.on_timeout)

    @operation
    async def set_policy(self, policy: Policy, by: Layer = "owner") -> Policy:
        """Say which calls a person has to approve. It counts for every model's reply that comes from now on. An
        agency's own is refused if it is plainly milder than the owner's."""
        StorageLimits(self._context.settings, self._store).check_policy(policy)
        if len(policy.rules) > RULES_MOST:
            raise InvalidInput(f"a policy has at most {RULES_MOST} rules")
        for rule in policy.rules:
            check_name(rule.tool, "the tool of a rule")
        if by == "agency" and (why := milder(self._store.layers(Policy).owner, policy)) is not None:
            raise Forbidden(why)
        self._store.set_layer(policy, by)
        await self._context.installation.announce(self._context.id)
        return await self.policy()

    @operation
    async def delete(self) -> None:
        """Delete the agency with all its threads and files."""
        await self._mark_deleting()
        self._feed.wake_watchers()
        await self._deletion.delete_marked()
        await self._overview.stop()
        # The shelves go before the agency's own file, which says that it is being deleted: a directory that dies in
        # between finds it, and deletes the rest.
        await asyncio.to_thread(shutil.rmtree, self._context.files.shelves(self._context.id), ignore_errors=True)
        self.deleted = True
        await self.close_in_worker()
        shutil.rmtree(self._context.files.folder(self._context.id), ignore_errors=True)

    async def _mark_deleting(self) -> None:
        """From now on nothing new begins here; if that cannot be written down, everything is as it was."""
        self._context.deleting, before = True, self._context.deleting
        try:
            self._store.mark_all_deleting()
            await self._file.durable()
        except BaseException:
            self._context.deleting = before
            raise

    # What the directory has it do.

    async def finish(self) -> None:
        """Finish what was interrupted: making threads, deleting them, and telling those that may spend again."""
        await self._file.perform(self._finish())

    async def _finish(self) -> None:
        if self.deleting:
            await self.delete()
            return
        await self._threads.finish()
        await self._deletion.delete_marked()
        await self._budget.lift()

    async def lift(self) -> None:
        """Tell the threads that were refused that there is more to spend, if there is."""
        await self._file.perform(self._budget.lift())

    async def run_due(self) -> None:
        """Start the threads that schedules want by now."""
        await self._file.perform(self._scheduler.run_due())

    async def take(self, updates: Sequence[ThreadUpdate]) -> None:
        """Write down how far threads have got, and do what follows from that."""
        await self._file.perform(self._take(updates))

    async def _take(self, updates: Sequence[ThreadUpdate]) -> None:
        if self.deleting:
            return
        self._feed.write(updates)
        await self._file.durable()
        self._feed.wake_watchers()
        if any(update.status in ENDED for update in updates):
            self._scheduler.threads_ended()
        if any(update.reason == "exhausted" for update in updates):
            self._budget.paused_exhausted()


AGENCY_OPERATIONS: dict[type[object], Mapping[str, Operation]] = {
    part: operations_of(part)
    for part in (
        Agency,
        AgencyThreads,
        BudgetKeeper,
        JournalFeed,
        Access,
        Catalogue,
        Scheduler,
        ThreadDeletion,
        AgencyShelves,
        Overview,
    )
}


_ALL = {name: method for found in AGENCY_OPERATIONS.values() for name, method in found.items()}
_INDEX_OPERATIONS = frozenset(name for name, method in _ALL.items() if is_index_operation(method))
_URGENT_OPERATIONS = frozenset(name for name, method in _ALL.items() if is_urgent_operation(method))


def reads_index(name: str) -> bool:
    """Whether an operation answers from the index, which is brought up to date first."""
    return name in _INDEX_OPERATIONS


def is_urgent(name: str) -> bool:
    """Whether an operation goes before the agency's other calls."""
    return name in _URGENT_OPERATIONS
