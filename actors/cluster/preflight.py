"""Whether the nodes of a cluster can import what hosts run, and if not, why.

An actor that cannot be imported says nothing about it: the reason stays in Ray's own log. A task tells it at once. It
takes a process on each node, so it is tried only when a directory does not answer, and by `agency doctor`.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import build, shipping
from actors.answers import reason_of
from actors.cluster import local_ray
from actors.cluster.ray_in_use import ray_in_use
from actors.sealing import seal, unseal
from actors.settings import Settings, load_system
from actors.status import RayInUse
from agency.define.system import AgentSystem
from agency.errors import CANNOT_START, AgencyError, Unavailable

NODE_SECONDS = 30.0
"""How long a node may take to start a process and import the agents."""


def host_nodes(settings: Settings) -> list[str]:
    """The nodes that hosts may be on, this one first."""
    here = ray.get_runtime_context().get_node_id()
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray's
    others = [each["NodeID"] for each in nodes if each["Alive"] and each["NodeID"] != here]
    return [here, *(others if settings.storage == "shared" else [])]


async def problems_of(settings: Settings) -> Mapping[str, str]:
    """Each node that hosts may be on, and why it cannot run any; empty if it can."""
    nodes = await asyncio.to_thread(host_nodes, settings)
    found = await asyncio.gather(*(_problem(node, settings) for node in nodes))
    return dict(zip(nodes, found, strict=True))


async def try_nodes(settings: Settings, system: AgentSystem) -> tuple[RayInUse, Mapping[str, str]]:
    """The same of a cluster that this process has not joined, where nothing is started, with the keys that are here;
    and which Ray that is."""
    keys = build.environment(build.references(system, settings.providers))
    sealed = seal(settings.data_dir, keys) if settings.data_dir.is_dir() else ""
    why = await asyncio.to_thread(local_ray.join, settings)
    try:
        joined = await asyncio.to_thread(ray_in_use, settings.data_dir, why)
        return joined, await problems_of(shipping.for_hosts(settings.model_copy(update={"environment": sealed})))
    finally:
        ray.shutdown()


async def check(settings: Settings) -> None:
    """Raise `Unavailable` with the reasons if no node can run hosts."""
    problems = await problems_of(settings)
    if all(problems.values()):
        told = "; ".join(f"{problem} (on node {node[:8]})" for node, problem in problems.items())
        raise Unavailable(f"the cluster cannot run the agents: {told}").telling(CANNOT_START)


async def _problem(node: str, settings: Settings) -> str:
    remote = _task()
    task = remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    ref = task.remote(settings)
    try:
        async with asyncio.timeout(NODE_SECONDS):
            problem: str = await ref
            return problem
    except RayError as error:
        return reason_of(error)
    except TimeoutError:
        ray.cancel(ref, force=True)
        return f"it did not start a process within {NODE_SECONDS:g} seconds"


def _try(settings: Settings) -> str:
    """On the node, in a process that ends with it: the system's module may need the variables to be imported."""
    try:
        os.environ.update(unseal(settings.data_dir, settings.environment))
        load_system(settings)
    except AgencyError as error:
        return str(error)
    return ""


@functools.cache
def _task() -> Any:
    """Not made while this module is imported: see `actors/cluster/fork_server.py`."""
    return ray.remote(num_cpus=0, max_retries=0, max_calls=1)(_try)
