"""Warming up a host: open and close a throwaway thread once, so that the first real one finds everything loaded. What
is loaded then stays for ever, so the garbage collector need not look at it: that takes a fifth of a second each time.

The thread belongs to no agency, its file is in a temporary folder, and nothing of it reaches an agency.
"""

from __future__ import annotations

import gc
import tempfile
from dataclasses import replace
from pathlib import Path

from actors.address import Address
from actors.agency.creation import Creation
from actors.background import Background
from actors.host.system_agent import SystemAgent
from actors.host.thread_runtime import HostServices, ThreadRuntime
from actors.host.update_sender import UpdateSenders
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.system import AgentSystem
from agency.events import timestamp
from agency.metadata import ThreadMetadata

NAME = "warm-up"


async def warm_up(host: HostServices, background: Background) -> None:
    system = AgentSystem("demo:instant").defaults().add_agent(name=NAME, description="-", prompt="-")
    metadata = ThreadMetadata(id=NAME, agent_type=NAME, created_at=timestamp(now_ms()))
    creation = Creation(metadata=metadata, blueprint=system.agents[NAME])
    throwaway = replace(host, system=system, updates=UpdateSenders(_discard, (NAME,), background))
    runtime = ThreadRuntime(Address(NAME, NAME), throwaway)
    folders = host.settings.data_dir / "ray"  # `local_ray.stop` removes what a host that was killed leaves there
    folders.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-", dir=folders) as folder:
        path = Path(folder) / f"{NAME}.db"
        agent = await SystemAgent.open(path, host.settings, system, runtime, _any_blueprint, creation)
        await agent.thread.close()
    await host.caller.remote.directory.describe.remote()  # connects this process to the directory
    gc.collect()
    gc.freeze()


def _any_blueprint(blueprint: Blueprint) -> None:
    """The throwaway thread may run in any host."""


async def _discard(to: str, updates: list[ThreadUpdate]) -> UpdatesTaken:
    return UpdatesTaken(frozenset())
