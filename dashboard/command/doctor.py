"""`agency doctor`: check what running agents needs on this machine, and say how to get what is missing."""

from __future__ import annotations

import asyncio
import importlib
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
import typer
from rich.text import Text

from agency.define.system import AgentSystem, load_system
from agency.errors import AgencyError, DefinitionError
from agency.key_rules import FOR_AGENCIES, SETTING, KeyRule
from agency.models.providers import STOCK_KEYS
from agency.models.providers.entry import Provider, sent_secret
from agency.models.providers.hosts import HOSTS
from agency.secrets import Declared, NoSecret, look_up
from agency.thread.openings import try_openings
from agency.wire import Wire
from dashboard.command.installation import chosen
from dashboard.command.installation import installation as settings_of
from dashboard.command.terminal.console import AsJson, DataDir, RayAddress, SystemOption, app, out, print_json
from dashboard.command.terminal.targets import data_folder
from dashboard.gateway.discovery import running_gateways

if TYPE_CHECKING:
    from actors import RayInUse, Settings

State = Literal["ok", "warning", "missing"]
MARKS: dict[State, tuple[str, str]] = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}

GIB = 2**30
MEMORY, DISK, SHARED = 1.0 * GIB, 1.0 * GIB, 0.25 * GIB
FILES = 4_096
"""A thread that is awake has up to three open files."""

PORT = 8000
ANSWER_SECONDS = 10.0
SET = "set"

DAMAGED_MOST = 5


class Finding(Wire):
    """The result of one check."""

    what: str
    state: State
    found: str
    to_do: str = ""


class DoctorReport(Wire):
    findings: tuple[Finding, ...]

    @property
    def complete(self) -> bool:
        return all(each.state != "missing" for each in self.findings)


@app.command()
def doctor(
    system: SystemOption = None,
    data_dir: DataDir = None,
    ray_address: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Check what running agents needs, and say what is missing. [dim]Exits with 1 if anything needed is missing.[/]"""
    report = DoctorReport(findings=tuple(examine(data_folder(data_dir), chosen(system), ray_address)))
    if as_json:
        print_json(report)
    else:
        for each in report.findings:
            _print(each)
    raise typer.Exit(0 if report.complete else 1)


def _print(finding: Finding) -> None:
    mark, style = MARKS[finding.state]
    out.print(Text.assemble((f"{mark} ", style), (f"{finding.what:<18}", "bold"), finding.found), soft_wrap=True)
    if finding.to_do:
        out.print(Text(f"{'':<20}→ {finding.to_do}", style), soft_wrap=True)


def examine(data_dir: Path, reference: str, ray_address: str | None) -> Iterator[Finding]:
    yield python()
    yield ray_package()
    yield memory()
    yield disk(data_dir)
    yield shared_memory()
    yield open_files()
    yield folder(data_dir)
    yield files(data_dir)
    yield installation(data_dir)
    yield from local_ray_in_use(data_dir)
    yield port()
    try:
        wanted = settings_of(data_dir, reference, ray_address)
        configured = wanted.providers
        system = load_system(reference, wanted.python_path, configured)
    except DefinitionError as error:
        to_do = (
            "name yours as --system module:name" if str(error).startswith("cannot load") else "correct it, as it says"
        )
        yield Finding(what="system", state="missing", found=str(error), to_do=to_do)
        return
    yield Finding(what="system", state="ok", found=f"{reference}: {', '.join(system.agents) or 'no agents'}")
    entries = {**system.providers, **configured}
    for provider in (each for each in STOCK_KEYS if each not in entries):
        found = model_key(provider, system)
        if provider not in HOSTS or found.state != "ok" or found.found == SET:  # of the many hosts, those that matter
            yield found
    for name, entry in entries.items():
        yield provider_keys(name, entry)
    for variable in sorted(name for name in os.environ if name.startswith(FOR_AGENCIES)):
        if f"env:{variable}" not in system.references:
            yield agency_key(variable, wanted.keys.get(variable))
    for name, agent in system.agents.items():
        if risky := system.risky_tools(agent):
            yield unattended(name, risky)
    for declared in system.secrets:
        yield secrets_of(declared)
    yield from cluster_nodes(wanted, system)
    for middleware, problem in asyncio.run(try_openings(system)).items():
        yield opening_of(middleware, problem)


# The checks.


def python() -> Finding:
    return Finding(what="Python", state="ok", found=sys.version.split()[0])  # no older one can import this


def ray_package() -> Finding:
    try:
        found = metadata.version("ray")
        importlib.import_module("ray")
    except metadata.PackageNotFoundError:
        return Finding(what="Ray", state="missing", found="not installed", to_do="pip install 'ray[default]'")
    except Exception as error:  # an import can raise anything, and a wheel of Ray fits one version of Python
        told = f"{found}, but it cannot be imported: {error}"
        return Finding(what="Ray", state="missing", found=told, to_do="pip install --force-reinstall 'ray[default]'")
    return Finding(what="Ray", state="ok", found=found)


def memory() -> Finding:
    free = psutil.virtual_memory().available
    if free < MEMORY:
        todo = "Ray and two hosts take about a gigabyte: end something else, or set AGENCY_WARM_HOSTS=0"
        return Finding(what="memory", state="warning", found=_size(free), to_do=todo)
    return Finding(what="memory", state="ok", found=_size(free))


def disk(data_dir: Path) -> Finding:
    free = shutil.disk_usage(_existing(data_dir)).free
    if free < DISK:
        todo = "make room, or choose another place with --data-dir"
        return Finding(what="disk", state="warning", found=_size(free), to_do=todo)
    return Finding(what="disk", state="ok", found=_size(free))


def shared_memory() -> Finding:
    """Ray keeps its objects there; without enough space it uses /tmp, which is slower."""
    place = Path("/dev/shm")
    if not place.is_dir():
        return Finding(what="/dev/shm", state="ok", found="none here, and none needed")
    free = shutil.disk_usage(place).free
    if free < SHARED:
        todo = "give containers more, with --shm-size=1g"
        return Finding(what="/dev/shm", state="warning", found=_size(free), to_do=todo)
    return Finding(what="/dev/shm", state="ok", found=_size(free))


def open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        most = "" if hard == resource.RLIM_INFINITY or hard >= FILES else f"; the hard limit is {hard}"
        todo = f"ulimit -n {FILES}, before it starts{most}"
        return Finding(what="open files", state="warning", found=str(soft), to_do=todo)
    return Finding(what="open files", state="ok", found="unlimited" if soft == resource.RLIM_INFINITY else str(soft))


def folder(data_dir: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=_existing(data_dir)):
            pass
    except OSError as error:
        todo = "make it writable for you, or choose another with --data-dir"
        return Finding(what="data folder", state="missing", found=f"{data_dir}: {error.strerror}", to_do=todo)
    found = str(data_dir) if data_dir.is_dir() else f"{data_dir}, which will be made"
    return Finding(what="data folder", state="ok", found=found)


def files(data_dir: Path) -> Finding:
    """Whether the files of agencies and threads are whole."""
    from dashboard.command.damaged_files import damaged_files

    damaged, all_read = damaged_files(data_dir)
    if damaged:
        told = ", ".join(str(each.relative_to(data_dir)) for each in damaged[:DAMAGED_MOST])
        more = f" and {len(damaged) - DAMAGED_MOST} more" if len(damaged) > DAMAGED_MOST else ""
        todo = "stop the server and restore them from a backup, or delete these threads or agencies"
        return Finding(what="files", state="warning", found=f"damaged: {told}{more}", to_do=todo)
    return Finding(what="files", state="ok", found="whole" if all_read else "those are whole that there was time for")


def installation(data_dir: Path) -> Finding:
    gateways = ", ".join(note.url for note in running_gateways(data_dir))
    if gateways:
        return _served(gateways, running_gateways(data_dir)[0].url)
    if not (data_dir / "ray" / "ray.json").exists():
        return Finding(what="installation", state="ok", found="does not run; `agency serve` starts it")
    from actors.cluster import local_ray

    if local_ray.find(data_dir) is not None:
        return Finding(what="installation", state="ok", found="runs, and is not served; `agency serve` does that")
    todo = "agency serve continues every run"
    return Finding(what="installation", state="warning", found="was not stopped, and its Ray has died", to_do=todo)


def _served(gateways: str, url: str) -> Finding:
    """Whether the installation behind a gateway is ready, and if not, what the gateway says about it."""
    import httpx

    try:
        answer = httpx.get(f"{url}/healthz", timeout=ANSWER_SECONDS)
        problem = "" if answer.is_success else answer.json()["detail"]
    except (httpx.HTTPError, ValueError) as error:
        problem = f"it does not answer ({type(error).__name__})"
    if problem:
        todo = "mend that; hosts are tried again at least every minute"
        told = f"is served at {gateways}, and cannot run threads: {problem}"
        return Finding(what="installation", state="missing", found=told, to_do=todo)
    return Finding(what="installation", state="ok", found=f"is served at {gateways}")


def local_ray_in_use(data_dir: Path) -> Iterator[Finding]:
    """The local Ray, if it runs."""
    if (data_dir / "ray" / "ray.json").exists():
        from actors.cluster.ray_in_use import local_ray_of

        found = local_ray_of(data_dir)
        if found is not None:
            yield from what_others_reach(found)


def what_others_reach(joined: RayInUse) -> Iterator[Finding]:
    """Which Ray is in use, and what of it other users of this machine and other machines can reach."""
    beyond = ", ".join(joined.open_ports)
    if joined.local and joined.open_ports:
        found = f"{joined.address} listens beyond loopback: {beyond}"
        yield Finding(what="Ray in use", state="warning", found=found, to_do=joined.remedy)
    else:
        ports = "; it listens on loopback only" if joined.local else ""
        ports = f"; a firewall has to keep others from {beyond}" if beyond else ports
        found = f"{joined.address} ({joined.whose}): {joined.reason}{ports}"
        yield Finding(what="Ray in use", state="ok", found=found)
    if joined.folder_problem:
        found = f"other users can reach its sockets and logs: {joined.folder_problem}"
        yield Finding(what="Ray's folder", state="warning", found=found, to_do=joined.remedy)
    else:
        yield Finding(what="Ray's folder", state="ok", found="only you can enter it")


def cluster_nodes(wanted: Settings, system: AgentSystem) -> Iterator[Finding]:
    """Whether the nodes of a Ray that a person has started can import the agents. A local Ray runs what runs here."""
    from actors.cluster import local_ray, preflight
    from actors.cluster.running_ray import running_ray

    if local_ray.address_of_another(wanted) is None:
        running = None if local_ray.find(wanted.data_dir) else running_ray()
        if running is not None:
            found = f"{running.address} is not joined: {running.refusal}"
            yield Finding(what="another Ray", state="warning", found=found, to_do=running.remedy)
        return
    try:
        joined, problems = asyncio.run(preflight.try_nodes(wanted, system))
    except AgencyError as error:
        yield Finding(what="Ray cluster", state="missing", found=str(error), to_do="start it: ray start --head")
        return
    yield from what_others_reach(joined)
    for node, problem in problems.items():
        todo = (
            "install the same packages there; AGENCY_SHIP_CODE=on sends the folder with your agents" if problem else ""
        )
        found = problem or f"imports {wanted.system}"
        yield Finding(what=f"node {node[:8]}", state="missing" if problem else "ok", found=found, to_do=todo)


def port() -> Finding:
    from agency.client import Client

    try:
        with socket.create_server(("127.0.0.1", PORT)):
            return Finding(what=f"port {PORT}", state="ok", found="free")
    except OSError as error:
        taken = error.strerror
    with Client(f"http://127.0.0.1:{PORT}", patience=0) as client:
        if client.ready():
            return Finding(what=f"port {PORT}", state="ok", found="a gateway answers")
    todo = "agency serve --port 0 takes a free one"
    return Finding(what=f"port {PORT}", state="warning", found=str(taken), to_do=todo)


def model_key(provider: str, system: AgentSystem) -> Finding:
    """Whether a provider's key is set, and whether any agent needs it. The key itself is never shown."""
    variable = STOCK_KEYS[provider].removeprefix("env:")
    if os.environ.get(variable):
        return Finding(what=variable, state="ok", found=SET)
    wanted = [system.default_model, *(each.model for each in system.agents.values() if each.model)]
    if any(choice.model.startswith(f"{provider}:") for models in wanted for choice in system.chain(models)):
        todo = f"export {variable}=…, or have the agents use demo:default"
        return Finding(what=variable, state="warning", found="not set, and there are agents that need it", to_do=todo)
    return Finding(what=variable, state="ok", found=f"not set; only {provider}:… models need it")


def provider_keys(name: str, entry: Provider) -> Finding:
    """Whether the secrets that a provider refers to are set. The secrets themselves are never shown."""
    what = f"provider {name}"
    for reference in sorted(entry.references):
        try:
            sent_secret(reference)
        except NoSecret as error:
            return Finding(what=what, state="warning", found=str(error), to_do=f"its models need {reference}")
    return Finding(what=what, state="ok", found=entry.base_url or f"{entry.api}, at its own address")


def agency_key(variable: str, rule: KeyRule | None) -> Finding:
    """Which agencies may use a variable that is for agencies, and where."""
    if rule is None:
        rules = f'{{"{variable}": {{"agencies": ["agc_…"], "hosts": ["api.openai.com"]}}}}'
        todo = f"say which agencies may use it, and where: {SETTING}='{rules}'"
        return Finding(what=variable, state="warning", found="set, and no agency may use it", to_do=todo)
    where = [*rule.hosts, *(f"config.{section}" for section in rule.middleware)]
    found = f"for {', '.join(rule.agencies)}, at {', '.join(where) or 'no host'}"
    return Finding(what=variable, state="ok", found=found)


def unattended(agent: str, risky: tuple[str, ...]) -> Finding:
    """That an agent runs risky tools without asking a person, because its definition says so."""
    found = f"is unattended: it runs {', '.join(risky)} without asking a person"
    todo = "if that is not meant, give it approvals=True in the place of unattended=True"
    return Finding(what=f"agent {agent}", state="warning", found=found, to_do=todo)


def secrets_of(declared: Declared) -> Finding:
    """Whether the secrets that a tool, a middleware or an agent names are set. They themselves are never shown."""
    for reference in sorted(declared.references):
        try:
            look_up(reference)
        except NoSecret as error:
            todo = f"set it before you serve: {declared.owner} needs it"
            return Finding(what=declared.owner, state="warning", found=str(error), to_do=todo)
    return Finding(what=declared.owner, state="ok", found=f"{', '.join(sorted(declared.references))} set")


def opening_of(middleware: str, problem: str) -> Finding:
    """Whether a middleware can open what its threads share."""
    what = f"opening {middleware}"
    if problem:
        todo = "its tools are not available to agents until that succeeds"
        return Finding(what=what, state="warning", found=problem, to_do=todo)
    return Finding(what=what, state="ok", found="it opens")


def _existing(path: Path) -> Path:
    """The folder, or the nearest folder above it that exists."""
    return next(each for each in (path, *path.parents) if each.is_dir())


def _size(count: float) -> str:
    return f"{count / GIB:.1f} GB free"
