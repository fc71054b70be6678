"""The code blocks of the README and of the guides run as they stand, and print what the pages show."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import Settings
from actors.cluster import local_ray
from agency.client import Client
from tests.support.gateways import Server
from tests.support.manual import PAGES, Reader, Serve, is_served
from tests.support.model_script import Reply
from tests.support.model_server import ModelServer

MODELS = "models.md"
SERVED = [page for page in PAGES if is_served(page)]
ALONE = [page for page in PAGES if page not in SERVED and page.name != MODELS]


@pytest.fixture(scope="module")
def serve(ray_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Serves what a page defines, on the Ray that all tests share. Pages that define the same share an installation."""
    local_ray.join(ray_settings)
    running = local_ray.find(ray_settings.data_dir)
    assert running is not None
    known: dict[str, Server] = {}

    def start(system: str, folder: Path) -> Server:
        module = (folder / f"{system.partition(':')[0]}.py").read_text()
        if module not in known:
            own = tmp_path_factory.mktemp("served")
            (own / f"{system.partition(':')[0]}.py").write_text(module)
            named = {"system": system, "data_dir": own / "data", "namespace": f"manual-{secrets.token_hex(4)}"}
            known[module] = Server(
                ray_settings.model_copy(update=named),
                own / "log",
                AGENCY_RAY_ADDRESS=running.address,
                AGENCY_PYTHON_PATH=json.dumps([str(own)]),
            )
        with Client(known[module].url) as client:
            for agency in list(client.agencies()):  # those of the page before
                client.agency(agency.id).delete()
        return known[module]

    yield start
    for server in known.values():
        server.stop()


def nowhere(system: str, folder: Path) -> Server:
    raise AssertionError(f"{system}: this page serves nothing")


@pytest.mark.parametrize("page", ALONE, ids=lambda page: page.name)
def test_a_page_runs(page: Path, tmp_path: Path) -> None:
    with Reader(page, tmp_path, nowhere) as reader:
        reader.read()


@pytest.mark.xdist_group("manual")  # they share what they serve
@pytest.mark.parametrize("page", SERVED, ids=lambda page: page.name)
def test_a_page_that_serves_agents_runs(page: Path, tmp_path: Path, serve: Serve) -> None:
    with Reader(page, tmp_path, serve) as reader:
        reader.read()


async def test_the_page_about_models_runs_with_providers_of_which_one_is_overloaded(tmp_path: Path) -> None:
    (page,) = [page for page in PAGES if page.name == MODELS]
    script = [Reply(status=529), Reply(text=('{"name": "Bern", ', '"people": 134000}'))]
    async with ModelServer(script) as server:
        with Reader(page, tmp_path, nowhere, server.environment) as reader:
            await asyncio.to_thread(reader.read)
