"""The `agency` command: each module has the commands of one subject and their name, and `terminal/` draws and asks.

Importing a command's module registers its commands with `app`. No module here may import Ray or an HTTP client at its
top: most commands need neither, and `agency --help` has to answer at once.
"""

from __future__ import annotations

import sys

from agency.errors import AgencyError
from agency.own_names import check_names
from dashboard.command import (
    agencies,
    call,
    chat,
    compare,
    doctor,
    edit,
    extensions,
    fork,
    inbox,
    installation,
    keys,
    new,
    policy,
    providers,
    run,
    schedules,
    search,
    serve,
    shelf,
    steer,
    threads,
    usage,
)
from dashboard.command.terminal.console import app, complain

__all__ = [
    "agencies",
    "app",
    "call",
    "chat",
    "compare",
    "doctor",
    "edit",
    "extensions",
    "fork",
    "inbox",
    "installation",
    "keys",
    "main",
    "new",
    "policy",
    "providers",
    "run",
    "schedules",
    "search",
    "serve",
    "shelf",
    "steer",
    "threads",
    "usage",
]


def main() -> None:
    """The entry point. It prints an error of `agency.errors` in a line or two, without a stack, and exits with 1."""
    try:
        check_names()
        app()
    except AgencyError as error:
        complain(error)
        sys.exit(1)
