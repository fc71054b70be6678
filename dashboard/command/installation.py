"""`agency up`, `down` and `status`: the installation, with or without a gateway.

Ray is imported where it is used: it takes a second, and most commands do without it.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from agency.errors import InvalidInput, NotFound
from dashboard.command.terminal.console import AsJson, DataDir, RayAddress, System, app, err, out, print_json
from dashboard.gateway.discovery import is_running, running_gateways, stop

if TYPE_CHECKING:
    from actors import RayInUse, Settings, Status

DEMO = "dashboard.demo:system"
GENERAL = "dashboard.general:system"
STOP_SECONDS = 10.0


def installation(data_dir: Path | None, system: str = DEMO, ray_address: str | None = None) -> Settings:
    """The settings of an installation, from options and environment. Only a command that starts it needs `system`."""
    from actors.settings import settings

    options = {"data_dir": data_dir, "ray_address": ray_address}
    return settings(system=system, **{name: value for name, value in options.items() if value is not None})


def chosen(system: str | None, *, demo: bool = False, model: str | None = None) -> str:
    """The system that the option or AGENCY_SYSTEM names; else a general agent if a model's key is there, or a model is
    named that is not the demo's; else the demo."""
    if demo and system is not None:
        raise InvalidInput("say which agents, or --demo")
    name = None if demo else system or os.environ.get("AGENCY_SYSTEM")
    if name is None:
        from dashboard import general

        named = model is not None and model.partition(":")[0] != "demo"
        return GENERAL if not demo and (named or general.model_here()) else DEMO
    if ":" not in name:
        raise InvalidInput(f"name your agents as module:name, as in {name}:system")
    return name


def introduce(system: str, model: str | None = None) -> None:
    """Say in a line which agent answers, if that was not named."""
    from dashboard import general

    if system == GENERAL:
        found = general.model_here()
        why = "" if model is not None or found is None else f", because {found[0]} is set"
        told = f"a general agent on {model or general.system.default_model}{why}; --demo is the offline demo"
        err.print(told, style="dim", highlight=False, soft_wrap=True)


@app.command()
def up(
    system: System = None, data_dir: DataDir = None, ray_address: RayAddress = None, as_json: AsJson = False
) -> None:
    """Start an installation without a gateway: Ray, if none runs, and the hosts. Both outlive this command."""
    asyncio.run(_show(installation(data_dir, chosen(system), ray_address), start=True, as_json=as_json))


@app.command()
def status(data_dir: DataDir = None, ray_address: RayAddress = None, as_json: AsJson = False) -> None:
    """Show what runs: which Ray, nodes, hosts, and the number of threads in memory."""
    asyncio.run(_show(_running(data_dir, ray_address), start=False, as_json=as_json))


def _running(data_dir: Path | None, ray_address: str | None) -> Settings:
    """What runs in a data folder, by the folder alone."""
    from actors.cluster.noted import where_it_runs

    return where_it_runs(installation(data_dir, ray_address=ray_address))


async def _show(wanted: Settings, *, start: bool, as_json: bool) -> None:
    from actors import Cluster

    cluster = await Cluster.join(wanted, start=start, renew=True)
    found = await cluster.status()
    if as_json:
        print_json(found)
    else:
        _print(cluster.settings, found)


def _print(running: Settings, found: Status) -> None:
    out.print(f"[bold]{running.system}[/] in {running.data_dir}", highlight=False)
    for gateway in running_gateways(running.data_dir):
        out.print(f"gateway {gateway.url} (process {gateway.pid})", highlight=False)
    if found.ray is not None:
        _print_ray(found.ray)
    out.print(f"{found.awake} threads awake, {found.hibernated} hibernated")
    for node in found.nodes:
        if node.problem:
            line = Text.assemble(("✗ ", "red"), f"node {node.id[:8]}: hosts do not start there: {node.problem}")
            out.print(line, soft_wrap=True)
    problems = [(each.name, each.problem) for each in found.hosts]
    problems += [(each.name, each.problem) for each in found.agency_hosts]
    for name, problem in problems:
        if problem:
            out.print(Text.assemble(("✗ ", "red"), f"{name} is silent: {problem}"), soft_wrap=True)
    table = Table("host", "node", "role", "state", "threads", "at work", "memory")
    for host in found.hosts:
        threads, memory = str(len(host.threads)), _megabytes(host.rss_bytes)
        table.add_row(host.name, host.node[:8], host.role, host.state, threads, str(host.working), memory)
    out.print(table)
    table = Table("agency host", "node", "state", "agencies awake", "memory")
    for each in found.agency_hosts:
        table.add_row(each.name, each.node[:8], each.state, str(len(each.agencies)), _megabytes(each.rss_bytes))
    out.print(table)


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:.0f} MB"


def ray_line(joined: RayInUse) -> Text:
    """Which Ray was joined, whose it is and why."""
    return Text(f"{joined.address} ({joined.whose}): {joined.reason}")


def _print_ray(joined: RayInUse) -> None:
    """That, and what of it others can reach."""
    out.print(Text("Ray ").append_text(ray_line(joined)), soft_wrap=True)
    if joined.open_ports:
        out.print(Text(f"Ray listens beyond loopback: {', '.join(joined.open_ports)}"), soft_wrap=True)
    if joined.folder_problem:
        told = f"! other users can reach the sockets and logs of Ray: {joined.folder_problem}; {joined.remedy}"
        out.print(Text(told, "yellow"), soft_wrap=True)


@app.command()
def down(data_dir: DataDir = None, ray_address: RayAddress = None) -> None:
    """Stop what `serve` and `up` started: gateways, hosts and a local Ray. The next start continues every run."""
    wanted = _running(data_dir, ray_address)
    gateways = _stop_gateways(wanted.data_dir)
    if asyncio.run(_stop_hosts(wanted)) or gateways:
        err.print("stopped; the next start continues every run")
    else:
        err.print(f"nothing runs in {wanted.data_dir}", highlight=False)


def _stop_gateways(data_dir: Path) -> int:
    running = running_gateways(data_dir)
    for gateway in running:
        stop(gateway)
    deadline = time.monotonic() + STOP_SECONDS
    while any(map(is_running, running)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(running)


async def _stop_hosts(wanted: Settings) -> bool:
    """Whether there was anything to stop: hosts, or a local Ray even without an installation in it."""
    from actors import Cluster
    from actors.cluster import local_ray

    try:
        await (await Cluster.join(wanted, start=False)).down()
    except NotFound:
        return await asyncio.to_thread(local_ray.stop, wanted.data_dir)
    return True
