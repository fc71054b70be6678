"""Messages join a run at its next step, wait for the next run, or interrupt it; people pause runs and let them go on.

Whatever is steered, no call is left without a result, what has ended keeps its result, and nothing runs twice.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import JsonValue

from agency import (
    AgentSystem,
    Approve,
    CallTool,
    CodeResult,
    Deny,
    Event,
    EventType,
    Finish,
    InvalidInput,
    Limits,
    LocalRuntime,
    Middleware,
    ModelError,
    ModelRequest,
    RetryPolicy,
    Thread,
    ToolCall,
    ToolContext,
    ToolError,
    WrongState,
    tool,
)
from agency.testing import Line, ScriptedModel, call, die_at_commit
from middleware import hitl, subagents
from tests.support.crashes import in_a_process
from tests.support.thread_files import limits_of_last_run, query, table
from tests.support.waiting import eventually

PATIENCE = 10.0
INTERRUPTED = "Canceled: a new message came first."
Script = Callable[[ModelRequest], Line | Awaitable[Line]]


class Desk:
    """One thread whose tools and models can be held up. `ran` is what has begun, `done` what has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.done: list[str] = []
        self.begun: dict[str, asyncio.Event] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.model = ScriptedModel([])

    def gate(self, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        """When something begins, and what lets it end."""
        return self.begun.setdefault(name, asyncio.Event()), self.gates.setdefault(name, asyncio.Event())

    async def pass_gate(self, name: str) -> None:
        self.ran.append(name)
        if name in self.gates:
            self.begun[name].set()
            await self.gates[name].wait()
        self.done.append(name)

    def runtime(self, script: Script | list[Line], **config: Any) -> LocalRuntime:
        @tool
        async def work(what: str) -> str:
            await self.pass_gate(what)
            return f"did {what}"

        @tool(safe=True)
        async def look(what: str) -> str:
            await self.pass_gate(what)
            return f"saw {what}"

        @tool(idempotent=False)
        async def charge(what: str) -> str:
            await self.pass_gate(what)
            return f"charged {what}"

        @tool(retry=RetryPolicy(attempts=3))
        async def flaky(ctx: ToolContext) -> str:
            self.ran.append(f"flaky {ctx.attempt}")
            raise ToolError("not yet", retry_after_ms=60_000 if ctx.attempt == 1 else 1)

        @tool
        async def end(what: str) -> Finish:
            await self.pass_gate(what)
            return Finish(value=what)

        self.model = ScriptedModel(script)
        system = AgentSystem("scripted:any", providers={"scripted": self.model})
        system.use(hitl, tags=["default"]).use(subagents, tags=["family"])
        for middleware in config.pop("middleware", ()):
            system.use(middleware, tags=["default"])
        for each in (work, look, charge, flaky, end):
            system.add_tool(each)
        guarded = {"hitl": {"tools": config.pop("guarded", [])}}
        system.add_agent(name="clerk", description="", prompt="clerk", config=guarded, **config)
        system.add_agent(name="worker", description="", prompt="worker")
        return LocalRuntime(system, self.folder)

    @asynccontextmanager
    async def open(self, script: Script | list[Line], **config: Any) -> AsyncIterator[Thread]:
        async with self.runtime(script, **config) as runtime, asyncio.timeout(3 * PATIENCE):
            known = "clerk" in runtime.thread_ids()
            yield await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def work(what: str) -> ToolCall:
    return call("work", what=what, call_id=what)


def look(what: str) -> ToolCall:
    return call("look", what=what, call_id=what)


async def ended(thread: Thread) -> Any:
    run = await thread.wait(PATIENCE)
    assert run.status == "completed", run
    return run.data


async def messages(thread: Thread) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in (await thread.state()).messages]


async def results(thread: Thread) -> dict[str | None, str]:
    """The result of each call, checked to be one each, right behind the calls."""
    found: dict[str | None, str] = {}
    due: list[str] = []
    for message in (await thread.state()).messages:
        if message.role == "tool":
            assert message.tool_call_id == due.pop(0)
            found[message.tool_call_id] = message.content
        else:
            assert due == []
            due = [each.id for each in message.tool_calls]
    assert due == []
    return found


async def events(thread: Thread, *types: EventType) -> list[Event]:
    return [event async for event in thread.events(follow=False) if event.type in types]


async def until(thread: Thread, wanted: EventType, **data: Any) -> Event:
    async with asyncio.timeout(PATIENCE):
        async for event in thread.events():
            if event.type == wanted and data.items() <= event.data.items():
                return event
    raise AssertionError("the thread closed")


def last_of(request: ModelRequest) -> str:
    return request.messages[-1].content


# For the next run.


async def test_a_message_for_the_next_run_waits_until_this_one_has_ended_and_starts_it(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    async with desk.open([work("a"), "first", "second"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        accepted = await thread.invoke("afterwards", when="next_run")
        assert (accepted.status, accepted.run_id) == ("queued", "clerk.2")
        go_on.set()
        assert await ended(thread) == "second"
        assert thread.run().run_id == "clerk.2"
        said = [content for _, content in await messages(thread)]
        assert said == ["go", "", "did a", "first", "afterwards", "second"]
        assert [e.data["result"] for e in await events(thread, EventType.AGENT_COMPLETED)] == ["first", "second"]


async def test_without_a_run_it_starts_one_at_once(desk: Desk) -> None:
    async with desk.open(["first"]) as thread:
        accepted = await thread.invoke("go", when="next_run")
        assert (accepted.status, accepted.run_id) == ("running", "clerk.1")
        assert await ended(thread) == "first"


async def test_several_messages_for_the_next_run_start_one_run_in_their_order(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    async with desk.open([work("a"), "first", "second"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        for text in ("one", "two"):
            assert (await thread.invoke(text, when="next_run")).run_id == "clerk.2"
        await thread.invoke("now, please")  # joins this one
        go_on.set()
        assert await ended(thread) == "second"
        said = [content for _, content in await messages(thread)]
        assert said == ["go", "", "did a", "now, please", "first", "one", "two", "second"]
        assert thread.run().run_id == "clerk.2"


async def test_limits_and_output_schema_hold_for_the_run_that_the_message_starts_and_no_other(desk: Desk) -> None:
    schema: Any = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    begun, go_on = desk.gate("a")
    async with desk.open([work("a"), "first", '{"n": 7}', "third"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("as JSON", when="next_run", output_schema=schema, limits=Limits(turns=5))
        go_on.set()
        assert await ended(thread) == {"n": 7}
        assert limits_of_last_run(desk.folder / f"{thread.id}.db").turns == 5
        await thread.invoke("plain")
        assert await ended(thread) == "third"
        assert limits_of_last_run(desk.folder / f"{thread.id}.db").turns != 5


async def test_a_message_for_the_next_run_with_a_key_is_queued_once(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    async with desk.open([work("a"), "first", "second"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        first = await thread.invoke("later", when="next_run", idempotency_key="k")
        assert await thread.invoke("later", when="next_run", idempotency_key="k") == first
        go_on.set()
        assert await ended(thread) == "second"
        assert await thread.invoke("later", when="next_run", idempotency_key="k") == first
        assert [content for _, content in await messages(thread)].count("later") == 1


async def test_what_was_queued_is_there_after_a_closing_and_still_waits_for_the_end_of_the_run(desk: Desk) -> None:
    begun, _ = desk.gate("a")
    async with desk.open([work("a")]) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("later", when="next_run", limits=Limits(turns=3))
    desk.gates.clear()
    async with desk.open([work("a"), "first", "second"]) as thread:
        assert await ended(thread) == "second"
        assert limits_of_last_run(desk.folder / f"{thread.id}.db").turns == 3
        assert [content for _, content in await messages(thread)] == ["go", "", "did a", "first", "later", "second"]


async def test_a_canceled_run_is_followed_by_the_one_that_was_queued(desk: Desk) -> None:
    begun, _ = desk.gate("a")
    async with desk.open([work("a"), "second"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("later", when="next_run")
        await thread.cancel()
        assert await ended(thread) == "second"
        assert (thread.run().run_id, await results(thread)) == ("clerk.2", {"a": "Canceled: the run was canceled."})


async def test_a_run_that_failed_is_followed_by_the_one_that_was_queued(desk: Desk) -> None:
    asked, answer = desk.gate("model")

    async def script(request: ModelRequest) -> Line:
        if last_of(request) == "go":
            await desk.pass_gate("model")
            return ModelError("no key", model_code="ERR_AUTH")
        return "second"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await asked.wait()
        await thread.invoke("later", when="next_run")
        answer.set()
        assert await ended(thread) == "second"
        assert len(await events(thread, EventType.AGENT_ERROR)) == 1


async def test_what_is_no_time_is_refused_and_changes_nothing(desk: Desk) -> None:
    async with desk.open(["first"]) as thread:
        with pytest.raises(InvalidInput, match="when"):
            await thread.invoke("go", when="tomorrow")  # type: ignore[arg-type]  # that is what is tested
        assert thread.run_state().status == "registered"


# Now.


async def test_a_message_that_interrupts_a_model_call_is_in_the_next_one(desk: Desk) -> None:
    asked, _ = desk.gate("model")

    async def script(request: ModelRequest) -> Line:
        if last_of(request) == "go":
            await desk.pass_gate("model")
        return f"answer to: {last_of(request)}"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await asked.wait()
        accepted = await thread.invoke("no, this", when="now")
        assert (accepted.run_id, accepted.status) == ("clerk.1", "running")
        assert await ended(thread) == "answer to: no, this"
        assert await messages(thread) == [("user", "go"), ("user", "no, this"), ("assistant", "answer to: no, this")]
        assert desk.done == []  # the first call was stopped
        (failed,) = [e for e in await events(thread, EventType.MODEL_COMPLETED) if "error" in e.data]
        error: Any = failed.data["error"]
        assert error["code"] == "ERR_INTERRUPTED"


async def test_interrupted_tools_are_stopped_and_those_that_have_ended_keep_their_results(desk: Desk) -> None:
    begun, _ = desk.gate("b")

    def script(request: ModelRequest) -> Line:
        return [work("a"), work("b"), work("c")] if last_of(request) == "go" else "fine"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("stop that", when="now")
        assert await ended(thread) == "fine"
        assert await results(thread) == {"a": "did a", "b": INTERRUPTED, "c": INTERRUPTED}
        assert (desk.ran, desk.done) == (["a", "b"], ["a"])
        read = [(m.role, m.content) for m in desk.model.requests[-1].messages]
        assert read[-1] == ("user", "stop that")
        ends = Counter(str(e.data["callId"]) for e in await events(thread, EventType.TOOL_OUTPUT, EventType.TOOL_ERROR))
        assert ends == Counter("abc")


async def test_an_interrupted_call_that_must_not_be_repeated_says_that_it_may_have_happened(desk: Desk) -> None:
    begun, _ = desk.gate("b")

    def script(request: ModelRequest) -> Line:
        charges = [call("charge", what=what, call_id=what) for what in "abc"]
        return charges if last_of(request) == "go" else "fine"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("stop that", when="now")
        assert await ended(thread) == "fine"
        found = await results(thread)
        assert (found["a"], found["c"]) == ("charged a", INTERRUPTED)
        assert "may or may not have taken effect" in found["b"]


async def test_a_message_that_interrupts_a_question_takes_its_place(desk: Desk) -> None:
    def script(request: ModelRequest) -> Line:
        return [look("a"), work("b"), work("c")] if last_of(request) == "go" else "fine"

    async with desk.open(script, guarded=["work"]) as thread:
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        await thread.decide({"b": Deny(reason="no")})
        await thread.invoke("never mind", when="now")
        assert await ended(thread) == "fine"
        found = await results(thread)
        assert found["a"] == found["c"] == INTERRUPTED
        assert found["b"].endswith("it was not run: no")  # what was decided stands
        assert (desk.ran, thread.run().meta.pending_tool_calls) == ([], ())
        with pytest.raises(WrongState):
            await thread.decide({"c": Approve()})


async def test_a_message_that_interrupts_waiting_for_a_child_calls_it_back(desk: Desk) -> None:
    asked, _ = desk.gate("child")

    async def script(request: ModelRequest) -> Line:
        if request.system.startswith("worker"):
            await desk.pass_gate("child")
            return "never"
        if last_of(request) == "go":
            return [call("task", description="it", subagentType="worker", call_id="t"), look("a")]
        return "fine"

    async with desk.open(script, tags=["default", "family"]) as thread:
        await thread.invoke("go")
        await asked.wait()
        await until(thread, EventType.RUN_PAUSED, reason="subagent")
        await thread.invoke("never mind", when="now")
        assert await ended(thread) == "fine"
        assert await results(thread) == {"t": INTERRUPTED, "a": "saw a"}
        assert [e.data["status"] for e in await events(thread, EventType.SUBAGENT_COMPLETED)] == ["canceled"]
        await thread.rest()
        assert query(desk.folder / f"{thread.id}.db", "SELECT status FROM children") == [("canceled",)]


async def test_a_message_that_interrupts_waiting_for_a_retry_does_not_wait_for_its_time(desk: Desk) -> None:
    def script(request: ModelRequest) -> Line:
        return [look("a"), call("flaky", call_id="f")] if last_of(request) == "go" else "fine"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await until(thread, EventType.TOOL_ERROR, callId="f")
        await eventually(lambda: thread.wake_at is not None, every=0)
        await thread.invoke("never mind", when="now")
        assert await ended(thread) == "fine"
        assert await results(thread) == {"a": "saw a", "f": INTERRUPTED}
        assert desk.ran == ["a", "flaky 1"]
        assert table(desk.folder / f"{thread.id}.db", "timers") == []


async def test_a_message_that_interrupts_waiting_for_the_model_asks_it_at_once(desk: Desk) -> None:
    def script(request: ModelRequest) -> Line:
        if last_of(request) == "go":
            return ModelError("busy", retryable=True, retry_after_ms=60_000)
        return "fine"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await until(thread, EventType.MODEL_COMPLETED)
        await eventually(lambda: thread.wake_at is not None, every=0)
        await thread.invoke("try again", when="now")
        assert await ended(thread) == "fine"
        assert thread.wake_at is None


async def test_interrupted_code_says_so_to_the_model(tmp_path: Path) -> None:
    begun = asyncio.Event()

    class Runner:
        async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
            begun.set()
            await asyncio.Event().wait()
            return CodeResult(output="never")

    model = ScriptedModel(lambda r: "```python\nwait()\n```" if last_of(r) == "go" else "fine")
    system = AgentSystem("scripted:any", providers={"scripted": model}, code_runner=Runner())
    system.add_agent(name="coder", description="", prompt="code", mode="code")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("enough", when="now")
        assert await ended(thread) == "fine"
        assert [m.content for m in model.requests[-1].messages[-2:]] == [f"Output:\n{INTERRUPTED}", "enough"]


async def test_two_messages_that_interrupt_at_once_both_join_and_interrupt_once(desk: Desk) -> None:
    begun, _ = desk.gate("a")
    async with desk.open(lambda r: work("a") if last_of(r) == "go" else "fine") as thread:
        await thread.invoke("go")
        await begun.wait()
        await asyncio.gather(*(thread.invoke(text, when="now") for text in ("one", "two")))
        assert await ended(thread) == "fine"
        assert [content for _, content in await messages(thread)] == ["go", "", INTERRUPTED, "one", "two", "fine"]


async def test_an_interruption_takes_along_what_waited_for_the_next_step_and_leaves_the_next_run_its_own(
    desk: Desk,
) -> None:
    begun, _ = desk.gate("a")
    async with desk.open(lambda r: work("a") if last_of(r) == "go" else f"to {last_of(r)}") as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("step")
        await thread.invoke("later", when="next_run")
        await thread.invoke("now", when="now")
        assert await ended(thread) == "to later"
        said = [content for _, content in await messages(thread)]
        assert said == ["go", "", INTERRUPTED, "step", "now", "to now", "later", "to later"]


async def test_an_interruption_and_a_cancel_at_once_end_the_run_with_the_message_in_it(desk: Desk) -> None:
    begun, _ = desk.gate("a")
    async with desk.open(lambda r: work("a") if last_of(r) == "go" else "fine") as thread:
        await thread.invoke("go")
        await begun.wait()
        await asyncio.gather(thread.invoke("now", when="now"), thread.cancel())
        run = await thread.wait(PATIENCE)
        assert run.status == "canceled"
        assert ("user", "now") in await messages(thread)
        assert list(await results(thread)) == ["a"]


async def test_a_tool_that_ends_the_run_is_not_overruled_by_an_interruption_that_comes_later(desk: Desk) -> None:
    begun, _ = desk.gate("b")
    calls = [call("end", what="a", call_id="a"), work("b")]
    async with desk.open(lambda r: calls if last_of(r) == "go" else "fine") as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.invoke("stop", when="now")
        assert await ended(thread) == "fine"
        assert [e.data["result"] for e in await events(thread, EventType.AGENT_COMPLETED)] == ["a", "fine"]
        assert await results(thread) == {"a": "a", "b": INTERRUPTED}


async def test_a_run_that_has_used_up_a_limit_hears_an_interruption_when_it_goes_on(desk: Desk) -> None:
    def script(request: ModelRequest) -> Line:
        return work("a") if last_of(request) == "go" else f"to {last_of(request)}"

    async with desk.open(script) as thread:
        await thread.invoke("go", limits=Limits(tokens=10))
        assert (await thread.wait(PATIENCE)).meta.pause_reason == "exhausted"
        await thread.invoke("hurry", when="now")
        assert thread.run_state().reason == "exhausted"
        await thread.lift_limits(tokens=1_000)
        assert await ended(thread) == "to hurry"


@pytest.mark.kills
@pytest.mark.parametrize("at", ["model", "tools", "approval"])
def test_a_message_that_interrupts_is_on_disk_before_it_does_and_does_so_after_a_death(at: str, tmp_path: Path) -> None:
    """The process dies right after it has taken the message; the next process that opens the file goes on with it."""
    desk = Desk(tmp_path)

    def script(request: ModelRequest) -> Line | Awaitable[Line]:
        async def never() -> Line:
            await desk.pass_gate("model")
            return "never"

        if last_of(request) != "go":
            return f"to {last_of(request)}"
        return never() if at == "model" else [look("a"), work("b"), work("c")]

    async def die() -> None:
        begun, _ = desk.gate("model" if at == "model" else "c")
        async with desk.open(script, guarded=["work"] if at == "approval" else []) as thread:
            await thread.invoke("go")
            if at == "approval":
                await thread.wait(PATIENCE)
            else:
                await begun.wait()

            die_at_commit(1, "after")  # the one that takes the message
            await thread.invoke("now this", when="now")

    async def go_on() -> None:
        desk.gates.clear()
        async with desk.open(script, guarded=["work"] if at == "approval" else []) as thread:
            assert await ended(thread) == "to now this"
            found = await results(thread)
            if at == "tools":
                assert found == {"a": "saw a", "b": "did b", "c": INTERRUPTED}
            elif at == "approval":
                assert found == dict.fromkeys("abc", INTERRUPTED)
            assert desk.ran == []  # nothing of the first turn is run again
            assert [content for _, content in await messages(thread)].count("now this") == 1

    assert in_a_process(lambda: asyncio.run(die())) == -signal.SIGKILL
    asyncio.run(go_on())


# Pausing.


async def test_a_run_that_is_paused_in_a_model_call_keeps_the_reply_and_begins_nothing(desk: Desk) -> None:
    asked, answer = desk.gate("model")

    async def script(request: ModelRequest) -> Line:
        if last_of(request) == "go":
            await desk.pass_gate("model")
            return work("a")
        return "done"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await asked.wait()
        await thread.pause()
        assert thread.run_state().status == "running"  # what is being done may end
        answer.set()
        paused = await thread.wait(PATIENCE)
        assert (paused.status, paused.meta.pause_reason, desk.ran) == ("paused", "manual", ["model"])
        await thread.resume()
        assert await ended(thread) == "done"
        assert desk.ran == ["model", "a"]
        told = [e.type for e in await events(thread, EventType.RUN_PAUSED, EventType.RUN_RESUMED)]
        assert told == [EventType.RUN_PAUSED, EventType.RUN_RESUMED]


async def test_a_run_that_is_paused_in_a_batch_ends_the_call_that_runs_and_begins_no_other(desk: Desk) -> None:
    begun, go_on = desk.gate("b")
    lines: list[Line] = [[work("a"), work("b"), work("c"), look("d")], "done"]
    async with desk.open(lines) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.pause()
        go_on.set()
        paused = await thread.wait(PATIENCE)
        assert (paused.status, paused.meta.pause_reason) == ("paused", "manual")
        assert (desk.ran, desk.done) == (["a", "b"], ["a", "b"])
    desk.gates.clear()
    async with desk.open(lines) as thread:
        assert (thread.run_state().reason, thread.run().status, desk.ran) == ("manual", "paused", ["a", "b"])
        await thread.resume()
        assert await ended(thread) == "done"
        assert desk.ran == ["a", "b", "c", "d"]
        assert await results(thread) == {"a": "did a", "b": "did b", "c": "did c", "d": "saw d"}


async def test_a_pause_that_ends_before_the_call_does_changes_nothing(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    async with desk.open([[work("a"), work("b")], "done"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.pause()
        await thread.resume()
        go_on.set()
        assert await ended(thread) == "done"
        assert (desk.ran, await events(thread, EventType.RUN_PAUSED)) == (["a", "b"], [])


async def test_a_crash_in_a_paused_batch_runs_nothing_that_had_ended_again(desk: Desk) -> None:
    begun, _ = desk.gate("b")
    lines: list[Line] = [[work("a"), work("b"), work("c")], "done"]
    async with desk.open(lines) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.pause()
    desk.gates.clear()
    async with desk.open(lines) as thread:
        assert (thread.run_state().reason, desk.ran) == ("manual", ["a", "b"])
        run = await thread.wait(PATIENCE)
        assert (run.status, run.meta.pause_reason) == ("paused", "manual")  # the file says so, too
        assert [e.data["reason"] for e in await events(thread, EventType.RUN_PAUSED)] == ["manual"]
        await thread.resume()
        assert await ended(thread) == "done"
        assert desk.ran == ["a", "b", "b", "c"]  # b had not ended
        assert await results(thread) == {"a": "did a", "b": "did b", "c": "did c"}


@pytest.mark.parametrize("then", ["cancel", "now"])
async def test_after_a_crash_in_a_paused_batch_finished_calls_keep_their_results_whatever_comes(
    then: str, desk: Desk
) -> None:
    begun, _ = desk.gate("b")

    def script(request: ModelRequest) -> Line:
        return [work("a"), work("b"), work("c")] if last_of(request) == "go" else "fine"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.pause()
    desk.gates.clear()
    async with desk.open(script) as thread:
        if then == "cancel":
            await thread.cancel()
            assert thread.run_state().status == "canceled"
        else:
            await thread.invoke("leave it", when="now")
            assert thread.run_state().reason == "manual"
            await thread.resume()
            assert await ended(thread) == "fine"
        rest = INTERRUPTED if then == "now" else "Canceled: the run was canceled."
        assert await results(thread) == {"a": "did a", "b": rest, "c": rest}
        assert desk.ran == ["a", "b"]


async def test_a_crash_in_a_paused_model_call_asks_the_model_again_only_when_it_goes_on(desk: Desk) -> None:
    asked, _ = desk.gate("model")

    async def script(request: ModelRequest) -> Line:
        await desk.pass_gate("model")
        return "done"

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await asked.wait()
        await thread.pause()
    desk.gates.clear()
    for _ in range(2):  # however often it is opened
        async with desk.open(script) as thread:
            run = await thread.wait(PATIENCE)
            assert (run.status, run.meta.pause_reason, desk.ran) == ("paused", "manual", ["model"])
            assert len(await events(thread, EventType.RUN_PAUSED)) == 1
    async with desk.open(script) as thread:
        await thread.resume()
        assert await ended(thread) == "done"
        assert desk.ran == ["model", "model"]


async def test_an_approval_given_in_a_pause_runs_when_the_pause_ends(desk: Desk) -> None:
    lines: list[Line] = [[look("a"), work("b")], "done"]
    async with desk.open(lines, guarded=["work"]) as thread:
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        await thread.pause()
        assert thread.run_state().reason == "hitl"  # that is what it waits for
        await thread.approve()
        assert (thread.run_state().reason, desk.ran) == ("manual", [])
        with pytest.raises(WrongState):
            await thread.approve()
    async with desk.open(lines, guarded=["work"]) as thread:
        assert thread.run_state().reason == "manual"
        await thread.resume()
        assert await ended(thread) == "done"
        assert desk.ran == ["a", "b"]


async def test_a_question_that_is_asked_in_a_pause_can_be_answered_and_its_deadline_stands(desk: Desk) -> None:
    asked, answer = desk.gate("model")

    async def script(request: ModelRequest) -> Line:
        if last_of(request) == "go":
            await desk.pass_gate("model")
            return work("a")
        return "done"

    async with desk.open(script, guarded=["work"]) as thread:
        await thread.invoke("go")
        await asked.wait()
        await thread.pause()
        answer.set()
        assert (await thread.wait(PATIENCE)).meta.pause_reason == "hitl"
        await thread.resume()
        assert thread.run_state().reason == "hitl"
        await thread.approve()
        assert await ended(thread) == "done"


async def test_a_child_that_reports_in_a_pause_is_heard_and_the_run_goes_on_afterwards(desk: Desk) -> None:
    asked, answer = desk.gate("child")

    async def script(request: ModelRequest) -> Line:
        if request.system.startswith("worker"):
            await desk.pass_gate("child")
            return "the report"
        if last_of(request) == "go":
            return call("task", description="it", subagentType="worker", call_id="t")
        return "done"

    async with desk.open(script, tags=["default", "family"]) as thread:
        await thread.invoke("go")
        await asked.wait()
        await until(thread, EventType.RUN_PAUSED, reason="subagent")
        await thread.pause()
        assert thread.run_state().reason == "subagent"
        answer.set()
        await until(thread, EventType.SUBAGENT_COMPLETED)
        await until(thread, EventType.RUN_PAUSED, reason="manual")
        await thread.resume()
        assert await ended(thread) == "done"
        assert await results(thread) == {"t": "the report"}


async def test_a_child_that_reports_after_a_crash_in_a_paused_batch_is_heard(desk: Desk) -> None:
    """Its call has no result yet in the machine, only on record."""
    begun, _ = desk.gate("slow")
    asked, _ = desk.gate("child")

    async def script(request: ModelRequest) -> Line:
        if request.system.startswith("worker"):
            await desk.pass_gate("child")
            return "the report"
        if last_of(request) == "go":
            return [call("task", description="it", subagentType="worker", call_id="t"), work("slow")]
        return "done"

    async with desk.open(script, tags=["default", "family"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        await asked.wait()
        await thread.pause()
    desk.gates.clear()
    async with desk.open(script, tags=["default", "family"]) as thread:
        await until(thread, EventType.SUBAGENT_COMPLETED)
        assert desk.ran.count("slow") == 1
        await thread.resume()
        assert await ended(thread) == "done"
        assert await results(thread) == {"t": "the report", "slow": "did slow"}


async def test_a_run_that_waits_for_a_retry_is_paused_when_its_time_comes(desk: Desk) -> None:
    def script(request: ModelRequest) -> Line:
        said = sum(m.role == "assistant" for m in request.messages)
        return (
            ModelError("busy", retryable=True, retry_after_ms=20) if len(desk.model.requests) == 1 else f"done {said}"
        )

    async with desk.open(script) as thread:
        await thread.invoke("go")
        await until(thread, EventType.MODEL_COMPLETED)
        await thread.pause()
        await until(thread, EventType.RUN_PAUSED, reason="manual")
        assert len(desk.model.requests) == 1
        await thread.resume()
        assert await ended(thread) == "done 0"


async def test_a_paused_run_can_be_canceled_and_takes_messages(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    async with desk.open([[work("a"), work("b")], "fine"]) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.pause()
        go_on.set()
        await thread.wait(PATIENCE)
        await thread.invoke("a word")
        assert thread.run_state().reason == "manual"
        await thread.cancel()
        assert thread.run_state().status == "canceled"
        assert await results(thread) == {"a": "did a", "b": "Canceled: the run was canceled."}
        assert ("user", "a word") in await messages(thread)
        with pytest.raises(WrongState):
            await thread.resume()
        await thread.invoke("again")
        assert await ended(thread) == "fine"  # the pause was that run's


async def test_a_message_in_a_pause_joins_when_the_run_goes_on(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    async with desk.open(lambda r: work("a") if last_of(r) == "go" else f"to {last_of(r)}") as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.pause()
        go_on.set()
        await thread.wait(PATIENCE)
        await thread.invoke("a word")
        await thread.invoke("later", when="next_run")
        await thread.resume()
        assert await ended(thread) == "to later"
        said = [content for _, content in await messages(thread)]
        assert said == ["go", "", "did a", "a word", "to a word", "later", "to later"]


async def test_what_cannot_be_paused_or_resumed_says_so_and_changes_nothing(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    async with desk.open([work("a"), "done"]) as thread:
        for refused in (thread.pause, thread.resume):
            with pytest.raises(WrongState):
                await refused()
        await thread.invoke("go")
        await begun.wait()
        with pytest.raises(WrongState):
            await thread.resume()
        await thread.pause()
        with pytest.raises(WrongState, match="already"):
            await thread.pause()
        go_on.set()
        await thread.wait(PATIENCE)
        await asyncio.gather(thread.resume(), thread.resume(), return_exceptions=True)
        assert await ended(thread) == "done"
        for refused in (thread.pause, thread.resume):
            with pytest.raises(WrongState):
                await refused()


async def test_a_run_that_has_used_up_a_limit_may_be_paused_too_and_needs_both_to_go_on(desk: Desk) -> None:
    async with desk.open([work("a"), "done"]) as thread:
        await thread.invoke("go", limits=Limits(tokens=10))
        await thread.wait(PATIENCE)
        await thread.pause()
        assert thread.run_state().reason == "exhausted"
        await thread.lift_limits(tokens=1_000)
        assert (thread.run_state().reason, len(desk.model.requests)) == ("manual", 1)
        await thread.resume()
        assert await ended(thread) == "done"


async def test_time_in_a_pause_does_not_count_against_the_runs_limit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_000_000
    monkeypatch.setattr("agency.clock.time", SimpleNamespace(time_ns=lambda: now * 1_000_000))
    begun, go_on = desk.gate("a")
    async with desk.open([work("a"), "done"]) as thread:
        await thread.invoke("go", limits=Limits(time_ms=60_000))
        await begun.wait()
        await thread.pause()
        go_on.set()
        await thread.wait(PATIENCE)
        now += 3_600_000
        await thread.resume()
        assert await ended(thread) == "done"
        assert thread.run().meta.duration_ms == 0


class Keeps(Middleware):
    """Sees who goes on."""

    name = "keeps"

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def on_resume(self, ctx: Any, reason: str, decisions: Any) -> None:
        self.reasons.append(reason)


async def test_middleware_hears_that_a_pause_has_ended(desk: Desk) -> None:
    begun, go_on = desk.gate("a")
    keeps = Keeps()
    async with desk.open([work("a"), "done"], middleware=[keeps]) as thread:
        await thread.invoke("go")
        await begun.wait()
        await thread.pause()
        go_on.set()
        await thread.wait(PATIENCE)
        await thread.resume()
        assert await ended(thread) == "done"
        assert keeps.reasons == ["manual"]
