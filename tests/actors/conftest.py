"""One local Ray for the whole run, and installations on it, each with its own namespace and folder."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import ray

from actors import AgencyHandle, Cluster, Settings
from actors.cluster import local_ray
from tests.support.clusters import Install


@pytest.fixture
def shared_ray(ray_settings: Settings) -> Settings:
    local_ray.join(ray_settings)
    return ray_settings


@pytest.fixture
async def cluster(shared_ray: Settings) -> AsyncIterator[Cluster]:
    """The installation that most tests share; each makes an agency of its own."""
    joined = await Cluster.join(shared_ray)
    yield joined
    await joined.close()


@pytest.fixture
async def agency(cluster: Cluster) -> AgencyHandle:
    return await cluster.create_agency("bakery")


@pytest.fixture
async def install(shared_ray: Settings, tmp_path: Path) -> AsyncIterator[Install]:
    """Make an installation with settings of one's own; joining it again with the same ones is a second client."""
    made: list[Cluster] = []
    namespace = f"own-{secrets.token_hex(4)}"

    async def make(**given: Any) -> Cluster:
        own = {"data_dir": tmp_path / "data", "namespace": namespace, "warm_hosts": 1, "actors_per_node": 2}
        settings = shared_ray.model_copy(update={**own, **given})
        joined = await Cluster.join(settings)
        made.append(joined)
        return joined

    yield make
    for joined in made:
        await joined.close()
    if made and ray.is_initialized():
        await made[-1].stop()
