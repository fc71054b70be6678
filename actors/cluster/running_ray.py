"""The Ray that this user has started on this machine, as by `ray start --head`. No other Ray is joined unasked.

Ray notes its address in a file below a folder that every user can write, and a Ray that is joined is shown our token
and runs our hosts. So the note counts only if no other user can have written it, and what listens at its address only
if it is a process of ours: the port of a Ray that has ended may be another's by now.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from actors.cluster.listeners import is_here, listeners_at
from actors.cluster.private import user_name, who_can_change

CURRENT = "ray_current_cluster"  # where Ray itself notes its address

ADDRESS_BYTES = 300
_ADDRESS = re.compile(r"[\da-fA-F.:\[\]]{1,255}:\d{1,5}")
"""Ray notes numbers, which need not be looked up."""


@dataclass(frozen=True, slots=True)
class RunningRay:
    address: str
    note: Path
    """Where it was found."""
    refusal: str
    """Why it is not joined; empty if it is this user's."""

    @property
    def remedy(self) -> str:
        """How to join it all the same."""
        return f"if you mean it, say --ray-address {self.address}, or set AGENCY_RAY_ADDRESS"


def running_ray() -> RunningRay | None:
    """The Ray that is noted on this machine, if it runs."""
    note = _folder() / CURRENT
    address, refusal = _noted(note)
    if not _ADDRESS.fullmatch(address):
        return None
    found = listeners_at(address)
    if not found and is_here(address):
        return None  # it has ended
    others = sorted({each.uid for each in found} - {os.geteuid()})
    if not refusal and others:
        refusal = f"what listens there belongs to {', '.join(map(user_name, others))}"
    elif not refusal and not found:
        refusal = "it is on another machine, where it cannot be seen whose it is"
    return RunningRay(address, note, refusal)


def _folder() -> Path:
    """Ray's own folder for temporary files, unless it is told another."""
    system = os.environ.get("TMPDIR", "/tmp") if sys.platform == "linux" else "/tmp"
    return Path(os.environ.get("RAY_TMPDIR", system)) / "ray"


def _noted(note: Path) -> tuple[str, str]:
    """What a note says, and why it does not count."""
    try:
        opened = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return _followed(note) if error.errno == errno.ELOOP else ("", "")
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            return "", ""
        address = file.read(ADDRESS_BYTES).decode(errors="replace").strip()
    if found.st_uid != os.geteuid():
        return address, f"{note} belongs to {user_name(found.st_uid)}"
    return address, who_can_change(note)


def _followed(link: Path) -> tuple[str, str]:
    """What a link leads to, which is only good for saying what is not joined."""
    with suppress(OSError):
        return link.read_bytes()[:ADDRESS_BYTES].decode(errors="replace").strip(), f"{link} is a symbolic link"
    return "", ""
