"""Finding a gateway: each that runs leaves a note in the data folder, so that the command needs no address."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from agency.wire import Wire


class Note(Wire):
    """A gateway that runs on this machine."""

    pid: int
    began: str
    """When its process began, so that another with the same pid is not taken for it."""
    url: str


def notes(data_dir: Path) -> list[Note]:
    """The gateways of a data folder that run here."""
    found = []
    for path in sorted((data_dir / "gateways").glob("*.json")):
        with suppress(OSError, ValidationError):
            note = Note.model_validate_json(path.read_text())
            if runs(note):
                found.append(note)
    return found


@contextmanager
def announce(data_dir: Path, pid: int, url: str) -> Iterator[None]:
    folder = data_dir / "gateways"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pid}.json"
    path.write_text(Note(pid=pid, began=_began(pid), url=url).model_dump_json())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def runs(note: Note) -> bool:
    return _began(note.pid) == note.began


def stop(note: Note) -> None:
    if runs(note):
        with suppress(ProcessLookupError):
            os.kill(note.pid, signal.SIGTERM)


def _began(pid: int) -> str:
    """When a process began, in the kernel's own count; empty if there is none, or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""
