"""What it takes to make a thread. An agency stores it before it orders the thread, so that it can be tried again."""

from __future__ import annotations

from agency.define.blueprint import Blueprint
from agency.define.options import NO_OPTIONS, RunOptions
from agency.events import OURS
from agency.json_schema import Schema
from agency.messages import Message
from agency.metadata import ThreadMetadata
from agency.store.forking import Cut
from agency.thread.invocation import Invocation
from agency.turn.state import Limits
from agency.wire import Wire


class Creation(Wire):
    """All that it takes to make a thread, however often it is tried. What a caller gave was checked before this was
    made, so it is not checked again. Agencies' files hold its JSON: its fields are a stored format."""

    metadata: ThreadMetadata
    blueprint: Blueprint
    messages: tuple[Message, ...] = ()
    """What its first run begins with; without any, it waits for one."""
    key: str = f"{OURS}creation"
    """The idempotency key of that."""
    limits: Limits | None = None
    files: dict[str, str] = {}
    """Handed in with the messages."""
    output_schema: Schema | None = None
    """What the result of the first run must fit."""
    options: RunOptions = NO_OPTIONS
    """What the first run has in the place of the blueprint's."""
    fork: Cut | None = None
    """Where it leaves the thread that it is a fork of."""
    digest: str | None = None
    """Of what a caller asked for: another request for a thread of the same id is refused."""

    @property
    def invocation(self) -> Invocation:
        """What is sent to the new thread."""
        return Invocation(
            messages=self.messages,
            idempotency_key=self.key,
            limits=self.limits,
            files=self.files,
            output_schema=self.output_schema,
            options=self.options,
            handed_down=self.metadata.parent is not None,
        )
