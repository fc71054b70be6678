"""The address of a virtual actor, and the place of its file.

An agency is addressed by its id, a thread by its agency's and its own. The files are the registry: what has a file
exists, and what has none does not.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agency.errors import InvalidInput

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    agency: str
    thread: str = ""
    """Empty for the agency itself."""

    def __post_init__(self) -> None:
        _check("an agency", self.agency)
        _check("a thread", self.thread or "-")

    def __str__(self) -> str:
        return f"{self.agency}/{self.thread}" if self.thread else self.agency


def _check(what: str, given: object) -> None:
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise InvalidInput(f"the id of {what} has 1 to 64 letters, digits, '-' and '_', not {given!r:.100}")


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything is below the data folder."""

    data_dir: Path

    def prepare(self) -> None:
        """Make the data folder, if it is not there. Only its owner may read it: it holds whole conversations."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def folder(self, agency: str) -> Path:
        return self.data_dir / "agencies" / agency

    def of(self, address: Address) -> Path:
        folder = self.folder(address.agency)
        return folder / "threads" / f"{address.thread}.db" if address.thread else folder / "agency.db"

    def shelves(self, agency: str) -> Path:
        """The folder of what outlives the agency's threads."""
        return self.folder(agency) / "shelves"

    def overview(self, agency: str) -> Path:
        """What was said and used in the agency's threads, for searching and for figures."""
        return self.folder(agency) / "overview.db"

    def agencies(self) -> list[str]:
        found = (path.parent.name for path in (self.data_dir / "agencies").glob("*/agency.db"))
        return sorted(name for name in found if _ID.fullmatch(name))

    def threads(self, agency: str) -> Iterator[Address]:
        for path in (self.folder(agency) / "threads").glob("*.db"):
            if _ID.fullmatch(path.stem):
                yield Address(agency, path.stem)

    def all_threads(self) -> list[Address]:
        """Every thread there is; first those whose files are open, or were when their host died: they have a WAL."""
        found = [address for agency in self.agencies() for address in self.threads(agency)]
        paths = {address: self.of(address) for address in found}
        return sorted(found, key=lambda address: not paths[address].with_name(f"{address.thread}.db-wal").exists())

    def remove(self, address: Address) -> None:
        """Delete a thread's file with what SQLite keeps beside it. A host that has it open writes to no avail."""
        discard(self.of(address))


def discard(path: Path) -> None:
    """Remove a file with what SQLite keeps beside it. What is damaged may be anything, a folder, too."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        each = path.with_name(path.name + suffix)
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
