"""What a run tells about itself beside its result: in the envelope's meta, in its errors, and in events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Event,
    EventType,
    Finish,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelError,
    ModelReply,
    ModelRequest,
    Plan,
    RunEnvelope,
    Thread,
    Tool,
    ToolCall,
    ToolContext,
    Usage,
    open_thread,
    tool,
)
from agency.errors import AgencyError
from agency.store.draft import Draft
from agency.testing import Line, ScriptedModel, call
from agency.thread.calls import RESULT_CHARS
from agency.thread.run_facts import CapabilitiesUsed
from middleware import context
from tests.support.families import Hang, Part, cast, next_event, start, task

PATIENCE = 10.0


def system(*lines: Line, tools: Sequence[Tool] = (), use: Sequence[Middleware[Any]] = (), **more: Any) -> AgentSystem:
    built = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(list(lines))})
    for middleware in use:
        built.use(middleware, tags=["default"])
    for each in tools:
        built.add_tool(each)
    return built.add_agent(name="clerk", description="d", prompt="p", **more)


async def run_of(tmp_path: Path, built: AgentSystem) -> tuple[RunEnvelope, list[Event]]:
    async with open_thread(built, tmp_path / "t.db", agent="clerk") as thread:
        await thread.invoke("go")
        run = await thread.wait(PATIENCE)
        return run, [event async for event in thread.events(follow=False)]


def of_type(seen: Sequence[Event], wanted: EventType) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in event.data.items() if key != "runId"} for event in seen if event.type == wanted
    ]


# Capabilities.


async def test_what_a_provider_has_not_counted_is_unknown_and_what_is_not_used_is_false(tmp_path: Path) -> None:
    run, seen = await run_of(tmp_path, system(ModelReply(text="done", stop="stop")))
    assert run.meta.capabilities_used == CapabilitiesUsed(
        prompt_cache_active=None,
        thinking_enabled=None,
        subagent_invoked=False,
        context_compaction_applied=False,
    )
    (told,) = of_type(seen, EventType.CAPABILITIES_RESOLVED)
    assert told == run.meta.capabilities_used.model_dump(mode="json")
    assert [event.type for event in seen[-2:]] == [EventType.CAPABILITIES_RESOLVED, EventType.AGENT_COMPLETED]


@pytest.mark.parametrize(
    ("usage", "cache", "thinking"),
    [
        (Usage(input=10, output=5), False, False),
        (Usage(input=10, output=5, cached_input=4), True, False),
        (Usage(input=10, output=5, cache_write=4), True, False),
        (Usage(input=10, output=5, reasoning=4), False, True),
    ],
)
async def test_caching_and_thinking_are_what_the_provider_has_counted(
    tmp_path: Path, usage: Usage, cache: bool, thinking: bool
) -> None:
    run, _ = await run_of(tmp_path, system(ModelReply(text="done", stop="stop", usage=usage)))
    assert run.meta.capabilities_used.prompt_cache_active is cache
    assert run.meta.capabilities_used.thinking_enabled is thinking


async def test_a_result_that_had_to_fit_a_schema_is_told(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    run, _ = await run_of(tmp_path, system('{"n": 1}', output_schema=schema))
    assert run.meta.capabilities_used.structured_output_enforced
    assert run.meta.result_source == "structured_output"


async def test_a_conversation_that_was_too_long_is_told_as_compacted(tmp_path: Path) -> None:
    too_long = ModelError("too long", model_code="ERR_CONTEXT_OVERFLOW")
    built = system("one", "two", "three", too_long, "four", use=[context])
    async with open_thread(built, tmp_path / "t.db", agent="clerk") as thread:
        for _ in range(3):
            await thread.invoke("more")
            assert not (await thread.wait(PATIENCE)).meta.capabilities_used.context_compaction_applied
        await thread.invoke("too much")
        run = await thread.wait(PATIENCE)
    assert (run.status, run.meta.capabilities_used.context_compaction_applied) == ("completed", True)


async def test_agents_that_were_started_as_children_are_named_once(tmp_path: Path) -> None:
    parts: dict[str, Part] = {"boss": [[task(call_id="a"), task(call_id="b")], "done"], "worker": ["fine"]}
    async with LocalRuntime(cast(parts), tmp_path) as runtime:
        boss = await start(runtime)
        used = (await boss.wait(PATIENCE)).meta.capabilities_used
        assert (used.subagent_invoked, used.native_subagents_used) == (True, ("worker",))
        child = await below(runtime, boss)
        assert child.run().meta.capabilities_used.subagent_invoked is False


# Warnings.


async def test_a_tool_result_that_was_cut_warns_and_is_told_as_tool_compaction(tmp_path: Path) -> None:
    @tool
    async def dump() -> str:
        return "x" * (RESULT_CHARS + 1)

    run, seen = await run_of(tmp_path, system(call("dump"), "done", tools=[dump]))
    (warning,) = run.meta.warnings
    assert (warning.kind, run.meta.capabilities_used.tool_compaction_applied) == ("tool_result_cut", True)
    assert of_type(seen, EventType.RUNTIME_WARNING) == [{"kind": warning.kind, "message": warning.message}]


class Grumbler(Middleware[None]):
    name = "grumbler"
    tags = ("default",)

    async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
        ctx.warn("cache_lost", "the cache is gone")


@tool
async def murmur(times: int, ctx: ToolContext) -> str:
    for n in range(times):
        ctx.warn("murmur", f"number {n}")
    return "done"


async def test_hooks_and_tools_can_warn(tmp_path: Path) -> None:
    built = system(call("murmur", times=1), "done", tools=[murmur], use=[Grumbler()])
    run, seen = await run_of(tmp_path, built)
    told = [(warning.kind, warning.message) for warning in run.meta.warnings]
    assert told == [("cache_lost", "the cache is gone"), ("murmur", "number 0"), ("cache_lost", "the cache is gone")]
    assert [data["kind"] for data in of_type(seen, EventType.RUNTIME_WARNING)] == [kind for kind, _ in told]


async def test_warnings_are_those_of_the_latest_run_and_survive_the_thread(tmp_path: Path) -> None:
    built = system(call("murmur", times=1), "done", call("murmur", times=2), "done", tools=[murmur])
    await run_of(tmp_path, built)
    run, _ = await run_of(tmp_path, built)
    assert len(run.meta.warnings) == 2
    async with open_thread(built, tmp_path / "t.db") as thread:
        assert thread.run().meta.warnings == run.meta.warnings


async def test_a_run_keeps_its_first_fifty_warnings_and_events_have_all(tmp_path: Path) -> None:
    run, seen = await run_of(tmp_path, system(call("murmur", times=60), "done", tools=[murmur]))
    assert [warning.message for warning in run.meta.warnings] == [f"number {n}" for n in range(50)]
    assert len(of_type(seen, EventType.RUNTIME_WARNING)) == 60


@pytest.mark.parametrize("kind", ["", "Not a word", "x" * 65, "é"])
def test_the_kind_of_a_warning_is_a_word(kind: str) -> None:
    draft = Draft(None)
    with pytest.raises(ValueError, match="is a word such as 'cache_lost'"):
        draft.warn(kind, "m")
    assert not draft


async def test_an_unknown_stop_reason_warns_and_the_run_goes_on(tmp_path: Path) -> None:
    run, _ = await run_of(tmp_path, system(ModelReply(text="half", stop="unknown"), "all of it"))
    assert (run.data, run.meta.turns) == ("all of it", 2)
    assert [warning.kind for warning in run.meta.warnings] == ["unknown_stop"]


# Who canceled.


async def test_a_person_who_cancels_is_named(tmp_path: Path) -> None:
    hang = Hang()
    async with open_thread(system(call("hang"), tools=[hang.tool]), tmp_path / "t.db", agent="clerk") as thread:
        await thread.invoke("go")
        await hang.started.wait()
        await thread.cancel(by="Ann's key")
        by = thread.run().meta.canceled_by
        (told,) = [event.data async for event in thread.events(follow=False) if event.type == EventType.RUN_CANCELED]
    assert by is not None and (by.kind, by.name) == ("person", "Ann's key")
    assert told["by"] == {"kind": "person", "name": "Ann's key"}


@pytest.mark.parametrize(("given", "kind"), [({}, "parent"), ({"timeoutMs": 300}, "limit")])
async def test_a_child_knows_whether_its_parent_or_its_time_has_ended_it(
    tmp_path: Path, given: dict[str, Any], kind: str
) -> None:
    hang = Hang()
    parts: dict[str, Part] = {"boss": [task(**given), "done"], "worker": [call("hang")]}
    async with LocalRuntime(cast(parts, hang.tool), tmp_path) as runtime:
        boss = await start(runtime)
        await hang.started.wait()
        child = await below(runtime, boss)
        if not given:
            await boss.cancel()
        await next_event(child, EventType.RUN_CANCELED)
        by = child.run().meta.canceled_by
        assert by is not None and (by.kind, by.name) == (kind, "boss")


async def test_a_run_that_a_fork_has_cut_names_its_original(tmp_path: Path) -> None:
    hang = Hang()
    async with LocalRuntime(cast({"boss": [call("hang")]}, hang.tool), tmp_path) as runtime:
        await start(runtime)
        await hang.started.wait()
        by = (await runtime.fork("boss", thread_id="fork")).run().meta.canceled_by
        assert by is not None and (by.kind, by.name) == ("fork", "boss")
        assert runtime.thread_ids() == ["boss", "fork"]


# What it is doing.


class Gate:
    """A model that has said something and waits to be let on."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.open.wait()


async def test_activity_tells_the_model_the_tool_and_the_person_that_a_run_waits_for(tmp_path: Path) -> None:
    thinking, working = Gate(), Gate()

    @tool
    async def work() -> str:
        await working.pass_through()
        return "worked"

    async def boss(request: ModelRequest) -> Line:
        if request.messages[-1].role == "user":
            await thinking.pass_through()
            return call("work")
        return "done"

    built = cast({"boss": boss}, work, config={"boss": {"hitl": {"tools": ["work"]}}})
    async with LocalRuntime(built, tmp_path) as runtime:
        thread = await start(runtime)
        await thinking.reached.wait()
        streaming = thread.run().meta.activity
        thinking.open.set()
        await thread.wait(PATIENCE)
        waiting = thread.run().meta.activity
        await thread.approve()
        await working.reached.wait()
        at_work = thread.run().meta.activity
        working.open.set()
        ended = (await thread.wait(PATIENCE)).meta.activity
    told = [(activity.kind, activity.tool) for activity in (streaming, waiting, at_work, ended)]
    assert told == [("streaming", None), ("waiting", None), ("tool", "work"), ("idle", None)]
    assert 0 < streaming.heartbeat_at <= waiting.heartbeat_at <= at_work.heartbeat_at <= ended.heartbeat_at


async def test_activity_is_compacting_while_middleware_make_room(tmp_path: Path) -> None:
    gate = Gate()

    class Slow(Middleware[None]):
        name = "slow"
        tags = ("default",)

        async def on_overflow(self, ctx: HookContext[None], plan: Plan) -> bool:
            await gate.pass_through()
            return True

    too_long = ModelError("too long", model_code="ERR_CONTEXT_OVERFLOW")
    built = system(too_long, "done", use=[Slow()])
    async with open_thread(built, tmp_path / "t.db", agent="clerk") as thread:
        await thread.invoke("go")
        await gate.reached.wait()
        assert thread.run().meta.activity.kind == "compacting"
        gate.open.set()
        assert (await thread.wait(PATIENCE)).meta.activity.kind == "idle"


async def test_text_that_streams_in_is_a_sign_of_life(tmp_path: Path) -> None:
    gate = Gate()

    class Talker:
        async def respond(self, request: ModelRequest, on_delta: Any) -> ModelReply:
            await asyncio.sleep(0.02)
            on_delta("a")
            await gate.pass_through()
            return ModelReply(text="a", stop="stop")

    built = AgentSystem("talker:any", providers={"talker": Talker()}).add_agent(
        name="clerk", description="d", prompt="p"
    )
    async with open_thread(built, tmp_path / "t.db", agent="clerk") as thread:
        await thread.invoke("go")
        begun = thread.run().meta.activity.heartbeat_at
        await gate.reached.wait()
        assert thread.run().meta.activity.heartbeat_at > begun
        gate.open.set()
        await thread.wait(PATIENCE)


# Where the result comes from, and what went wrong.


@pytest.mark.parametrize(("lines", "source"), [(["said"], "assistant_message"), ([call("finish")], "tool_value")])
async def test_the_source_of_a_result_is_told(tmp_path: Path, lines: list[Line], source: str) -> None:
    @tool
    async def finish() -> Finish:
        return Finish("value")

    run, _ = await run_of(tmp_path, system(*lines, tools=[finish]))
    assert run.meta.result_source == source


async def test_an_error_names_its_kind_and_the_provider_s_request_and_status(tmp_path: Path) -> None:
    broken = ModelError("no such key", model_code="ERR_AUTH", request_id="req_1", status=401)
    run, _ = await run_of(tmp_path, system(broken))
    (error,) = run.errors
    assert (error.code, error.kind, error.request_id, error.provider_status) == (
        "ERR_AUTH",
        "provider_error",
        "req_1",
        401,
    )
    assert run.meta.result_source is None


async def test_an_error_that_no_provider_has_made_names_no_request(tmp_path: Path) -> None:
    @tool
    async def finish() -> str:
        return "done"

    class Broken(Middleware[None]):
        name = "broken"
        tags = ("default",)

        async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
            raise AgencyError("no")

    run, _ = await run_of(tmp_path, system("never", use=[Broken()]))
    (error,) = run.errors
    assert (error.kind, error.request_id, error.provider_status) == ("middleware_abort", None, None)


async def test_a_call_tells_the_type_of_its_tool(tmp_path: Path) -> None:
    @tool
    async def own() -> str:
        return "done"

    @tool(ray={"num_cpus": 1})
    def far() -> str:
        return "done"

    class Bringer(Middleware[None]):
        name = "bringer"
        tags = ("default",)

        async def on_init(self, ctx: HookContext[None]) -> None:
            ctx.register_tool(murmur)

    calls = [call("own"), call("far"), call("murmur", times=0), call("nowhere")]
    named = [each.model_copy(update={"id": f"c{n}"}) for n, each in enumerate(calls)]
    _, seen = await run_of(tmp_path, system(named, "done", tools=[own, far], use=[Bringer()]))
    types = {data["toolName"]: data["toolType"] for data in of_type(seen, EventType.TOOL_STARTED)}
    assert types == {"own": "function", "far": "task", "murmur": "middleware", "nowhere": "unknown"}


# Waiting for a person, somewhere below.


@tool
async def charge(cents: int) -> str:
    return f"charged {cents}"


def pay(call_id: str = "pay") -> ToolCall:
    return call("charge", call_id=call_id, cents=5)


ASKING: dict[str, dict[str, Any]] = {"worker": {"hitl": {"tools": ["charge"]}}}


@pytest.fixture
async def firm(tmp_path: Path) -> AsyncIterator[LocalRuntime]:
    """A boss who has a lead who has a worker who asks before it pays, twice."""
    parts: dict[str, Part] = {
        "boss": [task("lead", call_id="b"), "boss done"],
        "lead": [task("worker", call_id="l"), "lead done"],
        "worker": [pay("one"), pay("two"), "paid"],
    }
    async with LocalRuntime(cast(parts, charge, config=ASKING), tmp_path) as runtime:
        yield runtime


async def below(runtime: LocalRuntime, thread: Thread) -> Thread:
    spawned = await next_event(thread, EventType.SUBAGENT_SPAWNED)
    return await runtime.thread(str(spawned.data["childThreadId"]))


async def waits_for(thread: Thread, call_id: str | None) -> Any:
    """The run, once it waits for this call of a descendant, or for none."""
    async with asyncio.timeout(PATIENCE):
        while True:
            waiting = thread.run().meta.waiting_for
            if (None if waiting is None else waiting.call_id) == call_id:
                return waiting
            await asyncio.sleep(0.005)


async def test_wait_returns_when_a_descendant_waits_for_a_person_and_names_thread_and_call(firm: LocalRuntime) -> None:
    boss = await start(firm)
    run = await boss.wait(PATIENCE)
    worker = await below(firm, await below(firm, boss))
    waiting = run.meta.waiting_for
    assert waiting is not None and run.status == "paused"
    assert (waiting.thread_id, waiting.call_id, waiting.reason) == (worker.id, "one", "hitl")
    assert (await (await below(firm, boss)).wait(PATIENCE)).meta.waiting_for == waiting

    await worker.approve()
    assert (await waits_for(boss, "two")).thread_id == worker.id
    await worker.approve()  # word of that takes its time to reach the boss, and waiting does not end with old news
    assert (await boss.wait(PATIENCE)).data == "boss done"


async def test_what_a_descendant_waits_for_is_known_after_all_threads_were_closed(tmp_path: Path) -> None:
    built = cast({"boss": [task(), "done"], "worker": [pay(), "paid"]}, charge, config=ASKING)
    async with LocalRuntime(built, tmp_path) as runtime:
        waiting = (await (await start(runtime)).wait(PATIENCE)).meta.waiting_for
    async with LocalRuntime(built, tmp_path) as runtime:
        boss = await runtime.thread("boss")
        assert waiting is not None and (await boss.wait(PATIENCE)).meta.waiting_for == waiting
        await (await runtime.thread(waiting.thread_id)).approve()
        assert (await boss.wait(PATIENCE)).data == "done"


async def test_a_child_that_is_paused_by_hand_or_has_used_up_a_limit_waits_for_a_person_too(tmp_path: Path) -> None:
    hang = Hang()
    parts: dict[str, Part] = {"boss": [task(), "done"], "worker": [call("hang"), "never"]}
    async with LocalRuntime(cast(parts, hang.tool), tmp_path) as runtime:
        boss = await start(runtime)
        await hang.started.wait()
        child = await below(runtime, boss)
        await child.pause()
        hang.started.clear()
        await child.invoke("leave that", when="now")
        waiting = (await boss.wait(PATIENCE)).meta.waiting_for
        assert waiting is not None
        assert (waiting.thread_id, waiting.call_id, waiting.reason) == (child.id, None, "manual")
        await boss.cancel()


async def test_a_child_that_is_canceled_no_longer_keeps_its_ancestors_waiting(firm: LocalRuntime) -> None:
    boss = await start(firm)
    await boss.wait(PATIENCE)
    worker = await below(firm, await below(firm, boss))
    await worker.cancel()
    await waits_for(boss, None)
    assert (await boss.wait(PATIENCE)).data == "boss done"


async def test_a_fork_does_not_wait_for_the_children_of_its_original(tmp_path: Path) -> None:
    parts: dict[str, Part] = {
        "boss": [task(call_id="a"), task("quick", call_id="b"), "done"],
        "worker": [pay(), "paid"],
        "quick": ["hi"],
    }
    async with LocalRuntime(cast(parts, charge, config=ASKING), tmp_path) as runtime:
        boss = await start(runtime)
        await boss.wait(PATIENCE)
        fork = await runtime.fork("boss", "go on", thread_id="fork")
        run = await fork.wait(PATIENCE)
        assert (run.data, run.meta.waiting_for) == ("done", None)
        assert (await boss.wait(PATIENCE)).meta.waiting_for is not None
