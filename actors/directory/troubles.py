"""Nodes on which hosts do not start, why, and when one is tried there again."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from actors.answers import Refusal
from agency.backoff import Backoff

log = logging.getLogger(__name__)

FAILURES_MOST = 3
AGAIN = Backoff(first=1.0, longest=60.0)
"""Before one more host is tried on a node where none starts."""


@dataclass(slots=True)
class NodeTrouble:
    """Hosts that did not start on a node, one after the other."""

    reason: Refusal
    failures: int = 0
    again_at: float = 0.0
    certain: bool = False
    """Whether no host can start there until a person has changed something."""


class Troubles:
    def __init__(self, closed: set[str]) -> None:
        """`closed` are the nodes on which none starts for a while, that is certain."""
        self._closed = closed
        self._of: dict[str, NodeTrouble] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._of

    def note(self, node: str, refusal: Refusal, *, certain: bool = False) -> None:
        """A host did not start. Once it is certain that none does on its node, the node is closed for a while."""
        known = self._of.get(node)
        if known is None or known.reason != refusal:
            log.error("a host did not start on node %s: %s", node[:8], refusal.message)
        failures = 1 if known is None else known.failures + 1
        self._of[node] = NodeTrouble(refusal, failures, time.monotonic() + AGAIN.delay(failures), certain)
        if certain or failures >= FAILURES_MOST:
            self._closed.add(node)

    def end(self, node: str) -> None:
        """A host has started there."""
        self._of.pop(node, None)
        self._closed.discard(node)

    def keep(self, nodes: Collection[str]) -> None:
        """Forget all other nodes: they are gone."""
        self._of = {node: trouble for node, trouble in self._of.items() if node in nodes}
        self._closed.intersection_update(nodes)

    def may_try(self, node: str) -> bool:
        """Whether it is time to look if a host starts there by now."""
        return self._of[node].again_at <= time.monotonic()

    @property
    def all_certain(self) -> bool:
        """Whether there are any, and each stays until a person has changed something."""
        return bool(self._of) and all(trouble.certain for trouble in self._of.values())

    @property
    def any(self) -> Refusal | None:
        """Why a host did not start; of several nodes, any."""
        return next((each.reason for each in self._of.values()), None)

    @property
    def told(self) -> Mapping[str, str]:
        """The reasons, by node."""
        return {node: each.reason.message for node, each in self._of.items()}
