"""A runner: one real thread whose model makes the calls that a test asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agency import AgentSystem, Middleware, open_thread
from agency.testing import Line, ScriptedModel
from tests.support.call_runner import CallRunner, MakeRunner, OpenRunner


@pytest.fixture
def make_runner(tmp_path: Path) -> MakeRunner:
    """Runners with these middleware. All that one test opens are the same thread, in the same file."""

    def make(*middleware: Middleware[Any]) -> OpenRunner:
        @asynccontextmanager
        async def runner() -> AsyncIterator[CallRunner]:
            lines: list[Line] = []
            model = ScriptedModel(lambda request: lines.pop(0))
            system = AgentSystem("scripted:any", providers={"scripted": model})
            for each in middleware:
                system.use(each, tags=["default"])
            system.add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")
            async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
                yield CallRunner(thread, tmp_path / "clerk.db", model, lines)

        return runner

    return make
