"""What a thread in a host needs from where it runs (the `Runtime` protocol of `agency.runtime`).

Parcels to other threads, tools that run as Ray tasks, the terms of the agency, and the updates about the thread's
progress all pass through here. It keeps no state that must last: whatever a thread sends is in its outbox until the
addressee has it on disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from actors.address import Address
from actors.agency.calls import AgencyCalls
from actors.agency.shelves import shelves_of
from actors.host import tasks
from actors.host.agents import AgentsCache
from actors.host.host_caller import HostCaller
from actors.host.terms import TermsCache
from actors.host.update_sender import TrackedThread, UpdateSenders
from actors.settings import Settings
from agency.approvals.rules import Policy
from agency.children.parcels import AnyParcel, Cancel, LateSpending, Note, PersonWait, Report, Spawn
from agency.define.blueprint import Blueprint
from agency.define.context import ToolContext
from agency.define.file_limits import FileLimits
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import InvalidInput, NotFound, Unavailable, told_of
from agency.key_rules import FOR_AGENCIES
from agency.local import HOPELESS
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.runtime import ThreadProgress
from agency.secrets import NoSecret, Secret
from agency.shelves.interface import ShelfStore
from agency.spending import Spent
from agency.thread.views import RunState
from agency.turn.outcomes import CallOutcome
from agency.turn.state import RunCeiling

log = logging.getLogger(__name__)

ASK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class HostServices:
    """What all threads of a host share."""

    name: str
    settings: Settings
    system: AgentSystem
    caller: HostCaller
    updates: UpdateSenders
    terms: TermsCache
    agents: AgentsCache


class ThreadRuntime:
    def __init__(self, address: Address, host: HostServices) -> None:
        self._address = address
        self._agency = address.agency
        self._host = host
        self._shelves = shelves_of(host.settings, address.agency)
        self._tracked: TrackedThread | None = None
        self._agents: Mapping[str, Blueprint] | None = None

    async def read_ahead(self) -> None:
        """On shared storage, where an agency that commits keeps its file locked for a while: read what opening the
        thread asks for, without holding up the event loop."""
        await self._host.terms.read(self._agency)
        if self._host.settings.files.shared:
            self._agents = await asyncio.to_thread(self._host.agents.of, self._agency)

    def agents(self) -> Mapping[str, Blueprint]:
        return self._host.agents.of(self._agency) if self._agents is None else self._agents

    def providers(self) -> Mapping[str, Provider]:
        return self._host.terms.of(self._agency).providers

    def policy(self) -> Policy:
        return self._host.terms.of(self._agency).policy

    def ceiling(self) -> RunCeiling:
        return self._host.terms.of(self._agency).ceiling

    def check_secret(self, blueprint: Blueprint, section: str, reference: Secret) -> None:
        """What the code or the owner has set may refer to what it likes. What else a stored configuration refers to, it
        may refer to as long as it is for agencies and the operator says so."""
        said = (section, blueprint.config.get(section))
        if said in self._host.terms.of(self._agency).vouched or self._host.system.has_section(*said):
            return
        if not reference.startswith(f"env:{FOR_AGENCIES}"):
            raise NoSecret(f"config.{section} of an agency's blueprint may not refer to {reference}")
        if (why := self._host.settings.outgoing.refuses_in(self._agency, reference, section)) is not None:
            raise NoSecret(why)

    def shelves(self) -> ShelfStore:
        return self._shelves

    def budgeted(self) -> bool:
        return self._host.terms.of(self._agency).budgeted

    async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
        """Ask the agency, for as long as it takes: a thread under a budget calls no model without its consent."""
        while True:
            try:
                return await self._ask_allowance(thread.id, spent)
            except NotFound:
                return None  # the agency is being deleted, and this thread with it
            except Unavailable as error:
                log.warning("%s waits for an allowance: %s", self._address, error)
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _ask_allowance(self, thread_id: str, spent: Spent) -> str | None:
        return await AgencyCalls(self._host.caller.remote, self._agency).allowance(thread_id, spent)

    def file_limits(self) -> FileLimits:
        return self._host.settings.file_limits

    async def is_paused(self, thread_id: str, reason: str) -> bool:
        try:
            state: RunState = await self._host.caller.call(Address(self._agency, thread_id), "run_state")
        except (NotFound, Unavailable):
            return True
        return state.reason == reason

    async def offload(self, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
        return await tasks.offload(self._host.name, self._host.settings, tool, args, context)

    async def deliver(self, parcel: AnyParcel) -> None:
        match parcel:
            case Spawn():
                await self._spawn(parcel)
            case Report():
                # An agency's feed shall have the child's events before the parent tells of its end.
                if self._tracked is not None:
                    await self._host.updates.confirmed(self._tracked)
                await self._hand_over(parcel)
            case Cancel() | Note() | PersonWait() | LateSpending():
                await self._hand_over(parcel)

    def committed(self, thread: ThreadMetadata, progress: ThreadProgress) -> None:
        if self._tracked is None:
            self._tracked = self._host.updates.track(self._address, thread.created_at)
        self._tracked.advance(progress)

    async def _hand_over(self, parcel: Report | Cancel | Note | PersonWait | LateSpending) -> None:
        # A parcel to a thread that was deleted, was never made or has an impossible id counts as delivered: trying it
        # again would not help, and it would stay in the outbox for ever.
        with suppress(NotFound, InvalidInput):
            await self._host.caller.call(Address(self._agency, parcel.to), "receive", parcel)

    async def _spawn(self, order: Spawn) -> None:
        try:
            await AgencyCalls(self._host.caller.remote, self._agency).spawn(order)
        except HOPELESS as error:  # the parent gets a report that says so, as if the child had failed
            log.warning("thread %s cannot be started: %s", order.to, error)
            await self.deliver(order.refused(told_of(error)))
