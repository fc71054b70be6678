"""Starting, looking at and stopping an installation.

    python -m actors up package.module:system
    python -m actors status package.module:system
    python -m actors down package.module:system

The data folder and everything else is configured by AGENCY_… variables (see `actors/settings.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from actors.cluster import Cluster
from actors.settings import settings
from agency.errors import AgencyError


async def run(command: str, system: str) -> None:
    cluster = await Cluster.join(settings(system=system), start=command == "up")
    if command == "down":
        await cluster.down()
        return
    sys.stdout.write((await cluster.status()).model_dump_json(indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["up", "status", "down"])
    parser.add_argument("system", help="the agents, as package.module:name")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.command, options.system))
    except AgencyError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
