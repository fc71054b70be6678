"""The agents' code, as the control plane has it: imported once, in a worker thread, because the code is the user's own
and may take its time or fail. A failed import is tried again by the next caller."""

from __future__ import annotations

import asyncio

from actors.settings import Settings, load_system
from agency.define.system import AgentSystem


class SystemLoader:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loading: asyncio.Task[AgentSystem] | None = None

    async def load(self) -> AgentSystem:
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(asyncio.to_thread(load_system, self._settings))
        return await asyncio.shield(self._loading)

    def loaded(self) -> AgentSystem:
        """The system, which `load` has loaded before."""
        assert self._loading is not None
        return self._loading.result()
