"""What `ps` and `top` show of a process: which of ours it is, and which thread it is for if it is for one alone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ray import _raylet
from ray._private import worker


def take_over() -> None:
    """Have Ray leave the title alone, which it writes anew before and after each call. To be called while an actor is
    made: Ray writes it once more after that."""
    worker._changeproctitle = _leave  # type: ignore[assignment]  # it is used for nothing else


def show(name: str, holds: str) -> None:
    """Ray's own processes are `ray::…`, too."""
    _raylet.setproctitle(f"ray::{name} of {holds}")  # type: ignore[attr-defined]  # it is not in Ray's types


def _leave(title: str, next_title: str) -> AbstractContextManager[None]:
    return nullcontext()
