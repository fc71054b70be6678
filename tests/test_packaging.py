"""What is published: one version in one place, all four packages, entry points that exist, extras that are listed."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import import_module
from typing import Any

from agency.own_names import NAMES
from tests.support.paths import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
WEB = ROOT / "dashboard" / "web"


def test_the_version_is_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", PROJECT["project"]["version"])
    for folder in (WEB, WEB / "client"):
        assert json.loads((folder / "package.json").read_text())["version"] == "0.0.0", (
            "`make dist` gives it the version"
        )


def test_the_wheel_has_all_packages_and_the_page_and_says_that_they_are_typed() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == list(NAMES)
    assert "dashboard/web/dist" in wheel["artifacts"]
    assert "dashboard/web/dist" in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["artifacts"]
    assert all((ROOT / name / "py.typed").exists() for name in ("actors", "agency", "middleware"))


def test_entry_points_exist() -> None:
    project = PROJECT["project"]
    groups = [project["scripts"], *project["entry-points"].values()]
    for reference in (each for group in groups for each in group.values()):
        module, _, name = reference.partition(":")
        assert hasattr(import_module(module), name), reference


def test_extras_are_listed() -> None:
    listed = set(re.findall(r"^\| `agency\[(\w+)\]` \|", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE))
    assert listed == PROJECT["project"]["optional-dependencies"].keys()
