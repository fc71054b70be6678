"""An agency, which is one tenant, as the API shows it: its name, blueprints, threads, keys, usage and budget."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from agency.approvals.rules import Policy
from agency.define.blueprint import Blueprint
from agency.messages import Usage
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.thread.views import Part, RunStatus
from agency.turn.state import PauseReason, RunCeiling, least
from agency.wire import Wire

KeyRole = Literal["viewer", "operator", "admin"]


Layer = Literal["owner", "agency"]
"""Who has set something: the holder of the installation's secret (on a server without one, every client that shows no
key), or an admin of the agency, by a key. What the owner sets is a ceiling: an agency can tighten it, never loosen."""

Set = TypeVar("Set")


class Layers(Wire, Generic[Set]):
    """What the owner and the agency's admins have each set. Of the two, the tighter is in effect, part by part."""

    owner: Set
    agency: Set


Most = Annotated[int, Field(ge=0, lt=2**53)]


class Budget(Wire):
    """What all threads of an agency may use together, from its first day on. None is no limit; 0 stops them."""

    turns: Most | None = None
    time_ms: Most | None = None
    """While runs are at work."""
    tokens: Most | None = None
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """In US dollars."""

    @property
    def is_set(self) -> bool:
        return self != Budget()

    def within(self, ceiling: Budget) -> Budget:
        """The smaller of each part."""
        return Budget(**least(ceiling, self))


class AgencyLayers(Wire):
    """What of an agency is set in two layers."""

    yours: Layer
    """The one that the credential of this request sets."""
    budget: Layers[Budget]
    policy: Layers[Policy]
    limits: Layers[RunCeiling]


class AgencyInfo(Wire):
    id: str
    name: str
    created_at: str
    budget: Budget = Budget()
    damaged: bool = False
    """Whether the agency's file is damaged. Then its name is its id, and all that the owner can do with it is to delete
    it, or to restore it from a backup."""


class Use(Wire):
    """What threads have used."""

    turns: int = 0
    active_ms: int = 0
    """While runs were at work."""
    tokens_used: Usage = Usage()
    cost_usd: float | None = 0.0
    """In US dollars; None if the price of any part is unknown."""


class AgencyUsage(Use):
    """What all threads of an agency have used, those that were deleted too."""

    children: Use
    """The part of threads that were started by others."""
    threads: int
    """How many there are."""
    budget: Budget
    exhausted: str | None = None
    """The code of the budget that is used up: no thread calls a model until it is raised."""


class ProviderInfo(Wire):
    """A provider of models, named by the word before the colon in a model's name. Those of the settings replace those
    of the code with the same name, and those of the agency replace both."""

    name: str
    source: Literal["code", "settings", "agency"]
    entry: Provider | None = None
    """Only of the agency's own providers: an agency does not see how the installation is set up."""
    set_by: Layer | None = None
    """Who has set the agency's own. One that an admin of the agency has set shows only keys that it may, reaches only
    public addresses, and makes nothing cheaper than its published price."""
    created_at: str | None = None
    updated_at: str | None = None


class BlueprintInfo(Blueprint):
    """A blueprint as an agency has it: the code's, or one of its own that overrides it."""

    source: Literal["static", "agency"]
    warnings: tuple[str, ...] = ()
    """Which tags and sections of `config` have no effect, because this installation has nothing by their names; and
    that it is older than the rule that risky tools need approvals."""
    unattended_tools: tuple[str, ...] = ()
    """The tools of medium and high risk that it runs without asking a person."""
    created_at: str | None = None
    updated_at: str | None = None


class ThreadSummary(ThreadMetadata):
    """A thread, what it was last known to be doing, and what it had used by then."""

    title: str | None = None
    """What a person has named it, else the title that its agent's middleware made, else how its first message begins;
    None if it has no message yet."""
    status: RunStatus = "registered"
    reason: PauseReason | None = None
    seq: int = 0
    """Of its latest event."""
    updated_at: str
    tokens_used: Usage = Usage()
    """Of all its runs, with those of its children."""
    cost_usd: float | None = 0.0
    """The same in US dollars; None is unknown."""
    children: Part = Part()
    """The part of its children and theirs, as far as they have reported."""


class KeyInfo(Wire):
    """A key without its secret."""

    id: str
    name: str
    role: KeyRole
    created_at: str


class NewKey(KeyInfo):
    key: str = Field(repr=False)
    """The whole text. No later answer contains it."""
