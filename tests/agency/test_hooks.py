"""Middleware: when each hook is called and with what, what it can change, and what happens when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import JsonValue

from agency import (
    AgentSystem,
    Approve,
    ChildReport,
    Deferred,
    DefinitionError,
    EventType,
    HookContext,
    HookFailed,
    LocalRuntime,
    Message,
    Middleware,
    ModelError,
    ModelParams,
    ModelReply,
    ModelRequest,
    NewerStore,
    Plan,
    StoreError,
    Thread,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    WrongState,
    tool,
)
from agency.store.store import ThreadStore
from agency.testing import Line, ScriptedModel, as_reply, call
from agency.turn.outcomes import Decision
from tests.support.thread_files import kept, query, table

HOOKS = (
    "on_init",
    "on_tick",
    "before_model",
    "on_model_result",
    "on_tool_start",
    "on_tool_result",
    "on_tool_error",
    "on_resume",
    "on_child_report",
    "state",
)
IN_THE_RUN = tuple(hook for hook in HOOKS if hook not in ("on_init", "state"))

Act = Callable[[str, HookContext[None], tuple[Any, ...]], None]
"""What a middleware does in a hook: its name, the context, and what else the hook was given."""


def middleware(called: str, act: Act) -> Middleware:
    """One that has all ten hooks and does the same in each."""

    class Everywhere(Middleware):
        name = called
        tags = ("default",)

        async def on_init(self, ctx: HookContext) -> None:
            act("on_init", ctx, ())

        async def on_tick(self, ctx: HookContext) -> None:
            act("on_tick", ctx, ())

        async def before_model(self, ctx: HookContext, plan: Plan) -> None:
            act("before_model", ctx, (plan,))

        async def on_model_result(self, ctx: HookContext, reply: ModelReply) -> None:
            act("on_model_result", ctx, (reply,))

        async def on_tool_start(self, ctx: HookContext, call: ToolCall) -> None:
            act("on_tool_start", ctx, (call,))

        async def on_tool_result(self, ctx: HookContext, call: ToolCall, result: str) -> None:
            act("on_tool_result", ctx, (call, result))

        async def on_tool_error(self, ctx: HookContext, call: ToolCall, error: str) -> None:
            act("on_tool_error", ctx, (call, error))

        async def on_resume(self, ctx: HookContext, reason: str, decisions: Mapping[str, Decision]) -> None:
            act("on_resume", ctx, (reason, dict(decisions)))

        async def on_child_report(self, ctx: HookContext, child: ChildReport) -> None:
            act("on_child_report", ctx, (child,))

        async def state(self, ctx: HookContext) -> dict[str, JsonValue]:
            act("state", ctx, ())
            return {called: "here"}

    return Everywhere()


def in_hook(wanted: str, do: Callable[[HookContext[None]], None]) -> Act:
    """Do something in one hook only, the first time that it is called."""
    left = [wanted]

    def act(hook: str, ctx: HookContext[None], given: tuple[Any, ...]) -> None:
        if hook in left:
            left.remove(hook)
            do(ctx)

    return act


class Guard(Middleware):
    """Asks about every call of the tool `work`."""

    name = "guard"
    tags = ("guarded",)

    async def on_model_result(self, ctx: HookContext, reply: ModelReply) -> None:
        for made in reply.tool_calls:
            if made.name == "work":
                ctx.ask(made.id)


@tool(safe=True)
async def work(ctx: ToolContext) -> str:
    ctx.store.put("tool", ctx.call_id, "worked")
    return "worked"


@tool(safe=True)
async def break_down(ctx: ToolContext) -> str:
    ctx.store.put("tool", ctx.call_id, "half done")
    raise ToolError("it broke")


@tool(safe=True)
async def delegate(ctx: ToolContext) -> Deferred:
    return ctx.spawn("child", "help")


WORK = call("work", call_id="work")
BREAK = call("break_down", call_id="break")
DELEGATE = call("delegate", call_id="delegate")
EVERYTHING: list[Line] = [WORK, BREAK, DELEGATE, "done"]
"""A run in which every hook is called."""


def scripted(lines: Sequence[Line]) -> ScriptedModel:
    def script(request: ModelRequest) -> Line:
        if request.system == "child":
            return "helped"
        return lines[sum(message.role == "assistant" for message in request.messages)]

    return ScriptedModel(script)


def build(
    model: ScriptedModel | Sequence[Line],
    *middleware: Middleware[Any],
    guarded: bool = False,
    tools: Sequence[Tool] = (),
) -> AgentSystem:
    model = model if isinstance(model, ScriptedModel) else scripted(model)
    system = AgentSystem("scripted:any", providers={"scripted": model}).use(Guard())
    for each in middleware:
        system.use(each, tags=["default"])
    for made in (work, break_down, delegate, *tools):
        system.add_tool(made)
    tags = ["default", "guarded"] if guarded else ["default"]
    return system.add_agent(name="clerk", description="", prompt="clerk", tags=tags).add_agent(
        name="child", description="", prompt="child", tags=[]
    )


async def begin(runtime: LocalRuntime) -> Thread:
    thread = await runtime.create_thread("clerk", thread_id="clerk")
    await thread.invoke("go")
    return thread


async def carry_on(thread: Thread) -> None:
    """Wait for the run to end, approving whatever waits on the way."""
    for _ in range(5):
        run = await thread.wait(timeout=10)
        if run.status != "paused":
            return
        await thread.approve()
    raise AssertionError(f"no end in sight: {thread.run()}")


async def transcript(thread: Thread) -> tuple[Message, ...]:
    return (await thread.state()).messages


async def results(thread: Thread) -> dict[str | None, str]:
    """The result of each call; every call has one."""
    messages = (await thread.state()).messages
    made = [made.id for message in messages for made in message.tool_calls]
    found = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
    assert sorted(made) == sorted(map(str, found))
    return found


def fails_in(hook: str) -> Middleware:
    """A middleware that writes, adds a message and fails, in one hook."""

    def act(called: str, ctx: HookContext[None], given: tuple[Any, ...]) -> None:
        ctx.store.put("saboteur", called, "was here")
        if called == hook:
            ctx.inject("user", "from the saboteur")
            raise RuntimeError("sabotage")

    return middleware("saboteur", act)


def assert_failed_in(thread: Thread, hook: str) -> None:
    run = thread.run()
    assert run.status == "error"
    (error,) = run.errors
    assert error.code == "ERR_HOOK"
    assert f"middleware 'saboteur' failed in {hook}" in error.message


# When, and with what.


async def test_each_hook_is_called_once_at_its_time_with_what_it_is_about(tmp_path: Path) -> None:
    seen: list[tuple[str, str | None, tuple[Any, ...]]] = []
    watcher = middleware("watcher", lambda hook, ctx, given: seen.append((hook, ctx.run_id, given)))
    async with LocalRuntime(build(EVERYTHING, watcher, guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert thread.run().data == "done"
        assert (await thread.state()).more == {"watcher": "here"}
        (child,) = query(tmp_path / f"{thread.id}.db", "SELECT thread, token FROM children")
    report = ChildReport(thread_id=str(child[0]), token=str(child[1]), status="completed", report="helped")
    turn = ["on_tick", "before_model", "on_model_result"]
    assert [hook for hook, _, _ in seen] == [
        "on_init",
        *turn,
        "on_resume",
        "on_tool_start",
        "on_tool_result",
        *turn,
        "on_tool_start",
        "on_tool_error",
        *turn,
        "on_tool_start",
        "on_child_report",
        *turn,
        "state",
    ]
    assert {run for hook, run, _ in seen if hook in IN_THE_RUN} == {"clerk.1"}
    assert {run for hook, run, _ in seen if hook not in IN_THE_RUN} == {None}

    given = {hook: [args for called, _, args in seen if called == hook] for hook in HOOKS}
    assert given["on_resume"] == [("hitl", {"work": Approve()})]
    assert given["on_tool_start"] == [(WORK,), (BREAK,), (DELEGATE,)]
    assert given["on_tool_result"] == [(WORK, "worked")]
    assert given["on_tool_error"] == [(BREAK, "it broke")]
    assert given["on_child_report"] == [(report,)]
    assert given["on_model_result"] == [(as_reply(line),) for line in EVERYTHING]
    for (plan,) in given["before_model"]:
        assert (plan.model, plan.system) == ("scripted:any", ["clerk"])
        assert list(plan.tools) == ["work", "break_down", "delegate"]


async def test_hooks_run_in_the_order_of_registration(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def watcher(name: str) -> Middleware:
        return middleware(name, lambda hook, ctx, given: seen.append((hook, name)))

    system = build(EVERYTHING, watcher("zoe"), watcher("amy"), guarded=True)
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert list((await thread.state()).more) == ["zoe", "amy"]
        before = [
            e.data["middlewareName"] async for e in thread.events(follow=False) if e.type.endswith("before_model")
        ]
        after = [e.data["middlewareName"] async for e in thread.events(follow=False) if e.type.endswith("after_model")]
    assert {hook for hook, _ in seen} == set(HOOKS)
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        assert (first, second) == ((first[0], "zoe"), (first[0], "amy"))
    assert before == ["zoe", "amy"] * len(EVERYTHING)
    assert after == ["guard", "zoe", "amy"] * len(EVERYTHING)


async def test_the_context_knows_the_thread_its_agent_and_the_other_agents(tmp_path: Path) -> None:
    contexts: list[HookContext[None]] = []
    watcher = middleware("watcher", lambda hook, ctx, given: contexts.append(ctx))
    async with LocalRuntime(build(["done"], watcher), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert {ctx.thread.id for ctx in contexts} == {"clerk"}
        assert {ctx.blueprint.name for ctx in contexts} == {"clerk"}
        assert {tuple(ctx.agents) for ctx in contexts} == {("clerk", "child")}


async def test_on_init_runs_each_time_the_thread_is_opened(tmp_path: Path) -> None:
    opened: list[str] = []
    system = build(["done"], middleware("watcher", lambda hook, ctx, given: opened.append(hook)))
    async with LocalRuntime(system, tmp_path) as runtime:
        await runtime.create_thread("clerk", thread_id="clerk")
    async with LocalRuntime(system, tmp_path) as runtime:
        await runtime.thread("clerk")
        await runtime.thread("clerk")
    assert opened == ["on_init", "on_init"]


async def test_a_lifted_limit_is_a_resume(tmp_path: Path) -> None:
    seen: list[tuple[str, tuple[Any, ...]]] = []
    watcher = middleware("watcher", lambda hook, ctx, given: seen.append((hook, given)))
    system = build([WORK, "done"], watcher)
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        limits = thread.blueprint.limits.model_copy(update={"tokens": 1})
        await thread.invoke("go", limits=limits)
        assert (await thread.wait(timeout=5)).meta.pause_reason == "exhausted"
        await thread.lift_limits(tokens=1_000)
        assert (await thread.wait(timeout=5)).data == "done"
    assert [given for hook, given in seen if hook == "on_resume"] == [("exhausted", {})]


async def test_a_tool_that_gets_wrong_arguments_is_an_error_that_never_started(tmp_path: Path) -> None:
    seen: list[str] = []
    wrong = [call("work", call_id="work", loud=True), call("nonsense", call_id="nonsense")]
    watcher = middleware("watcher", lambda hook, ctx, given: seen.append(hook))
    async with LocalRuntime(build([wrong, "done"], watcher), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert all(text.startswith("Error: invalid_request") for text in (await results(thread)).values())
    assert "on_tool_start" not in seen
    assert seen.count("on_tool_error") == 2


# What a hook writes.


async def test_what_hooks_write_is_committed_with_their_step(tmp_path: Path) -> None:
    writer = middleware("writer", lambda hook, ctx, given: ctx.store.put("writer", hook, "was here"))
    async with LocalRuntime(build(EVERYTHING, writer, guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
    store = ThreadStore.open(tmp_path / "clerk.db")
    try:
        written = {key for (key,) in store.query("SELECT key FROM kv WHERE owner = 'writer'")}
    finally:
        store.close()
    assert written == {"on_init", *IN_THE_RUN}  # `state` only looks


async def test_a_hook_reads_what_the_tool_and_earlier_hooks_of_its_step_wrote(tmp_path: Path) -> None:
    read: list[JsonValue] = []

    def look(hook: str, ctx: HookContext[None], given: tuple[Any, ...]) -> None:
        if hook == "on_tool_result":
            read.extend([ctx.store.get("tool", "work"), ctx.store.get("writer", hook)])

    writer = middleware("writer", lambda hook, ctx, given: ctx.store.put("writer", hook, "first"))
    async with LocalRuntime(build([WORK, "done"], writer, middleware("reader", look)), tmp_path) as runtime:
        await carry_on(await begin(runtime))
    assert read == ["worked", "first"]


async def test_of_a_failed_call_only_what_hooks_write_after_it_is_kept(tmp_path: Path) -> None:
    writer = middleware("writer", lambda hook, ctx, given: ctx.store.put("writer", hook, "was here"))
    async with LocalRuntime(build([BREAK, "done"], writer), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert kept(tmp_path / f"{thread.id}.db", "tool") == {}
        assert "on_tool_error" in kept(tmp_path / f"{thread.id}.db", "writer")
        assert "on_tool_start" not in kept(tmp_path / f"{thread.id}.db", "writer")


# Failing.


@pytest.mark.parametrize("hook", [hook for hook in IN_THE_RUN if hook not in ("on_tool_start", "on_resume")])
async def test_a_hook_that_fails_ends_the_run_under_its_own_name(hook: str, tmp_path: Path) -> None:
    async with LocalRuntime(build(EVERYTHING, fails_in(hook), guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, hook)
        assert await results(thread) is not None
        assert [e.data["code"] async for e in thread.events(follow=False) if e.type == EventType.AGENT_ERROR] == [
            "ERR_HOOK"
        ]


async def test_a_failing_on_resume_ends_the_run_and_tells_the_one_who_answered(tmp_path: Path) -> None:
    async with LocalRuntime(build(EVERYTHING, fails_in("on_resume"), guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        assert (await thread.wait(timeout=5)).meta.pause_reason == "hitl"
        with pytest.raises(HookFailed, match="middleware 'saboteur' failed in on_resume: RuntimeError: sabotage"):
            await thread.approve()
        assert_failed_in(thread, "on_resume")
        assert await results(thread) == {"work": "Canceled: the run failed before this call had ended."}
        assert kept(tmp_path / f"{thread.id}.db", "tool") == {}


@pytest.mark.parametrize("hook", [hook for hook in IN_THE_RUN if hook != "on_tool_start"])
async def test_what_a_hook_wrote_before_it_failed_is_not_kept(hook: str, tmp_path: Path) -> None:
    async with LocalRuntime(build(EVERYTHING, fails_in(hook), guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        try:
            await carry_on(thread)
        except HookFailed:
            assert hook == "on_resume"
        assert_failed_in(thread, hook)
        assert hook not in kept(tmp_path / f"{thread.id}.db", "saboteur")
        assert "from the saboteur" not in [message.content for message in await transcript(thread)]


@pytest.mark.parametrize("hook", ["on_tick", "before_model", "on_model_result"])
async def test_when_a_hook_fails_its_whole_step_is_undone(hook: str, tmp_path: Path) -> None:
    earlier = middleware("earlier", lambda called, ctx, given: ctx.store.put("earlier", called, "was here"))
    async with LocalRuntime(build(["done"], earlier, fails_in(hook)), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, hook)
        assert hook not in kept(tmp_path / f"{thread.id}.db", "earlier")


async def test_a_failing_on_tool_start_fails_the_call_and_the_run_goes_on(tmp_path: Path) -> None:
    async with LocalRuntime(build([WORK, "done"], fails_in("on_tool_start")), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert (thread.run().status, thread.run().data) == ("completed", "done")
        (result,) = (await results(thread)).values()
        assert result.startswith("Error: internal: middleware 'saboteur' failed in on_tool_start")
        assert kept(tmp_path / f"{thread.id}.db", "tool") == {}
        assert "on_tool_start" not in kept(tmp_path / f"{thread.id}.db", "saboteur")
        assert "on_tool_error" in kept(tmp_path / f"{thread.id}.db", "saboteur")


async def test_a_failing_on_init_refuses_to_open_the_thread_and_keeps_nothing(tmp_path: Path) -> None:
    async with LocalRuntime(build(["done"], fails_in("on_init")), tmp_path) as runtime:
        with pytest.raises(HookFailed, match="middleware 'saboteur' failed in on_init: RuntimeError: sabotage"):
            await runtime.create_thread("clerk", thread_id="clerk")
    async with LocalRuntime(build(["done"]), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="clerk")  # the id is still free
        assert kept(tmp_path / f"{thread.id}.db", "saboteur") == {}
        assert [e.type async for e in thread.events(follow=False)] == [EventType.THREAD_CREATED]


async def test_a_thread_that_could_not_be_opened_can_be_once_its_middleware_is_mended(tmp_path: Path) -> None:
    async with LocalRuntime(build([WORK, "done"], guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        await thread.wait(timeout=5)
    async with LocalRuntime(build([WORK, "done"], fails_in("on_init"), guarded=True), tmp_path) as runtime:
        with pytest.raises(HookFailed):
            await runtime.thread("clerk")
    async with LocalRuntime(build([WORK, "done"], guarded=True), tmp_path) as runtime:
        thread = await runtime.thread("clerk")
        await carry_on(thread)
        assert thread.run().data == "done"


async def test_a_failing_state_hook_tells_the_one_who_looks_and_leaves_the_run_alone(tmp_path: Path) -> None:
    async with LocalRuntime(build([WORK, "done"], fails_in("state"), guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        await thread.wait(timeout=5)
        with pytest.raises(HookFailed, match="middleware 'saboteur' failed in state"):
            await thread.state()
        await carry_on(thread)
        assert thread.run().data == "done"


async def test_a_thread_whose_run_ended_by_a_hook_takes_the_next_message(tmp_path: Path) -> None:
    def act(ctx: HookContext[None]) -> None:
        raise RuntimeError("sabotage")

    async with LocalRuntime(build(["done"], middleware("saboteur", in_hook("on_tick", act))), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "on_tick")
        await thread.invoke("again")
        await carry_on(thread)
        assert thread.run().data == "done"


async def test_a_hook_that_raises_a_definition_error_fails_like_any_other(tmp_path: Path) -> None:
    def act(ctx: HookContext[None]) -> None:
        ctx.register_tool(work)  # it is there already

    system = build(["done"], middleware("saboteur", in_hook("before_model", act)))
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "before_model")


@pytest.mark.parametrize("hook", ["on_tick", "on_tool_result", "on_model_result"])
async def test_a_hook_that_writes_what_the_database_refuses_ends_the_run_as_an_error(hook: str, tmp_path: Path) -> None:
    def act(ctx: HookContext[None]) -> None:
        ctx.store.execute("INSERT INTO nowhere VALUES (1)")

    system = build([WORK, "done"], middleware("saboteur", in_hook(hook, act)))
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert thread.run().status == "error"
        assert [error.code for error in thread.run().errors] != []


async def test_a_tool_that_writes_what_the_database_refuses_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    @tool
    async def scribble(ctx: ToolContext) -> str:
        ctx.store.execute("INSERT INTO nowhere VALUES (1)")
        return "scribbled"

    async with LocalRuntime(build([call("scribble"), "done"], tools=[scribble]), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert thread.run().data == "done"
        (result,) = (await results(thread)).values()
        assert result.startswith("Error: execution")


@pytest.mark.parametrize("role", ["assistant", "tool"])
async def test_a_hook_that_adds_a_message_of_another_role_fails(role: Any, tmp_path: Path) -> None:
    saboteur = middleware("saboteur", in_hook("on_tick", lambda ctx: ctx.inject(role, "as if the model had said it")))
    async with LocalRuntime(build(["done"], saboteur), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "on_tick")
        assert [message.role for message in await transcript(thread)] == ["user"]


async def test_asking_is_for_on_model_result_only(tmp_path: Path) -> None:
    saboteur = middleware("saboteur", in_hook("before_model", lambda ctx: ctx.ask("work")))
    async with LocalRuntime(build([WORK, "done"], saboteur), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "before_model")


async def test_asking_about_a_call_that_the_reply_does_not_have_fails(tmp_path: Path) -> None:
    saboteur = middleware("saboteur", in_hook("on_model_result", lambda ctx: ctx.ask("nobody")))
    async with LocalRuntime(build([WORK, "done"], saboteur), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "on_model_result")


# Results that had ended are kept.


@pytest.mark.parametrize("hook", ["on_tool_result", "on_tool_error"])
async def test_results_of_a_batch_are_kept_though_a_hook_failed_after_one(hook: str, tmp_path: Path) -> None:
    again = call("work", call_id="again")
    async with LocalRuntime(build([[WORK, BREAK, again], "done"], fails_in(hook)), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, hook)
        assert await results(thread) == {
            "work": "worked",
            "break": "Error: execution: it broke",
            "again": "worked",
        }
        assert kept(tmp_path / f"{thread.id}.db", "tool") == {"work": "worked", "again": "worked"}


async def test_a_failing_on_model_result_keeps_the_reply_and_runs_nothing_of_it(tmp_path: Path) -> None:
    reply = ModelReply(text="Let me see.", tool_calls=(WORK,), stop="tool_use")
    async with LocalRuntime(build([reply, "done"], fails_in("on_model_result")), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "on_model_result")
        assert [message.content for message in await transcript(thread)][:2] == ["go", "Let me see."]
        assert await results(thread) == {"work": "Canceled: the run failed before this call had ended."}
        assert kept(tmp_path / f"{thread.id}.db", "tool") == {}


async def test_a_childs_report_is_kept_though_on_child_report_failed(tmp_path: Path) -> None:
    async with LocalRuntime(build([DELEGATE, "done"], fails_in("on_child_report")), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "on_child_report")
        assert await results(thread) == {"delegate": "helped"}


@pytest.fixture
def hanging() -> tuple[Tool, asyncio.Event]:
    """A tool that hangs until it is stopped, and what tells that it was."""
    stopped = asyncio.Event()

    @tool(safe=True)
    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    return hang, stopped


async def test_results_are_kept_though_on_child_report_failed_while_another_call_ran(
    hanging: tuple[Tool, asyncio.Event], tmp_path: Path
) -> None:
    batch = [WORK, DELEGATE, call("hang", call_id="hang")]
    system = build([batch, "done"], fails_in("on_child_report"), tools=[hanging[0]])
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "on_child_report")
        found = await results(thread)
        assert (found["work"], found["hang"]) == ("worked", "Canceled: the run failed before this call had ended.")


async def test_a_run_that_a_hook_ended_leaves_no_call_running(
    hanging: tuple[Tool, asyncio.Event], tmp_path: Path
) -> None:
    hang, stopped = hanging
    system = build([[DELEGATE, call("hang", call_id="hang")], "done"], fails_in("on_child_report"), tools=[hang])
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert_failed_in(thread, "on_child_report")
        await thread.invoke("again")
        assert (await thread.wait(timeout=1)).data == "done"
        assert stopped.is_set()


# Messages that hooks add.


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook != "state"])
async def test_a_message_that_a_hook_adds_joins_once_and_the_model_sees_it(hook: str, tmp_path: Path) -> None:
    helper = middleware("helper", in_hook(hook, lambda ctx: ctx.inject("system", "by the way")))
    model = scripted([*EVERYTHING, "done again"])
    async with LocalRuntime(build(model, helper, guarded=True), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert thread.run().status == "completed"
        added = [message for message in await transcript(thread) if message.content == "by the way"]
        assert [(message.role, message.origin, message.transient) for message in added] == [("system", "helper", False)]
        assert "by the way" in [message.content for message in model.requests[-1].messages]


async def test_a_message_added_during_work_joins_after_the_results_of_the_batch(tmp_path: Path) -> None:
    helper = middleware("helper", in_hook("on_tool_result", lambda ctx: ctx.inject("user", "by the way")))
    async with LocalRuntime(build([[WORK, call("work", call_id="more")], "done"], helper), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert [message.role for message in await transcript(thread)] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "user",
            "assistant",
        ]
        assert thread.run().meta.turns == 2


async def test_a_message_added_before_completion_leads_to_one_more_turn(tmp_path: Path) -> None:
    helper = middleware("helper", in_hook("on_model_result", lambda ctx: ctx.inject("user", "are you sure?")))
    async with LocalRuntime(build(["I am done", "yes"], helper), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert [message.content for message in await transcript(thread)] == ["go", "I am done", "are you sure?", "yes"]
        assert (thread.run().data, thread.run().meta.turns) == ("yes", 2)


async def test_a_transient_message_is_seen_by_one_model_call_only(tmp_path: Path) -> None:
    helper = middleware("helper", in_hook("on_tool_result", lambda ctx: ctx.inject("user", "psst", transient=True)))
    model = scripted([WORK, BREAK, "done", "and again"])
    async with LocalRuntime(build(model, helper), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert [message.content for message in await transcript(thread)].count("psst") == 1
    async with LocalRuntime(build(model), tmp_path) as runtime:
        thread = await runtime.thread("clerk")
        await thread.invoke("more")
        await carry_on(thread)
    seen = [[message.content for message in request.messages].count("psst") for request in model.requests]
    assert seen == [0, 1, 0, 0]


async def test_a_transient_message_is_seen_again_when_the_same_model_call_is_retried(tmp_path: Path) -> None:
    helper = middleware("helper", in_hook("on_tool_result", lambda ctx: ctx.inject("user", "psst", transient=True)))
    lines: list[Line] = [WORK, ModelError("busy", retryable=True, retry_after_ms=1), BREAK, "done"]
    model = ScriptedModel(lambda request: lines.pop(0))
    async with LocalRuntime(build(model, helper), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert thread.run().data == "done"
    seen = [[message.content for message in request.messages].count("psst") for request in model.requests]
    assert seen == [0, 1, 1, 0]


# The plan.


async def test_before_model_adds_to_the_prompt_in_order(tmp_path: Path) -> None:
    def adds(name: str, text: str) -> Middleware:
        def act(hook: str, ctx: HookContext[None], given: tuple[Any, ...]) -> None:
            if hook == "before_model":
                given[0].add_prompt(text)

        return middleware(name, act)

    model = scripted([WORK, "done"])
    async with LocalRuntime(build(model, adds("a", "Be kind."), adds("b", "Be brief.")), tmp_path) as runtime:
        await carry_on(await begin(runtime))
    assert [request.system for request in model.requests] == ["clerk\n\nBe kind.\n\nBe brief."] * 2


class Shaper(Middleware):
    """Changes the plan of the first model call only."""

    name = "shaper"

    def __init__(self) -> None:
        self._calls = 0

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        self._calls += 1
        if self._calls == 1:
            plan.remove_tool("work")
            plan.params = ModelParams(temperature=0.2, max_tokens=9, stop=("END",), tool_choice="required")
            plan.model = "scripted:other"


@tool
async def extra() -> str:
    return "extra"


async def test_before_model_shapes_one_call_and_the_next_starts_afresh(tmp_path: Path) -> None:
    model = scripted([BREAK, "done"])
    async with LocalRuntime(build(model, Shaper()), tmp_path) as runtime:
        await carry_on(await begin(runtime))
    first, second = model.requests
    assert [spec.name for spec in first.tools] == ["break_down", "delegate"]
    assert first.params == ModelParams(temperature=0.2, max_tokens=9, stop=("END",), tool_choice="required")
    assert first.model == "other"
    assert [spec.name for spec in second.tools] == ["work", "break_down", "delegate"]
    assert (second.params, second.model) == (ModelParams(), "any")


# Tools that middleware register.


def registers(name: str, *tools: Tool) -> Middleware:
    def act(ctx: HookContext[None]) -> None:
        for each in tools:
            ctx.register_tool(each)

    return middleware(name, in_hook("on_init", act))


async def test_a_registered_tool_is_offered_and_runs(tmp_path: Path) -> None:
    model = scripted([call("extra", call_id="extra"), "done"])
    async with LocalRuntime(build(model, registers("giver", extra)), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert await results(thread) == {"extra": "extra"}
    assert [spec.name for spec in model.requests[0].tools] == ["work", "break_down", "delegate", "extra"]


@pytest.mark.parametrize(
    "others",
    [[registers("giver", work)], [registers("giver", extra), registers("other", extra)]],
    ids=["the agent's own", "another middleware's"],
)
async def test_a_second_tool_of_the_same_name_refuses_to_open_the_thread(
    others: list[Middleware], tmp_path: Path
) -> None:
    async with LocalRuntime(build(["done"], *others), tmp_path) as runtime:
        with pytest.raises(DefinitionError, match=r"agent 'clerk' would get two tools named '(work|extra)'"):
            await runtime.create_thread("clerk")


# Tables of its own.


class Ledger(Middleware):
    """Notes every finished call in a table of its own."""

    name = "ledger"
    tables: ClassVar[tuple[str, ...]] = ("CREATE TABLE ledger (call TEXT NOT NULL) STRICT",)

    async def on_tool_result(self, ctx: HookContext, call: ToolCall, result: str) -> None:
        ctx.store.execute("INSERT INTO ledger (call) VALUES (?)", (call.id,))


class LaterLedger(Ledger):
    tables = (*Ledger.tables, "ALTER TABLE ledger ADD COLUMN result TEXT NOT NULL DEFAULT '(before)'")

    async def on_tool_result(self, ctx: HookContext, call: ToolCall, result: str) -> None:
        ctx.store.execute("INSERT INTO ledger (call, result) VALUES (?, ?)", (call.id, result))


class BrokenLedger(Ledger):
    tables = (*Ledger.tables, "CREATE TABLE half (a TEXT) STRICT", "ALTER TABLE nowhere ADD COLUMN b TEXT")


LINES: list[Line] = [WORK, "done", call("work", call_id="second"), "done again"]


async def test_a_middleware_keeps_a_table_of_its_own_and_extends_it_by_appending_a_statement(tmp_path: Path) -> None:
    async with LocalRuntime(build(LINES, Ledger()), tmp_path) as runtime:
        thread = await begin(runtime)
        await carry_on(thread)
        assert table(tmp_path / "clerk.db", "ledger") == [("work",)]
    for _ in range(2):  # the second time there is nothing left to do
        async with LocalRuntime(build(LINES, LaterLedger()), tmp_path) as runtime:
            thread = await runtime.thread("clerk")
            assert table(tmp_path / "clerk.db", "ledger") == [("work", "(before)")]
    async with LocalRuntime(build(LINES, LaterLedger()), tmp_path) as runtime:
        thread = await runtime.thread("clerk")
        await thread.invoke("more")
        await carry_on(thread)
        assert table(tmp_path / "clerk.db", "ledger") == [("work", "(before)"), ("second", "worked")]


async def test_tables_of_a_newer_middleware_are_refused_and_left_alone(tmp_path: Path) -> None:
    async with LocalRuntime(build(LINES, LaterLedger()), tmp_path) as runtime:
        await carry_on(await begin(runtime))
    async with LocalRuntime(build(LINES, Ledger()), tmp_path) as runtime:
        with pytest.raises(NewerStore, match="'ledger' have version 2, it knows up to 1"):
            await runtime.thread("clerk")
    async with LocalRuntime(build(LINES, LaterLedger()), tmp_path) as runtime:
        await runtime.thread("clerk")
        assert table(tmp_path / "clerk.db", "ledger") == [("work", "worked")]


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    async with LocalRuntime(build(LINES, Ledger()), tmp_path) as runtime:
        await carry_on(await begin(runtime))
    async with LocalRuntime(build(LINES, BrokenLedger()), tmp_path) as runtime:
        with pytest.raises(StoreError, match="nowhere"):
            await runtime.thread("clerk")
    async with LocalRuntime(build(LINES, Ledger()), tmp_path) as runtime:
        await runtime.thread("clerk")
        assert table(tmp_path / "clerk.db", "ledger") == [("work",)]
        assert query(tmp_path / "clerk.db", "SELECT name FROM sqlite_schema WHERE name = 'half'") == []


async def test_a_middleware_that_comes_to_an_old_thread_gets_its_table(tmp_path: Path) -> None:
    async with LocalRuntime(build(LINES), tmp_path) as runtime:
        await carry_on(await begin(runtime))
    async with LocalRuntime(build(LINES, Ledger()), tmp_path) as runtime:
        thread = await runtime.thread("clerk")
        await thread.invoke("more")
        await carry_on(thread)
        assert table(tmp_path / "clerk.db", "ledger") == [("second",)]


# Answers while a hook runs.


async def test_an_answer_that_comes_while_another_is_in_its_hooks_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    inside, go_on = asyncio.Semaphore(0), asyncio.Event()

    class Slow(Middleware):
        name = "slow"

        async def on_resume(self, ctx: HookContext, reason: str, decisions: Mapping[str, Decision]) -> None:
            inside.release()
            await go_on.wait()
            ctx.store.execute("INSERT INTO answers VALUES (?)", (len(decisions),))

        tables = ("CREATE TABLE answers (calls INTEGER NOT NULL) STRICT",)

    async with LocalRuntime(build([WORK, "done"], Slow(), guarded=True), tmp_path) as runtime, asyncio.timeout(10):
        thread = await begin(runtime)
        await thread.wait()
        answers = [asyncio.create_task(thread.approve()) for _ in range(2)]
        for _ in answers:
            await inside.acquire()
        go_on.set()
        ends = await asyncio.gather(*answers, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["ApproveResult", WrongState.__name__]
        await carry_on(thread)
        assert thread.run().data == "done"
        assert table(tmp_path / f"{thread.id}.db", "answers") == [(1,)]


async def test_an_answer_whose_run_ended_while_its_hooks_ran_is_not_taken_for_the_next_run(tmp_path: Path) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Middleware):
        name = "slow"

        async def on_resume(self, ctx: HookContext, reason: str, decisions: Mapping[str, Decision]) -> None:
            inside.set()
            await go_on.wait()

    model = ScriptedModel(lambda request: WORK)  # some models give every call the same id
    async with LocalRuntime(build(model, Slow(), guarded=True), tmp_path) as runtime, asyncio.timeout(10):
        thread = await begin(runtime)
        await thread.wait()
        late = asyncio.create_task(thread.approve())
        await inside.wait()
        await thread.cancel()
        await thread.invoke("once more")
        assert (await thread.wait()).meta.pause_reason == "hitl"
        go_on.set()
        with pytest.raises(WrongState):
            await late
        assert kept(tmp_path / f"{thread.id}.db", "tool") == {}
        assert thread.run_state().reason == "hitl"
