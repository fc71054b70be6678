"""Which files of a data folder are damaged, for `agency doctor`. They are only read: an installation may be running."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from actors.address import Address, Files
from actors.agency.peek import has_thread, peek_info
from agency.errors import StoreError
from agency.shelves.local import FILE
from agency.store import sqlite
from agency.store.peek import look

SECONDS = 10.0
"""After that, the rest is left unread: a data folder may hold very many threads."""


def damaged_files(data_dir: Path) -> tuple[list[Path], bool]:
    """The damaged ones, and whether there was time to look at all."""
    until, found = time.monotonic() + SECONDS, list[Path]()
    for path in _files(Files(data_dir)):
        if time.monotonic() > until:
            return found, False
        if _is_damaged(path):
            found.append(path)
    return found, True


def _files(files: Files) -> Iterator[Path]:
    """First those of agencies: they matter most."""
    agencies = files.agencies()
    yield from (files.of(Address(each)) for each in agencies)
    yield from (path for each in agencies if (path := files.shelves(each) / FILE).exists())
    yield from (files.of(address) for each in agencies for address in files.threads(each))


def _is_damaged(path: Path) -> bool:
    if path.name == "agency.db" and (info := peek_info(path)) is not None and info.damaged:
        return True
    if path.parent.name == "threads" and path.is_file() and not path.stat().st_size:
        return has_thread(path.parent.parent / "agency.db", path.stem)
    try:
        with sqlite.store_errors("read", path):
            return bool(look(path, lambda db: db.execute("PRAGMA quick_check(1)").fetchone()) != ("ok",))
    except StoreError as error:
        return sqlite.is_damage(error)
    except sqlite3.Error:
        return False
