"""Values on their way to the hosts: sealed, because Ray keeps the arguments of actors, and may write them to a disk.

The key is a file of the data folder, which the directory and every host can read. What is sealed with it goes by Ray
and never into that folder, so neither of them alone has a value.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from pydantic import TypeAdapter

from actors.address import Files
from agency.errors import CANNOT_START, Unavailable

_VALUES: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def seal(data_dir: Path, values: Mapping[str, str]) -> str:
    """The values as only those can read them who can read the data folder."""
    if not values:
        return ""
    try:
        key = _key(data_dir)
    except OSError as error:
        unusable = Unavailable(f"the data folder {data_dir} cannot be used: {error.strerror}")
        raise unusable.telling(CANNOT_START) from error
    return Fernet(key).encrypt(_VALUES.dump_json(dict(values))).decode()


def unseal(data_dir: Path, sealed: str) -> dict[str, str]:
    """What was sealed for the hosts of this data folder."""
    if not sealed:
        return {}
    try:
        return _VALUES.validate_json(Fernet(_place(data_dir).read_bytes()).decrypt(sealed))
    except (OSError, ValueError, InvalidToken) as error:
        raise Unavailable(
            f"{_place(data_dir)} does not open what this installation was started with ({type(error).__name__}): "
            "start it again (`agency down`, then `agency serve`)"
        ).telling(CANNOT_START) from None


def _place(data_dir: Path) -> Path:
    return data_dir / "seal.key"


def _key(data_dir: Path) -> bytes:
    place = _place(data_dir)
    if not place.exists():
        Files(data_dir).prepare()
        mine = place.with_name(f"seal-{secrets.token_hex(8)}")
        with os.fdopen(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(Fernet.generate_key())
        with suppress(FileExistsError):  # another process was first, and its key counts
            place.hardlink_to(mine)
        mine.unlink()
    return place.read_bytes()
