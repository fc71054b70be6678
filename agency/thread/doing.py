"""Whose code is running: a tool, a hook or a model provider, and for which run.

A context variable says it, in the task and all tasks that the code starts. It costs nothing until something outside
looks at the event loop because it does not turn (a host's watchdog does), finds the code that holds it up by this, and
notes here for how long. The run is warned when the code returns.
"""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Literal, Self

from agency.metadata import ThreadMetadata
from agency.store.draft import Draft

Kind = Literal["tool", "hook", "model"]
INSTEAD: dict[Kind, str] = {
    "tool": "define it with `def`, and it runs in a thread of its own, or await what takes time",
    "hook": "await what takes time, or use asyncio.to_thread",
    "model": "await what takes time, or use asyncio.to_thread",
}


class Doing:
    """One piece of other people's code that runs: `with Doing(…) as doing`. Its run is warned in the draft that it has,
    if it returns, or by `doing.warn(draft)` afterwards."""

    __slots__ = ("_before", "_blocked_s", "_draft", "_since", "kind", "run_id", "thread", "told")

    def __init__(self, thread: ThreadMetadata, run_id: str, kind: Kind, told: str, draft: Draft | None = None) -> None:
        self._draft = draft
        self.thread = thread
        self.run_id = run_id
        self.kind = kind
        self.told = told
        """What it is, in words."""
        self._before: Token[Doing | None] | None = None
        self._since: float | None = None  # it holds up the loop now
        self._blocked_s = 0.0

    def __enter__(self) -> Self:
        self._before = DOING.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None:
            DOING.reset(self._before)
        if self._draft is not None and error is None:
            self.warn(self._draft)

    @property
    def warning(self) -> str:
        """The kind of the warning for its run."""
        return f"{self.kind}_blocks_loop"

    def blocks(self, seconds: float) -> None:
        """It has held up the event loop for so long, and still does. Called from another thread."""
        if self._since is None:
            self._since = time.monotonic() - seconds

    def goes_on(self) -> None:
        """The event loop turns again."""
        if (since := self._since) is not None:
            self._since, self._blocked_s = None, max(self._blocked_s, time.monotonic() - since)

    def warn(self, draft: Draft) -> None:
        """Tell the run's owner, if it has held up the loop."""
        self.goes_on()
        if self._blocked_s and draft.run:
            held = f"held up the event loop of its process, and every thread in it, for {self._blocked_s:.1f} seconds"
            draft.warn(self.warning, f"{self.told} {held}: {INSTEAD[self.kind]}")


DOING: ContextVar[Doing | None] = ContextVar("doing", default=None)
"""What is running here."""
