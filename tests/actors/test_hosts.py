"""Where threads live: spread, then sharing, alone if they must be, and asleep when there is nothing to do."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from actors import AgencyHandle, Cluster, HostStatus, Settings, ThreadHandle
from actors.cluster import local_ray
from agency import DefinitionError, NotFound, WrongState
from agency.errors import Unavailable
from tests.support.clusters import Install, asleep, follow
from tests.support.paths import ROOT
from tests.support.scripted_system import calls, holding, let_go, say, script
from tests.support.waiting import PATIENCE, eventually


def title(pid: int | None) -> str:
    """The name under which a process runs; empty if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):  # it may end while it is read
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode()
    return ""


async def home(cluster: Cluster, thread: ThreadHandle) -> HostStatus:
    (name,) = (await cluster.where([thread.address])).values()
    (host,) = (host for host in (await cluster.status()).hosts if host.name == name)
    return host


async def all_ready(cluster: Cluster, count: int) -> tuple[HostStatus, ...]:
    """The hosts, if they are so many and none is starting or stopping."""
    hosts = (await cluster.status()).hosts
    return hosts if len(hosts) == count and all(host.state == "ready" for host in hosts) else ()


async def working(agency: AgencyHandle, ledger: Path, what: str) -> ThreadHandle:
    """A thread whose tool is at work until it is let go."""
    thread = await agency.create_thread("clerk", script(calls(holding(ledger, what)), say("done")))
    await eventually(lambda: f"begin:{what}" in ledger.read_text())
    return thread


async def test_threads_spread_first_and_then_share_and_the_status_tells_where(install: Install, ledger: Path) -> None:
    cluster = await install(actors_per_node=3)
    agency = await cluster.create_agency("bakery")
    first = []
    for count in (1, 2, 3):
        await eventually(functools.partial(all_ready, cluster, count))
        first.append(await agency.create_thread("clerk"))
    where = await cluster.where([thread.address for thread in first])
    assert len(set(where.values())) == 3
    busy = await working(agency, ledger, "x")
    more = [await agency.create_thread("clerk") for _ in range(3)]

    threads = [*first, busy, *more]
    where = await cluster.where([thread.address for thread in threads])
    status = await cluster.status()
    (node,) = status.nodes
    assert (node.budget, node.hosts, status.awake, status.hibernated) == (3, 3, 7, 0)
    assert status.agencies == (agency.id,)
    assert sorted(len(host.threads) for host in status.hosts) == [2, 2, 3]
    assert {name: host.name for host in status.hosts for name in host.threads} == {
        str(address): name for address, name in where.items()
    }
    assert {host.name: host.working for host in status.hosts if host.working} == {where[busy.address]: 1}
    assert len({host.pid for host in status.hosts}) == 3
    for host in status.hosts:
        assert (host.node, host.role, host.state) == (node.id, "shared", "ready")
        assert title(host.pid) == f"ray::{host.name} of system agents"
        assert host.rss_bytes is not None and host.rss_bytes > 10_000_000
    let_go(ledger, "x")
    assert (await busy.wait(PATIENCE)).data == "done"


async def test_a_thread_that_has_to_answer_shares_a_host_rather_than_wait_for_one(install: Install) -> None:
    cluster = await install(actors_per_node=3, warm_hosts=1)
    agency = await cluster.create_agency("rush")
    await eventually(lambda: all_ready(cluster, 1))
    threads = await asyncio.gather(*(agency.create_thread("clerk") for _ in range(5)))
    where = await cluster.where([thread.address for thread in threads])
    assert len(where) == 5
    assert len(set(where.values())) == 1, "those that start are not waited for"


async def test_a_hermit_shares_with_nobody_and_its_host_is_given_back(install: Install) -> None:
    cluster = await install(actors_per_node=1)
    agency = await cluster.create_agency("hermitage")
    clerk = await agency.create_thread("clerk")
    hermits = [await agency.create_thread("hermit", script(say("peace"))) for _ in range(2)]
    await agency.create_thread("clerk")
    homes = [await home(cluster, thread) for thread in hermits]
    assert [(host.role, host.threads) for host in homes] == [
        ("dedicated", (str(thread.address),)) for thread in hermits
    ]
    shared = await home(cluster, clerk)
    assert (shared.role, len(shared.threads)) == ("shared", 2)
    assert [(await thread.wait(PATIENCE)).data for thread in hermits] == ["peace", "peace"]
    await agency.delete_thread(hermits[0].id)
    await eventually(lambda: not title(homes[0].pid))
    assert title(homes[1].pid) == f"ray::{homes[1].name} of {hermits[1].address}"
    assert {host.name for host in (await cluster.status()).hosts} == {shared.name, homes[1].name}


async def test_a_hermit_that_was_asleep_is_alone_again(install: Install) -> None:
    cluster = await install(actors_per_node=1, hibernate_after=0.4)
    agency = await cluster.create_agency("hermitage")
    clerk, hermit = await agency.create_thread("clerk"), await agency.create_thread("hermit", script(say("peace")))
    watching = follow(clerk)
    assert (await anext(watching)).seq == 1
    before = await home(cluster, hermit)
    await eventually(lambda: asleep(cluster, hermit))
    await eventually(lambda: not title(before.pid))
    assert [host.role for host in (await cluster.status()).hosts] == ["shared"]

    await hermit.invoke(script(say("more peace", delay=1.0)))
    after = await home(cluster, hermit)
    assert (after.role, after.threads) == ("dedicated", (str(hermit.address),))
    assert (await home(cluster, clerk)).threads == (str(clerk.address),)
    assert (await hermit.wait(PATIENCE)).data == "more peace"
    await eventually(lambda: asleep(cluster, hermit))
    await eventually(lambda: not title(after.pid))
    await watching.aclose()


async def test_an_idle_thread_hibernates_and_wakes_when_it_is_needed(install: Install, ledger: Path) -> None:
    cluster = await install(hibernate_after=0.4)
    agency = await cluster.create_agency("dormitory")
    watched = await agency.create_thread("clerk", script(say("seen")))
    await watched.wait(PATIENCE)
    events = follow(watched)
    assert (await anext(events)).seq == 1
    busy = await working(agency, ledger, "x")
    charge = calls(("charge", {"ledger": str(ledger), "what": "7"}))
    asking = await agency.create_thread("careful", script(charge, say("charged")))
    assert (await asking.wait(PATIENCE)).meta.pause_reason == "hitl"
    idle = await agency.create_thread("clerk", script(say("first")))
    await idle.wait(PATIENCE)
    fresh = await agency.create_thread("clerk")

    await eventually(lambda: asleep(cluster, idle, asking, fresh))
    assert set(await cluster.where([watched.address, busy.address])) == {watched.address, busy.address}
    status = await cluster.status()
    assert (status.awake, status.hibernated) == (2, 3)
    assert not list(cluster.settings.data_dir.glob(f"agencies/*/threads/{idle.id}.db-*"))

    await idle.invoke(script(say("second")))
    assert (await idle.wait(PATIENCE)).data == "second"
    await asking.approve()
    assert (await asking.wait(PATIENCE)).data == "charged"
    assert (await fresh.state()).messages == ()
    let_go(ledger, "x")
    assert (await busy.wait(PATIENCE)).data == "done"
    await events.aclose()
    await eventually(lambda: asleep(cluster, watched, busy, asking, idle, fresh))
    assert (await cluster.status()).hibernated == 5

    async def agency_asleep() -> bool:
        return (await cluster.status()).agencies == ()

    await eventually(agency_asleep)
    assert (await agency.info()).name == "dormitory"
    assert (await idle.run()).data == "second"


async def test_hosts_are_kept_warm_and_given_back_when_they_are_empty(install: Install) -> None:
    cluster = await install(actors_per_node=3, warm_hosts=1, hibernate_after=0.4)
    agency = await cluster.create_agency("tides")
    (warm,) = await eventually(lambda: all_ready(cluster, 1))
    assert warm.threads == ()
    first = await agency.create_thread("clerk")
    assert (await home(cluster, first)).name == warm.name
    watching = [follow(first)]
    assert (await anext(watching[0])).seq == 1
    both = await eventually(lambda: all_ready(cluster, 2))
    assert sorted(host.threads for host in both) == [(), (str(first.address),)]
    second = await agency.create_thread("clerk")
    watching.append(follow(second))
    assert (await anext(watching[1])).seq == 1
    three = await eventually(lambda: all_ready(cluster, 3))
    assert sorted(len(host.threads) for host in three) == [0, 1, 1]

    for events in watching:
        await events.aclose()
    await eventually(lambda: asleep(cluster, first, second))
    (left,) = await eventually(lambda: all_ready(cluster, 1))
    assert left.threads == ()
    await eventually(lambda: not any(title(host.pid) for host in three if host.name != left.name))


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError"])
async def test_hosts_that_cannot_load_the_system_say_so_and_are_not_tried_for_ever(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = f"shop_with_{error.lower()}"
    lines = ["from pathlib import Path", "from tests.support.scripted_system import system"]
    mended = tmp_path / "mended"
    lines += [f"if b'ray::Host' in Path('/proc/self/cmdline').read_bytes() and not Path({str(mended)!r}).exists():"]
    lines += [f"    raise {error}('not on this node')"]
    (tmp_path / f"{module}.py").write_text("\n".join(lines))
    cluster = await install(system=f"{module}:system", python_path=(str(tmp_path), str(ROOT)), hibernate_after=1.0)
    agency = await cluster.create_agency("stranded")
    with pytest.raises(DefinitionError, match=f"cannot load {module}:system: .*not on this node"):
        async with asyncio.timeout(10):
            await agency.create_thread("clerk", script(say("never")))
    assert (await agency.threads()).threads == ()
    (node,) = (await cluster.status()).nodes
    assert "not on this node" in node.problem and (await cluster.ready()).broken
    if error == "ImportError":
        mended.touch()

        async def is_mended() -> bool:
            return (await cluster.ready()).ready

        await eventually(is_mended, PATIENCE)
        assert (await cluster.status()).nodes[0].problem == ""


async def test_joining_with_other_settings_is_refused(cluster: Cluster, shared_ray: Settings, tmp_path: Path) -> None:
    with pytest.raises(WrongState, match=f"has data_dir '{shared_ray.data_dir}', not '{tmp_path}'"):
        await Cluster.join(shared_ray.model_copy(update={"data_dir": tmp_path}))
    with pytest.raises(WrongState, match="has storage 'local', not 'shared'"):
        await Cluster.join(shared_ray.model_copy(update={"storage": "shared"}))
    joined = await Cluster.join(shared_ray.model_copy(update={"warm_hosts": 7}))
    assert joined.settings == cluster.settings
    await joined.close()


async def test_where_nothing_runs_nothing_is_started_unless_asked_for(shared_ray: Settings) -> None:
    with pytest.raises(NotFound, match="nothing runs in namespace 'nowhere'"):
        await Cluster.join(shared_ray.model_copy(update={"namespace": "nowhere"}), start=False)


async def test_a_client_of_what_was_stopped_is_told_so_at_once(install: Install) -> None:
    cluster = await install()
    other = await install()
    agency = await other.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(say("hello")))
    await thread.wait(PATIENCE)
    await cluster.stop()
    async with asyncio.timeout(5):
        for ask in (thread.run, agency.info, other.status, other.agency("agc_new").info):
            with pytest.raises(Unavailable, match="stopped"):
                await ask()
    await other.stop()  # and again changes nothing


async def test_a_second_installation_on_the_same_folder_is_refused(install: Install) -> None:
    first = await install()
    with pytest.raises(WrongState, match="another installation uses"):
        await install(namespace="another")
    assert (await first.status()).nodes, "and the first goes on"


def test_a_session_that_has_the_pid_of_a_local_ray_that_is_gone_is_let_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        folder = tmp_path / "ray"
        folder.mkdir()
        noted = local_ray.LocalRay(address="", pid=stranger.pid, token="", temp_dir=str(tmp_path / "no"), mark="gone")
        (folder / "ray.json").write_text(noted.model_dump_json())
        assert local_ray.find(tmp_path) is None
        assert local_ray.stop(tmp_path)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
