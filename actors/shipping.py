"""The project's code on its way to the nodes of a cluster, by Ray's own runtime environment.

On a Ray that a person has started, the folder that has the system's module becomes the `working_dir` of this process's
job, and Ray gives it to every process that follows from it: the directory, hosts and tasks import the module from their
copy and from nowhere else. The name of a package is a digest of what is in it, so other files are another version. A
local Ray of ours needs none of this: its processes are on this machine.

What is private or large stays here: what `.gitignore` and `.rayignore` name, the data folder, whatever begins with a
dot (`.env`, `.git`, `.venv`), and private keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray

from actors import build
from actors.settings import Settings
from agency.errors import DefinitionError

NEVER = (".?*", "__pycache__", "node_modules", "venv", "*.pem", "*.key", "*.p12", "*.pfx", "*.egg-info")
"""Patterns as in `.gitignore`. (`.*` would be the folder itself, too.)"""


def folder_of(settings: Settings) -> Path | None:
    """The folder to ship: the one of `python_path` in which the system's module is; None if it is installed."""
    module = settings.system.partition(":")[0]
    found = next((each for each in settings.python_path if build.has_module(module, each)), None)
    return None if found is None or not settings.ship_code else Path(found).absolute()


def runtime_env(settings: Settings) -> dict[str, Any] | None:
    """What `ray.init` is told, if there is something to ship."""
    folder = folder_of(settings)
    if folder is None:
        return None
    if Path.home().is_relative_to(folder):
        raise DefinitionError(
            f"{folder} is not sent to the nodes of the cluster, because all your files are below it: "
            "put the agents into a folder of their own, or set AGENCY_SHIP_CODE=off if every node has them"
        )
    excluded = [*NEVER]
    if settings.data_dir.is_relative_to(folder):
        excluded.append(f"/{settings.data_dir.relative_to(folder)}")
    return {"working_dir": str(folder), "excludes": excluded}


def shipped() -> str:
    """The name of the package that this process's job has; empty if there is none."""
    return str(ray.get_runtime_context().runtime_env.get("working_dir") or "")


def for_hosts(settings: Settings) -> Settings:
    """The settings of hosts that have the package: they look for the module in their copy, not in our folder."""
    package, folder = shipped(), folder_of(settings)
    if not package or folder is None:
        return settings
    elsewhere = tuple(each for each in settings.python_path if Path(each).absolute() != folder)
    return settings.model_copy(update={"python_path": elsewhere, "build": f"{settings.build} {package}"})
