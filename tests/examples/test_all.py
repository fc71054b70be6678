"""What holds for every example: it can be served, run, and found in the list."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from agency import AgentSystem

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_a_system_to_serve_a_main_and_says_what_it_shows_and_how_to_run_it(name: str) -> None:
    module = importlib.import_module(f"examples.{name}")

    assert isinstance(module.system, AgentSystem)
    assert module.system.agents
    assert callable(module.main)
    assert f"\n    python -m examples.{name}" in str(module.__doc__)
    assert f"[`{name}.py`]({name}.py)" in (FOLDER / "README.md").read_text()


def test_there_are_six() -> None:
    assert NAMES == ["custom_middleware", "observed", "ray_tool", "research", "script", "support_desk"]
