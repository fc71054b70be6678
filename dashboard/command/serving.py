"""`agency serve`: the gateway, and the installation behind it. Both are imported when they are to run."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dashboard.command.console import DataDir, System, app, err
from dashboard.command.installation import DEMO, chosen, installation

if TYPE_CHECKING:
    from actors import Cluster, Settings


@app.command()
def serve(
    system: System = None,
    host: Annotated[str | None, typer.Option(help="[dim]127.0.0.1 unless given[/]", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(help="[dim]8000 unless given; 0 takes a free one[/]")] = None,
    data_dir: DataDir = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond loopback without a secret.")] = False,
) -> None:
    """Serve agents: the dashboard, the REST API and live events. [dim]AGENCY_SECRET is what clients must show.[/]

    Ray is started if none runs. Threads go on when this ends; [bold]agency down[/] stops everything.
    """
    from dashboard.gateway import keeper
    from dashboard.gateway.listening import listen
    from dashboard.gateway.settings import gateway_settings

    settings = gateway_settings(host=host, port=port, insecure=insecure or None)
    if not keeper.is_kept():
        with listen(settings) as listening:
            raise typer.Exit(keeper.Keeper(listening).run())
    kept = keeper.Kept()

    from actors import logs
    from actors.settings import load_system
    from dashboard.gateway.server import Gateway

    os.environ.pop("AGENCY_SECRET", None)  # nobody's but ours: hosts run other people's code
    wanted = installation(data_dir, chosen(system))
    quiet = err.is_terminal and "AGENCY_LOG_LEVEL" not in os.environ  # a person wants the address, not each request
    logs.set_up("WARNING" if quiet else wanted.log_level)
    load_system(wanted)  # what is wrong with it shows before anything starts
    err.print("starting …")
    asyncio.run(Gateway(settings, wanted, kept).run(partial(_greet, wanted)))


async def _greet(wanted: Settings, cluster: Cluster, url: str) -> None:
    if wanted.system == DEMO:
        await _furnish(cluster)
    err.print(f"\n  dashboard  [bold]{url}[/]\n  API        {url}/openapi.json\n", highlight=False)
    err.print("  [dim]Ctrl-C ends the gateway; threads go on. `agency down` stops everything.[/]\n", highlight=False)


async def _furnish(cluster: Cluster) -> None:
    """Give the demo an agency with a thread in it, so that there is something to see."""
    from dashboard import demo

    if not await cluster.agencies(limit=1):
        agency = await cluster.create_agency("Demo", agency_id="demo")
        await agency.create_thread(demo.AGENT, demo.TASK, thread_id="welcome")
