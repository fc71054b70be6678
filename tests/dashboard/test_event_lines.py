"""Events as the command prints them: in one line, without control characters."""

from __future__ import annotations

import pytest

from agency import events
from agency.events import Event, NewEvent
from dashboard.command.terminal.rendering import event_line


@pytest.mark.parametrize(
    ("happened", "told"),
    [
        (events.runtime_warning("unknown_stop", "it\nended \x1b[31m"), "unknown_stop: it ended \ufffd[31m"),
        (events.run_canceled({"kind": "person", "name": "Ann's key"}), "by person (Ann's key)"),
        (events.run_canceled({"kind": "deletion"}), "by deletion"),
        (events.run_canceled(), ""),
    ],
)
def test_warnings_and_cancels_are_told_in_words(happened: NewEvent, told: str) -> None:
    event = Event(thread_id="t", seq=1, ts="2026-01-01T00:00:00.000Z", type=happened.type, data=dict(happened.data))
    assert event_line(event).plain.split(f"{happened.type} ", 1)[1].strip() == told
