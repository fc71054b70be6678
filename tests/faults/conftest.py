"""What the fault tests with real processes share: a Ray of their own, which they may kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from actors import Settings
from actors.cluster import local_ray
from tests.support.paths import ROOT


@pytest.fixture
def own_ray(tmp_path: Path) -> Iterator[Settings]:
    """Settings of an installation with a local Ray to itself."""
    ray.shutdown()
    settings = Settings(
        system="tests.support.scripted_system:system",
        python_path=(str(ROOT),),
        data_dir=tmp_path / "data",
        namespace="faults",
        warm_hosts=1,
        actors_per_node=4,
        hibernate_after=60,
    )
    yield settings
    ray.shutdown()
    local_ray.stop(settings.data_dir)
