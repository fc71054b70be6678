"""The dashboard's files, in memory: serving them opens nothing, so they come when the process can open no more files.

They are read when the gateway begins, and again only after they were built anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

INDEX, ASSETS = "index.html", "assets"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
"""What is served, by the ends of names."""

_Built = tuple[int, int]
"""When the page and the folder of its files were changed last."""


@dataclass(frozen=True, slots=True)
class PageFiles:
    index: str
    assets: Mapping[str, bytes]


class BuiltPage:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: tuple[_Built, PageFiles] | None = None

    def files(self) -> PageFiles | None:
        """The files as they were built last; None if they are not there."""
        try:
            built = self._built()
            if self._known is None or self._known[0] != built:
                self._known = built, self._read()
        except FileNotFoundError:  # not built, or just being built
            self._known = None
        return None if self._known is None else self._known[1]

    def _built(self) -> _Built:
        index, assets = (self._folder / name for name in (INDEX, ASSETS))
        return index.stat().st_mtime_ns, assets.stat().st_mtime_ns

    def _read(self) -> PageFiles:
        served = (path for path in (self._folder / ASSETS).iterdir() if path.suffix in TYPES and path.is_file())
        return PageFiles((self._folder / INDEX).read_text(), {path.name: path.read_bytes() for path in served})
