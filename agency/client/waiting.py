"""Waiting for a run over HTTP: in pieces, none so long that anybody on the way takes the connection for dead."""

from __future__ import annotations

import time

from agency.thread.views import RunEnvelope

PIECE_SECONDS = 20.0


class Waiting:
    def __init__(self, timeout: float | None) -> None:
        """At most so many seconds; None is as long as it takes."""
        self._until = None if timeout is None else time.monotonic() + timeout

    @property
    def piece(self) -> float:
        """How long to wait now."""
        return PIECE_SECONDS if self._until is None else min(PIECE_SECONDS, max(0.0, self._until - time.monotonic()))

    def over(self, run: RunEnvelope) -> bool:
        """Whether the run does not go on by itself, or time is up."""
        goes_on = run.status == "running" or run.meta.pause_reason == "subagent"
        return not goes_on or self.piece == 0.0
