"""What a thread needs from where it runs. The library's own is `agency.local`; the actors on Ray are another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pydantic import JsonValue

from agency.approvals.rules import Policy
from agency.children.parcels import AnyParcel
from agency.define.blueprint import Blueprint
from agency.define.context import ToolContext
from agency.define.file_limits import FileLimits
from agency.define.tools import Tool
from agency.events import NewEvent
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.secrets import Secret
from agency.shelves.interface import ShelfStore
from agency.spending import Spent
from agency.turn.outcomes import CallOutcome
from agency.turn.state import PauseReason, RunCeiling, RunStatus


class ThreadProgress(NamedTuple):
    """Where a thread stands after a commit."""

    seq: int
    """That of its latest event."""
    run: str
    """Its latest run; empty if there was none yet."""
    status: RunStatus
    reason: PauseReason | None
    events: Sequence[NewEvent]
    """What was committed."""
    spent: Spent = Spent()
    """What all its runs have used so far, children left out."""
    children: Spent = Spent()
    """What its children and theirs have used, as far as they have reported."""
    title: str = ""
    """Empty if it has none yet."""


class Runtime(Protocol):
    """What a thread asks of the place that it runs in. You need it only to write a runtime of your own."""

    def agents(self) -> Mapping[str, Blueprint]:
        """The agents that can be started here, by name."""

    def providers(self) -> Mapping[str, Provider]:
        """Where models are, by the word before the colon in their names, over what the system itself knows. It is
        asked before every model call, so it takes no time to speak of; the mapping is the same object until something
        in it has changed."""

    def budgeted(self) -> bool:
        """Whether `allowance` has to be asked before each model call. Quick, as it is called that often."""

    async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
        """Whether a thread may call a model: None, or the code of the budget that is used up. `spent` is what all its
        runs have used so far, children left out. What is refused so is told later that it may go on
        (`Thread.budget_lifted`)."""

    def ceiling(self) -> RunCeiling:
        """What no run's limits may be above. It takes no time to speak of."""

    def policy(self) -> Policy:
        """What the agency wants to be asked about. It takes no time to speak of."""

    def check_secret(self, blueprint: Blueprint, section: str, reference: Secret) -> None:
        """Raise `NoSecret` if a middleware may not look up a secret that its section of a blueprint refers to."""

    def shelves(self) -> ShelfStore:
        """What outlives the thread, of its agency and no other. Asked for every call, so it opens nothing."""

    def file_limits(self) -> FileLimits:
        """What the files of a thread may take."""

    async def is_paused(self, thread_id: str, reason: str) -> bool:
        """Whether another thread of the family is paused for this reason, or that cannot be known now."""

    async def deliver(self, parcel: AnyParcel) -> None:
        """Hand a parcel to its addressee. Returns once the addressee has it on disk; raises to be tried again."""

    async def offload(self, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
        """Run a call of a tool with `ray` options where its resources are. Raises what the tool raises, or
        `Interrupted`."""

    def committed(self, thread: ThreadMetadata, progress: ThreadProgress) -> None:
        """A thread has committed. It waits meanwhile, so this must be quick; what it raises is logged and changes
        nothing."""
