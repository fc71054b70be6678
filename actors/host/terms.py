"""The terms of agencies, as a host knows them: where their models are, whether they have a budget, which calls need a
person's approval, what a run may use, and which keys may be looked up for them.

Threads ask for them before every model call, so they are read from the agency's file once, and again when the agency
announces a change. The order matters: the agency writes its file, then announces, then answers the client that made the
change. So every model call that begins after that answer is made under the new terms, in threads that are awake too.

The one rule: what cannot be read sets no limit aside. While an agency's file is locked or damaged, what was last known
of it counts on; where nothing is known, asking raises, and the thread is not woken until the file can be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from actors.address import Address, Files
from actors.agency.peek import PeekedTerms, peek_terms
from actors.agency.store import Section
from actors.settings import Settings
from agency.api.tenancy import Layer
from agency.approvals.rules import NO_POLICY, Policy
from agency.errors import StoreError
from agency.models.providers.entry import GuardedProvider, Provider
from agency.turn.state import NO_CEILING, RunCeiling

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgencyTerms:
    providers: Mapping[str, Provider]
    """The agency's own, and the installation's for the rest."""
    budgeted: bool
    policy: Policy = NO_POLICY
    ceiling: RunCeiling = NO_CEILING
    """What no run's limits may be above."""
    vouched: Sequence[Section] = ()
    """Sections of blueprints' configurations that the owner has set."""


class TermsCache:
    def __init__(self, settings: Settings) -> None:
        self._files = Files(settings.data_dir)
        self._outgoing = settings.outgoing
        self._shared = settings.files.shared
        self._common = AgencyTerms(settings.providers, budgeted=False)
        self._known: dict[str, AgencyTerms] = {}
        self._stale: set[str] = set()
        self._changes = 0

    def of(self, agency: str) -> AgencyTerms:
        """What goes for its threads. Raises `StoreError` if nothing of it is known and its file cannot be read."""
        if self._is_due(agency):
            self._take(agency, self._read(agency))
        return self._known.get(agency, self._common)

    async def read_again(self, agency: str | None) -> None:
        """What has changed of it is wanted; without a name, of all agencies."""
        self.changed(agency)
        for each in self._known.keys() & (self._known.keys() if agency is None else {agency}):
            await self.read(each)

    async def read(self, agency: str) -> None:
        """On shared storage, where an agency that commits keeps its file locked for a while: read them now if they are
        to be read, so that no use of them holds up the event loop. Raises as `of` does."""
        while self._shared and self._is_due(agency):
            changes = self._changes
            found = await asyncio.to_thread(self._read, agency)
            if found is None or changes == self._changes:
                self._take(agency, found)
                return

    def changed(self, agency: str | None = None) -> None:
        """Read them again at the next use; without a name, those of all agencies."""
        self._changes += 1
        self._stale.update(self._known if agency is None else {agency} & self._known.keys())

    def keep(self, agencies: Collection[str]) -> None:
        """Forget the terms of all other agencies."""
        for agency in self._known.keys() - set(agencies):
            del self._known[agency]
            self._stale.discard(agency)

    def _is_due(self, agency: str) -> bool:
        return agency not in self._known or agency in self._stale

    def _read(self, agency: str) -> PeekedTerms | None:
        """None if it is not made yet, or is being deleted; or if what is known counts on."""
        try:
            return peek_terms(self._files.of(Address(agency)))
        except StoreError as error:
            if agency not in self._known:
                raise
            log.warning("agency %s has the terms that were last known: %s", agency, error)
            return None  # the next use tries again

    def _take(self, agency: str, found: PeekedTerms | None) -> None:
        if found is None:
            return
        own = {name: self._as_used(agency, *stored) for name, stored in found.providers.items()}
        providers = {**self._common.providers, **own} if own else self._common.providers
        known = self._known.get(agency)
        if known is not None and known.providers == providers:
            providers = known.providers  # the same object: model clients are cached by its identity
        self._known[agency] = AgencyTerms(providers, found.budget.is_set, found.policy, found.ceiling, found.vouched)
        self._stale.discard(agency)

    def _as_used(self, agency: str, entry: Provider, set_by: Layer) -> Provider:
        """An entry that the owner has set is trusted like one of the settings."""
        if set_by == "owner":
            return entry
        return GuardedProvider(**dict(entry), agency=agency, outgoing=self._outgoing)
