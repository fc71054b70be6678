"""Provider entries of the settings and of agencies: which server gets which key, when a change counts, and that no
agency can have the installation's secrets sent to a server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors import AgencyHandle, Cluster, Settings
from actors.cluster import local_ray
from actors.settings import settings
from agency import DefinitionError, InvalidInput, NotFound
from agency.models.providers.entry import Price, Provider
from tests.support.clusters import Install
from tests.support.model_script import Call, Counts, Reply
from tests.support.model_server import ModelServer
from tests.support.scripted_system import let_go
from tests.support.waiting import PATIENCE, eventually

OURS = "sk-the-installations-own-0123456789"
THEIRS = "sk-what-agencies-may-use-9876543210"
SECRET = "sk-of-openai-and-nobody-else-555555"


@pytest.fixture
async def servers() -> AsyncIterator[tuple[ModelServer, ModelServer]]:
    async with ModelServer() as one, ModelServer() as other:
        yield one, other


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the installation's environment holds when it is started."""
    monkeypatch.setenv("MY_MODELS_KEY", OURS)
    monkeypatch.setenv("AGENCY_KEY_MODELS", THEIRS)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID"):
        monkeypatch.setenv(name, SECRET)


def at(server: ModelServer, **more: Any) -> Provider:
    return Provider(api="openai", base_url=f"{server.url}/v1", **more)


def sent_keys(server: ModelServer) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


async def using(agency: AgencyHandle, model: str) -> None:
    """Have the agency's clerk use a model."""
    await agency.put_blueprint({"name": "clerk", "model": model})


async def told(agency: AgencyHandle, server: ModelServer, said: str, thread_id: str | None = None) -> Any:
    """What a thread ends with, when a server is the one that replies."""
    server.add(Reply(text=(said,)))
    if thread_id is None:
        thread = await agency.create_thread("clerk", "Hello?")
    else:
        thread = agency.thread(thread_id)
        await thread.invoke("Hello again?")
    return (await thread.wait(PATIENCE)).data


def found_in(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


# The settings'.


async def test_an_entry_of_the_settings_is_used_with_its_key_which_nobody_is_told(
    shared_ray: Settings, install: Install, servers: tuple[ModelServer, ModelServer], keys: None
) -> None:
    server, _ = servers
    mine = at(server, key="env:MY_MODELS_KEY", headers={"X-Team": "env:MY_MODELS_KEY", "X-Title": "Bakery"})
    cluster = await install(providers={"mine": mine})
    agency = await cluster.create_agency("bakery")
    await using(agency, "mine:m")
    assert await told(agency, server, "Hello!") == "Hello!"
    request = server.requests[-1]
    assert (sent_keys(server), request.headers["x-team"], request.headers["x-title"]) == ([OURS], OURS, "Bakery")

    server.add(Reply(status=401, error={"message": f"Incorrect API key provided: {OURS}"}))
    failed = await (await agency.create_thread("clerk", "Hello?")).wait(PATIENCE)
    assert (failed.status, failed.errors[0].code) == ("error", "ERR_AUTH")
    said = [failed.model_dump_json(), repr(cluster.settings), (await cluster.status()).model_dump_json()]
    said += [each.model_dump_json() for each in (await agency.providers()).providers]
    said += await agency.stored_events(0, 100)
    assert not [text for text in said if OURS in text]
    assert found_in(cluster.settings.data_dir, OURS) == []
    running = local_ray.find(shared_ray.data_dir)
    assert running is not None
    assert found_in(Path(running.temp_dir), OURS) == []


async def test_entries_of_an_agency_go_before_the_settings_and_those_before_the_code(
    install: Install, servers: tuple[ModelServer, ModelServer], keys: None
) -> None:
    """In one thread, which is awake all the time: a change counts for the next call."""
    ours, theirs = servers
    cluster = await install(providers={"script": at(ours, key="env:MY_MODELS_KEY")})
    agency, other = [await cluster.create_agency(name) for name in ("bakery", "butchery")]
    thread = await agency.create_thread("clerk")
    assert await told(agency, ours, "the settings'", thread.id) == "the settings'"
    put = await agency.put_provider("script", at(theirs, key="env:AGENCY_KEY_MODELS"))
    assert (put.source, put.entry and put.entry.key) == ("agency", "env:AGENCY_KEY_MODELS")
    assert await told(agency, theirs, "the agency's", thread.id) == "the agency's"
    assert await told(other, ours, "not the agency's") == "not the agency's"
    listed = {each.name: (each.source, each.entry) for each in (await agency.providers()).providers}
    assert listed["script"] == ("agency", put.entry)
    assert {each.name: each.source for each in (await other.providers()).providers}["script"] == "settings"
    assert listed["demo"] == ("code", None)
    await agency.delete_provider("script")
    assert await told(agency, ours, "the settings' again", thread.id) == "the settings' again"
    assert (sent_keys(ours), sent_keys(theirs)) == ([OURS] * 3, [THEIRS])
    with pytest.raises(NotFound, match="no provider 'script' of its own"):
        await agency.delete_provider("script")


def test_wrong_providers_in_the_settings_are_refused_without_being_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (f'{{"mine": {{"api": "openai", "key": "{SECRET}"}}}}', f'{{"mine": {SECRET}}}'):
        monkeypatch.setenv("AGENCY_PROVIDERS", given)
        with pytest.raises(DefinitionError, match="providers") as raised:
            settings(system="shop:system")
        assert SECRET not in str(raised.value) and SECRET not in str(raised.value.__cause__)
    monkeypatch.setenv("AGENCY_PROVIDERS", '{"mine": {"api": "openai", "baseUrl": "http://localhost/v1"}}')
    assert settings(system="shop:system").providers == {"mine": Provider(api="openai", base_url="http://localhost/v1")}
    monkeypatch.setenv("AGENCY_PROVIDERS", "")
    assert settings(system="shop:system").providers == {}


# An agency's.


async def test_a_change_in_the_middle_of_a_run_counts_for_its_next_call(
    agency: AgencyHandle, servers: tuple[ModelServer, ModelServer], ledger: Path
) -> None:
    first, second = servers
    await agency.put_provider("mine", at(first))
    await using(agency, "mine:m")
    first.add(Reply(calls=(Call(name="hold", args={"ledger": str(ledger), "what": "x"}),)))
    second.add(Reply(text=("done",)))
    thread = await agency.create_thread("clerk", "Hello?")
    await eventually(lambda: "begin:x" in ledger.read_text())
    await agency.put_provider("mine", at(second))
    let_go(ledger, "x")
    assert (await thread.wait(PATIENCE)).data == "done"
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_models_of_an_agencys_own_providers_are_known_to_it_alone(
    cluster: Cluster, agency: AgencyHandle, servers: tuple[ModelServer, ModelServer]
) -> None:
    with pytest.raises(DefinitionError, match="no provider named 'mine'"):
        await using(agency, "mine:m")
    await agency.put_provider("mine", at(servers[0]))
    await using(agency, "mine:m")
    other = await cluster.create_agency("butchery")
    with pytest.raises(DefinitionError, match="no provider named 'mine'"):
        await using(other, "mine:m")
    await agency.delete_provider("mine")
    with pytest.raises(DefinitionError, match="no provider named 'mine'"):
        await agency.create_thread("clerk", "Hello?")


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_an_agencys_server_never_gets_what_was_not_meant_for_it(
    install: Install, servers: tuple[ModelServer, ModelServer], keys: None, api: str
) -> None:
    """Not even if it takes the place of the stock provider, whose key is the installation's."""
    server, _ = servers
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    base = f"{server.url}/v1" if api == "openai" else server.url
    await agency.put_provider(api, Provider.model_validate({"api": api, "base_url": base}))
    await using(agency, f"{api}:m")
    assert await told(agency, server, "Hello!") == "Hello!"
    assert server.requests
    sent = str([(request.headers, request.body) for request in server.requests])
    assert not any(secret in sent for secret in (OURS, THEIRS, SECRET))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"key": "env:OPENAI_API_KEY"}, "begin with AGENCY_KEY_.* not to env:OPENAI_API_KEY"),
        ({"key": "env:agency_key_x"}, "not to env:agency_key_x"),
        ({"key": "env:AGENCY_SECRET"}, "not to env:AGENCY_SECRET"),
        ({"key": "file:/etc/hostname"}, "not to file:/etc/hostname"),
        ({"key": "env:AGENCY_KEY_X", "headers": {"X-Team": "env:PATH"}}, "not to env:PATH"),
        ({"headers": {"X-Team": "file:/etc/hostname"}}, "not to file:/etc/hostname"),
        ({"base_url": None}, "would use the installation's key"),
    ],
)
async def test_an_agencys_entry_refers_to_what_is_for_agencies_and_to_nothing_else(
    agency: AgencyHandle, entry: dict[str, Any], said: str
) -> None:
    given = Provider.model_validate({"api": "openai", "base_url": "http://localhost/v1", **entry})
    with pytest.raises(InvalidInput, match=said):
        await agency.put_provider("mine", given)
    assert "mine" not in {each.name for each in (await agency.providers()).providers}


@pytest.mark.parametrize("name", ["", "Mine", "has space", "../up", "a" * 65])
async def test_a_providers_name_is_what_can_stand_before_the_colon(agency: AgencyHandle, name: str) -> None:
    with pytest.raises(InvalidInput, match="put_provider"):
        await agency.put_provider(name, Provider(api="openai", base_url="http://localhost/v1"))


async def test_a_variable_that_is_not_set_ends_the_run_and_is_named(
    agency: AgencyHandle, servers: tuple[ModelServer, ModelServer]
) -> None:
    await agency.put_provider("mine", at(servers[0], key="env:AGENCY_KEY_NOBODY_HAS"))
    await using(agency, "mine:m")
    run = await (await agency.create_thread("clerk", "Hello?")).wait(PATIENCE)
    assert (run.status, run.errors[0].code) == ("error", "ERR_AUTH")
    assert "env:AGENCY_KEY_NOBODY_HAS is not set" in run.errors[0].message
    assert servers[0].requests == []


# What it costs.


async def test_own_prices_make_the_cost_of_a_call_a_run_a_thread_and_an_agency(
    agency: AgencyHandle, servers: tuple[ModelServer, ModelServer]
) -> None:
    server, _ = servers
    price = Price(input=2.0, output=10.0, cached_input=0.5)
    await agency.put_provider("mine", at(server, prices={"m": price}))
    await using(agency, "mine:m")
    used = Counts(input=1_000, output=100, cached=400)
    server.add(Reply(text=("one",), usage=used), Reply(text=("two",), usage=used))
    runs = await asyncio.gather(*[_ran(agency) for _ in range(2)])
    cost = (600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1_000_000
    assert [run.meta.cost_usd for run in runs] == [pytest.approx(cost)] * 2
    found = await agency.usage()
    assert found.cost_usd == pytest.approx(2 * cost)
    assert (found.tokens_used.cached_input, found.tokens_used.total) == (800, 2_200)


async def _ran(agency: AgencyHandle) -> Any:
    return await (await agency.create_thread("clerk", "Hello?")).wait(PATIENCE)
