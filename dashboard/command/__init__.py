"""The `agency` command. Each module has the commands of one subject; this one puts them together."""

from __future__ import annotations

import sys

from agency.errors import AgencyError
from dashboard.command import (
    answering,
    doctor,
    forking,
    installation,
    projects,
    running,
    scheduling,
    serving,
    spending,
    steering,
    tenants,
    watching,
)
from dashboard.command.console import app, complain

__all__ = [
    "answering",
    "app",
    "doctor",
    "forking",
    "installation",
    "main",
    "projects",
    "running",
    "scheduling",
    "serving",
    "spending",
    "steering",
    "tenants",
    "watching",
]


def main() -> None:
    """What `agency` runs: an error that we know is told in a line or two, without a stack."""
    try:
        app()
    except AgencyError as error:
        complain(error)
        sys.exit(1)
