"""`examples.ray_tool`: the calls run in Ray's processes, side by side, and at the end nothing of Ray is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.cluster import local_ray
from actors.cluster.local_ray import LocalRay
from agency import LocalRuntime
from examples.ray_tool import ORDERS, system
from tests.support.example_processes import end_of, example
from tests.support.waiting import eventually

ROW = re.compile(r"✓ +(\d+) to +(\d+): +(\d+) primes, by process (\d+)")


@pytest.mark.ray
async def test_its_calls_run_in_processes_of_ray_and_it_stops_what_it_started(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "folder", tmp_path / "temporary"
    for each in (folder, temporary):
        each.mkdir()
    try:
        with example("ray_tool", folder=folder, TMPDIR=str(temporary)) as process:
            (noted,) = await eventually(lambda: list(temporary.glob("*/ray/ray.json")))
            ray = LocalRay.model_validate_json(await eventually(noted.read_bytes))
            assert local_ray.session(ray.pid)
            printed = end_of(process)
        assert local_ray.session(ray.pid) == []
    finally:
        for left in temporary.iterdir():
            local_ray.stop(left)

    rows = ROW.findall(printed)
    assert len(rows) == len(ORDERS)
    assert sum(int(primes) for _, _, primes, _ in rows) == 49_098  # below 600,000
    workers = {int(pid) for *_, pid in rows}
    assert process.pid not in workers
    assert "When each of them ran:" in printed
    assert not Path(ray.temp_dir).exists()
    assert list(folder.iterdir()) == list(temporary.iterdir()) == []


async def test_without_a_cluster_the_same_agent_works_in_one_process(tmp_path: Path) -> None:
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("mathematician")
        await thread.invoke('call count_primes {"first": 1, "last": 100}')
        run = await thread.wait(60)

    assert run.status == "completed"
    assert '"primes":25' in str(run.data)
