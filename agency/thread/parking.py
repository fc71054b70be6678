"""Parking: ending the run of a thread that cannot be woken, because waking it kills its host again and again.

The file is opened, the run ends as an error, and nothing of the agent runs for that: no model, tool, hook or timer. So
it is safe whatever the agent would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from agency.approvals.rules import NO_POLICY, Policy
from agency.children.parcels import AnyParcel
from agency.define.blueprint import Blueprint
from agency.define.context import ToolContext
from agency.define.file_limits import FILE_LIMITS, FileLimits
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import AgencyError, WrongState
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.runtime import ThreadProgress
from agency.secrets import NoSecret, Secret
from agency.shelves.interface import ShelfStore
from agency.spending import Spent
from agency.store.sqlite import LOCAL, Storage
from agency.store.store import ThreadStore
from agency.thread.thread import Thread
from agency.turn.outcomes import CallOutcome
from agency.turn.state import NO_CEILING, RunCeiling


async def park(path: Path, system: AgentSystem, error: AgencyError, *, storage: Storage = LOCAL) -> None:
    """End the run of the thread in a file as an error."""
    store = ThreadStore.open(path, storage=storage)
    try:
        thread = Thread.of(store, system, ParkedRuntime())
    except BaseException:
        store.close()
        raise
    try:
        thread.give_up(error)
    finally:
        await thread.close()


class ParkedRuntime:
    """Where a thread runs that is opened only to be parked, or to be read. It is a `Runtime` in which nothing runs."""

    def agents(self) -> Mapping[str, Blueprint]:
        return {}

    def policy(self) -> Policy:
        return NO_POLICY

    def ceiling(self) -> RunCeiling:
        return NO_CEILING

    def check_secret(self, blueprint: Blueprint, section: str, reference: Secret) -> None:
        raise NoSecret("nothing of a parked thread runs")

    def shelves(self) -> ShelfStore:
        raise WrongState("nothing of a parked thread runs")

    def file_limits(self) -> FileLimits:
        return FILE_LIMITS

    async def is_paused(self, thread_id: str, reason: str) -> bool:
        return True  # it cannot be known

    async def deliver(self, parcel: AnyParcel) -> None:
        raise WrongState("it is delivered when the thread is next awake")

    async def offload(self, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
        raise WrongState("nothing of a parked thread runs")

    def providers(self) -> Mapping[str, Provider]:
        return {}

    def budgeted(self) -> bool:
        return False

    async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
        raise WrongState("nothing of a parked thread runs")

    def committed(self, thread: ThreadMetadata, progress: ThreadProgress) -> None:
        pass  # the directory parks threads, and reports them
