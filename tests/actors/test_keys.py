"""Who may come in: keys of an agency, tickets for once, and whether there is anybody to come to."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from actors import AgencyHandle, Cluster, agency_of_key
from actors.address import Address, Files
from actors.agency.calls import AgencyCalls
from actors.agency.keys import Key, digest
from actors.agency.store import APPLICATION_ID, STEPS, AgencyStore
from actors.directory.tickets import Tickets
from agency import InvalidInput, NotFound
from agency.api.tenancy import AgencyInfo, KeyInfo
from agency.store.sqlite import LOCAL
from tests.support.clusters import Install, directory_of
from tests.support.paths import ROOT
from tests.support.scripted_system import say, script
from tests.support.waiting import PATIENCE, eventually

INFO = AgencyInfo(id="bakery", name="Bakery", created_at="2025-01-01T00:00:00.000Z")


# Keys.


async def test_a_key_opens_its_agency_until_it_is_revoked(agency: AgencyHandle) -> None:
    made = await agency.create_key("  Till 1 ", "operator")
    assert agency_of_key(made.key) == agency.id
    known = KeyInfo(id=made.id, name="Till 1", role="operator", created_at=made.created_at)
    other = await agency.create_key("Till 2", "viewer")
    assert await agency.check_key(made.key) == known
    assert await agency.key(made.id) == known
    assert {key.id: key.role for key in (await agency.keys()).keys} == {made.id: "operator", other.id: "viewer"}
    await agency.revoke_key(made.id)
    assert await agency.check_key(made.key) is None
    assert [key.id for key in (await agency.keys()).keys] == [other.id]
    with pytest.raises(NotFound, match="has no key"):
        await agency.key(made.id)
    with pytest.raises(NotFound, match="has no key"):
        await agency.revoke_key(made.id)


async def test_what_is_not_quite_a_key_opens_nothing(cluster: Cluster, agency: AgencyHandle) -> None:
    made = await agency.create_key("Till", "admin")
    elsewhere = await cluster.create_agency("butchery")
    stolen = made.key.replace(agency.id, elsewhere.id)
    assert await elsewhere.check_key(made.key) is None
    assert await elsewhere.check_key(stolen) is None
    for wrong in (
        "",
        "agk_",
        made.key[:-1],
        made.key + "x",
        made.key[:-1] + "!",
        Key.new(agency.id).text,
        f" {made.key}",
    ):
        assert await agency.check_key(wrong) is None
    for no_key in ("", "secret", "agk_a/b.key_1." + 43 * "x", "agk_a.key_1.short"):
        assert agency_of_key(no_key) is None


async def test_keys_die_with_their_agency(cluster: Cluster) -> None:
    agency = await cluster.create_agency("bakery", agency_id="agc_keys_die")
    made = await agency.create_key("Till", "admin")
    await agency.delete()
    assert await agency.check_key(made.key) is None
    anew = await cluster.create_agency("bakery", agency_id="agc_keys_die")
    assert await anew.check_key(made.key) is None
    assert (await anew.keys()).keys == ()


async def test_a_key_that_is_made_again_is_the_same_key(cluster: Cluster, agency: AgencyHandle) -> None:
    key = Key.new(agency.id)
    for name in ("Till", "Another"):  # as if the first answer had been lost
        made = await AgencyCalls(cluster.caller, agency.id).add_key(key.id, name, "viewer", key.digest)
        assert made.name == "Till"
    assert len((await agency.keys()).keys) == 1
    found = await agency.check_key(key.text)
    assert found is not None and found.id == key.id


@pytest.mark.parametrize(("name", "role"), [("", "viewer"), ("x" * 201, "viewer"), (None, "viewer"), ("Till", "owner")])
async def test_a_key_without_a_name_or_role_is_refused(agency: AgencyHandle, name: str, role: str) -> None:
    with pytest.raises(InvalidInput):
        await agency.create_key(name, role)  # type: ignore[arg-type]  # wrong on purpose
    assert (await agency.keys()).keys == ()


async def test_the_secret_is_nowhere_but_in_the_first_answer(cluster: Cluster, agency: AgencyHandle) -> None:
    made = await agency.create_key("Till", "admin")
    secret = made.key.rpartition(".")[2]
    shown = Key.parse(made.key)
    assert shown is not None and shown.secret == secret
    for seen in (repr(made), str(made), repr(shown), str(shown), repr((await agency.keys()).keys)):
        assert secret not in seen
    folder = Files(cluster.settings.data_dir).folder(agency.id)
    stored = b"".join(path.read_bytes() for path in folder.glob("agency.db*"))
    assert digest(secret).encode() in stored
    assert secret.encode() not in stored


# The agency's file.


def test_a_file_of_the_first_version_opens_with_all_that_was_in_it(tmp_path: Path) -> None:
    path = Files(tmp_path).of(Address("bakery"))
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.executescript(STEPS[0] + f"PRAGMA user_version = 1; PRAGMA application_id = {APPLICATION_ID};")
    db.executemany("INSERT INTO meta VALUES (?, ?)", INFO.model_dump(by_alias=False, exclude={"budget"}).items())
    for i in (1, 2):
        metadata = f'{{"id": "t{i}", "agentType": "clerk", "createdAt": "2025-01-01T00:00:00.000Z"}}'
        db.execute("INSERT INTO threads (id, state, metadata) VALUES (?, 'ready', ?)", (f"t{i}", metadata))
    db.commit()
    db.close()
    for _ in range(2):  # the second time there is nothing left to do
        store = AgencyStore.open(path, LOCAL)
        assert store.info() == INFO
        assert [thread.id for _, thread in store.threads(0, 10, 10_000)[0]] == ["t1", "t2"]
        assert store.counts() == {"registered": 2}
        assert store.keys("", 10, 10_000) == ([], False)
        assert store.rows("PRAGMA user_version") == [(len(STEPS),)]
        store.close()


# Tickets.


async def test_a_ticket_is_good_once_for_any_client(install: Install) -> None:
    one, two = await install(), await install()
    ticket = await one.issue_ticket('{"agency":"bakery"}', 30)
    assert await two.redeem_ticket(ticket) == '{"agency":"bakery"}'
    assert await two.redeem_ticket(ticket) is None
    assert await one.redeem_ticket(ticket) is None
    assert await one.redeem_ticket("made up") is None


async def test_a_ticket_is_for_a_while_and_for_a_little(cluster: Cluster) -> None:
    for seconds in (-1, float("nan"), 3_601):
        with pytest.raises(InvalidInput, match="time"):
            await cluster.issue_ticket("{}", seconds)
    with pytest.raises(InvalidInput, match="at most 10000 characters"):
        await cluster.issue_ticket("x" * 10_001, 30)
    late = await cluster.issue_ticket("{}", 0)
    assert await cluster.redeem_ticket(late) is None


def test_of_too_many_tickets_the_oldest_go() -> None:
    tickets = Tickets(most=3)
    for name in "abcd":
        tickets.add(name, f"grant {name}", 60)
    assert [tickets.take(name) for name in "abcd"] == [None, "grant b", "grant c", "grant d"]
    tickets.add("late", "grant", 0)
    tickets.add("new", "grant", 60)
    assert len(tickets._held) == 1


def test_a_holder_with_too_many_tickets_loses_its_own_oldest() -> None:
    tickets = Tickets(most=100, each=2)
    tickets.add("theirs", "grant", 60, ("bakery", "key_1"))
    for name in "abcd":
        tickets.add(name, "grant", 60, ("bakery", "key_2"))
    assert [tickets.take(name) for name in ("theirs", *"abcd")] == ["grant", None, None, "grant", "grant"]


def test_an_agency_that_makes_ever_more_keys_for_tickets_loses_its_own() -> None:
    tickets = Tickets(most=4, each=2)
    tickets.add("theirs", "grant", 60, ("bakery", "key_1"))
    for n in range(20):
        tickets.add(f"t{n}", "grant", 60, ("mill", f"key_{n}"))
    assert tickets.take("theirs") == "grant"
    assert [n for n in range(20) if tickets.take(f"t{n}")] == [17, 18, 19]


# Readiness.


async def is_ready(cluster: Cluster) -> bool:
    return (await cluster.ready()).ready


async def test_an_installation_is_ready_when_a_thread_could_run_and_no_longer_when_it_was_stopped(
    install: Install,
) -> None:
    cluster, other = await install(), await install()
    await eventually(lambda: is_ready(cluster))
    found = await cluster.ready()
    assert (found.hosts >= 1, found.reason) == (True, "")
    thread = await (await cluster.create_agency("bakery")).create_thread("clerk", script(say("hello")))
    assert (await thread.wait(PATIENCE)).data == "hello"
    await cluster.stop()
    for client in (cluster, other):
        told = await client.ready()
        assert (told.ready, "stopped" in told.reason) == (False, True)


async def test_hosts_that_cannot_start_make_nothing_ready(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    lines = ["from pathlib import Path", "from tests.support.scripted_system import system"]
    lines += ["if b'ray::Host' in Path('/proc/self/cmdline').read_bytes():", "    raise ImportError('not here')"]
    (tmp_path / "shop_without_hosts.py").write_text("\n".join(lines))
    cluster = await install(system="shop_without_hosts:system", python_path=(str(tmp_path), str(ROOT)))

    async def told() -> str:
        found = await cluster.ready()
        assert (found.ready, found.hosts) == (False, 0)
        return found.reason if "not here" in found.reason else ""

    assert "cannot load shop_without_hosts:system" in await eventually(told)


async def test_whether_it_is_ready_is_said_soon_though_the_directory_hangs(install: Install) -> None:
    cluster = await install()
    await eventually(lambda: is_ready(cluster))
    directory = directory_of(cluster)
    os.kill(directory, signal.SIGSTOP)
    try:
        began = time.monotonic()
        found = await asyncio.gather(*(cluster.ready() for _ in range(3)))
        assert time.monotonic() - began < 5
        assert {(each.ready, each.reason) for each in found} == {(False, "the directory does not answer")}
    finally:
        os.kill(directory, signal.SIGCONT)
    await eventually(lambda: is_ready(cluster))
