"""What a thread knows about itself: its id and agent, its agency, its parent and its origin. It never changes."""

from __future__ import annotations

from pydantic import JsonValue

from agency.wire import Wire


class RequestContext(Wire):
    """Where the request that created a thread came from; children inherit it."""

    user_agent: str | None = None
    ip: str | None = None
    referrer: str | None = None
    origin: str | None = None
    cf: dict[str, JsonValue] | None = None
    """The place of the request, if a trusted proxy has told: `colo`, `country`, `city`, `region`, `timezone`, …"""


class ParentInfo(Wire):
    """The thread that has started this one, and the token that its report must carry.

    `root` is the thread that all of the family descend from, `depth` how many steps it is away.
    """

    thread_id: str
    token: str
    root: str | None = None
    depth: int = 1
    returns: tuple[str, ...] = ()
    """The paths of files that are handed back with the report."""


class ForkInfo(Wire):
    """The thread whose events a fork has up to this one, `seq`."""

    thread_id: str
    seq: int


class ThreadMetadata(Wire):
    """What a thread is: its id, its agent and where it comes from. It never changes."""

    id: str
    agent_type: str
    created_at: str
    agency_id: str = "local"
    request: RequestContext = RequestContext()
    parent: ParentInfo | None = None
    schedule_id: str | None = None
    """The schedule that has started it, if one has."""
    forked_from: ForkInfo | None = None

    @property
    def family(self) -> str:
        """The thread that it descends from, itself if from none."""
        return self.id if self.parent is None else self.parent.root or self.parent.thread_id

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth
