"""How commands find a gateway without its address: each gateway keeps a note in the data folder while it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from agency.wire import Wire


class GatewayNote(Wire):
    """A gateway on this machine, as its note describes it."""

    pid: int
    began: str
    """When its process began: a later process can have the same pid."""
    url: str


def running_gateways(data_dir: Path) -> list[GatewayNote]:
    """The gateways of a data folder that run on this machine. Notes of processes that died are ignored."""
    found = []
    for path in sorted((data_dir / "gateways").glob("*.json")):
        with suppress(OSError, ValidationError):
            note = GatewayNote.model_validate_json(path.read_text())
            if is_running(note):
                found.append(note)
    return found


@contextmanager
def announce(data_dir: Path, pid: int, url: str) -> Iterator[None]:
    """Keep a note about a gateway inside this block."""
    folder = data_dir / "gateways"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pid}.json"
    path.write_text(GatewayNote(pid=pid, began=_began(pid), url=url).model_dump_json())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def is_running(note: GatewayNote) -> bool:
    return _began(note.pid) == note.began


def stop(note: GatewayNote) -> None:
    if is_running(note):
        with suppress(ProcessLookupError):
            os.kill(note.pid, signal.SIGTERM)


def _began(pid: int) -> str:
    """When a process began, in ticks since the machine booted; empty if the process does not exist or has ended.

    psutil gives this as wall-clock time, which shifts when the machine's clock is adjusted. Notes are compared for
    equality, and notes of running gateways have ticks, so this reads the kernel's own count.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""
