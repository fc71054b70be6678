"""A note in the data folder about the installation that runs there, so that the folder is enough to find it again: to
look at it and to stop it. A note of what has died is overlooked."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import ray
from pydantic import ValidationError

from actors.cluster import local_ray
from actors.cluster.listeners import owner_of
from actors.settings import Settings
from agency.wire import Wire


class InstallationNote(Wire):
    namespace: str
    ray_address: str
    ray_owner: str = ""
    """The user whose process listened there, if that is this machine. Another's has the port of a Ray that ended."""


def write_note(settings: Settings) -> None:
    """Note what this process has joined. A folder that cannot be written keeps nothing from running."""
    address = ray.get_runtime_context().gcs_address
    made = InstallationNote(namespace=settings.namespace, ray_address=address, ray_owner=owner_of(address))
    place = _place(settings.data_dir)
    with suppress(OSError):
        fresh = place.with_suffix(f".{os.getpid()}")
        fresh.write_text(made.model_dump_json())
        fresh.replace(place)


def remove_note(data_dir: Path) -> None:
    with suppress(OSError):
        _place(data_dir).unlink(missing_ok=True)


def where_it_runs(settings: Settings) -> Settings:
    """The settings with what the folder's note says about the namespace and Ray, unless variables say it."""
    try:
        note = InstallationNote.model_validate_json(_place(settings.data_dir).read_bytes())
    except (OSError, ValidationError):
        return settings
    found: dict[str, object] = {}
    if "AGENCY_NAMESPACE" not in os.environ:
        found["namespace"] = note.namespace
    if local_ray.named(settings) is None and local_ray.find(settings.data_dir) is None and _still_runs(note):
        found["ray_address"] = note.ray_address
    return settings.model_copy(update=found)


def _still_runs(note: InstallationNote) -> bool:
    known = not note.ray_owner or owner_of(note.ray_address) == note.ray_owner
    return known and local_ray.listens(note.ray_address)


def _place(data_dir: Path) -> Path:
    return data_dir / "installation.json"
