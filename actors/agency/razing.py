"""Deleting an agency whose own file is damaged, so that it cannot delete itself.

What the file would have told, the folder tells: its threads are those whose files are there. The agency's file goes
last: as long as there is one, the agency is listed, as damaged, and can be deleted again should this be interrupted.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from actors.address import Address, Files
from actors.agency.installation import Installation

log = logging.getLogger(__name__)


async def raze(agency_id: str, files: Files, installation: Installation) -> None:
    """Remove an agency's threads, and then everything that it has."""
    log.warning("agency %s is deleted, whose file is damaged", agency_id)
    for address in await asyncio.to_thread(lambda: list(files.threads(agency_id))):
        files.remove(address)
        await installation.evict(address)
        files.remove(address)  # its host may have written meanwhile
    folder, own = files.folder(agency_id), files.of(Address(agency_id))
    await asyncio.to_thread(_remove, [each for each in folder.iterdir() if each != own])
    await asyncio.to_thread(_remove, [folder])


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
