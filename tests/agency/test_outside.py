"""Calls that wait for the outside: a token settles each once, or its time is over, or its run is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Deferred,
    EventType,
    InvalidInput,
    LocalRuntime,
    ModelRequest,
    NotFound,
    OutsideWait,
    Thread,
    ToolContext,
    ToolError,
    tool,
)
from agency.testing import Line, ScriptedModel, call
from tests.support.waiting import eventually

PATIENCE = 10.0
HOUR = 3_600_000


class Bank:
    """An agent whose tool waits for a payment; the bank knows the tokens."""

    def __init__(self, folder: Path, calls: int = 1) -> None:
        self.folder = folder
        self.calls = calls
        self.tokens: list[str] = []
        self.timeout_ms = HOUR
        self.about = "the payment"
        self.then: Callable[[ToolContext, OutsideWait], Awaitable[object]] | None = None
        self.mode = "tools"

    def system(self) -> AgentSystem:
        @tool
        async def charge(ctx: ToolContext) -> object:
            """Charge the customer."""
            wait = await ctx.wait_outside(self.about, timeout_ms=self.timeout_ms)
            self.tokens.append(wait.token)
            return wait if self.then is None else await self.then(ctx, wait)

        def line(request: ModelRequest) -> Line:
            last = request.messages[-1]
            if last.role != "user":
                return last.content
            if last.content == "leave it":
                return "left"
            return [call("charge", call_id=f"c{n}") for n in range(self.calls)]

        system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(line)}).add_tool(charge)
        return system.add_agent(name="clerk", description="d", prompt="You are a clerk.")

    def open(self) -> LocalRuntime:
        return LocalRuntime(self.system(), self.folder)

    async def waiting(self, runtime: LocalRuntime) -> Thread:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("charge it")
        await eventually(lambda: thread.run_state().reason == "outside")
        return thread


async def data_of(thread: Thread, kind: EventType) -> list[Mapping[str, Any]]:
    return [event.data async for event in thread.events(follow=False) if event.type is kind]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


async def test_a_call_waits_until_its_token_is_settled(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        run = thread.run()
        assert (run.status, run.meta.pause_reason, run.meta.activity.kind) == ("paused", "outside", "waiting")
        (waiting,) = run.meta.waiting_calls
        assert (waiting.id, waiting.name, waiting.waits_for) == ("c0", "charge", "the payment")
        assert thread.idle and thread.wake_at is not None
        settled = await thread.settle(bank.tokens[0], {"paid": 5})
        assert (settled.settled, settled.status, settled.call_id) == (True, "settled", "c0")
        run = await thread.wait(PATIENCE)
        assert run.data == '{"paid":5}' and not run.meta.waiting_calls
        await eventually(lambda: thread.wake_at is None)
        (told,) = await data_of(thread, EventType.TOOL_WAITING)
        assert told["waitsFor"] == "the payment" and told["callId"] == "c0" and told["deadline"] == waiting.deadline


async def test_a_second_settling_says_so_and_changes_nothing(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        await thread.settle(bank.tokens[0], "first")
        again = await thread.settle(bank.tokens[0], "second")
        assert (again.settled, again.status) == (False, "settled")
        assert (await thread.wait(PATIENCE)).data == "first"
        before = [event async for event in thread.events(follow=False)]
        assert not (await thread.settle(bank.tokens[0], error="third")).settled
        assert before == [event async for event in thread.events(follow=False)]


async def test_an_error_from_outside_fails_the_call(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        await thread.settle(bank.tokens[0], error="the card was refused")
        assert "the card was refused" in str((await thread.wait(PATIENCE)).data)
        (failed,) = await data_of(thread, EventType.TOOL_ERROR)
        assert failed["kind"] == "external"


async def test_after_its_time_a_call_fails_as_timed_out(bank: Bank) -> None:
    bank.timeout_ms = 50
    async with bank.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("charge it")
        assert "the payment" in str((await thread.wait(PATIENCE)).data)
        (failed,) = await data_of(thread, EventType.TOOL_ERROR)
        assert failed["kind"] == "timeout"
        late = await thread.settle(bank.tokens[0], "late")
        assert (late.settled, late.status) == (False, "timed_out")


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_a_token_of_a_run_that_was_stopped_settles_nothing(how: str, bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        if how == "cancel":
            await thread.cancel()
        else:
            await thread.invoke("leave it", when="now")
            assert (await thread.wait(PATIENCE)).data == "left"
        late = await thread.settle(bank.tokens[0], "late")
        assert (late.settled, late.status) == (False, "canceled") and thread.wake_at is None
        (failed,) = await data_of(thread, EventType.TOOL_ERROR)
        assert failed["kind"] == "canceled"


async def test_the_wait_is_there_when_the_thread_is_opened_again(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread_id = (await bank.waiting(runtime)).id
    async with bank.open() as runtime:
        thread = await runtime.thread(thread_id)
        assert thread.run().meta.pause_reason == "outside" and len(bank.tokens) == 1
        await thread.settle(bank.tokens[0], "paid")
        assert (await thread.wait(PATIENCE)).data == "paid"


async def test_a_deadline_that_passes_while_the_thread_sleeps_ends_the_wait_when_it_wakes(bank: Bank) -> None:
    bank.timeout_ms = 400
    async with bank.open() as runtime:
        await bank.waiting(runtime)
    await asyncio.sleep(0.5)
    async with bank.open() as runtime:
        (thread_id,) = runtime.thread_ids()
        thread = await runtime.thread(thread_id)
        assert "did not come within 0.4 s" in str((await thread.wait(PATIENCE)).data)


async def test_what_settles_a_token_while_its_tool_still_runs_is_the_result(bank: Bank) -> None:
    settled: list[bool] = []

    async def quick(ctx: ToolContext, wait: OutsideWait) -> object:
        settled.append((await threads[0].settle(wait.token, "at once")).settled)
        return wait

    bank.then, threads = quick, list[Thread]()
    async with bank.open() as runtime:
        threads.append(await runtime.create_thread("clerk"))
        await threads[0].invoke("charge it")
        assert (await threads[0].wait(PATIENCE)).data == "at once" and settled == [True]
        assert not await data_of(threads[0], EventType.TOOL_WAITING)


async def test_a_tool_that_does_not_wait_after_all_leaves_no_token_behind(bank: Bank) -> None:
    async def change_of_mind(ctx: ToolContext, wait: OutsideWait) -> object:
        raise ToolError("the bank is closed")

    bank.then = change_of_mind
    async with bank.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("charge it")
        assert "the bank is closed" in str((await thread.wait(PATIENCE)).data)
        assert (await thread.settle(bank.tokens[0], "late")).status == "canceled" and thread.wake_at is None


async def test_several_calls_wait_side_by_side_and_each_has_its_own_token(tmp_path: Path) -> None:
    bank = Bank(tmp_path, calls=3)
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        await eventually(lambda: len(thread.run().meta.waiting_calls) == 3)
        for token in reversed(bank.tokens):
            assert thread.run_state().reason == "outside"
            await thread.settle(token, "paid")
        assert (await thread.wait(PATIENCE)).status == "completed"
        assert len(await data_of(thread, EventType.TOOL_OUTPUT)) == 3


async def test_one_call_may_hand_out_several_tokens_and_the_first_settles_it(bank: Bank) -> None:
    async def two(ctx: ToolContext, wait: OutsideWait) -> object:
        second = await ctx.wait_outside("a second bank", timeout_ms=HOUR)
        bank.tokens.append(second.token)
        return second

    bank.then = two
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        assert (await thread.settle(bank.tokens[0], "paid")).settled
        assert (await thread.settle(bank.tokens[1], "late")).status == "canceled"
        assert (await thread.wait(PATIENCE)).data == "paid"


async def test_a_message_joins_after_the_wait(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        await thread.invoke("leave it")
        assert thread.run_state().reason == "outside"
        await thread.settle(bank.tokens[0], "paid")
        assert (await thread.wait(PATIENCE)).data == "left"


# Tokens.


async def test_a_token_is_in_no_event_message_or_file(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        secret = bank.tokens[0].rpartition(".")[2]
        shown = [event.model_dump_json() async for event in thread.events(follow=False)]
        assert not any(secret in each for each in [*shown, (await thread.state()).model_dump_json()])
        assert secret not in repr(OutsideWait(bank.tokens[0], "x", 1)) + str(OutsideWait(bank.tokens[0], "x", 1))
        assert len(secret) >= 43
    for file in bank.folder.rglob("*.db*"):
        assert secret.encode() not in file.read_bytes()


async def test_a_fork_does_not_share_tokens(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        fork = await runtime.fork(thread.id)
        assert fork.run().status == "canceled" and fork.wake_at is None
        with pytest.raises(NotFound):
            await fork.settle(bank.tokens[0], "paid")
        with pytest.raises(NotFound):
            await fork.settle(bank.tokens[0].replace(thread.id, fork.id), "paid")
        assert (await thread.settle(bank.tokens[0], "paid")).settled


@pytest.mark.parametrize("token", ["", "nonsense", "local.thr.", "a.b.c.d"])
async def test_what_is_no_token_is_refused(token: str, bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        with pytest.raises(InvalidInput):
            await thread.settle(token, "paid")
        with pytest.raises(NotFound):
            await thread.settle(f"local.{thread.id}.guess", "paid")
        with pytest.raises(InvalidInput):
            await thread.settle(bank.tokens[0], "paid", error="both")
        assert thread.run_state().reason == "outside"


@pytest.mark.parametrize(("about", "timeout_ms"), [("", 5), ("x" * 501, 5), ("x", 0), ("x", 10**12), ("x", 5.5)])
async def test_a_wait_says_for_what_and_for_how_long(about: str, timeout_ms: Any, bank: Bank) -> None:
    bank.about, bank.timeout_ms = about, timeout_ms
    async with bank.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("charge it")
        assert "InvalidInput" in str((await thread.wait(PATIENCE)).data) and not bank.tokens


async def test_a_wait_that_was_made_up_is_refused(bank: Bank) -> None:
    async def made_up(ctx: ToolContext, wait: OutsideWait) -> object:
        ctx.deferred.clear()
        return Deferred(waits_for="outside")

    bank.then = made_up
    async with bank.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("charge it")
        assert "no method of the context" in str((await thread.wait(PATIENCE)).data)


async def test_a_sync_tool_waits_too(tmp_path: Path) -> None:
    tokens: list[str] = []

    @tool
    def charge(ctx: ToolContext) -> object:
        """Charge the customer."""
        wait = asyncio.run(ctx.wait_outside("the payment", timeout_ms=HOUR))
        tokens.append(wait.token)
        return wait

    model = ScriptedModel(lambda r: r.messages[-1].content if r.messages[-1].role == "tool" else call("charge"))
    system = AgentSystem("scripted:any", providers={"scripted": model}).add_tool(charge)
    system.add_agent(name="clerk", description="d", prompt="p")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await eventually(lambda: thread.run_state().reason == "outside")
        await thread.settle(tokens[0], None)
        assert (await thread.wait(PATIENCE)).data == ""


async def test_only_the_digest_is_stored(bank: Bank) -> None:
    async with bank.open() as runtime:
        thread = await bank.waiting(runtime)
        with sqlite3.connect(bank.folder / f"{thread.id}.db") as db:
            ((digest,),) = db.execute("SELECT digest FROM tokens").fetchall()
    assert len(digest) == 64 and digest not in bank.tokens[0]
