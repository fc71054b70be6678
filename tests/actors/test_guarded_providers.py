"""An agency's admin cannot have a key of the installation sent where the operator has not said, nor reach private
addresses: refused when it is stored, and again where the call is made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import AgencyHandle, Cluster
from actors.address import Address, Files
from actors.agency.store import AgencyStore
from agency import InvalidInput, RunEnvelope
from agency.key_rules import KeyRule
from agency.models.providers.entry import Provider
from agency.store.sqlite import LOCAL
from tests.support.clusters import Install
from tests.support.model_script import Reply
from tests.support.model_server import ModelServer
from tests.support.waiting import PATIENCE

VALUE = "sk-of-the-installation-0123456789"
OTHERS = "sk-of-another-agency-9876543210"
MINE = "env:AGENCY_KEY_MINE"


@pytest.fixture
async def servers() -> AsyncIterator[tuple[ModelServer, ModelServer]]:
    async with ModelServer() as one, ModelServer() as other:
        yield one, other


@pytest.fixture
async def guarded(
    install: Install, servers: tuple[ModelServer, ModelServer], monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    """One server is where a key may go; the other may be reached without one. Both are on loopback, as are others."""
    monkeypatch.setenv("AGENCY_KEY_MINE", VALUE)
    monkeypatch.setenv("AGENCY_KEY_OTHERS", OTHERS)
    monkeypatch.setenv("AGENCY_KEY_SILENT", OTHERS)
    good, bad = (server.url for server in servers)
    keys = {
        "AGENCY_KEY_MINE": KeyRule(agencies=("*",), hosts=(good, "api.example.com")),
        "AGENCY_KEY_OTHERS": KeyRule(agencies=("agc_other",), hosts=(good,)),
    }
    return await install(keys=keys, private_hosts=tuple(url.removeprefix("http://") for url in (good, bad)))


def at(server: ModelServer, **more: Any) -> Provider:
    return Provider.model_validate({"api": "openai", "base_url": f"{server.url}/v1", **more})


async def ran(agency: AgencyHandle, model: str = "mine:m") -> RunEnvelope:
    await agency.put_blueprint({"name": "clerk", "model": model})
    return await (await agency.create_thread("clerk", "Hello?")).wait(PATIENCE)


def sent(*servers: ModelServer) -> str:
    return str([request.headers for server in servers for request in server.requests])


async def put_before(cluster: Cluster, agency: AgencyHandle, **entries: Provider) -> Cluster:
    """Entries as an earlier release had let an admin store them."""
    await cluster.stop()
    store = AgencyStore.open(Files(cluster.settings.data_dir).of(Address(agency.id)), LOCAL)
    for name, entry in entries.items():
        store.put_provider(name, entry, "2025-01-01T00:00:00.000Z", "agency")
    store.close()
    return await Cluster.join(cluster.settings)


async def test_a_key_goes_to_the_hosts_that_it_is_for_and_nowhere_else(
    guarded: Cluster, servers: tuple[ModelServer, ModelServer]
) -> None:
    good, bad = servers
    agency = await guarded.create_agency("bakery")
    put = await agency.put_provider("mine", at(good, key=MINE, headers={"X-Team": MINE}), by="agency")
    assert put.set_by == "agency"
    good.add(Reply(text=("Hello!",)))
    assert (await ran(agency)).data == "Hello!"
    assert good.requests[-1].headers["authorization"] == f"Bearer {VALUE}"
    for stolen in ({"key": MINE}, {"headers": {"X-Team": MINE}}):
        with pytest.raises(InvalidInput, match=r"may use env:AGENCY_KEY_MINE at .*, and not at http://127"):
            await agency.put_provider("mine", at(bad, **stolen), by="agency")
    with pytest.raises(InvalidInput, match=r"not at api\.example\.com\.evil\.com"):
        entry = Provider(api="openai", base_url="https://api.example.com.evil.com/v1", key=MINE)
        await agency.put_provider("mine", entry, by="agency")
    with pytest.raises(InvalidInput, match="not at http://api"):
        entry = Provider(api="openai", base_url="http://api.example.com/v1", key=MINE)
        await agency.put_provider("mine", entry, by="agency")


async def test_what_is_said_of_a_key_of_others_is_what_is_said_of_one_that_is_not_there(
    guarded: Cluster, servers: tuple[ModelServer, ModelServer]
) -> None:
    agency, said = await guarded.create_agency("bakery"), set()
    for name in ("AGENCY_KEY_OTHERS", "AGENCY_KEY_SILENT", "AGENCY_KEY_NOBODY_HAS"):
        with pytest.raises(InvalidInput, match=f'adds to AGENCY_KEYS: .*"{agency.id}"') as raised:
            await agency.put_provider("mine", at(servers[0], key=f"env:{name}"), by="agency")
        said.add(str(raised.value).replace(name, "X"))
    assert len(said) == 1


async def test_what_an_earlier_release_has_stored_sends_no_key_either(
    guarded: Cluster, servers: tuple[ModelServer, ModelServer]
) -> None:
    good, bad = servers
    agency = await guarded.create_agency("bakery")
    cluster = await put_before(
        guarded, agency, mine=at(bad, key=MINE), also=at(bad, headers={"X-Team": MINE}), mute=at(good, key="env:PATH")
    )
    agency = cluster.agency(agency.id)
    for name in ("mine", "also"):
        run = await ran(agency, f"{name}:m")
        assert (run.status, run.errors[0].code) == ("error", "ERR_AUTH")
        assert "may use env:AGENCY_KEY_MINE at" in run.errors[0].message
    assert (await ran(agency, "mute:m")).errors[0].code == "ERR_AUTH"
    told = "".join(await agency.stored_events(0, 100))
    assert bad.requests == good.requests == []
    assert VALUE not in told + sent(good, bad)
    await cluster.close()


async def test_a_key_does_not_follow_a_redirection(guarded: Cluster, servers: tuple[ModelServer, ModelServer]) -> None:
    good, bad = servers
    agency = await guarded.create_agency("bakery")
    await agency.put_provider("mine", at(good, key=MINE), by="agency")
    good.add(Reply(status=307, headers={"location": f"{bad.url}/v1/chat/completions"}))
    run = await ran(agency)
    assert (run.errors[0].code, len(good.requests), bad.requests) == ("ERR_MODEL_NOT_FOUND", 1, [])


async def test_private_addresses_are_refused_to_agencies_when_stored_and_when_called(
    agency: AgencyHandle, install: Install, servers: tuple[ModelServer, ModelServer]
) -> None:
    server, _ = servers
    port = server.url.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost"):
        entry = Provider(api="openai", base_url=f"http://{host}:{port}/v1")
        with pytest.raises(InvalidInput, match=rf"""AGENCY_PRIVATE_HOSTS='\["{host}:{port}"\]'"""):
            await agency.put_provider("mine", entry, by="agency")
    cluster = await install()
    own = await cluster.create_agency("bakery")
    decimal = Provider(api="openai", base_url=f"http://2130706433:{port}/v1")
    cluster = await put_before(cluster, own, mine=at(server), odd=decimal)
    own = cluster.agency(own.id)
    for name in ("mine", "odd"):
        run = await ran(own, f"{name}:m")
        assert (run.status, run.errors[0].code) == ("error", "ERR_ADDRESS_REFUSED"), run.errors
    assert server.requests == []
    await cluster.close()


async def test_what_the_owner_puts_into_an_agency_is_trusted_until_an_admin_replaces_it(
    guarded: Cluster, servers: tuple[ModelServer, ModelServer]
) -> None:
    _, bad = servers
    agency = await guarded.create_agency("bakery")
    put = await agency.put_provider("mine", at(bad, key=MINE))
    assert put.set_by == "owner"
    bad.add(Reply(text=("Hello!",)))
    assert (await ran(agency)).data == "Hello!"
    with pytest.raises(InvalidInput):
        await agency.put_provider("mine", at(bad, key=MINE), by="agency")
    assert (await agency.put_provider("mine", at(bad), by="agency")).set_by == "agency"
    bad.add(Reply(text=("Hello again!",)))
    assert (await ran(agency)).data == "Hello again!"
    assert bad.requests[-1].headers["authorization"] == "Bearer none"
