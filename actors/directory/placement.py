"""Which host a thread goes to. Only the rules are here, over plain data; the fleet starts and stops hosts.

A thread never waits for a process to start while one is ready. The rules, in this order:

1. A thread takes an empty host that is ready.
2. Else it shares the ready host that has the fewest threads. Empty ones are started beside that as long as the budget
   of a node allows it, so threads that come later find them.
3. If none is ready, it waits for the one that starts, or one is started for it.

A host that is silent gets no thread. Another one may be started in its place, beyond the budget, but only half as many
again: a machine on which all hosts are slow must not start ever more of them. For the same reason, one empty host that
answers is enough on a node with silent ones.

A thread that must be alone gets an empty host, or a new one beyond the budget, which is given back when it leaves. A
host becomes `dedicated` when such a thread enters, and never takes another one.

A thread counts as being in a host from the moment that the host is chosen, before it is awake there. So two threads
that are placed at the same time do not both take the same empty host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from actors.address import Address
from actors.status import Role


@dataclass(slots=True)
class HostSlot:
    """A host as placement sees it."""

    name: str
    node: str
    role: Role = "shared"
    ready: bool = False
    silent: bool = False
    threads: set[Address] = field(default_factory=set)
    """The threads that are awake here, or about to be."""
    empty_since: float = 0.0


class Placement:
    def __init__(self, warm: int) -> None:
        self._warm = warm
        self._slots: dict[str, HostSlot] = {}
        self.budgets: dict[str, int] = {}
        """The nodes that hosts may be on, and how many each."""
        self.closed: set[str] = set()
        """Those of them on which no host starts at present; the hosts that are ready there go on."""

    def add(self, slot: HostSlot) -> None:
        self._slots[slot.name] = slot

    def remove(self, name: str) -> None:
        self._slots.pop(name, None)

    def enter(self, slot: HostSlot, address: Address, *, alone: bool) -> HostSlot:
        slot.threads.add(address)
        if alone:
            slot.role = "dedicated"
        return slot

    def leave(self, slot: HostSlot, address: Address, now: float) -> None:
        slot.threads.discard(address)
        if not slot.threads:
            slot.empty_since = now

    def choose(self, *, alone: bool) -> HostSlot | None:
        """The host for one more thread; None if one has to be started for it."""
        shared = [slot for slot in self._with_role("shared") if not slot.silent]
        if alone:
            empty = [slot for slot in shared if not slot.threads]
            return min(empty, key=lambda slot: (not slot.ready, self._occupancy(slot.node), slot.name), default=None)
        least = min(shared, key=_ready_then_least_busy, default=None)
        if least is None:
            return None
        alike = [slot for slot in shared if _ready_then_least_busy(slot) == _ready_then_least_busy(least)]
        return min(alike, key=lambda slot: self._occupancy(slot.node))

    def node_below_budget(self) -> str | None:
        """The node for one more host within the budget."""
        left = [node for node, budget in self._open_nodes() if self._room_on(node, budget) > 0]
        return min(left, key=self._occupancy, default=None)

    def least_busy_node(self) -> str | None:
        return min((node for node, _ in self._open_nodes()), key=self._occupancy, default=None)

    def to_start(self) -> list[str]:
        """The nodes that need one more host to have their warm ones, once for each."""
        wanted = []
        for node, budget in self._open_nodes():
            shared = self._shared_on(node)
            empty = sum(not slot.threads and not slot.silent for slot in shared)
            warm = min(1, self._warm) if any(slot.silent for slot in shared) else self._warm
            wanted += [node] * min(warm - empty, self._room_on(node, budget))
        return wanted

    def to_stop(self, before: float) -> list[HostSlot]:
        """Hosts that are empty since then and more than the warm ones; and any that is on a node no longer used."""
        surplus: list[HostSlot] = [slot for slot in self._with_role("dedicated") if not slot.threads]
        for node in {slot.node for slot in self._slots.values()}:
            shared = self._shared_on(node)
            empty = [slot for slot in shared if not slot.threads and slot.ready and not slot.silent]
            empty.sort(key=lambda slot: slot.empty_since)
            keep = self._warm if node in self.budgets else 0
            surplus += [slot for slot in empty[: max(0, len(empty) - keep)] if slot.empty_since <= before]
        return surplus

    def _room_on(self, node: str, budget: int) -> int:
        """How many more hosts a node may have."""
        shared = self._shared_on(node)
        silent = sum(slot.silent for slot in shared)
        return budget + min(silent, max(1, budget // 2)) - len(shared)

    def _open_nodes(self) -> list[tuple[str, int]]:
        return [(node, budget) for node, budget in self.budgets.items() if node not in self.closed]

    def _with_role(self, role: Role) -> list[HostSlot]:
        return [slot for slot in self._slots.values() if slot.role == role]

    def _shared_on(self, node: str) -> list[HostSlot]:
        return [slot for slot in self._with_role("shared") if slot.node == node]

    def _occupancy(self, node: str) -> float:
        """The threads on a node, relative to its budget of hosts."""
        threads: Iterable[int] = (len(slot.threads) for slot in self._slots.values() if slot.node == node)
        return sum(threads) / max(1, self.budgets.get(node, 1))


def _ready_then_least_busy(slot: HostSlot) -> tuple[bool, int]:
    return not slot.ready, len(slot.threads)
