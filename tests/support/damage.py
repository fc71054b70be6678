"""Broken storage, for real: files that are damaged in one of the ways in which files are, and disks without room."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.address import discard

PIECE = 4_096


def _alone(path: Path) -> bytes:
    """The content of a file that is to be damaged, without what SQLite keeps beside it."""
    content = path.read_bytes()
    discard(path)
    return content


def overwrite(path: Path) -> None:
    """The beginning is another's, as after a crash of the file system."""
    path.write_bytes(b"\xa5" * PIECE + _alone(path)[PIECE:])


def scramble(path: Path) -> None:
    """The beginning is whole, and the rest is not."""
    content = _alone(path)
    path.write_bytes(content[:PIECE] + b"\x5a" * max(0, len(content) - PIECE))


def truncate(path: Path) -> None:
    content = _alone(path)
    path.write_bytes(content[: PIECE + 100])


def empty(path: Path) -> None:
    _alone(path)
    path.touch()


def replace_by_folder(path: Path) -> None:
    _alone(path)
    path.mkdir()
    (path / "left-over").touch()


def remove(path: Path) -> None:
    _alone(path)


DAMAGES: tuple[Callable[[Path], None], ...] = (overwrite, scramble, truncate, empty, replace_by_folder)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """A file system of its own in a folder; False if this user may not mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "agency-tests", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all room that is left; removing the file gives it back."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        piece = 1 << 20
        while piece:
            try:
                file.write(bytes(piece))
            except OSError:
                piece //= 2
    return filler
