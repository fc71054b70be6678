"""What is known of an agency, one tenant: its name, its blueprints, its threads, its keys."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agency.blueprint import Blueprint, ThreadMetadata
from agency.thread.views import RunStatus
from agency.turn.state import PauseReason
from agency.wire import Wire

KeyRole = Literal["viewer", "operator", "admin"]


class AgencyInfo(Wire):
    id: str
    name: str
    created_at: str


class BlueprintInfo(Blueprint):
    """A blueprint as an agency has it: the code's, or one of its own that overrides it."""

    source: Literal["static", "agency"]
    created_at: str | None = None
    updated_at: str | None = None


class ThreadSummary(ThreadMetadata):
    """A thread, and what it was last known to be doing."""

    status: RunStatus = "idle"
    reason: PauseReason | None = None
    seq: int = 0
    """Of its latest event."""
    updated_at: str


class KeyInfo(Wire):
    """A key without its secret."""

    id: str
    name: str
    role: KeyRole
    created_at: str


class NewKey(KeyInfo):
    key: str = Field(repr=False)
    """The whole text. Nobody can be asked for it again."""
