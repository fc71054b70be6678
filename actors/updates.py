"""What a host tells the directory about its threads, and what the directory answers."""

from __future__ import annotations

from dataclasses import dataclass

from actors.address import Address
from agency.spending import Spent
from agency.store.peek import Glance
from agency.turn.state import PauseReason, RunStatus


@dataclass(frozen=True, slots=True)
class ThreadUpdate:
    """How far a thread has got. An update with a lower seq than the agency knows already changes nothing."""

    address: Address
    born: str
    """When it was created, which tells it from another one that had its id before."""
    seq: int
    status: RunStatus
    reason: PauseReason | None
    at: int
    instead_of: int | None = None
    """A seq that it was known to have reached and has lost: the files are from an earlier time than the agency's."""
    spent: Spent = Spent()
    """What all its runs have used so far."""
    children: Spent = Spent()
    """The same of its children, as far as they have reported."""
    title: str = ""


@dataclass(frozen=True, slots=True)
class UpdatesTaken:
    """What the directory answers."""

    watched: frozenset[str]
    """The agencies whose events a client waits for: their updates are wanted soon."""
    left: frozenset[str] = frozenset()
    """The agencies whose files could not be written: send their updates again."""


def update_from_file(address: Address, seen: Glance, head: int = 0) -> ThreadUpdate:
    """The update that a thread's file gives in the place of a host's; `head` is the seq that its agency knows."""
    lost = head if seen.seq < head else None
    reached = (seen.seq, seen.status, seen.reason, seen.at)
    return ThreadUpdate(address, seen.born, *reached, lost, spent=seen.spent, children=seen.children, title=seen.title)
