"""An agency: its blueprints, and threads that come and go without a trace."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors import AgencyHandle, Cluster, ThreadHandle, place_of
from actors.address import Address, Files
from agency import DefinitionError, InvalidInput, KeyReused, Message, NotFound, RunState
from agency.errors import TooLarge
from tests.support.clusters import Install, asleep, evict
from tests.support.lone_agency import LoneAgency
from tests.support.scripted_system import calls, holding, let_go, noting, say, script, task
from tests.support.waiting import PATIENCE, eventually


def path_of(cluster: Cluster, thread: ThreadHandle) -> Path:
    return Files(cluster.settings.data_dir).of(thread.address)


def files_of(cluster: Cluster, agency: AgencyHandle) -> list[str]:
    folder = Files(cluster.settings.data_dir).folder(agency.id)
    return sorted(path.name for path in folder.glob("threads/*"))


async def only_child(agency: AgencyHandle, thread: ThreadHandle) -> ThreadHandle:
    async def find() -> tuple[ThreadHandle, ...]:
        page = await agency.threads(parent=thread.id)
        return tuple(agency.thread(each.id) for each in page.threads)

    (child,) = await eventually(find)
    return child


# Agencies.


async def test_an_agency_is_made_found_and_renamed(cluster: Cluster) -> None:
    made = await cluster.create_agency("  Bakery ")
    info = await cluster.agency(made.id).info()
    assert (info.id, info.name) == (made.id, "Bakery")
    renamed = await made.rename("Butchery")
    assert (renamed.name, renamed.created_at) == ("Butchery", info.created_at)
    assert renamed in await cluster.agencies(limit=1_000)


async def test_an_agency_that_is_made_again_is_the_same_and_its_id_makes_no_other(cluster: Cluster) -> None:
    first = await cluster.create_agency("bakery", agency_id="agc_twice")
    again = await cluster.create_agency("bakery", agency_id="agc_twice")
    assert await again.info() == await first.info()
    await first.rename("the old bakery")
    with pytest.raises(KeyReused):
        await cluster.create_agency("butchery", agency_id="agc_twice")
    await cluster.create_agency("bakery", agency_id="agc_twice")  # it is still that request
    assert (await first.info()).name == "the old bakery"


async def test_agencies_are_listed_in_pages_the_newest_first(cluster: Cluster) -> None:
    made = []
    for name in "cab":
        made.append((await cluster.create_agency("paged", agency_id=f"zz_{name}")).id)
        await asyncio.sleep(0.002)  # their places follow from the millisecond
    first = await cluster.agencies(limit=2)
    assert [info.id for info in first] == ["zz_b", "zz_a"]
    await cluster.agency("zz_a").delete()
    rest = await cluster.agencies(after=place_of(first[-1]), limit=1)
    assert [info.id for info in rest] == ["zz_c"]
    every = await cluster.agencies()
    assert [info.created_at for info in every] == sorted((info.created_at for info in every), reverse=True)
    for limit in (0, 1_001):
        with pytest.raises(InvalidInput, match="1 to 1000"):
            await cluster.agencies(limit=limit)


async def test_an_agency_that_does_not_exist_is_not_found_and_not_made(cluster: Cluster) -> None:
    nobody = cluster.agency("agc_nobody")
    with pytest.raises(NotFound, match="agc_nobody"):
        await nobody.info()
    with pytest.raises(NotFound, match="agc_nobody"):
        await nobody.create_thread("clerk", script(say("hello")))
    with pytest.raises(NotFound):
        await nobody.delete()
    assert not Files(cluster.settings.data_dir).folder("agc_nobody").exists()


async def test_wrong_names_and_ids_are_refused(cluster: Cluster, agency: AgencyHandle) -> None:
    before = await cluster.agencies(limit=1_000)
    for name in ("", "  ", "x" * 201):
        with pytest.raises(InvalidInput, match="name"):
            await cluster.create_agency(name)
        with pytest.raises(InvalidInput, match="name"):
            await agency.rename(name)
    with pytest.raises(InvalidInput, match="the id of an agency"):
        await cluster.create_agency("bakery", agency_id="../bakery")
    with pytest.raises(InvalidInput, match="the id of an agency"):
        cluster.agency("../bakery")
    assert await cluster.agencies(limit=1_000) == before


# Blueprints.


async def test_an_agencys_own_blueprint_counts_at_once_and_for_threads_to_come(agency: AgencyHandle) -> None:
    listed = {each.name: each for each in (await agency.blueprints()).blueprints}
    assert list(listed) == sorted(listed)
    assert {"careful", "clerk", "hermit", "retired", "worker"} <= listed.keys()
    assert {each.source for each in listed.values()} == {"static"}
    old = await agency.create_thread("clerk")

    put = await agency.put_blueprint({"name": "clerk", "model": "script:other", "tags": ["default", "hitl"]})
    assert (put.source, put.model, put.prompt, put.description) == (
        "agency",
        "script:other",
        listed["clerk"].prompt,
        listed["clerk"].description,
    )
    assert put.created_at is not None and put.created_at == put.updated_at
    new = await agency.create_thread("clerk", script(say("still here")))
    assert (await new.wait(PATIENCE)).data == "still here"
    assert [(await thread.state()).model for thread in (old, new)] == ["script:any", "script:other"]

    changed = await agency.put_blueprint({"name": "clerk", "prompt": "Be brief."})
    assert (changed.prompt, changed.model, changed.tags) == ("Be brief.", "script:other", ("default", "hitl"))
    assert changed.created_at == put.created_at
    assert [each for each in (await agency.blueprints()).blueprints if each.name == "clerk"] == [changed]

    await agency.delete_blueprint("clerk")
    assert [each for each in (await agency.blueprints()).blueprints if each.name == "clerk"] == [listed["clerk"]]
    with pytest.raises(NotFound, match="no blueprint 'clerk' of its own"):
        await agency.delete_blueprint("clerk")
    assert (await (await agency.create_thread("clerk")).state()).model == "script:any"
    assert (await new.state()).model == "script:other"


async def test_a_new_agent_of_one_agency_is_unknown_to_the_others(cluster: Cluster, agency: AgencyHandle) -> None:
    await agency.put_blueprint({"name": "baker", "description": "Bakes.", "prompt": "bake"})
    thread = await agency.create_thread("clerk", script(calls(task(say("baked"), to="baker")), say("got it")))
    assert (await thread.wait(PATIENCE)).data == "got it"
    child = await only_child(agency, thread)
    assert (await child.metadata()).agent_type == "baker"
    other = await cluster.create_agency("butchery")
    with pytest.raises(NotFound, match="there is no agent 'baker'; there are broker, careful, clerk"):
        await other.create_thread("baker")


@pytest.mark.parametrize(
    ("wrong", "refused", "said"),
    [
        ({"prompt": "no name"}, InvalidInput, "name: Field required"),
        ({"name": 7}, InvalidInput, "name: Input should be a valid string"),
        ({"name": "has spaces", "description": "-", "prompt": "-"}, InvalidInput, "name: String should match"),
        ({"name": "baker"}, InvalidInput, "prompt: Field required"),
        ({"name": "clerk", "prompt": ""}, InvalidInput, "prompt: String should have at least 1 character"),
        ({"name": "clerk", "color": "red"}, InvalidInput, "color: Extra inputs are not permitted"),
        ({"name": "clerk", "status": "asleep"}, InvalidInput, "status: Input should be"),
        ({"name": "clerk", "limits": {"turns": 0}}, InvalidInput, "limits.turns: "),
        ({"name": "clerk", "model": "nobody:x"}, DefinitionError, "no provider named 'nobody'"),
        ({"name": "clerk", "model": "unknown:x", "tags": ["nobody"]}, DefinitionError, "no provider named 'unknown'"),
        ({"name": "careful", "config": {"hitl": {"tool": []}}}, DefinitionError, "config.hitl"),
        ({"name": "clerk", "mode": "code"}, DefinitionError, "code_runner"),
    ],
)
async def test_a_wrong_blueprint_is_refused_and_changes_nothing(
    agency: AgencyHandle, wrong: dict[str, object], refused: type[Exception], said: str
) -> None:
    before = (await agency.blueprints()).blueprints
    with pytest.raises(refused, match=said):
        await agency.put_blueprint(wrong)  # type: ignore[arg-type]  # wrong on purpose
    assert (await agency.blueprints()).blueprints == before


# Making threads.


async def test_a_thread_begins_with_a_message_or_waits_for_one(agency: AgencyHandle) -> None:
    waiting = await agency.create_thread("clerk")
    state = await waiting.run_state()
    assert (state.status, state.run_id) == ("registered", "")
    with pytest.raises(NotFound, match="has not run yet"):
        await waiting.run()
    several = [Message(role="system", content="be quick"), Message(role="user", content=script(say("quick")))]
    working = await agency.create_thread("clerk", several)
    assert (await working.wait(PATIENCE)).data == "quick"
    assert [message.role for message in (await working.state()).messages] == ["system", "user", "assistant"]
    metadata = await working.metadata()
    assert (metadata.agent_type, metadata.agency_id, metadata.parent) == ("clerk", agency.id, None)


async def test_a_thread_that_cannot_be_made_leaves_nothing(cluster: Cluster, agency: AgencyHandle) -> None:
    with pytest.raises(NotFound, match=r"there is no agent 'baker'; there are .*clerk"):
        await agency.create_thread("baker")
    with pytest.raises(InvalidInput, match="agent 'retired' is disabled"):
        await agency.create_thread("retired", script(say("no")))
    with pytest.raises(InvalidInput, match="empty"):
        await agency.create_thread("clerk", "   ")
    with pytest.raises(InvalidInput, match="a result names call 'c1', which"):
        await agency.create_thread("clerk", Message(role="tool", content="blue", tool_call_id="c1"))
    with pytest.raises(InvalidInput, match="the id of a thread"):
        await agency.create_thread("clerk", thread_id="../../agency")
    assert (await agency.threads()).threads == ()
    assert files_of(cluster, agency) == []


async def test_a_message_beyond_what_is_accepted_makes_no_thread_and_no_run(install: Install) -> None:
    cluster = await install(message_chars=100)
    agency = await cluster.create_agency("terse")
    with pytest.raises(TooLarge, match="101 characters; 100 are accepted"):
        await agency.create_thread("clerk", "x" * 101)
    assert (await agency.threads()).threads == ()
    assert files_of(cluster, agency) == []
    thread = await agency.create_thread("clerk", script(say("ok")))
    await thread.wait(PATIENCE)
    with pytest.raises(TooLarge):
        await thread.invoke("x" * 101)
    assert (await thread.run()).run_id == f"{thread.id}.1"


async def test_the_same_id_twice_makes_one_thread(agency: AgencyHandle) -> None:
    said = script(say("once"))
    made = await asyncio.gather(*(agency.create_thread("clerk", said, thread_id="thr_same") for _ in range(3)))
    again = await agency.create_thread("clerk", said, thread_id="thr_same")
    assert {thread.id for thread in (*made, again)} == {"thr_same"}
    assert (await again.wait(PATIENCE)).run_id == "thr_same.1"
    assert [message.content for message in (await again.state()).messages] == [said, "once"]
    assert [each.id for each in (await agency.threads()).threads] == ["thr_same"]
    for agent, other in (("worker", said), ("clerk", script(say("twice")))):
        with pytest.raises(KeyReused, match="was used for another request"):
            await agency.create_thread(agent, other, thread_id="thr_same")


async def test_a_thread_without_an_id_is_no_thread(agency: AgencyHandle) -> None:
    with pytest.raises((InvalidInput, NotFound)):
        await agency.thread("").state()
    assert (await agency.info()).id == agency.id


async def test_threads_are_listed_in_pages_in_the_order_in_which_they_were_made(agency: AgencyHandle) -> None:
    made = [(await agency.create_thread("clerk")).id for _ in range(5)]
    first = await agency.threads(limit=2)
    assert first.next is not None
    second = await agency.threads(after=first.next, limit=2)
    assert second.next is not None
    last = await agency.threads(after=second.next, limit=2)
    assert [each.id for page in (first, second, last) for each in page.threads] == made
    assert last.next is None
    assert (await agency.threads(limit=5)).next is None
    for after, limit in ((0, 0), (0, 1_001), (-1, 10)):
        with pytest.raises(InvalidInput, match=r"1 to 1000 threads|greater than or equal to 0"):
            await agency.threads(after=after, limit=limit)


async def test_the_children_of_a_thread_are_listed_by_their_parent(agency: AgencyHandle) -> None:
    await agency.create_thread("clerk")
    parent = await agency.create_thread("clerk", script(calls(task(say("a")), task(say("b"))), say("both")))
    assert (await parent.wait(PATIENCE)).data == "both"
    page = await agency.threads(limit=1, parent=parent.id)
    assert page.next is not None
    rest = await agency.threads(after=page.next, parent=parent.id)
    children = (*page.threads, *rest.threads)
    assert [(each.agent_type, each.parent and each.parent.thread_id) for each in children] == 2 * [
        ("worker", parent.id)
    ]
    assert len((await agency.threads()).threads) == 4
    assert (await agency.threads(parent=children[0].id)).threads == ()


# Deleting.


async def test_a_deleted_thread_is_gone_awake_or_at_work(cluster: Cluster, agency: AgencyHandle, ledger: Path) -> None:
    quiet = await agency.create_thread("clerk", script(say("done")))
    await quiet.wait(PATIENCE)
    long = noting(ledger, "x", 30)
    busy = await agency.create_thread("clerk", script(calls(long), say("never")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    kept = await agency.create_thread("clerk", script(say("kept")))
    for thread in (quiet, busy):
        await agency.delete_thread(thread.id)
        assert await asleep(cluster, thread)
        with pytest.raises(NotFound, match=thread.id):
            await thread.state()
        with pytest.raises(NotFound, match=thread.id):
            await thread.invoke("hello")
        with pytest.raises(NotFound, match=thread.id):
            await thread.metadata()
        with pytest.raises(NotFound, match=thread.id):
            await agency.delete_thread(thread.id)
    assert [each.id for each in (await agency.threads()).threads] == [kept.id]
    assert {name.partition(".")[0] for name in files_of(cluster, agency)} == {kept.id}
    assert (await kept.wait(PATIENCE)).data == "kept"
    assert "end:x" not in ledger.read_text()


async def test_who_waits_for_a_thread_that_is_deleted_is_told_so(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("clerk", script(calls(noting(ledger, "x", 30)), say("never")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    waiting = asyncio.create_task(thread.wait(PATIENCE))
    await asyncio.wait({waiting}, timeout=0.2)  # until the host has it
    await agency.delete_thread(thread.id)
    run = await waiting
    assert (run.status, run.errors[0].message) == ("canceled", "the thread was deleted")
    assert run.meta.canceled_by is not None and run.meta.canceled_by.kind == "deletion"
    with pytest.raises(NotFound, match=thread.id):
        await thread.wait(PATIENCE)


async def test_a_thread_is_deleted_with_all_that_descends_from_it(
    cluster: Cluster, agency: AgencyHandle, ledger: Path
) -> None:
    long = calls(noting(ledger, "x", 30))
    grandchild = task(long, say("never"), to="clerk")
    parent = await agency.create_thread("clerk", script(calls(task(calls(grandchild), say("never"))), say("never")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    assert len((await agency.threads()).threads) == 3
    await agency.delete_thread(parent.id)
    assert (await agency.threads()).threads == ()
    assert files_of(cluster, agency) == []


async def test_a_parent_goes_on_when_the_child_that_it_waits_for_is_deleted(agency: AgencyHandle, ledger: Path) -> None:
    long = calls(noting(ledger, "x", 30))
    parent = await agency.create_thread("clerk", script(calls(task(long, say("never"))), say("went on")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    child = await only_child(agency, parent)
    await agency.delete_thread(child.id)
    run = await parent.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "went on")
    told = [message.content for message in (await parent.state()).messages if message.role == "tool"]
    assert told == ["Canceled: the subagent was canceled."]
    assert [each.id for each in (await agency.threads()).threads] == [parent.id]


async def test_an_agency_is_deleted_with_everything(cluster: Cluster, agency: AgencyHandle, ledger: Path) -> None:
    long = calls(noting(ledger, "x", 30))
    thread = await agency.create_thread("clerk", script(calls(task(long, say("never"))), say("never")))
    await agency.create_thread("clerk")
    await eventually(lambda: "begin:x" in ledger.read_text())
    await agency.delete()
    assert not Files(cluster.settings.data_dir).folder(agency.id).exists()
    assert agency.id not in {info.id for info in await cluster.agencies(limit=1_000)}
    with pytest.raises(NotFound):
        await agency.info()
    with pytest.raises(NotFound):
        await thread.state()
    with pytest.raises(NotFound):
        await agency.create_thread("clerk")
    anew = await cluster.create_agency("anew", agency_id=agency.id)
    assert ((await anew.info()).name, (await anew.threads()).threads) == ("anew", ())
    assert not any(address.startswith(agency.id) for host in (await cluster.status()).hosts for address in host.threads)


async def test_threads_that_are_made_while_their_agency_is_deleted_leave_nothing(
    cluster: Cluster, agency: AgencyHandle
) -> None:
    making = [agency.create_thread("clerk", script(say("hello"))) for _ in range(8)]
    made = await asyncio.gather(*making[:4], agency.delete(), *making[4:], return_exceptions=True)
    refused = [each for each in made if isinstance(each, BaseException)]
    assert {type(each) for each in refused} <= {NotFound}
    assert not Files(cluster.settings.data_dir).folder(agency.id).exists()
    for thread in made:
        if isinstance(thread, ThreadHandle):
            with pytest.raises(NotFound):
                await thread.state()


async def test_a_thread_whose_making_has_begun_when_its_agency_is_deleted_is_not_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = LoneAgency(tmp_path, monkeypatch)

    async def delete_meanwhile(agency: str) -> None:
        await office.agency.call("delete", (), {})

    monkeypatch.setattr(office, "give_way", delete_meanwhile)
    with pytest.raises(NotFound):
        await office.call("create_thread", "clerk")
    assert office.made == {}


# Whatever ends, it is all there afterwards.


async def test_everything_survives_the_end_of_the_installation(install: Install, ledger: Path) -> None:
    cluster = await install(hibernate_after=0.3)
    agency = await cluster.create_agency("bakery")
    await agency.put_blueprint({"name": "clerk", "prompt": "Be brief."})
    done = await agency.create_thread("clerk", script(say("done")))
    await done.wait(PATIENCE)
    gone = await agency.create_thread("clerk", script(say("gone")))
    await eventually(lambda: asleep(cluster, gone))
    await agency.delete_thread(gone.id)  # one that hibernates
    assert not path_of(cluster, gone).exists()
    busy = await agency.create_thread("clerk", script(calls(holding(ledger, "x")), say("finished")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    await cluster.stop()
    assert "end:x" not in ledger.read_text()

    let_go(ledger, "x")
    cluster = await install(hibernate_after=0.3)
    await eventually(lambda: "end:x" in ledger.read_text())  # nobody asked
    agency = cluster.agency(agency.id)
    assert [info.name for info in await cluster.agencies()] == ["bakery"]
    assert [each.id for each in (await agency.threads()).threads] == [done.id, busy.id]
    own = [each for each in (await agency.blueprints()).blueprints if each.source == "agency"]
    assert [(each.name, each.prompt) for each in own] == [("clerk", "Be brief.")]
    assert (await agency.thread(done.id).run()).data == "done"
    run = await agency.thread(busy.id).wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "finished")
    assert Address(agency.id, gone.id) not in Files(cluster.settings.data_dir).all_threads()


@pytest.mark.parametrize(
    "call",
    [
        lambda agency: agency.create_thread("clerk", limits={"turns": -1}),
        lambda agency: agency.create_thread(None),
        lambda agency: agency.create_thread("clerk", thread_id=7),
        lambda agency: agency.create_thread("clerk", ""),
        lambda agency: agency.threads(after="x"),
        lambda agency: agency.threads(after=2**70),
        lambda agency: agency.threads(limit=1.5),
        lambda agency: agency.threads(status="asleep"),
        lambda agency: agency.threads(reason="tired"),
        lambda agency: agency.threads(newest_first="perhaps"),
        lambda agency: agency.delete_thread([1]),
        lambda agency: agency.rename(None),
        lambda agency: agency.put_blueprint(None),
        lambda agency: agency.thread("t").decide(None),
        lambda agency: agency.thread("t").wait("x"),
        lambda agency: agency.thread("t").wait(float("nan")),
        lambda agency: agency.thread("t").stored_events("x"),
        lambda agency: agency.thread("t").invoke("hello", idempotency_key=""),
        lambda agency: agency.thread("t").lift_limits(turns="x"),
        lambda agency: anext(agency.thread("t").events(1.5)),
    ],
)
async def test_what_is_of_the_wrong_type_is_refused_and_changes_nothing(agency: AgencyHandle, call: Any) -> None:
    await agency.create_thread("clerk", thread_id="t")

    async def known() -> tuple[object, ...]:
        threads = [thread.id for thread in (await agency.threads()).threads]
        return threads, await agency.info(), (await agency.blueprints()).blueprints

    before = await known()
    with pytest.raises(InvalidInput):
        await call(agency)
    assert await known() == before
    assert await agency.thread("t").run_state() == RunState()


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster: cluster.create_agency(None),
        lambda cluster: cluster.create_agency("x", agency_id=5),
        lambda cluster: cluster.agencies(limit="x"),
    ],
)
async def test_an_agency_is_not_made_or_listed_by_what_is_of_the_wrong_type(cluster: Cluster, call: Any) -> None:
    with pytest.raises(InvalidInput):
        await call(cluster)


async def test_a_damaged_thread_does_not_stand_in_the_way_of_deleting_others(
    cluster: Cluster, agency: AgencyHandle
) -> None:
    work = script(calls(task(say("part", delay=60))), say("whole"))
    parent = await agency.create_thread("clerk", work, thread_id="parent")
    child = await only_child(agency, parent)
    other = await agency.create_thread("clerk", thread_id="other")
    files = Files(cluster.settings.data_dir)
    await evict(cluster, parent)
    files.remove(parent.address)
    files.of(parent.address).write_bytes(b"garbage" * 1_000)
    await agency.delete_thread(child.id)
    await agency.delete_thread(other.id)
    assert [thread.id for thread in (await agency.threads()).threads] == ["parent"]
    assert sorted(path.name for path in files.of(parent.address).parent.iterdir()) == ["parent.db"]


async def test_a_thread_that_is_being_deleted_cannot_be_made_again_at_the_same_time(agency: AgencyHandle) -> None:
    for i in range(5):
        thread = await agency.create_thread("clerk", thread_id=f"t{i}")
        await asyncio.gather(
            agency.create_thread("clerk", thread_id=thread.id), agency.delete_thread(thread.id), return_exceptions=True
        )
        listed = [each.id for each in (await agency.threads()).threads]
        if thread.id in listed:
            assert (await thread.run_state()).status == "registered"
        else:
            with pytest.raises(NotFound):
                await thread.run_state()


async def test_a_new_thread_has_the_files_it_was_given(agency: AgencyHandle) -> None:
    silent = await agency.create_thread("clerk", files={"/order.txt": "seven rolls"})
    assert (await silent.state()).more["files"] == {"/order.txt": "seven rolls"}
    told = await agency.create_thread("clerk", script(say("read")), files={"/order.txt": "eight rolls"})
    await told.wait(10)
    assert (await told.state()).more["files"] == {"/order.txt": "eight rolls"}
    await told.invoke(script(say("again")), files={"/more.txt": "nine"})
    assert (await told.state()).more["files"] == {"/order.txt": "eight rolls", "/more.txt": "nine"}


async def test_a_thread_whose_files_are_refused_is_not_made(agency: AgencyHandle, cluster: Cluster) -> None:
    for message in ("", script(say("read"))):
        with pytest.raises(InvalidInput, match='begins with "/"'):
            await agency.create_thread("clerk", message or (), thread_id="wrong", files={"order.txt": "seven rolls"})
        assert (await agency.threads()).threads == ()
        with pytest.raises(NotFound):
            await agency.thread("wrong").state()
    right = await agency.create_thread("clerk", thread_id="wrong", files={"/order.txt": "seven rolls"})
    assert (await right.state()).more["files"] == {"/order.txt": "seven rolls"}
