"""The terms of agencies, as a host knows them: where their models are, whether they have a budget, and what they want
to be asked about.

They are asked for before every model call, so they are read from the agency's file once, and again when the agency has
said that something has changed. It says so when that is written, and before whoever has changed it is answered. So a
call that begins after that is made under the new terms, also in a thread that is awake.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from actors.address import Address, Files
from actors.agency.store import peek_terms
from actors.settings import Settings
from agency.approvals.rules import NO_POLICY, Policy
from agency.models.providers.entry import Provider


@dataclass(frozen=True, slots=True)
class Terms:
    providers: Mapping[str, Provider]
    """The agency's own, and the installation's for the rest."""
    budgeted: bool
    policy: Policy = NO_POLICY


class TermsOfAgencies:
    def __init__(self, settings: Settings) -> None:
        self._files = Files(settings.data_dir)
        self._common = Terms(settings.providers, budgeted=False)
        self._known: dict[str, Terms] = {}
        self._stale: set[str] = set()

    def of(self, agency: str) -> Terms:
        if agency not in self._known or agency in self._stale:
            self._read(agency)
        return self._known.get(agency, self._common)

    def changed(self, agency: str | None = None) -> None:
        """Read them again when they are next asked for; without a name, those of all agencies."""
        self._stale.update(self._known if agency is None else {agency} & self._known.keys())

    def keep(self, agencies: Collection[str]) -> None:
        """Forget the others."""
        for agency in self._known.keys() - set(agencies):
            del self._known[agency]
            self._stale.discard(agency)

    def _read(self, agency: str) -> None:
        found = peek_terms(self._files.of(Address(agency)))
        if found is None:
            return  # the next call will ask again
        own, budget, policy = found
        providers = {**self._common.providers, **own} if own else self._common.providers
        known = self._known.get(agency)
        if known is not None and known.providers == providers:
            providers = known.providers  # the same object, for those who keep something by it
        self._known[agency] = Terms(providers, budget.is_set, policy)
        self._stale.discard(agency)
