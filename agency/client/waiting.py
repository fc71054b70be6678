"""Waiting for a run over HTTP: in pieces that are short enough for every proxy on the way."""

from __future__ import annotations

import time

from agency.thread.views import RunEnvelope

PIECE_SECONDS = 20.0


class Waiting:
    def __init__(self, timeout: float | None) -> None:
        """Wait at most `timeout` seconds; None waits as long as it takes."""
        self._until = None if timeout is None else time.monotonic() + timeout

    @property
    def piece(self) -> float:
        """How long the next request may wait."""
        return PIECE_SECONDS if self._until is None else min(PIECE_SECONDS, max(0.0, self._until - time.monotonic()))

    def over(self, run: RunEnvelope) -> bool:
        """Whether the run has ended or needs a person, or time is up."""
        elsewhere = run.meta.pause_reason in ("subagent", "outside") and run.meta.waiting_for is None
        goes_on = run.status == "running" or elsewhere
        return not goes_on or self.piece == 0.0
