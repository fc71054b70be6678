"""What waits in a thread's inbox, and what of it starts the next run.

A message that comes during a run waits in the inbox: for the run's next checkpoint, or for the run after it. What is
left there when a run has ended may start the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from agency.children.family import NOTE_ORIGIN
from agency.define.options import NO_OPTIONS, RunOptions
from agency.json_schema import Schema
from agency.metadata import ThreadMetadata
from agency.store.draft import Posted
from agency.turn.state import Limits
from agency.wire import Wire

AGENT_ORIGIN = "agent"
"""Of messages from other agents of the family."""


class RunTerms(Wire):
    """What a run has in the place of the blueprint's; of a run that a queued message starts, stored with it as JSON."""

    limits: Limits | None = None
    output: Schema | None = None
    options: RunOptions = NO_OPTIONS


def starts_run(thread: ThreadMetadata, posted: Sequence[Posted]) -> bool:
    """Whether one of these is a reason for a new run. What middleware have said is none, unless they said it for the
    next run; and a child has reported to its parent when its run has ended, so only a caller can start another."""
    if thread.parent is not None:
        return any(post.message.origin is None for post in posted)
    starts = {None, NOTE_ORIGIN, AGENT_ORIGIN}
    return any(post.message.origin in starts or post.when == "next_run" for post in posted)


def terms_of(posted: Sequence[Posted]) -> RunTerms:
    """The terms of the run that these start together: the latest word on each, and of the tools only those that all of
    them admit."""
    terms = [RunTerms.model_validate_json(post.terms) for post in posted if post.terms is not None]
    return RunTerms(
        limits=next((each.limits for each in reversed(terms) if each.limits is not None), None),
        output=next((each.output for each in reversed(terms) if each.output is not None), None),
        options=reduce(RunOptions.followed_by, (each.options for each in terms), NO_OPTIONS),
    )
