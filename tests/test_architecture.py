"""ARCHITECTURE.md names files that are there, in its map and in its recipes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ")]


def named(row: str) -> list[Path]:
    """The files and folders of a row. A bare name is in the folder of the last path before it."""
    found: list[Path] = []
    folder = ROOT
    for name in re.findall(r"`([\w./-]+(?:\.py|\.md|/))`", row.split(" | ", 1)[1]):
        whole = "/" in name.rstrip("/") or (ROOT / name).exists()
        path = (ROOT if whole else folder) / name
        if whole:
            folder = path if name.endswith("/") else path.parent
        found.append(path)
    return found


def test_the_recipes_name_what_is_there() -> None:
    recipes = TEXT.partition("## Recipes")[2].partition("\n## ")[0]
    paths = re.findall(r"`([\w.-]+/[\w./-]*)`", recipes)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("row", [row for row in ROWS if " | " in row and named(row)])
def test_a_row_of_the_map_names_what_is_there(row: str) -> None:
    assert [str(path) for path in named(row) if not path.exists()] == []
