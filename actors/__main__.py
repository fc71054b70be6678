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

from actors import local_ray
from actors.cluster import Cluster
from actors.settings import settings
from agency.errors import AgencyError, NotFound


async def show(system: str, *, start: bool) -> None:
    cluster = await Cluster.join(settings(system=system), start=start)
    sys.stdout.write((await cluster.status()).model_dump_json(indent=2) + "\n")


async def stop(system: str) -> None:
    """End whatever there is: an installation, and a local Ray even if nothing lives in it."""
    configured = settings(system=system)
    try:
        await (await Cluster.join(configured, start=False)).down()
    except NotFound:
        if not local_ray.stop(configured.data_dir):
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["up", "status", "down"])
    parser.add_argument("system", help="the agents, as package.module:name")
    options = parser.parse_args()
    try:
        down = options.command == "down"
        asyncio.run(stop(options.system) if down else show(options.system, start=options.command == "up"))
    except AgencyError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
