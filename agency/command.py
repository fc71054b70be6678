"""Where the `agency` command begins: look whether the name of its package is hidden, then load the command.

The library knows nothing of the command, which registers itself as an entry point, as the gateway and the stock
middleware do.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from agency.errors import DefinitionError
from agency.own_names import check_names


def main() -> None:
    try:
        check_names(names=["dashboard"])
    except DefinitionError as error:
        sys.exit(f"error: {error}")
    for entry in entry_points(group="agency.command"):
        entry.load()()
