"""What the tests of threads share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agency import AgentSystem, LocalRuntime, Tool
from agency.testing import Script, ScriptedModel

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """A runtime with one agent, `clerk`, that follows a script; calling it again opens the same folder."""

    def make(script: Script, *tools: Tool, **agent: Any) -> tuple[LocalRuntime, ScriptedModel]:
        model = ScriptedModel(script)
        system = AgentSystem("scripted:any", providers={"scripted": model})
        for each in tools:
            system.add_tool(each)
        system.add_agent(name="clerk", description="Does clerical work.", prompt="You are a clerk.", **agent)
        return LocalRuntime(system, tmp_path / "threads"), model

    return make
