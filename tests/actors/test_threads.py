"""Threads as actors: what a user does with them, from anywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors import AgencyHandle, Cluster, Settings, ThreadHandle
from agency import (
    Approve,
    ApproveResult,
    Deny,
    Edit,
    Event,
    EventType,
    InvalidInput,
    KeyReused,
    Limits,
    Message,
    NotFound,
    WrongState,
)
from tests.support.clusters import Install, asleep
from tests.support.scripted_system import calls, holding, let_go, noting, say, script, task
from tests.support.waiting import PATIENCE, eventually


def charge(ledger: Path, what: str) -> tuple[str, dict[str, object]]:
    return "charge", {"ledger": str(ledger), "what": what}


async def texts(thread: ThreadHandle, role: str) -> list[str]:
    return [message.content for message in (await thread.state()).messages if message.role == role]


async def children(agency: AgencyHandle, thread: ThreadHandle) -> list[ThreadHandle]:
    page = await agency.threads(parent=thread.id)
    return [agency.thread(each.id) for each in page.threads]


# Messages.


async def test_a_message_is_answered(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("hello")))
    run = await thread.wait(30)
    assert (run.status, run.data) == ("completed", "hello")


async def test_each_message_starts_a_run_of_its_own(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk")
    for n, word in enumerate(("one", "two"), start=1):
        accepted = await thread.invoke(script(say(word)))
        assert (accepted.run_id, accepted.status) == (f"{thread.id}.{n}", "running")
        run = await thread.wait(PATIENCE)
        assert (run.run_id, run.status, run.data) == (accepted.run_id, "completed", word)
        assert (run.meta.thread_id, run.meta.agent_type, run.meta.turns) == (thread.id, "clerk", 1)
        assert (await thread.run_state()).status == "completed"
    assert await texts(thread, "assistant") == ["one", "two"]


async def test_a_key_that_was_used_gives_the_first_answer(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk")
    first = await thread.invoke(script(say("once")), idempotency_key="order 7")
    await thread.wait(PATIENCE)
    again = await thread.invoke(script(say("once")), idempotency_key="order 7")
    with pytest.raises(KeyReused):
        await thread.invoke(script(say("twice")), idempotency_key="order 7")
    both = await asyncio.gather(*(thread.invoke(script(say("x")), idempotency_key="order 8") for _ in range(2)))
    await thread.wait(PATIENCE)
    assert again == first
    assert both[0] == both[1]
    assert await texts(thread, "assistant") == ["once", "x"]


async def test_a_message_during_a_run_joins_it(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("clerk", script(calls(holding(ledger, "x")), say("alone")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    accepted = await thread.invoke(script(say("together")))
    assert (accepted.run_id, accepted.status) == (f"{thread.id}.1", "running")
    let_go(ledger, "x")
    run = await thread.wait(PATIENCE)
    assert (run.run_id, run.status, run.data) == (accepted.run_id, "completed", "together")
    assert "end:x" in ledger.read_text()
    roles = [message.role for message in (await thread.state()).messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]


async def test_waiting_ends_early_while_the_run_goes_on(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("clerk", script(calls(holding(ledger, "x")), say("late")))
    run = await thread.wait(0.1)
    assert (run.status, run.data) == ("running", None)
    assert (await thread.wait(0)).status == "running"
    let_go(ledger, "x")
    assert (await thread.wait(PATIENCE)).data == "late"


async def test_a_run_that_has_used_up_a_limit_goes_on_when_it_is_lifted(agency: AgencyHandle, ledger: Path) -> None:
    lines = script(calls(noting(ledger, "x")), say("made it"))
    thread = await agency.create_thread("clerk", lines, limits=Limits(tokens=1))
    run = await thread.wait(PATIENCE)
    assert (run.status, run.meta.pause_reason, run.errors[0].code) == ("paused", "exhausted", "ERR_TOKEN_LIMIT")
    with pytest.raises(InvalidInput, match="positive"):
        await thread.lift_limits(tokens=0)
    await thread.lift_limits(tokens=1_000)
    assert (await thread.wait(PATIENCE)).data == "made it"


async def test_what_a_thread_is_can_be_read_at_any_time(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("clerk", script(calls(holding(ledger, "x")), say("done")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    state = await thread.run_state()
    assert (state.run_id, state.status, state.step) == (f"{thread.id}.1", "running", 1)
    assert (await thread.run()).status == "running"
    seen = await thread.state()
    assert [message.role for message in seen.messages] == ["user", "assistant"]
    assert {"note", "charge", "task"} <= {spec.name for spec in seen.tools}
    assert (seen.thread, seen.model) == (await thread.metadata(), "script:any")
    assert {"subagents", "todos"} <= seen.more.keys()
    let_go(ledger, "x")
    await thread.wait(PATIENCE)


async def test_stored_events_are_read_in_pages_without_a_gap(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("clerk", script(calls(noting(ledger, "x")), say("done")))
    await thread.wait(PATIENCE)
    whole = await thread.stored_events(limit=1_000)
    assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
    assert (whole[0].type, whole[-1].type) == (EventType.THREAD_CREATED, EventType.AGENT_COMPLETED)
    assert {event.thread_id for event in whole} == {thread.id}
    paged: list[Event] = []
    while page := await thread.stored_events(after=len(paged), limit=4):
        assert len(page) <= 4
        paged += page
    assert paged == whole
    for after, limit in ((-1, 10), (0, 0), (0, 1_001)):
        with pytest.raises(InvalidInput, match=r"1 to 1000 events|greater than or equal to 0"):
            await thread.stored_events(after, limit)


async def test_what_does_not_exist_is_not_found(cluster: Cluster, agency: AgencyHandle) -> None:
    for nobody in (agency.thread("thr_nobody"), cluster.thread("agc_nobody", "thr_nobody")):
        for ask in (nobody.state, nobody.run, nobody.run_state, nobody.cancel, nobody.approve, nobody.stored_events):
            with pytest.raises(NotFound, match="nobody"):
                await ask()
        with pytest.raises(NotFound, match="nobody"):
            await nobody.invoke("hello")
        with pytest.raises(NotFound, match="nobody"):
            await nobody.metadata()
    with pytest.raises(InvalidInput, match="the id of a thread"):
        agency.thread("../agency")


# People.


async def test_a_call_runs_when_a_person_approves_it(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("careful", script(calls(charge(ledger, "7")), say("charged")))
    run = await thread.wait(PATIENCE)
    assert (run.status, run.meta.pause_reason) == ("paused", "hitl")
    (pending,) = run.meta.pending_tool_calls
    assert (pending.name, pending.args) == charge(ledger, "7")
    assert ledger.read_text() == ""
    await thread.approve()
    assert (await thread.wait(PATIENCE)).data == "charged"
    assert ledger.read_text().count("charge:7") == 1
    with pytest.raises(WrongState, match="waits for a person"):
        await thread.approve()


async def test_a_denied_call_never_runs_and_the_model_is_told_why(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("careful", script(calls(charge(ledger, "7")), say("a pity")))
    await thread.wait(PATIENCE)
    await thread.deny("too dear")
    assert (await thread.wait(PATIENCE)).data == "a pity"
    assert ledger.read_text() == ""
    (told,) = await texts(thread, "tool")
    assert "too dear" in told


async def test_a_person_decides_on_each_call_and_may_edit_it(agency: AgencyHandle, ledger: Path) -> None:
    three = calls(charge(ledger, "7"), charge(ledger, "8"), charge(ledger, "9"))
    thread = await agency.create_thread("careful", script(three, say("decided")))
    run = await thread.wait(PATIENCE)
    first, second, third = (call.id for call in run.meta.pending_tool_calls)
    for wrong in ({}, {"c99": Approve()}, {first: Edit({"ledger": 7})}):
        with pytest.raises(InvalidInput):
            await thread.decide(wrong)
    await thread.decide({first: Approve(), second: Edit({"ledger": str(ledger), "what": "eight"})})
    run = await thread.wait(PATIENCE)
    assert (run.status, [call.id for call in run.meta.pending_tool_calls]) == ("paused", [third])
    await thread.decide({third: Deny("enough")})
    assert (await thread.wait(PATIENCE)).data == "decided"
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["charge:7", "charge:eight"]


async def test_calls_that_do_not_fit_are_refused_and_change_nothing(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("done")))
    await thread.wait(PATIENCE)
    before = await thread.stored_events(limit=1_000)
    for ask in (thread.approve, thread.deny, thread.cancel, thread.lift_limits):
        with pytest.raises(WrongState, match=thread.id):
            await ask()
    with pytest.raises(WrongState, match=thread.id):
        await thread.decide({"c1": Approve()})
    for wrong in ("", "  ", Message(role="tool", content="x")):
        with pytest.raises(InvalidInput):
            await thread.invoke(wrong)
    with pytest.raises(InvalidInput, match="idempotency key"):
        await thread.invoke("hello", idempotency_key="k" * 257)
    assert await thread.stored_events(limit=1_000) == before


# Canceling, and children.


async def test_canceling_stops_what_runs_and_the_next_message_starts_anew(agency: AgencyHandle, ledger: Path) -> None:
    thread = await agency.create_thread("clerk", script(calls(noting(ledger, "x", 30)), say("never")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    await thread.cancel()
    run = await thread.wait(PATIENCE)
    assert (run.status, run.errors[0].code) == ("canceled", "ERR_CANCELED")
    assert "end:x" not in ledger.read_text()
    await thread.invoke(script(say("again")))
    assert (await thread.wait(PATIENCE)).data == "again"


async def test_canceling_reaches_children_and_their_children(agency: AgencyHandle, ledger: Path) -> None:
    grandchild = task(calls(noting(ledger, "x", 30)), say("never"), to="clerk")
    parent = await agency.create_thread("clerk", script(calls(task(calls(grandchild), say("never"))), say("never")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    (child,) = await children(agency, parent)
    (grand,) = await children(agency, child)
    await parent.cancel()
    assert (await parent.wait(PATIENCE)).status == "canceled"
    for below in (child, grand):

        async def canceled(thread: ThreadHandle = below) -> bool:
            return (await thread.run()).status == "canceled"

        await eventually(canceled)
    assert "end:x" not in ledger.read_text()


async def test_children_on_several_hosts_complete_and_report(install: Install, ledger: Path) -> None:
    cluster = await install(actors_per_node=3, warm_hosts=3)
    agency = await cluster.create_agency("busy")

    async def all_ready() -> bool:
        return (await cluster.ready()).hosts == 3

    await eventually(all_ready)
    tasks = [task(calls(noting(ledger, what, 0.2)), say(f"report {what}")) for what in "abc"]
    parent = await agency.create_thread("clerk", script(calls(*tasks), say("all in")))
    run = await parent.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "all in")
    assert await texts(parent, "tool") == ["report a", "report b", "report c"]
    noted = [line.split() for line in ledger.read_text().splitlines()]
    assert sorted(line[0] for line in noted) == [f"{when}:{what}" for when in ("begin", "end") for what in "abc"]
    made = await children(agency, parent)
    assert len(set((await cluster.where([child.address for child in made])).values())) >= 2
    for child in made:
        parent_info = (await child.metadata()).parent
        assert parent_info is not None and parent_info.thread_id == parent.id


async def test_a_child_that_cannot_be_made_or_fails_is_reported_too(agency: AgencyHandle, ledger: Path) -> None:
    speechless = task(calls(noting(ledger, "x")))  # its model has no second line
    parent = await agency.create_thread(
        "clerk", script(calls(speechless, task(say("no"), to="retired")), say("so be it"))
    )
    run = await parent.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "so be it")
    failed, refused = await texts(parent, "tool")
    assert "the subagent failed: ERR_" in failed
    assert "no agent 'retired'" in refused


async def test_a_parent_that_hibernates_is_woken_by_its_childs_timeout_and_by_its_report(
    install: Install, ledger: Path
) -> None:
    cluster = await install(hibernate_after=0.3)
    agency = await cluster.create_agency("patient")
    slow = task(calls(noting(ledger, "x", 30)), say("never"), timeoutMs=4_000)
    hasty = await agency.create_thread("clerk", script(calls(slow), say("too late")))
    patient = await agency.create_thread("clerk", script(calls(task(say("report", delay=4.0))), say("thanks")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    await eventually(lambda: asleep(cluster, hasty, patient))
    assert str(hasty.address) in (await cluster.status()).alarms
    run = await hasty.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "too late")
    (told,) = await texts(hasty, "tool")
    assert "Error: timeout: the subagent was stopped" in told
    (child,) = await children(agency, hasty)
    assert (await child.wait(PATIENCE)).status == "canceled"
    assert "end:x" not in ledger.read_text()
    assert (await patient.wait(PATIENCE)).data == "thanks"
    assert await texts(patient, "tool") == ["report"]


# Several clients.


async def test_two_clients_see_and_change_the_same(shared_ray: Settings, ledger: Path) -> None:
    one, two = await asyncio.gather(Cluster.join(shared_ray), Cluster.join(shared_ray))
    made = await one.create_agency("shared")
    here = await made.create_thread("careful", script(calls(charge(ledger, "7")), say("charged")))
    there = two.thread(made.id, here.id)
    pending = (await there.wait(PATIENCE)).meta.pending_tool_calls
    assert pending == (await here.wait(PATIENCE)).meta.pending_tool_calls
    decided = await asyncio.gather(here.approve(), there.approve(), return_exceptions=True)
    assert [type(end) for end in decided if not isinstance(end, ApproveResult)] == [WrongState]
    await one.close()
    run = await there.wait(PATIENCE)
    assert (run.data, await there.stored_events()) == ("charged", await here.stored_events())
    assert ledger.read_text().count("charge:7") == 1
    await two.close()
