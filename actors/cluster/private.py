"""Folders into which only their owner can get, and what other users of this machine can do with a path.

Ray gives its folders the mode 0777. Below a folder of mode 0700 that does no harm: other users do not get that far.
"""

from __future__ import annotations

import os
import pwd
import secrets
import stat
from pathlib import Path

from agency.errors import CANNOT_START, Unavailable

MODE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(start: str) -> Path:
    """A new folder for us alone, with a path that begins so. What is there already is never taken for it."""
    place = Path(f"{start}{secrets.token_hex(4)}")
    try:
        place.mkdir(MODE)
        place.chmod(MODE)  # whatever the umask
    except OSError as error:
        raise Unavailable(f"Ray needs a folder for its sockets, and {place} cannot be made: {error.strerror}").telling(
            CANNOT_START
        ) from error
    check_private(place)
    return place


def check_private(place: Path) -> None:
    """Raise unless a folder is one, is ours, has exactly the mode 0700, and cannot be replaced by another user."""
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode):
        problem = "is a symbolic link" if stat.S_ISLNK(found.st_mode) else "is no folder"
    elif found.st_uid != os.geteuid():
        problem = f"belongs to {user_name(found.st_uid)}"
    elif stat.S_IMODE(found.st_mode) != MODE:
        problem = f"has the mode {stat.S_IMODE(found.st_mode):04o}"
    elif replaced := who_can_change(place):
        problem = f"can be replaced by other users: {replaced}"
    else:
        return
    raise Unavailable(
        f"{place} {problem}, so it cannot hold the sockets and logs of Ray: "
        f"that takes a folder of {user_name(os.geteuid())} with the mode {MODE:04o}"
    ).telling(CANNOT_START)


def who_can_change(path: Path) -> str:
    """How users other than us and root can change what a path leads to; empty if they cannot."""
    problem, _ = _look(path)
    return problem


def who_can_enter(path: Path) -> str:
    """How other users can get to what is below a folder; empty if they cannot."""
    problem, private = _look(path)
    return problem or ("" if private else f"other users can enter {path}")


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _look(path: Path) -> tuple[str, bool]:
    """How others can change what a path leads to, and whether a folder on the way keeps them out; from the top, because
    what is below such a folder does not matter any more."""
    us = os.geteuid()
    for place in [*reversed(path.absolute().parents), path.absolute()]:
        try:
            found = place.lstat()
        except OSError as error:
            return f"{place} cannot be looked at: {error.strerror}", False
        if found.st_uid not in (us, 0):
            return f"{place} belongs to {user_name(found.st_uid)}", False
        if stat.S_ISLNK(found.st_mode):
            problem, private = _look(Path(os.path.realpath(place)))
            if problem or private:
                return problem, private
        elif stat.S_ISDIR(found.st_mode) and found.st_uid == us and not found.st_mode & _OTHERS:
            return "", True
        elif found.st_mode & _OTHERS_WRITE and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
            return f"{place} can be written by others (mode {stat.S_IMODE(found.st_mode):04o})", False
    return "", False
