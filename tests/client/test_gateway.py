"""The client and a real gateway, over real sockets."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from contextlib import aclosing, closing
from pathlib import Path

import pytest
from pydantic import BaseModel

from agency import ABSENT, ApproveResult, Deny, Edit, Event, EventType, ForkInfo, Limits, Message, ModelParams
from agency.api.tenancy import Budget
from agency.client import Agency, AsyncClient, Client, Thread
from agency.define.blueprint import ModelChoice
from agency.errors import (
    Forbidden,
    InvalidInput,
    KeyReused,
    NotFound,
    RunFailed,
    Unauthorized,
    VersionConflict,
    WrongState,
)
from agency.messages import Image
from agency.models.providers.entry import Provider
from tests.support.gateways import Serve, Server
from tests.support.scripted_system import calls, noted, noting, say, script, task

SLOW = 100.0
"""How long a gateway may take to be there again, on a machine that is busy with other tests."""


class Order(BaseModel):
    order: int


def until(thread: Thread, kind: EventType, after: int = 0) -> list[Event]:
    """The events of a thread up to the first of a kind."""
    got: list[Event] = []
    with closing(thread.events(after)) as events:
        for event in events:
            got.append(event)
            if event.type == kind:
                break
    return got


def test_a_thread_from_its_message_to_its_result(agency: Agency) -> None:
    thread = agency.create_thread("clerk", files={"/order.txt": "7"})
    got = []
    with closing(thread.events()) as events:
        for event in events:
            got.append(event)
            if event.type == EventType.THREAD_CREATED:
                thread.invoke(script(say("On its way.", delay=0.2, words=4)))
            if event.type == EventType.AGENT_COMPLETED:
                break
    stored = [event.seq for event in got if event.seq is not None]
    assert stored == list(range(1, len(stored) + 1))
    assert "".join(str(event.data["delta"]) for event in got if event.seq is None) == "word0 word1 word2 word3 "
    run = thread.wait(timeout=20)
    assert (run.status, run.data, run.meta.tokens_used.total) == ("completed", "On its way.", 15)
    assert thread.run().run_id == run.run_id
    state = thread.state()
    assert (state.run.status, state.state.agent_type) == ("completed", "clerk")
    assert state.state.model_extra is not None
    assert "/order.txt" in str(state.state.model_extra["files"])
    assert [event.seq for event in thread.stored_events(after=1, limit=3)] == [2, 3, 4]


def test_files_are_given_read_and_taken_away(agency: Agency) -> None:
    thread = agency.create_thread("clerk", files={"/order.txt": "7"})
    thread.put_file("/pixels.png", b"\x89PNG\0")
    thread.put_file("/ä b.txt", "ünï")
    assert {each.path: each.size for each in thread.files()} == {"/order.txt": 1, "/pixels.png": 5, "/ä b.txt": 5}
    assert (thread.read_file("/pixels.png"), thread.read_file("/ä b.txt").decode()) == (b"\x89PNG\0", "ünï")
    thread.delete_file("/order.txt")
    for gone in (thread.delete_file, thread.read_file):
        with pytest.raises(NotFound):
            gone("/order.txt")


def test_entries_of_shelves_are_written_read_listed_and_deleted(agency: Agency) -> None:
    made = agency.write_shelf("notes", "a b/ä%?#.md", "ünï", if_version=ABSENT)
    found = agency.read_shelf("notes", "a b/ä%?#.md")
    assert (found.text, found.version) == ("ünï", made.version)
    with pytest.raises(VersionConflict, match=f"its version is {made.version}"):
        agency.write_shelf("notes", made.path, b"2", if_version=ABSENT)
    with pytest.raises(VersionConflict):
        agency.delete_shelf_entry("notes", made.path, if_version="7")
    newer = agency.write_shelf("notes", made.path, b"\xff\0", if_version=found.version)
    assert agency.read_shelf("notes", made.path).content == b"\xff\0"
    for n in range(3):
        agency.write_shelf("notes", f"more/{n}", b"")
    assert [each.path for each in agency.shelf_entries("notes", "more/")] == ["more/0", "more/1", "more/2"]
    assert [(each.name, each.entries) for each in agency.shelves()] == [("notes", 4)]
    agency.delete_shelf_entry("notes", made.path, if_version=newer.version)
    with pytest.raises(NotFound):
        agency.read_shelf("notes", made.path)


@pytest.mark.parametrize("path", ["../a", "..", "", "/a", "a/../../../agents", "a\\b", "\ud800"])
def test_a_path_that_would_lead_elsewhere_is_not_even_sent(agency: Agency, path: str) -> None:
    for refused in (
        agency.read_shelf,
        agency.delete_shelf_entry,
        lambda shelf, path: agency.write_shelf(shelf, path, ""),
    ):
        with pytest.raises(InvalidInput, match="path"):
            refused("notes", path)
    with pytest.raises(InvalidInput, match="name of a shelf"):
        agency.read_shelf("../notes", "a")


async def test_shelves_awaited(gateway: Server) -> None:
    async with AsyncClient(gateway.url) as client:
        agency = await client.create_agency("bakery")
        made = await agency.write_shelf("notes", "a", "1")
        assert (await agency.read_shelf("notes", "a")).version == made.version
        assert [each async for each in agency.shelf_entries("notes")] == [made]
        await agency.delete_shelf_entry("notes", "a")
        assert await agency.shelves() == ()


def test_a_blueprint_names_its_tools_and_middleware(agency: Agency, tmp_path: Path) -> None:
    made = agency.put_blueprint("scribe", prompt="scribe", tags=[], tools=["note", "nothing"], middleware=["planning"])
    assert (made.tools, made.middleware) == (("note", "nothing"), ("planning",))
    assert any("no tool 'nothing' to name" in each for each in made.warnings)
    thread = agency.create_thread("scribe", script(say("hello")))
    assert thread.wait(timeout=20).data == "hello"
    assert {each.name for each in thread.state().state.tools} == {"note", "write_todos"}


def test_lists_give_what_something_can_be_done_with(client: Client, agency: Agency) -> None:
    for _ in range(2):
        agency.create_thread("clerk", script(say("never said", delay=60)))
    listed = agency.threads()
    assert [thread.summary.agent_type for thread in listed] == ["clerk", "clerk"]
    for thread in listed:  # the list can be read again
        thread.cancel()
    assert {thread.wait(timeout=20).status for thread in listed.all()} == {"canceled"}
    assert repr(listed.first()).startswith(f"<Thread {agency.id}/thr_")
    assert agency.threads(status="paused").first() is None
    assert any(each.id == agency.id and each.summary.name == "bakery" for each in client.agencies())


async def test_an_agency_is_found_by_its_name_or_made(gateway: Server, client: Client) -> None:
    name = f"mill {secrets.token_hex(4)}"
    made = client.agency(name, create=True)
    assert client.agency(name, create=True).id == client.agency(made.id, create=True).id == made.id
    with pytest.raises(InvalidInput, match="the id or the name"):
        client.agency(" ", create=True)
    async with AsyncClient(gateway.url) as other:
        assert (await other.agency(f" {name} ", create=True)).id == made.id  # names are kept without blanks around them
        made.rename("another")
        assert (await other.agency(name, create=True)).id != made.id


def test_results_are_instances(agency: Agency) -> None:
    thread = agency.create_thread("clerk", script(say('{"order": 7}')), output_schema=Order)
    assert thread.wait(20, output=Order) == Order(order=7)
    thread.invoke(script(say("just words")))
    with pytest.raises(RunFailed, match="the result is no Order"):
        thread.wait(20, output=Order)


async def test_the_same_awaited(gateway: Server) -> None:
    async with AsyncClient(gateway.url) as client:
        assert await client.ready()
        agency = await client.create_agency("bakery")
        assert agency.id in [each.id async for each in client.agencies()]
        thread = await agency.create_thread("clerk", script(say("On its way.", words=2)))
        got = []
        async with aclosing(thread.events()) as events:
            async for event in events:
                got.append(event)
                if event.type == EventType.AGENT_COMPLETED:
                    break
        assert got[-1].data["result"] == "On its way."
        assert (await thread.wait(timeout=20)).status == "completed"
        assert [each.id async for each in agency.threads()] == [thread.id]
        await thread.delete()
        with pytest.raises(NotFound):
            await thread.info()


def test_a_fork_is_a_thread_like_any_other(agency: Agency) -> None:
    thread = agency.create_thread("clerk", script(say("first")))
    thread.wait(timeout=20)
    fork = thread.fork(script(say("second")), after_seq=1)
    assert fork.wait(timeout=20).data == "second"
    assert fork.info().forked_from == ForkInfo(thread_id=thread.id, seq=1)
    (asked,) = (message.id for message in fork.state().state.messages if message.role == "user")
    again = fork.fork(script(say("third")), before_message=asked)
    assert again.wait(timeout=20).data == "third"
    assert [message.role for message in again.state().state.messages] == ["user", "assistant"]
    with pytest.raises(InvalidInput, match="no message"):
        fork.fork(before_message="m7.7")


async def test_the_same_fork_awaited(gateway: Server) -> None:
    async with AsyncClient(gateway.url) as client:
        agency = await client.create_agency("bakery")
        thread = await agency.create_thread("clerk", script(say("first")))
        await thread.wait(timeout=20)
        fork = await thread.fork(script(say("second")))
        assert (await fork.wait(timeout=20)).data == "second"
        assert len((await fork.state()).state.messages) == 4


def test_what_real_models_need_of_an_agency(agency: Agency) -> None:
    assert agency.set_budget(tokens=1_000, cost_usd=2.5).budget == Budget(tokens=1_000, cost_usd=2.5)
    assert agency.info().budget == agency.usage().budget == Budget(tokens=1_000, cost_usd=2.5)
    assert agency.set_budget().budget == Budget()
    entry = Provider(api="openai", base_url="http://127.0.0.1:9/v1", key="env:AGENCY_KEY_MINE")
    assert agency.put_provider("mine", entry).entry == entry
    assert {each.name: each.entry for each in agency.providers()}["mine"] == entry
    chain = ("mine:m", ModelChoice(model="script:any"))
    put = agency.put_blueprint(
        "clerk", model=chain, params=ModelParams(max_tokens=9), output_schema=Order.model_json_schema()
    )
    assert (put.model, put.params.max_tokens, put.output_schema) == (chain, 9, Order.model_json_schema())
    agency.delete_provider("mine")
    with pytest.raises(NotFound):
        agency.delete_provider("mine")
    with pytest.raises(InvalidInput, match="AGENCY_KEY_"):
        agency.put_provider("mine", Provider(api="openai", key="env:OPENAI_API_KEY"))


def test_a_result_that_must_fit_images_and_a_limit_of_cost(agency: Agency) -> None:
    image = Image(media_type="image/png", data="iVBORw0KGgo=")
    sent = Message(role="user", content=script(say('{"order": 7}')), images=(image,))
    thread = agency.create_thread("broker", sent, output_schema=Order, limits=Limits(cost_usd=1.0))
    assert thread.wait(timeout=20).data == {"order": 7}
    assert thread.state().state.messages[0].images == (image,)
    thread.invoke(script(say("8")), output_schema={"type": "integer"}, limits=Limits(cost_usd=0.001))
    run = thread.wait(timeout=20)
    assert (run.data, run.meta.cost_usd, run.meta.model) == (8, 0.015, "priced:any")
    lines = script(calls(("nothing", {})), say("9"))
    thread.invoke(lines, limits=Limits(cost_usd=0.001))
    assert thread.wait(timeout=20).errors[0].code == "ERR_COST_LIMIT"
    thread.lift_limits(cost_usd=1.0)
    assert thread.wait(timeout=20).data == "9"


async def test_usage_and_providers_awaited(gateway: Server) -> None:
    async with AsyncClient(gateway.url) as client:
        agency = await client.create_agency("bakery")
        assert (await agency.set_budget(turns=5)).budget.turns == 5
        assert (await agency.usage()).threads == 0
        await agency.put_provider("mine", Provider(api="anthropic", base_url="http://127.0.0.1:9"))
        assert "mine" in [each.name async for each in agency.providers()]
        await agency.delete_provider("mine")


def test_a_message_with_a_key_is_taken_once(agency: Agency) -> None:
    thread = agency.create_thread("clerk", idempotency_key="the one")
    assert agency.create_thread("clerk", idempotency_key="the one").id == thread.id
    first = thread.invoke(script(say("one")), idempotency_key="order-8")
    thread.wait(timeout=20)
    assert thread.invoke(script(say("one")), idempotency_key="order-8") == first
    with pytest.raises(KeyReused):
        thread.invoke(script(say("two")), idempotency_key="order-8")
    assert thread.wait(timeout=20).data == "one"


def test_a_run_goes_on_without_a_message_with_an_imported_conversation_and_a_call_is_whole(
    agency: Agency, ledger: Path
) -> None:
    long = "x" * 3_000
    thread = agency.create_thread("clerk", script(calls(("note", {"ledger": str(ledger), "what": long})), say("one")))
    assert thread.wait(timeout=20).data == "one"
    said = thread.state().state.messages
    (call,) = said[1].tool_calls
    assert (thread.tool_call(call.id).args, thread.tool_call(call.id, seq=10_000).status) == (call.args, "success")
    with pytest.raises(NotFound):
        thread.tool_call("no/such call?")
    other = agency.create_thread("clerk", said)
    assert [m.content for m in other.state().state.messages][: len(said)] == [m.content for m in said]
    other.wait(timeout=20)
    assert other.invoke().run_id == f"{other.id}.2"
    assert thread.state().run.status == "completed"


def test_calls_are_approved_edited_and_denied(agency: Agency, ledger: Path) -> None:
    charge = ("charge", {"ledger": str(ledger), "what": "seven"})
    thread = agency.create_thread("careful", script(calls(charge), say("done")))
    (pending,) = thread.wait(timeout=20).meta.pending_tool_calls
    (approval,) = agency.approvals()
    assert (approval.thread_id, approval.calls[0].id, pending.name) == (thread.id, pending.id, "charge")
    thread.decide({pending.id: Edit({"ledger": str(ledger), "what": "five"})})
    assert thread.wait(timeout=20).data == "done"
    assert ledger.read_text().startswith("charge:five ")
    thread.invoke(script(calls(charge), say("done")))
    thread.wait(timeout=20)
    thread.deny("too much")
    assert thread.wait(timeout=20).status == "completed"
    thread.invoke(script(calls(charge), calls(charge), say("done")))
    thread.wait(timeout=20)
    assert thread.approve() == ApproveResult()
    (second,) = thread.wait(timeout=20).meta.pending_tool_calls
    thread.decide({second.id: Deny("enough")})
    assert thread.wait(timeout=20).status == "completed"
    assert ledger.read_text().count("charge:") == 2
    with pytest.raises(WrongState):
        thread.approve()


def test_runs_are_stopped_and_limits_lifted(agency: Agency, ledger: Path) -> None:
    thread = agency.create_thread("clerk", script(calls(noting(ledger, "long", 60)), say("never")))
    until(thread, EventType.TOOL_STARTED)
    thread.cancel()
    assert thread.wait(timeout=20).status == "canceled"
    thread.invoke(script(calls(noting(ledger, "short")), say("done")), limits=Limits(tokens=5))
    assert thread.wait(timeout=20).meta.pause_reason == "exhausted"
    thread.lift_limits(tokens=1_000)
    assert thread.wait(timeout=20).data == "done"


def test_threads_are_listed_by_what_they_do(agency: Agency, ledger: Path) -> None:
    charge = ("charge", {"ledger": str(ledger), "what": "it"})
    waiting = agency.create_thread("careful", script(calls(charge), say("done")))
    done = agency.create_thread("clerk", script(say("done")))
    for thread in (waiting, done):
        thread.wait(timeout=20)
    assert [each.id for each in agency.threads()] == [waiting.id, done.id]
    assert [each.id for each in agency.threads(newest_first=True)] == [done.id, waiting.id]
    assert [each.id for each in agency.threads(status="paused")] == [waiting.id]
    assert list(agency.threads(parent=done.id)) == []
    assert waiting.info().reason == "hitl"
    (inbox,) = agency.approvals()
    assert inbox.title == waiting.info().title
    assert inbox.request.startswith(str(inbox.title)[:10])


def test_threads_have_titles_and_are_searched_and_counted(client: Client, agency: Agency) -> None:
    rolls = agency.create_thread("clerk")
    assert rolls.info().title is None
    rolls.invoke(script(say("Ten sourdough rolls, with pleasure.")))
    rolls.wait(timeout=20)
    assert str(rolls.info().title).startswith("[{")
    hit = next(iter(agency.search("sourdough plea")))
    assert (hit.thread_id, hit.status) == (rolls.id, "completed")
    assert [part.text for part in hit.snippet if part.match] == ["sourdough", "pleasure"]
    assert rolls.rename("Rolls for Monday").title == rolls.info().title == "Rolls for Monday"
    fork = rolls.fork()
    assert {each.thread_id for each in agency.search("sourdough")} == {rolls.id, fork.id}
    assert list(client.create_agency("Another").search("sourdough")) == []
    assert str(rolls.rename(None).title).startswith("[{")
    fork.delete()
    assert [each.thread_id for each in agency.search("sourdough")] == [rolls.id]
    for wrong in ("", "-only", '"" - "'):
        with pytest.raises(InvalidInput):
            list(agency.search(wrong))
    counted = agency.statistics("day")
    assert counted.spans[-1].runs == counted.total.runs == 1
    assert [(each.agent_type, each.completed) for each in counted.agents] == [("clerk", 1)]
    with pytest.raises(InvalidInput, match="1000 hours"):
        agency.statistics("hour", since="2020-01-01T00:00:00Z")


async def test_titles_search_and_figures_awaited(gateway: Server) -> None:
    async with AsyncClient(gateway.url) as client:
        agency = await client.create_agency("Bakery")
        thread = await agency.create_thread("clerk", script(say("Pumpernickel.")))
        await thread.wait(timeout=20)
        assert [each.thread_id async for each in agency.search("pumper")] == [thread.id]
        assert (await thread.rename("Bread")).title == "Bread"
        assert (await agency.statistics("hour", agent="clerk")).total.runs == 1


def test_an_agencys_events_are_those_of_all_its_threads(agency: Agency) -> None:
    ids = {agency.create_thread("clerk", script(say("done"))).id for _ in range(2)}
    ended: set[str] = set()
    cursors = []
    with closing(agency.events()) as events:
        for event in events:
            cursors.append(event.cursor)
            ended |= {event.thread_id} if event.type == EventType.AGENT_COMPLETED else set()
            if ended == ids:
                break
    assert cursors == sorted(set(cursors))
    with closing(agency.events(after=cursors[-2])) as events:
        assert next(events).cursor == cursors[-1]


def test_agencies_blueprints_and_keys(client: Client, gateway: Server) -> None:
    agency = client.create_agency("bakery")
    assert agency.rename("the old bakery").name == client.agency(agency.id).info().name == "the old bakery"
    made = agency.put_blueprint("baker", description="Bakes.", prompt="You bake.", tags=["default"])
    assert (made.source, agency.put_blueprint("baker", prompt="You bake bread.").description) == ("agency", "Bakes.")
    assert (made.warnings, made.model) == ((), None)
    odd = agency.put_blueprint("baker", tags=["default", "ovens"], model="other")
    assert ("ovens" in odd.warnings[0], odd.model) == (True, "other")
    assert {"baker", "clerk"} <= {each.name for each in agency.blueprints()}
    agency.delete_blueprint("baker")
    with pytest.raises(NotFound):
        agency.delete_blueprint("baker")
    with pytest.raises(InvalidInput):
        agency.put_blueprint("baker", prompt="")
    key = agency.create_key("the shop", "viewer")
    (known,) = agency.keys()
    assert (known.id, known.role) == (key.id, "viewer")
    with Client(gateway.url, secret=key.key) as holder:
        assert [each.id for each in holder.agencies()] == [agency.id]
        with pytest.raises(Forbidden):
            holder.agency(agency.id).create_thread("clerk")
        agency.revoke_key(key.id)
        with pytest.raises(Unauthorized):
            holder.agency(agency.id).info()
    agency.delete()
    with pytest.raises(NotFound):
        agency.info()


def test_schedules_are_made_changed_run_and_deleted(agency: Agency) -> None:
    made = agency.create_schedule(
        name="rolls", agent_type="clerk", message=script(say("done")), kind="cron", cron="0 6 * * *", overlap="allow"
    )
    assert list(agency.schedules()) == [agency.schedule(made.id)] == [made]
    assert agency.pause_schedule(made.id).status == "paused"
    assert agency.resume_schedule(made.id).next_at == made.next_at
    changed = agency.change_schedule(made.id, kind="interval", every_ms=86_400_000)
    assert (changed.every_ms, changed.cron) == (86_400_000, None)
    first = agency.run_schedule(made.id, idempotency_key="once")
    assert agency.run_schedule(made.id, idempotency_key="once").id == first.id
    assert first.thread_id is not None
    assert agency.thread(first.thread_id).wait(timeout=20).data == "done"
    (run,) = agency.schedule_runs(made.id)
    assert (run.id, run.status, run.by) == (first.id, "completed", "person")
    agency.delete_schedule(made.id)
    with pytest.raises(NotFound):
        agency.schedule(made.id)
    with pytest.raises(InvalidInput, match="five fields"):
        agency.create_schedule(name="n", agent_type="clerk", message="m", kind="cron", cron="now")


@pytest.mark.kills
def test_whoever_follows_does_not_notice_that_the_gateway_was_killed(serve: Serve, ledger: Path) -> None:
    server = serve()
    with Client(server.url, patience=SLOW) as client:
        agency = client.create_agency("bakery")
        work = [calls(noting(ledger, f"{i}", 0.2)) for i in range(12)]
        thread = agency.create_thread("clerk", script(*work, say("done", delay=0.2, words=5)))
        got: list[Event] = []
        with closing(thread.events(patience=SLOW)) as events:
            for event in events:
                got.append(event)
                if len(got) == 10:
                    server.kill()
                    restarting = threading.Thread(target=server.restart)
                    restarting.start()
                    assert not client.ready()
                if event.type == EventType.AGENT_COMPLETED:
                    break
        restarting.join()
        stored = [event.seq for event in got if event.seq is not None]
        assert stored == list(range(1, len(stored) + 1))
        assert got[-1].data["result"] == "done"


@pytest.mark.kills
def test_a_request_outlasts_a_restart_of_the_gateway(serve: Serve) -> None:
    server = serve()
    with Client(server.url, patience=SLOW) as client:
        thread = client.create_agency("bakery").create_thread("clerk")
        server.kill()
        restarting = threading.Thread(target=server.restart)
        restarting.start()
        thread.invoke(script(say("done")))
        restarting.join()
        assert thread.wait(timeout=20).data == "done"
        assert [event.type for event in thread.stored_events()].count(EventType.REQUEST_ACCEPTED) == 1


def test_the_client_needs_neither_ray_nor_a_server(tmp_path: Path) -> None:
    program = "import sys, agency; print('httpx' in sys.modules); import agency.client; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert done[0] == "False"
    loaded = {name.partition(".")[0] for name in done[1].split()}
    assert not {"ray", "fastapi", "starlette", "uvicorn", "actors", "dashboard", "middleware"} & loaded


def test_a_run_has_options_of_its_own(agency: Agency, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    lines = script(calls(noting(ledger, "own"), task(calls(noting(ledger, "child")), say("tried"))), say("done"))
    thread = agency.create_thread(
        "clerk", lines, model="priced:large", tools={"deny": ["note"]}, options={"tone": {"word": "kind"}}
    )
    run = thread.wait(timeout=20)
    assert (run.status, run.meta.model, noted(ledger)) == ("completed", "priced:large", [])
    assert run.meta.options is not None and run.meta.options.options == {"tone": {"word": "kind"}}
    assert (thread.state().state.model_extra or {})["tone"] == "kind"
    (child,) = agency.threads(parent=thread.id)
    told = agency.thread(child.id)
    assert (told.state().state.model_extra or {})["tone"] == "kind"
    assert told.run().meta.model == "script:any"
    thread.invoke(script(say("again")))
    run = thread.wait(timeout=20)
    assert (run.data, run.meta.model, run.meta.options) == ("again", "script:any", None)
    fork = thread.fork(script(say("forked")), model="priced:any", params=ModelParams(max_tokens=9))
    run = fork.wait(timeout=20)
    assert (run.data, run.meta.model) == ("forked", "priced:any")
    known = {each.id for each in agency.threads()}
    with pytest.raises(InvalidInput, match="no tool 'nte'"):
        thread.invoke(script(say("no")), tools={"allow": ["nte"]})
    with pytest.raises(InvalidInput, match="no provider named 'nobody'"):
        agency.create_thread("clerk", script(say("no")), model="nobody:any")
    with pytest.raises(InvalidInput, match="give a message"):
        agency.create_thread("clerk", model="priced:any")
    assert {each.id for each in agency.threads()} == known


def test_a_schedule_gives_its_threads_options(agency: Agency) -> None:
    made = agency.create_schedule(
        name="nightly",
        agent_type="clerk",
        message=script(say("by night")),
        kind="interval",
        every_ms=3_600_000,
        model="priced:any",
        params=ModelParams(max_tokens=9),
        tools={"deny": ["note"]},
        options={"tone": {"word": "low"}},
    )
    assert (made.model, made.params, made.options) == (
        "priced:any",
        ModelParams(max_tokens=9),
        {"tone": {"word": "low"}},
    )
    ran = agency.run_schedule(made.id)
    assert ran.thread_id is not None
    run = agency.thread(ran.thread_id).wait(timeout=20)
    assert (run.data, run.meta.model) == ("by night", "priced:any")
    assert run.meta.options is not None and run.meta.options.params == ModelParams(max_tokens=9)
    assert agency.change_schedule(made.id, model=None).model is None
    with pytest.raises(InvalidInput, match="takes options"):
        agency.change_schedule(made.id, options={"tune": {}})


def test_a_failed_run_is_tried_again_and_what_the_agent_keeps_is_edited(agency: Agency, ledger: Path) -> None:
    thread = agency.create_thread("clerk", script(calls(noting(ledger, "one"))))  # there is no second line
    assert thread.wait(timeout=20).status == "error"
    accepted = thread.retry(idempotency_key="again")
    assert (accepted.run_id, thread.retry(idempotency_key="again")) == (f"{thread.id}.2", accepted)
    run = thread.wait(timeout=20)
    assert (run.status, run.meta.retry_of) == ("error", f"{thread.id}.1")
    assert len(noted(ledger)) == len(set(noted(ledger))), "what was done is not done again"
    seq = thread.info().seq
    thread.edit_state({"files": {"/a.md": "new"}}, seq=seq)
    assert thread.read_file("/a.md") == b"new"
    with pytest.raises(WrongState, match="has changed since"):
        thread.edit_state({"files": {"/a.md": "newer"}}, seq=seq)
    edited = [event.data for event in thread.stored_events(seq) if event.type == EventType.STATE_EDITED]
    assert [(each["part"], each["paths"]) for each in edited] == [("files", ["/a.md"])]


async def test_the_same_retry_awaited(gateway: Server) -> None:
    async with AsyncClient(gateway.url) as client:
        agency = await client.create_agency("The awaited bakery")
        thread = await agency.create_thread("clerk", script())
        assert (await thread.wait(timeout=20)).status == "error"
        assert (await thread.retry(limits=Limits(turns=1))).status == "running"
        await thread.wait(timeout=20)
        await thread.edit_state({"todos": []})


def test_a_draft_is_resolved_and_not_stored(agency: Agency) -> None:
    names = [each.name for each in agency.blueprints()]
    found = agency.resolve_blueprint("draft", tags=["default", "hitl", "nothing"])
    assert found.problem is None
    assert {"write_todos": "planning", "ls": "filesystem"}.items() <= {
        each.name: each.middleware for each in found.tools
    }.items()
    (hitl,) = [each for each in found.middleware if each.name == "hitl"]
    assert (hitl.tags, hitl.configured) == (("hitl",), False)
    assert any("nothing" in each for each in found.warnings)
    assert {each.tag for each in found.known_tags} >= {"default", "hitl"}
    wrong = agency.resolve_blueprint("draft", config={"hitl": {"oven": 1}}, tags=["hitl"])
    assert "oven" in str(wrong.problem)
    assert "nowhere" in str(agency.resolve_blueprint("draft", model="nowhere:big").problem)
    assert [each.name for each in agency.blueprints()] == names
