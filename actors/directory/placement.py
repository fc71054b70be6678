"""Which host a thread goes to. Only the rules are here; starting and stopping hosts is the directory's.

Threads are spread first and then share: a thread takes an empty host, one that is starting if none is ready; when the
node's budget of hosts is in use, or a host takes too long to start, it goes to the one with the fewest. A thread that
must be alone gets an empty host, or a new one beyond the budget, which is given back when it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from actors.address import Address
from actors.status import Role


@dataclass(slots=True)
class Room:
    """A host as placement sees it."""

    name: str
    node: str
    role: Role = "shared"
    ready: bool = False
    threads: set[Address] = field(default_factory=set)
    """Who lives here, or is about to."""
    empty_since: float = 0.0


class Placement:
    def __init__(self, warm: int) -> None:
        self._warm = warm
        self._rooms: dict[str, Room] = {}
        self.budgets: dict[str, int] = {}
        """The nodes that hosts may be on, and how many each."""

    def add(self, room: Room) -> None:
        self._rooms[room.name] = room

    def remove(self, name: str) -> None:
        self._rooms.pop(name, None)

    def enter(self, room: Room, address: Address, *, alone: bool) -> Room:
        room.threads.add(address)
        if alone:
            room.role = "dedicated"
        return room

    def leave(self, room: Room, address: Address, now: float) -> None:
        room.threads.discard(address)
        if not room.threads:
            room.empty_since = now

    def choose(self, *, alone: bool) -> Room | None:
        """The host for one more thread; None if one has to be started for it."""
        shared = self._with_role("shared")
        empty = [room for room in shared if not room.threads]
        if empty:
            return min(empty, key=lambda room: (not room.ready, self._crowd(room.node), room.name))
        if alone or self.node_with_room() is not None:
            return None
        return min(shared, key=_ready_and_least, default=None)

    def least_ready(self) -> Room | None:
        """The host that is ready and has the fewest threads."""
        return min((room for room in self._with_role("shared") if room.ready), key=_ready_and_least, default=None)

    def node_with_room(self) -> str | None:
        """The node for one more host within the budget."""
        left = [node for node, budget in self.budgets.items() if len(self._shared_on(node)) < budget]
        return min(left, key=self._crowd, default=None)

    def quietest_node(self) -> str | None:
        return min(self.budgets, key=self._crowd, default=None)

    def to_start(self) -> list[str]:
        """The nodes that need one more host to have their warm ones, once for each."""
        wanted = []
        for node, budget in self.budgets.items():
            shared = self._shared_on(node)
            empty = sum(not room.threads for room in shared)
            wanted += [node] * min(self._warm - empty, budget - len(shared))
        return wanted

    def to_stop(self, before: float) -> list[Room]:
        """Hosts that are empty since then and more than the warm ones; and any that is on a node no longer used."""
        surplus: list[Room] = [room for room in self._with_role("dedicated") if not room.threads]
        for node in {room.node for room in self._rooms.values()}:
            empty = [room for room in self._shared_on(node) if not room.threads and room.ready]
            empty.sort(key=lambda room: room.empty_since)
            keep = self._warm if node in self.budgets else 0
            surplus += [room for room in empty[: max(0, len(empty) - keep)] if room.empty_since <= before]
        return surplus

    def _with_role(self, role: Role) -> list[Room]:
        return [room for room in self._rooms.values() if room.role == role]

    def _shared_on(self, node: str) -> list[Room]:
        return [room for room in self._with_role("shared") if room.node == node]

    def _crowd(self, node: str) -> float:
        """How full a node is, in the share of its budget."""
        threads: Iterable[int] = (len(room.threads) for room in self._rooms.values() if room.node == node)
        return sum(threads) / max(1, self.budgets.get(node, 1))


def _ready_and_least(room: Room) -> tuple[bool, int, str]:
    return not room.ready, len(room.threads), room.name
