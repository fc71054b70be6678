"""What a host tells the directory of its threads, and what the directory answers."""

from __future__ import annotations

from dataclasses import dataclass

from actors.address import Address
from agency.spending import Spent
from agency.turn.state import PauseReason, RunStatus


@dataclass(frozen=True, slots=True)
class ThreadUpdate:
    """Where a thread stands. ThreadUpdate of a lower seq than what is known mean nothing."""

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


@dataclass(frozen=True, slots=True)
class UpdatesTaken:
    """What the directory answers."""

    watched: frozenset[str]
    """The agencies whose events somebody waits for."""
    left: frozenset[str] = frozenset()
    """Those whose files could not be written: tell it again."""
