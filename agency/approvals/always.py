"""Tools that a person has approved for always. They are remembered in the thread's file, and hold for that thread."""

from __future__ import annotations

from collections.abc import Iterable

from agency.store.draft import Draft

_OWNER = "approvals"


def always_approved(store: Draft) -> frozenset[str]:
    """The tools whose calls need no approval in this thread any more."""
    kept = store.get(_OWNER, "always")
    return frozenset(map(str, kept)) if isinstance(kept, list) else frozenset()


def approve_always(store: Draft, tools: Iterable[str]) -> None:
    store.put(_OWNER, "always", [*sorted(always_approved(store).union(tools))])
