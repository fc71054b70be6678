"""Whatever models, tools, hooks, code and callers do wrong, the run ends as it should and the file opens again."""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from agency import (
    AgentSystem,
    CallTool,
    CodeResult,
    Deferred,
    Event,
    EventType,
    Fail,
    Finish,
    Handoff,
    HookContext,
    InvalidInput,
    Message,
    Middleware,
    ModelReply,
    ModelRequest,
    Plan,
    RetryPolicy,
    RunEnvelope,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    open_thread,
    tool,
)
from agency.models.interface import OnDelta
from agency.testing import Line, ScriptedModel, call
from middleware import hitl

PATIENCE = 10.0
LONE = "\ud83d"  # half of an emoji: models and cut strings do produce it, and UTF-8 cannot say it
CODE = "```python\nrun()\n```"


class Rogue(BaseException):
    """Not even an Exception."""


class Provider:
    """A provider of models that is a function of the test."""

    def __init__(self, function: Callable[[OnDelta], Any]) -> None:
        self._function = function

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        reply = self._function(on_delta)
        answer: ModelReply = await reply if isinstance(reply, Awaitable) else reply
        return answer


class Interpreter:
    """Runs 'code' that is really a function of the test."""

    def __init__(self, function: Callable[[CallTool], Awaitable[Any]]) -> None:
        self._function = function

    async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        result: CodeResult = await self._function(call_tool)
        return result


def clerk(
    script: Sequence[Line] | Provider,
    *tools: Tool,
    middleware: Sequence[Middleware[Any]] = (),
    code: Callable[[CallTool], Awaitable[Any]] | None = None,
    **agent: Any,
) -> AgentSystem:
    system = AgentSystem(
        "scripted:any",
        providers={"scripted": script if isinstance(script, Provider) else ScriptedModel(script)},
        code_runner=None if code is None else Interpreter(code),
    )
    for each in tools:
        system.add_tool(each)
    for one in middleware:
        system.use(one, tags=["default"])
    agent["mode"] = "tools" if code is None else "code"
    return system.add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.", **agent)


class Ending:
    """How a run ended, and what there is to see of it."""

    def __init__(self, run: RunEnvelope, messages: Sequence[Message], events: Sequence[Event]) -> None:
        self.run = run
        self.status, self.data = run.status, run.data
        self.codes = [error.code for error in run.errors]
        self.results = [message.content for message in messages if message.role == "tool"]
        self.output = [message.content for message in messages if message.origin == "code"]
        self.messages, self.events = messages, events


async def end_of(system: AgentSystem, path: Path, message: str = "go") -> Ending:
    """Run once, then open the file again and find the same there."""
    endings: list[Ending] = []
    for agent in ("clerk", None):
        async with open_thread(system, path, agent=agent) as thread:
            if agent is not None:
                await thread.invoke(message)
            run = await thread.wait(PATIENCE)
            events = [event async for event in thread.events(follow=False) if event.seq is not None]
            endings.append(Ending(run, (await thread.state()).messages, events))
    first, again = endings
    assert (first.status, first.data, first.run.errors) == (again.status, again.data, again.run.errors)
    assert first.messages == again.messages
    assert [event.seq for event in again.events] == list(range(1, len(again.events) + 1))
    for each in (first.run, *first.messages, *first.events):
        assert each.model_dump_json()
    calls = [each.id for message in first.messages for each in message.tool_calls]
    assert sorted(calls) == sorted(str(m.tool_call_id) for m in first.messages if m.role == "tool")
    return first


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clerk.db"


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*args: object) -> None:
        raise error

    return function


NOTHING: Any = None


# Models.


@pytest.mark.parametrize(
    "reply",
    [
        lambda: None,
        lambda: "just text",
        lambda: ModelReply(text=NOTHING),
        lambda: ModelReply(text="fine", usage=NOTHING),
        lambda: ModelReply(text="fine", tool_calls=NOTHING),
        lambda: ModelReply(text="fine", meta={"raw": object()}),  # type: ignore[dict-item]
        lambda: ModelReply(text="fine", meta={"raw": LONE}),
    ],
    ids=["None", "str", "text=None", "usage=None", "tool_calls=None", "meta no JSON", "meta no UTF-8"],
)
async def test_a_reply_that_is_none_ends_the_run_as_the_models_error(path: Path, reply: Callable[[], Any]) -> None:
    ending = await end_of(clerk(Provider(lambda on_delta: reply())), path)
    assert (ending.status, ending.data, ending.codes) == ("error", None, ["ERR_MODEL"])


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), Rogue("gone"), SystemExit(3), ValueError(f"cut {LONE}"), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_model_raises_ends_the_run_as_the_models_error(path: Path, error: BaseException) -> None:
    ending = await end_of(clerk(Provider(raising(error))), path)
    assert (ending.status, ending.codes) == ("error", ["ERR_MODEL"])
    assert ending.run.errors[0].message.startswith(f"{type(error).__name__}: ")


@pytest.mark.parametrize("limits", [None, {"time_ms": 60_000}])
async def test_a_models_own_timeout_is_not_taken_for_the_runs(path: Path, limits: dict[str, int] | None) -> None:
    system = clerk(Provider(raising(TimeoutError("read timed out"))), limits=limits)
    ending = await end_of(system, path)
    assert (ending.status, ending.codes) == ("error", ["ERR_MODEL"])
    assert "read timed out" in ending.run.errors[0].message


async def test_half_a_character_in_text_or_arguments_of_a_reply_is_replaced(path: Path) -> None:
    seen: list[object] = []

    @tool
    async def note(words: list[str], by: dict[str, str]) -> str:
        seen.append((words, by))
        return "noted"

    ending = await end_of(clerk([call("note", words=[f"a{LONE}"], by={LONE: LONE}), f"done {LONE}"], note), path)
    assert (ending.status, ending.data) == ("completed", "done ?")
    assert seen == [(["a?"], {"?": "?"})]


async def test_half_a_character_in_a_delta_can_be_sent_on(path: Path) -> None:
    seen, deltas = asyncio.Event(), list[str]()

    async def respond(on_delta: OnDelta) -> ModelReply:
        on_delta(f"a{LONE}")
        await seen.wait()
        return ModelReply(text="a")

    async with open_thread(clerk(Provider(respond)), path, agent="clerk") as thread, asyncio.timeout(PATIENCE):
        await thread.invoke("go")
        async for event in thread.events():
            if event.type == EventType.MODEL_DELTA:
                assert event.model_dump_json()
                deltas.append(str(event.data["delta"]))
                seen.set()
            if event.type == EventType.AGENT_COMPLETED:
                break
    assert deltas == ["a?"]


# Tools.


def failing(error: BaseException, *, in_thread: bool, **options: Any) -> Tool:
    if in_thread:

        @tool(name="work", **options)
        def work() -> str:
            raise error
    else:

        @tool(name="work", **options)
        async def work() -> str:
            raise error

    return work


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize(
    "error",
    [Rogue("gone"), asyncio.CancelledError("gone"), StopIteration("gone"), OSError(LONE)],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("timeout", [None, 60.0], ids=["no timeout", "timeout"])
async def test_whatever_a_tool_raises_is_its_result_and_the_run_goes_on(
    path: Path, error: BaseException, in_thread: bool, timeout: float | None
) -> None:
    work = failing(error, in_thread=in_thread, timeout=timeout)
    ending = await end_of(clerk([call("work"), "I see."], work), path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert ending.results[0].startswith("Error: execution: ")


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("safe", [False, True])
async def test_a_tool_that_exits_ends_its_own_call_and_not_the_process(path: Path, in_thread: bool, safe: bool) -> None:
    work = failing(SystemExit(3), in_thread=in_thread, safe=safe)
    ending = await end_of(clerk([[call("work"), call("work")], "I see."], work), path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert ending.results == ["Error: execution: SystemExit: 3"] * 2


@pytest.mark.parametrize(
    ("value", "status", "data", "codes"),
    [
        (Finish(value={"day": datetime.date(2025, 1, 2)}), "completed", {"day": "2025-01-02"}, []),  # type: ignore[dict-item]
        (Finish(value=float("nan")), "completed", None, []),
        (Finish(value=LONE), "completed", "I see.", []),
        (Finish(value=object()), "completed", "I see.", []),  # type: ignore[arg-type]
        (Handoff(thread_id=7), "completed", {"handoff": "7"}, []),  # type: ignore[arg-type]
        (Fail(message=3), "error", None, ["ERR_TOOL_FAILURE"]),  # type: ignore[arg-type]
        (Fail(message=f"cut {LONE}"), "error", None, ["ERR_TOOL_FAILURE"]),
    ],
    ids=["a date", "not a number", "no UTF-8", "no JSON", "handoff to a number", "fail with a number", "fail no UTF-8"],
)
async def test_a_tool_that_ends_the_run_with_something_odd_leaves_a_file_that_opens(
    path: Path, value: object, status: str, data: JsonValue, codes: list[str]
) -> None:
    @tool
    async def end() -> Any:
        return value

    ending = await end_of(clerk([call("end"), "I see."], end), path)
    assert (ending.status, ending.data, ending.codes) == (status, data, codes)


@pytest.mark.timeout(30)
async def test_what_a_generator_does_counts_as_part_of_the_call_and_off_the_loop(path: Path) -> None:
    loop_thread, used, release = threading.get_ident(), set[int](), threading.Event()

    @tool(timeout=0.1)
    def pages() -> Any:
        def each() -> Iterator[int]:
            used.add(threading.get_ident())
            release.wait(PATIENCE)
            yield 1

        return each()

    ending = await end_of(clerk([call("pages"), "I see."], pages), path)
    release.set()
    assert ending.results == ["Error: timeout: pages did not end within 0.1 s"]
    assert len(used) == 1 and loop_thread not in used


async def test_a_call_that_starts_two_children_fails_and_starts_none(path: Path) -> None:
    @tool
    async def delegate(ctx: ToolContext) -> Deferred:
        ctx.spawn("clerk", "one")
        return ctx.spawn("clerk", "two")

    ending = await end_of(clerk([call("delegate"), "I see."], delegate), path)
    assert ending.results == ["Error: invalid_request: a call can start one child"]
    assert EventType.SUBAGENT_SPAWNED not in {event.type for event in ending.events}
    assert list(path.parent.glob("*.threads/*")) == []


async def test_a_deferred_result_that_nobody_will_settle_is_a_failure(path: Path) -> None:
    @tool
    async def wait() -> Deferred:
        return Deferred(waits_for="child")

    ending = await end_of(clerk([call("wait"), "I see."], wait), path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    told = "wait returned a Deferred that no method of the context has given it"
    assert ending.results == [f"Error: execution: {told}"]


class Rows(Middleware[None]):
    """Keeps rows with a unique key, and gives calls that run side by side a chance to get in each other's way."""

    name = "rows"
    tables = ("CREATE TABLE rows (key TEXT PRIMARY KEY, by TEXT) STRICT",)

    async def on_tool_result(self, ctx: HookContext[None], call: ToolCall, result: str) -> None:
        await asyncio.sleep(0)

    async def state(self, ctx: HookContext[None]) -> dict[str, JsonValue]:
        return {"rows": [str(by) for (by,) in ctx.store.query("SELECT by FROM rows")]}


async def rows_of(system: AgentSystem, path: Path) -> JsonValue:
    async with open_thread(system, path) as thread:
        return (await thread.state()).more["rows"]


async def test_of_two_calls_whose_writes_exclude_each_other_only_the_later_fails(path: Path) -> None:
    together = asyncio.Barrier(2)

    @tool(safe=True)
    async def add(by: str, ctx: ToolContext) -> str:
        ctx.store.execute("INSERT INTO rows VALUES ('same', ?)", (by,))
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        return f"added by {by}"

    system = clerk([[call("add", by="a"), call("add", by="b")], "I see."], add, middleware=[Rows()])
    ending = await end_of(system, path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    failed = [result for result in ending.results if result.startswith("Error: execution: IntegrityError: ")]
    added = [result for result in ending.results if result.startswith("added by ")]
    assert (len(failed), len(added)) == (1, 1)
    assert await rows_of(system, path) == [added[0].removeprefix("added by ")]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO rows VALUES ('k', 'me') RETURNING key",
        "DELETE FROM meta",
        "COMMIT",
        "PRAGMA user_version = 99",
        "ATTACH ':memory:' AS other",
        "",
    ],
)
async def test_a_query_that_would_write_is_refused(path: Path, sql: str) -> None:
    @tool
    async def sneak(ctx: ToolContext) -> str:
        return str(ctx.store.query(sql))

    system = clerk([call("sneak"), "I see."], sneak, middleware=[Rows()])
    ending = await end_of(system, path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert ending.results[0].startswith("Error: execution: ValueError: a query reads")
    assert await rows_of(system, path) == []


async def test_a_query_that_writes_in_disguise_leaves_nothing(path: Path) -> None:
    @tool
    async def sneak(ctx: ToolContext) -> str:
        return str(ctx.store.query("WITH k AS (SELECT 'k') INSERT INTO rows SELECT 'k', 'me' FROM k RETURNING key"))

    system = clerk([call("sneak"), "I see."], sneak, middleware=[Rows()])
    assert (await end_of(system, path)).data == "I see."
    assert await rows_of(system, path) == []


@pytest.mark.parametrize(
    "sql", ["COMMIT", "commit;", "ROLLBACK", "BEGIN", "PRAGMA user_version = 99", "VACUUM", "DROP TABLE events", ""]
)
async def test_a_tool_stages_rows_and_nothing_else(path: Path, sql: str) -> None:
    @tool
    async def sneak(ctx: ToolContext) -> str:
        ctx.store.execute("INSERT INTO rows VALUES ('k', 'me')")
        ctx.store.execute(sql)
        return "done"

    system = clerk([call("sneak"), "I see."], sneak, middleware=[Rows()])
    ending = await end_of(system, path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert ending.results[0].startswith("Error: execution: ValueError: a draft takes statements that write rows")
    assert await rows_of(system, path) == []


@pytest.mark.parametrize("value", [LONE, object(), 2**70], ids=["no UTF-8", "no value", "too big"])
async def test_what_the_database_cannot_hold_fails_the_call_that_wrote_it(path: Path, value: Any) -> None:
    @tool
    async def write(ctx: ToolContext) -> str:
        ctx.store.execute("INSERT INTO rows VALUES ('k', ?)", (value,))
        return "done"

    system = clerk([call("write"), "I see."], write, middleware=[Rows()])
    ending = await end_of(system, path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert ending.results[0].startswith("Error: execution: ")
    assert await rows_of(system, path) == []


async def test_a_tool_is_retried_though_its_reason_cannot_be_said(path: Path) -> None:
    attempts: list[int] = []

    @tool(retry=RetryPolicy(attempts=2, base_delay=0.001))
    async def flaky(ctx: ToolContext) -> str:
        attempts.append(ctx.attempt)
        raise ToolError(f"cut {LONE}", retry=True)

    ending = await end_of(clerk([call("flaky"), "I see."], flaky), path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert ending.results == ["Error: execution: cut ? (after 2 attempts)"]
    assert attempts == [1, 2]


# Hooks.


class Hooked(Middleware[None]):
    """Does the same in whatever hook it is told to."""

    name = "hooked"

    def __init__(self, hook: str, act: Callable[[], None]) -> None:
        self._hook, self._act = hook, act

    async def on_tick(self, ctx: HookContext[None]) -> None:
        self._do("on_tick")

    async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
        self._do("before_model")

    async def on_model_result(self, ctx: HookContext[None], reply: ModelReply) -> None:
        self._do("on_model_result")

    async def on_tool_start(self, ctx: HookContext[None], call: ToolCall) -> None:
        self._do("on_tool_start")

    async def on_tool_result(self, ctx: HookContext[None], call: ToolCall, result: str) -> None:
        self._do("on_tool_result")

    def _do(self, hook: str) -> None:
        if hook == self._hook:
            self._act()


@tool
async def greet() -> str:
    return "hello"


@pytest.mark.parametrize("hook", ["on_tick", "before_model", "on_model_result", "on_tool_result"])
@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), ValueError(f"cut {LONE}"), Rogue("gone"), SystemExit(3)],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_hook_raises_ends_the_run_under_its_name(path: Path, hook: str, error: BaseException) -> None:
    system = clerk([call("greet"), "never"], greet, middleware=[Hooked(hook, raising(error))])
    ending = await end_of(system, path)
    assert (ending.status, ending.codes) == ("error", ["ERR_HOOK"])
    expected = f"middleware 'hooked' failed in {hook}: {type(error).__name__}: "
    assert ending.run.errors[0].message.startswith(expected)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), ValueError(f"cut {LONE}")], ids=["canceled", "no UTF-8"])
async def test_whatever_a_hook_raises_before_a_call_fails_that_call(path: Path, error: BaseException) -> None:
    system = clerk([call("greet"), "I see."], greet, middleware=[Hooked("on_tool_start", raising(error))])
    ending = await end_of(system, path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert ending.results[0].startswith("Error: internal: middleware 'hooked' failed in on_tool_start: ")


class Prompter(Middleware[None]):
    name = "prompter"

    def __init__(self, prompt: Any) -> None:
        self._prompt = prompt

    async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
        plan.add_prompt(self._prompt)


async def test_a_prompt_that_is_none_ends_the_run_under_the_hooks_name(path: Path) -> None:
    ending = await end_of(clerk(["never"], middleware=[Prompter(None)]), path)
    assert (ending.status, ending.codes) == ("error", ["ERR_HOOK"])
    assert "'prompter' failed in before_model" in ending.run.errors[0].message


async def test_a_prompt_with_half_a_character_is_sent_with_a_replacement(path: Path) -> None:
    ending = await end_of(clerk(["fine"], middleware=[Prompter(f"cut {LONE}")]), path)
    assert (ending.status, ending.data) == ("completed", "fine")


# Code.


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, "ValidationError"),
        ("text", "ValidationError"),
        (CodeResult(output="fine", state={"f": len}), "ValidationError"),  # type: ignore[dict-item]
        (CodeResult(output=NOTHING), "ValidationError"),
        (CodeResult(output="", submitted=(LONE,)), "surrogates not allowed"),
        (CodeResult(output=f"cut {LONE}"), "cut ?"),
    ],
    ids=["None", "text", "state no JSON", "output=None", "submitted no UTF-8", "output no UTF-8"],
)
async def test_a_code_result_that_is_none_is_output_for_the_model(path: Path, result: Any, expected: str) -> None:
    async def run(call_tool: CallTool) -> Any:
        return result

    ending = await end_of(clerk([CODE, "I see."], code=run), path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert len(ending.output) == 1 and expected in ending.output[0]


@pytest.mark.parametrize(
    "error", [SystemExit(3), Rogue("gone"), asyncio.CancelledError()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("limits", [None, {"time_ms": 60_000}], ids=["no limit", "limit"])
async def test_whatever_code_raises_is_output_for_the_model(
    path: Path, error: BaseException, limits: dict[str, int] | None
) -> None:
    async def run(call_tool: CallTool) -> Any:
        raise error

    ending = await end_of(clerk([CODE, "I see."], code=run, limits=limits), path)
    assert (ending.status, ending.data) == ("completed", "I see.")
    assert type(error).__name__ in ending.output[0]


async def test_an_error_that_code_submits_may_hold_half_a_character(path: Path) -> None:
    async def run(call_tool: CallTool) -> CodeResult:
        return CodeResult(output="", error=f"cut {LONE}")

    ending = await end_of(clerk([CODE], code=run), path)
    assert (ending.status, ending.codes, ending.run.errors[0].message) == ("error", ["ERR_SUBMITTED"], "cut ?")


async def test_code_cannot_swallow_the_failure_of_a_hook(path: Path) -> None:
    class Policy(Middleware[None]):
        name = "policy"

        async def on_model_result(self, ctx: HookContext[None], reply: ModelReply) -> None:
            if reply.tool_calls:
                raise ValueError("the policy is down")

    async def run(call_tool: CallTool) -> CodeResult:
        try:
            await call_tool("greet", {})
        except BaseException as error:
            return CodeResult(output=repr(error))
        return CodeResult(output="it ran")

    ending = await end_of(clerk([CODE, "never"], greet, middleware=[Policy()], code=run), path)
    assert (ending.status, ending.codes) == ("error", ["ERR_HOOK"])


async def test_code_that_takes_longer_than_the_run_may_is_stopped(path: Path) -> None:
    stopped = asyncio.Event()

    async def run(call_tool: CallTool) -> CodeResult:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    ending = await end_of(clerk([CODE, "never"], code=run, limits={"time_ms": 50}), path)
    assert stopped.is_set()
    assert (ending.status, ending.run.meta.pause_reason, ending.codes) == ("paused", "exhausted", ["ERR_TIME_LIMIT"])


async def test_code_that_runs_on_after_its_run_was_canceled_calls_nothing_any_more(path: Path) -> None:
    ran, refusals = list[str](), list[str]()
    called, canceled, over = asyncio.Event(), threading.Event(), threading.Event()

    @tool
    async def work() -> str:
        ran.append("work")
        called.set()
        return "worked"

    async def run(call_tool: CallTool) -> CodeResult:
        loop = asyncio.get_running_loop()

        async def call_it() -> None:
            await call_tool("work", {})

        def in_a_thread_of_its_own() -> None:
            asyncio.run_coroutine_threadsafe(call_it(), loop).result(PATIENCE)
            canceled.wait(PATIENCE)
            try:
                asyncio.run_coroutine_threadsafe(call_it(), loop).result(PATIENCE)
            except Exception as error:
                refusals.append(type(error).__name__)
            loop.call_soon_threadsafe(finished.set)
            over.set()

        threading.Thread(target=in_a_thread_of_its_own, daemon=True).start()
        await asyncio.Event().wait()
        raise AssertionError

    finished = asyncio.Event()
    system = clerk([CODE, "never"], work, code=run)
    async with open_thread(system, path, agent="clerk") as thread, asyncio.timeout(PATIENCE):
        await thread.invoke("go")
        await called.wait()
        await thread.cancel()
        before = [event.seq async for event in thread.events(follow=False)]
        canceled.set()
        await finished.wait()
        assert (ran, refusals) == (["work"], ["WrongState"])
        assert [event.seq async for event in thread.events(follow=False)] == before
        assert thread.run().status == "canceled"
    async with open_thread(system, path) as thread:
        assert thread.run().status == "canceled"


# At the door.


@pytest.mark.parametrize(
    "limits",
    [{"turns": 0}, {"turn": 2}, {"turns": "many"}, "many", 7, []],
    ids=str,
)
async def test_limits_that_are_none_are_refused_and_change_nothing(path: Path, limits: Any) -> None:
    system = clerk(["fine"])
    async with open_thread(system, path, agent="clerk") as thread:
        with pytest.raises(InvalidInput, match="wrong limits"):
            await thread.invoke("go", limits=limits)
        assert thread.run_state().status == "registered"
        assert (await thread.state()).messages == ()
    ending = await end_of(system, path)
    assert (ending.status, ending.data, ending.run.run_id[-2:]) == ("completed", "fine", ".1")


async def test_limits_may_be_given_as_plain_data(path: Path) -> None:
    given: Any = {"turns": 2}
    async with open_thread(clerk(["fine"]), path, agent="clerk") as thread:
        await thread.invoke("go", limits=given)
        assert (await thread.wait(PATIENCE)).data == "fine"
        await thread.state()


@pytest.mark.parametrize("message", [7, None, ["text"], {"role": "user"}, " "], ids=repr)
async def test_what_is_no_message_is_refused_and_changes_nothing(path: Path, message: Any) -> None:
    system = clerk(["fine"])
    async with open_thread(system, path, agent="clerk") as thread:
        with pytest.raises(InvalidInput):
            await thread.invoke(message)
        assert thread.run_state().status == "registered"
    assert (await end_of(system, path)).data == "fine"


async def test_half_a_character_in_a_message_is_replaced(path: Path) -> None:
    ending = await end_of(clerk(["fine"]), path, message=f"cut {LONE}")
    assert (ending.status, ending.data) == ("completed", "fine")
    assert ending.messages[0].content == "cut ?"


ASKS: dict[str, JsonValue] = {"hitl": {"tools": ["greet"]}}


@pytest.mark.parametrize(
    "decisions",
    [
        {"g": True},
        {"g": "approve"},
        {"g": None},
        {"g": {"decision": "maybe"}},
        {"g": {"decision": "edit", "args": 7}},
        {7: {"decision": "approve"}},
    ],
    ids=repr,
)
async def test_decisions_of_the_wrong_kind_are_refused_and_the_call_goes_on_waiting(path: Path, decisions: Any) -> None:
    system = clerk([call("greet", call_id="g"), "greeted"], greet, middleware=[hitl], config=ASKS)
    async with open_thread(system, path, agent="clerk") as thread:
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).meta.pause_reason == "hitl"
        with pytest.raises(InvalidInput):
            await thread.decide(decisions)
        assert thread.run_state().reason == "hitl"
        await thread.approve()
        assert (await thread.wait(PATIENCE)).data == "greeted"


async def test_half_a_character_in_a_reason_to_deny_is_replaced(path: Path) -> None:
    system = clerk([call("greet", call_id="g"), "I see."], greet, middleware=[hitl], config=ASKS)
    async with open_thread(system, path, agent="clerk") as thread:
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        await thread.deny(f"cut {LONE}")
        assert (await thread.wait(PATIENCE)).data == "I see."
    async with open_thread(system, path) as thread:
        assert thread.run().data == "I see."
        assert "cut ?" in (await thread.state()).messages[2].content


async def test_a_reason_to_deny_that_is_no_text_is_refused(path: Path) -> None:
    reason: Any = 7
    system = clerk([call("greet", call_id="g"), "greeted"], greet, middleware=[hitl], config=ASKS)
    async with open_thread(system, path, agent="clerk") as thread:
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        with pytest.raises(InvalidInput):
            await thread.deny(reason)
        assert thread.run_state().reason == "hitl"
        await thread.approve()
        assert (await thread.wait(PATIENCE)).data == "greeted"
