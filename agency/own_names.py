"""The top-level names that are Agency's own, and whether Python would import them from elsewhere.

The project installs four packages side by side. A user's `middleware.py` in the folder of their agents stands before
them on Python's path, there and in every host, and what follows is an import error far from its cause, or a process
that starts and dies. So whatever imports a user's module looks here first. It must import nothing of those packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from agency.errors import DefinitionError

NAMES = ("actors", "agency", "dashboard", "middleware")
HOME = Path(__file__).resolve().parent.parent
"""The folder that has all four."""


def check_names(folders: Iterable[str] = (), names: Iterable[str] = NAMES) -> None:
    """Raise if a module of the user's hides one of ours, with `folders` first on Python's path."""
    path = [*folders, *sys.path]
    for name in names:
        if (hiding := _first(name, path)) is not None:
            shown = hiding.parent if hiding.name == "__init__.py" else hiding
            raise DefinitionError(
                f"{shown} hides Agency's own package {name!r}, so nothing could start: rename it, to my_{shown.name} "
                f"for example. The names that Agency needs are {', '.join(NAMES)}."
            )


def _first(name: str, path: Iterable[str]) -> Path | None:
    """The module of this name that Python finds before ours. A folder without `__init__.py` does not count: Python
    takes a package that is further down its path instead."""
    for entry in path:
        folder = Path(entry or ".").resolve()
        if folder == HOME:
            return None
        for found in (folder / name / "__init__.py", folder / f"{name}.py"):
            if found.is_file():
                return found
    return None
