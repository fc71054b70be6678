"""Two nodes with one data folder: the one with the work is lost, or cut off and comes back."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster as Nodes

from actors import AgencyHandle, Cluster, Settings, Status
from tests.support.paths import ROOT
from tests.support.processes import lives
from tests.support.scripted_system import calls, say, script
from tests.support.terminals import surroundings
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)  # processes start and die, on machines that may be slow
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1_000,
    "health_check_failure_threshold": 5,
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head node that may have one host, and room for more; each test adds a node, and loses it."""
    ray.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        if "RAY_AUTH_MODE" not in os.environ:  # all nodes shall have the same, whatever is in the home folder
            patch.setenv("RAY_AUTH_MODE", "disabled")
        started: Any = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": QUICK})
        yield started
        ray.shutdown()
        started.shutdown()


@pytest.fixture
async def cluster(nodes: Any, tmp_path: Path) -> AsyncIterator[Cluster]:
    settings = Settings(
        system="tests.support.scripted_system:system",
        python_path=(str(ROOT),),
        data_dir=tmp_path / "data",
        namespace=f"nodes-{secrets.token_hex(4)}",
        ray_address=nodes.address,
        storage="shared",
        ship_code=False,  # these nodes have the repository
        warm_hosts=1,
        actors_per_node=2,
        hibernate_after=60,
    )
    joined = await Cluster.join(settings)
    yield joined
    await joined.stop()


async def at_work(agency: AgencyHandle, ledger: Path) -> list[str]:
    """Eight threads, each in the middle of a tool and with more to do."""
    threads = []
    for i in range(8):
        work = script(
            calls(("note", {"ledger": str(ledger), "what": f"first{i}"})),
            calls(("note", {"ledger": str(ledger), "what": f"second{i}", "seconds": 3.0})),
            say(f"done {i}", delay=0.5),
        )
        threads.append((await agency.create_thread("clerk", work)).id)
    await eventually(lambda: ledger.read_text().count("begin:second") >= 8, 60)
    return threads


def pids(status: Status, node: str) -> list[int]:
    return [host.pid for host in status.hosts if host.node == node and host.pid is not None]


def busiest(status: Status, *, but: str) -> str:
    """The node with the most threads, other than the head."""
    load = {node.id: 0 for node in status.nodes if node.id != but}
    for host in status.hosts:
        if host.node in load:
            load[host.node] += len(host.threads)
    return max(load, key=lambda node: load[node])


async def second_node(nodes: Any, cluster: Cluster) -> Any:
    node = nodes.add_node(num_cpus=2)

    async def both_ready() -> bool:
        return sum(host.state == "ready" for host in (await cluster.status()).hosts) >= 2

    await eventually(both_ready, 60)
    return node


async def test_runs_on_a_lost_node_go_on_elsewhere(nodes: Any, cluster: Cluster, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    node = await second_node(nodes, cluster)
    agency = await cluster.create_agency("far")
    threads = await at_work(agency, ledger)
    there = busiest(await cluster.status(), but=head())
    lost = [host.threads for host in (await cluster.status()).hosts if host.node == there]
    assert sum(map(len, lost)) > 0, "there was work on the node"
    nodes.remove_node(node, allow_graceful=False)
    runs = await asyncio.gather(*(agency.thread(thread_id).wait(90) for thread_id in threads))
    assert [run.data for run in runs] == [f"done {i}" for i in range(8)]
    for i in range(8):
        assert ledger.read_text().count(f"end:first{i} ") == 1, "what had ended did not run again"


PROJECT = """
import asyncio, json
from pathlib import Path
import ray
from actors import Cluster
from agency import AgentSystem, tool


@tool
def look() -> str:
    "Look."
    told = [__file__, Path("notes.txt").read_text(), Path(".env").exists(), ray.get_runtime_context().get_node_id()]
    return json.dumps(told)


system = AgentSystem("demo:instant").add_tool(look).add_agent(
    name="clerk", description="-", prompt="-", isolation="dedicated")


async def main() -> None:
    cluster = await Cluster.join()
    agency = await cluster.create_agency("far")
    threads = [await agency.create_thread("clerk", "call look {}") for _ in range(2)]
    for thread in threads:
        await thread.wait(60)
        print([message.content for message in (await thread.state()).messages if message.role == "tool"][0])
    await cluster.stop()


if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_nodes_import_the_project_of_the_one_who_joins_from_what_was_sent(nodes: Any, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name, text in (("bureau.py", PROJECT), ("notes.txt", "rye"), (".env", "KEY=1")):
        (project / name).write_text(text)
    node = nodes.add_node(num_cpus=2)
    variables = {
        "AGENCY_SYSTEM": "bureau:system",
        "AGENCY_RAY_ADDRESS": nodes.address,
        "AGENCY_NAMESPACE": f"sent-{secrets.token_hex(4)}",
        "AGENCY_DATA_DIR": str(tmp_path / "data"),
        "AGENCY_STORAGE": "shared",
        "AGENCY_WARM_HOSTS": "1",
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "bureau.py"],
        cwd=project,
        env=surroundings(**variables),
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    nodes.remove_node(node)
    assert len(found) == 2, done.stderr
    assert [file for file, *_ in found if Path(file).is_relative_to(project)] == [], "hosts have a copy"
    assert {(notes, private) for _, notes, private, _ in found} == {("rye", False)}
    assert len({node_id for *_, node_id in found}) == 2, "threads were on both nodes"


async def test_a_node_that_was_cut_off_and_comes_back_cannot_write(
    nodes: Any, cluster: Cluster, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    node = await second_node(nodes, cluster)
    agency = await cluster.create_agency("far")
    threads = await at_work(agency, ledger)
    status = await cluster.status()
    there = busiest(status, but=head())
    hosts = pids(status, there)
    cut_off = [*hosts, node.all_processes["raylet"][0].process.pid]
    for pid in cut_off:
        os.kill(pid, signal.SIGSTOP)
    try:
        runs = await asyncio.gather(*(agency.thread(thread_id).wait(90) for thread_id in threads))
        assert [run.data for run in runs] == [f"done {i}" for i in range(8)]
        before = {thread_id: await agency.thread(thread_id).stored_events(0, 1_000) for thread_id in threads}
    finally:
        for pid in cut_off:
            os.kill(pid, signal.SIGCONT)
    await eventually(lambda: not any(map(lives, hosts)), 60)
    after = {thread_id: await agency.thread(thread_id).stored_events(0, 1_000) for thread_id in threads}
    assert after == before, "whoever was cut off has written nothing"


def head() -> str:
    return str(ray.get_runtime_context().get_node_id())
