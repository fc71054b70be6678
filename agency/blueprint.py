"""What an agent is, and what a thread knows about itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from agency.turn.modes import ModeName
from agency.turn.state import Limits
from agency.wire import Wire

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]+$", max_length=64)]
ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*:.+$")]


Isolation = Literal["shared", "dedicated"]


class Blueprint(Wire):
    """An agent: its prompt, and by its tags its tools and middleware. A thread keeps the blueprint it began with.

    Only an `active` blueprint starts threads; a `draft` is not ready yet and a `disabled` one no longer wanted. On a
    cluster, a thread of a `dedicated` one has a process to itself.
    """

    name: Name
    description: str
    prompt: str = Field(min_length=1)
    tags: tuple[Name, ...] = ("default",)
    model: ModelName | None = None
    config: dict[str, JsonValue] = {}
    status: Literal["active", "draft", "disabled"] = "active"
    limits: Limits = Limits()
    mode: ModeName = "tools"
    isolation: Isolation = "shared"


class RequestContext(Wire):
    """Where the request that created a thread came from; children inherit it."""

    user_agent: str | None = None
    ip: str | None = None
    referrer: str | None = None
    origin: str | None = None


class ParentInfo(Wire):
    """The thread that waits for this one, and the token that its report must carry."""

    thread_id: str
    token: str


class ThreadMetadata(Wire):
    id: str
    agent_type: str
    created_at: str
    agency_id: str = "local"
    request: RequestContext = RequestContext()
    parent: ParentInfo | None = None
