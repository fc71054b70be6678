"""What threads send each other. A parcel waits in the sender's outbox until the addressee has it on disk.

Delivery is at least once, so receiving is idempotent: a child's id is derived from the call that wants it, and a
report is taken once for its token.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter

from agency.metadata import ParentInfo, RequestContext
from agency.spending import Spent
from agency.wire import Wire

THREAD_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ChildStatus = Literal["completed", "failed", "canceled", "timed_out"]


class Spawn(Wire):
    """Make the thread `to`, if it is not there yet, and start it on `message`."""

    kind: Literal["spawn"] = "spawn"
    to: str
    agent_type: str
    message: str
    agency_id: str
    request: RequestContext
    parent: ParentInfo
    files: dict[str, str] = {}
    """What it is handed with the message, by path."""
    blueprint: dict[str, JsonValue] | None = None
    """Its blueprint, if it is none of the agents that go by a name here."""
    options: dict[str, JsonValue] = {}
    """Those of its run (`RunOptions`), as JSON."""

    def refused(self, why: str) -> Report:
        """What the parent is told if the child cannot be made."""
        parent = self.parent
        return Report(to=parent.thread_id, thread_id=self.to, token=parent.token, status="failed", report=why)


class Report(Wire):
    """A child's run has ended."""

    kind: Literal["report"] = "report"
    to: str
    thread_id: str
    token: str
    status: ChildStatus
    report: str
    spent: Spent | None = None
    """What it has used, its own children included; None if unknown."""
    files: dict[str, str] = {}
    """What it hands back, by path."""


class Cancel(Wire):
    """Cancel what the thread `to` is doing, if anything."""

    kind: Literal["cancel"] = "cancel"
    to: str
    why: Literal["parent", "limit"] = "parent"
    """The parent needs no result any more, or the child took longer than it was given."""


class Note(Wire):
    """What one agent of a family says to another: its parent, a child, or another child of its parent."""

    kind: Literal["note"] = "note"
    to: str
    sender: str
    agent_type: str
    family: str
    """The thread that all of them descend from."""
    text: str
    key: str
    """Names it for ever, so that it is taken once."""


class PersonWait(Wire):
    """A thread below `to` is paused for a person; without a `reason`, it no longer is."""

    kind: Literal["person_wait"] = "person_wait"
    to: str
    via: str
    """The child of `to` that tells of it: the thread itself, or one above it."""
    thread_id: str
    reason: str | None
    call_id: str | None = None
    """The first call that waits to be decided on, if it is one."""


class LateSpending(Wire):
    """What a child has used after all: its own children have told more since it reported."""

    kind: Literal["late_spending"] = "late_spending"
    to: str
    token: str
    spent: Spent
    """All that it has used, as in its report."""


AnyParcel = Spawn | Report | Cancel | Note | PersonWait | LateSpending
PARCEL: TypeAdapter[AnyParcel] = TypeAdapter(Annotated[AnyParcel, Field(discriminator="kind")])


def child_id(parent: str, key: str) -> str:
    """The one thread that a call can have as its child, whatever crashes."""
    return "thr_" + hashlib.blake2b(f"{parent}/{key}".encode(), digest_size=10).hexdigest()
