"""Beginning a thread's file: all at once, so that no other process ever sees a part of it."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agency.store import schema
from agency.store.sqlite import Storage


def begin_file(path: Path, tables: schema.Tables, storage: Storage, fill: Callable[[sqlite3.Connection], None]) -> bool:
    """Begin a new file with all its tables, unless another process has begun it or it cannot be done. On shared storage
    what `fill` writes is in it, too, and it is synced before it has its name; the first commit syncs the name."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):  # opening it the long way says what is wrong, if anything is
        try:
            if storage.shared:
                _write_synced(new, schema.filled(tables, fill))
            else:
                new.write_bytes(schema.template(tables))
            os.link(new, path)  # all at once, and never over another's
            return True
        finally:
            new.unlink(missing_ok=True)
    return False


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
