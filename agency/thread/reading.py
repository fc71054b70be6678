"""A run as its file has it, while nothing of its thread runs here: what a caller is told whose thread cannot be woken
just now. The file is only read, so whichever host has it open, or opens it meanwhile, is not disturbed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agency.define.system import AgentSystem
from agency.errors import NotFound
from agency.store import schema, sqlite
from agency.store.peek import look
from agency.store.sqlite import LOCAL
from agency.store.store import ThreadStore
from agency.thread.parking import ParkedRuntime
from agency.thread.thread import Thread
from agency.thread.views import RunEnvelope


def stored_run(path: Path, system: AgentSystem) -> RunEnvelope:
    """The latest run of the thread in a file, as it was last written."""

    def read(db: sqlite3.Connection) -> RunEnvelope:
        if schema.check(db, path) == 0:
            raise NotFound(f"{path} holds no thread").telling("there is no such thread")
        return Thread.of(ThreadStore(db, path, 0, LOCAL), system, ParkedRuntime()).run()

    with sqlite.store_errors("read", path):
        return look(path, read)
