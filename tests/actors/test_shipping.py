"""What is sent to the nodes of a cluster that was started by hand: the folder of the agents, without private files."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray._private.runtime_env.packaging import _get_excludes  # Ray's own reading of the patterns

from actors import Settings, shipping
from agency.errors import DefinitionError


def settings(folder: Path, **given: object) -> Settings:
    return Settings(system="shop.agents:system", python_path=(str(folder),), **given)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "agents.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("path", "goes"),
    [
        (".", True),
        ("shop/agents.py", True),
        ("shop/prompts/greeting.md", True),
        ("shop/data/prices.csv", True),
        (".env", False),
        ("shop/.env.production", False),
        (".git", False),
        (".venv/bin/python", False),
        ("shop/__pycache__", False),
        ("web/node_modules", False),
        ("keys/server.pem", False),
        ("store/agency/agencies", False),
    ],
)
def test_what_is_private_or_large_stays(folder: Path, path: str, goes: bool) -> None:
    told = shipping.runtime_env(settings(folder, data_dir=folder / "store" / "agency"))
    assert told is not None and told["working_dir"] == str(folder)
    assert _get_excludes(folder, told["excludes"])(folder / path) != goes


def test_nothing_is_sent_if_the_module_is_installed_or_the_setting_says_so(folder: Path) -> None:
    assert shipping.runtime_env(settings(folder / "elsewhere")) is None
    assert shipping.runtime_env(settings(folder, ship_code="off")) is None


def test_a_home_folder_is_not_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "me"))
    with pytest.raises(DefinitionError, match=r"all your files are below it.*AGENCY_SHIP_CODE=off"):
        shipping.runtime_env(settings(folder))
