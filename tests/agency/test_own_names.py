"""A user's module that is called like a package of ours is found before anything starts, and the error says which."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agency.define.system import load_system
from agency.errors import DefinitionError
from agency.own_names import NAMES, check_names
from tests.support.terminals import agency, surroundings

SHOP = "from agency import AgentSystem\nsystem = AgentSystem('demo:instant').defaults()\n"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
def test_a_module_or_a_package_of_this_name_is_a_clash(tmp_path: Path, name: str, file: str) -> None:
    place = tmp_path / file.format(name)
    place.parent.mkdir(exist_ok=True)
    place.touch()
    (tmp_path / "shop.py").write_text(SHOP)
    shown = place.parent if "/" in file else place
    with pytest.raises(DefinitionError, match=f"^{re.escape(str(shown))} hides Agency's own package '{name}'.* rename"):
        load_system("shop:system", (str(tmp_path),))


def test_a_folder_that_is_no_package_and_what_comes_after_ours_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dashboard").mkdir()
    check_names([str(tmp_path)])
    (tmp_path / "actors.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    check_names()


@pytest.mark.parametrize(
    "command", [("run", "echo hi", "--system", "shop:system"), ("doctor", "--system", "shop:system")]
)
def test_commands_say_it_in_a_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "actors.py").touch()
    (tmp_path / "shop.py").write_text(SHOP)
    done = agency(*command, folder=tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'actors.py'} hides Agency's own package 'actors'" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_is_told_when_it_asks_for_the_stock_middleware(tmp_path: Path) -> None:
    (tmp_path / "middleware.py").touch()
    (tmp_path / "shop.py").write_text(SHOP)
    done = subprocess.run(
        [sys.executable, "shop.py"], cwd=tmp_path, env=surroundings(), capture_output=True, text=True, timeout=60
    )
    assert f"DefinitionError: {tmp_path / 'middleware.py'} hides" in done.stderr
