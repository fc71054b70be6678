"""ARCHITECTURE.md names files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [line for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines() if line.startswith("| ")]


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


@pytest.mark.parametrize("row", [row for row in ROWS if " | " in row and named(row)])
def test_a_row_of_the_map_names_what_is_there(row: str) -> None:
    assert [str(path) for path in named(row) if not path.exists()] == []
