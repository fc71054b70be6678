"""A disk that a test can hold: commits wait on it until it is let go, or fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from agency.errors import StorageFull
from agency.store import sqlite

PATIENCE = 30


class HeldDisk:
    def __init__(self) -> None:
        self._held = threading.Event()
        self._free = threading.Event()
        self._free.set()
        self.fails = False
        self.commits = 0
        self.in_main_thread = 0
        """How many commits were made on the event loop."""

    def hold(self) -> None:
        self._held.clear()
        self._free.clear()

    def let_go(self) -> None:
        self._free.set()

    async def is_held(self) -> None:
        """Return when a commit waits."""
        assert await asyncio.to_thread(self._held.wait, PATIENCE)

    def commit(self, when: Literal["before", "after"]) -> None:
        if when == "after":
            return
        self.commits += 1
        self.in_main_thread += threading.current_thread() is threading.main_thread()
        if not self._free.is_set():
            self._held.set()
            assert self._free.wait(PATIENCE)
        if self.fails:
            raise StorageFull("the disk is full")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Every commit of every store goes to it."""
        sqlite.commit_hook = self.commit
        try:
            yield
        finally:
            self.let_go()
            sqlite.commit_hook = None
