"""`agency serve`: the gateway, and the installation behind it. Both are imported only in the process that runs them."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dashboard.command.installation import DEMO, GENERAL, chosen, installation, introduce, ray_line
from dashboard.command.terminal.console import DataDir, IsDemo, RayAddress, System, app, err

if TYPE_CHECKING:
    from actors import Cluster, Settings


@app.command()
def serve(
    system: System = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on. [dim]Default: 127.0.0.1[/]", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on; 0 takes a free one. [dim]Default: 8000[/]")
    ] = None,
    data_dir: DataDir = None,
    ray_address: RayAddress = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond loopback without a secret.")] = False,
    demo: IsDemo = False,
) -> None:
    """Serve agents: the dashboard, the REST API and live events. [dim]Clients must send AGENCY_SECRET, if it is set.[/]

    This starts Ray if none runs. Threads continue when it ends; [bold]agency down[/] stops everything.
    """
    from dashboard.gateway import keeper
    from dashboard.gateway.server_socket import listen
    from dashboard.gateway.settings import gateway_settings

    settings = gateway_settings(host=host, port=port, insecure=insecure or None)
    if not keeper.is_kept():
        with listen(settings) as listening:
            raise typer.Exit(keeper.Keeper(listening).run())
    kept = keeper.Kept()

    from actors import logs
    from actors.settings import load_system
    from dashboard.gateway.server import Gateway

    os.environ.pop("AGENCY_SECRET", None)  # only the gateway needs it, and hosts run code of other people
    wanted = installation(data_dir, chosen(system, demo=demo), ray_address)
    quiet = err.is_terminal and "AGENCY_LOG_LEVEL" not in os.environ  # a person wants the address, not each request
    logs.set_up("WARNING" if quiet else wanted.log_level)
    agents = load_system(wanted)  # so that an error in it shows before anything starts
    introduce(wanted.system)
    err.print("starting …")
    asyncio.run(Gateway(settings, wanted, kept, agents).run(partial(_greet, wanted)))


async def _greet(wanted: Settings, cluster: Cluster, url: str) -> None:
    if wanted.system == DEMO:
        await _add_demo_thread(cluster)
    elif wanted.system == GENERAL and not await cluster.agencies(limit=1):
        await cluster.create_agency("Default", agency_id="default")
    err.print(f"\n  dashboard  [bold]{url}[/]\n  API        {url}/openapi.json", highlight=False)
    err.print(Text("  Ray        ").append_text(ray_line(await cluster.ray())), "\n", soft_wrap=True)
    err.print("  [dim]Ctrl-C ends the gateway; threads go on. `agency down` stops everything.[/]\n", highlight=False)


async def _add_demo_thread(cluster: Cluster) -> None:
    """Create the demo's agency and first thread, so that the dashboard has something to show."""
    from dashboard import demo

    if not await cluster.agencies(limit=1):
        agency = await cluster.create_agency("Demo", agency_id="demo")
        await agency.create_thread(demo.AGENT, demo.TASK, thread_id="welcome")
