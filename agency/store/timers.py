"""A thread's timers. A timer is stored under a name that says what it is for, so that setting one again moves it."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from agency.store.draft import Draft
from agency.store.store import ThreadStore

TimerKind = Literal["sleep", "approval", "child", "wait", "outside", "hook"]


class Timer(NamedTuple):
    """What happens when it is due: a retry (`sleep`) or an undecided approval of an effect (`run`, `effect`), the end
    of a child's time (`key`: its token), the end of a call's wait for children (all three; `key`: the call) or for the
    outside (`key`: the digest of its token), or a hook (`key`: the middleware and its name for the timer)."""

    kind: TimerKind
    run: int = 0
    effect: int = 0
    key: str = ""

    @property
    def name(self) -> str:
        match self.kind:
            case "sleep" | "approval":
                return f"{self.kind}:{self.run}.{self.effect}"
            case "child" | "outside" | "hook":
                return f"{self.kind}:{self.key}"
            case "wait":
                return f"wait:{self.run}.{self.effect}.{self.key}"

    @classmethod
    def parse(cls, name: str) -> Timer:
        """The timer that is stored under this name."""
        kind, _, rest = name.partition(":")
        match kind:
            case "sleep" | "approval":
                run, effect = rest.split(".")
                return cls(kind, int(run), int(effect))
            case "child" | "outside" | "hook":
                return cls(kind, key=rest)
            case "wait":
                run, effect, call = rest.split(".", 2)
                return cls(kind, int(run), int(effect), call)
        raise ValueError(f"{name!r} is no timer: its kind is none of {', '.join(get_args(TimerKind))}")


def set_timer(draft: Draft, timer: Timer, due: int) -> None:
    draft.execute("REPLACE INTO timers VALUES (?, ?)", (timer.name, due))
    draft.sets_timer = True


def drop_timer(draft: Draft, timer: Timer, due: int | None = None) -> None:
    """With `due`, only if it is not later than that."""
    if due is None:
        draft.execute("DELETE FROM timers WHERE name = ?", (timer.name,))
    else:
        draft.execute("DELETE FROM timers WHERE name = ? AND due <= ?", (timer.name, due))


def drop_timers(draft: Draft, *kinds: TimerKind) -> None:
    where = " OR ".join("name LIKE ?" for _ in kinds)
    draft.execute(f"DELETE FROM timers WHERE {where}", tuple(f"{kind}:%" for kind in kinds))


def timers(store: ThreadStore) -> list[tuple[Timer, int]]:
    """Each with its due time, the next one first."""
    rows = store.query("SELECT name, due FROM timers ORDER BY due, name")
    return [(Timer.parse(str(name)), int(str(due))) for name, due in rows]


def next_due(store: ThreadStore) -> int | None:
    rows = store.query("SELECT min(due) FROM timers")
    due = rows[0][0]
    return due if isinstance(due, int) else None
