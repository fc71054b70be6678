"""Timers of middleware: a hook sets one by a name, and `on_timer` is told when it is due.

They are rows of the thread's file, set and canceled in the commit of the hook, so they outlive hibernation and
restarts: a sleeping thread is woken for them. They belong to the thread, not to a run; a fork begins without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agency.errors import InvalidInput
from agency.store.draft import Draft
from agency.store.timers import Timer, drop_timer, set_timer

NAME_CHARS = 200
LATEST = 2**53
_BETWEEN = "\x1f"


@dataclass(frozen=True, slots=True)
class HookTimers:
    """The timers of one middleware in one thread."""

    store: Draft
    owner: str

    def set(self, name: str, at: datetime | int) -> None:
        """Have `on_timer` called at a time: a `datetime` with its zone, or milliseconds since 1970. A time that is past
        is due at once. Setting it again moves it."""
        if not name or len(name) > NAME_CHARS or _BETWEEN in name:
            raise InvalidInput(f"a timer's name has 1 to {NAME_CHARS} printable characters, not {name!r:.100}")
        if isinstance(at, datetime) and at.tzinfo is None:
            raise InvalidInput(f"a timer's time needs its zone: {at} has none")
        due: float = int(at.timestamp() * 1000) if isinstance(at, datetime) else at
        if not isinstance(due, int) or not 0 <= due < LATEST:
            raise InvalidInput(f"a timer's time is a datetime, or milliseconds since 1970 as an int, not {at!r:.100}")
        set_timer(self.store, self._timer(name), due)

    def cancel(self, name: str) -> None:
        """Cancel a timer; without one of this name, nothing changes."""
        drop_timer(self.store, self._timer(name))

    def _timer(self, name: str) -> Timer:
        return Timer("hook", key=f"{self.owner}{_BETWEEN}{name}")


def owner_and_name(timer: Timer) -> tuple[str, str]:
    """The middleware that has set a timer, and its name for it."""
    owner, _, name = timer.key.partition(_BETWEEN)
    return owner, name
