"""Model calls, whole: what was sent is what is shown, without the history being stored again."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agency import (
    AgentSystem,
    EventType,
    HookContext,
    LocalRuntime,
    Message,
    Middleware,
    ModelParams,
    ModelRequest,
    NotFound,
    Plan,
    Provider,
    Thread,
    ToolContext,
    tool,
)
from agency.errors import ModelError
from agency.messages import Usage
from agency.models.interface import Model, OnDelta
from agency.models.providers.model import ProviderModel
from agency.models.reproduce import as_curl, as_python
from agency.testing import Line, ScriptedModel, call
from agency.thread.model_records import ModelCallRecord
from agency.turn.effects import ModelReply

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
PATIENCE = 10.0


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Shaping(Middleware):
    """Changes whatever a hook can change of a call."""

    name = "shaping"
    tags = ("shaping",)

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        plan.add_prompt(f"There are {plan.messages} messages.")
        if plan.messages > 3:
            plan.forget(2, "(It began with a sum.)")
            plan.remove_tool("add")
            plan.params = ModelParams(temperature=0.5)

    async def on_tool_result(self, ctx: HookContext, call: object, result: str) -> None:
        ctx.inject("user", "by the way", transient=True)


def shaped(tmp_path: Path, script: list[Line]) -> tuple[LocalRuntime, ScriptedModel]:
    model = ScriptedModel(script)
    system = (
        AgentSystem("scripted:any", providers={"scripted": model})
        .use(Shaping())
        .add_tool(add)
        .add_agent(name="clerk", description="Adds.", prompt="You add.", tags=["default", "shaping"])
    )
    return LocalRuntime(system, tmp_path / "threads"), model


async def ran(thread: Thread, said: str = "go", status: str = "completed") -> None:
    await thread.invoke(said)
    assert (await thread.wait(PATIENCE)).status == status


async def records(thread: Thread, run: int | None = None) -> list[ModelCallRecord]:
    return [await thread.model_call(each.seq) for each in await thread.model_calls(run)]


def same(shown: ModelCallRecord, sent: ModelRequest) -> bool:
    """Whether a record shows exactly what the model was asked with."""
    request = shown.request
    assert request is not None
    assert "\n\n".join(part.text for part in request.prompt) == sent.system
    assert request.messages == tuple(sent.messages)
    assert (request.tools, request.params) == (sent.tools, sent.params)
    return True


async def test_what_is_shown_is_what_was_sent(tmp_path: Path) -> None:
    script: list[Line] = [call("add", a=1, b=2, call_id="c1"), call("add", a=3, b=4, call_id="c2"), "ten", "again"]
    runtime, model = shaped(tmp_path, script)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread)
        first = await records(thread)
        await ran(thread, "once more")
        found = [*first, *await records(thread)]
        assert all(same(*pair) for pair in zip(found, model.requests, strict=True))
        assert any(message.content == "by the way" for message in model.requests[1].messages)
        assert [part.by for part in found[0].request.prompt] == [None, "shaping"]  # type: ignore[union-attr]
        one = found[0]
        assert (one.turn, one.status, one.by, one.stop) == (1, "success", None, "tool_use")
        assert one.reply is not None and one.reply.tool_calls[0].args == {"a": 1, "b": 2}
        assert one.usage is not None and one.took_ms is not None and one.traceback == ""
        last = first[-1]
        assert last.reply is not None and last.reply.content == "ten" and last.first_token_ms is not None
        assert await records(thread, 1) == first, "a run that has ended still shows it"
        assert await thread.model_call(one.end_seq or 0) == one
        for unknown in (1, 10_000):
            with pytest.raises(NotFound, match="tells of no model call"):
                await thread.model_call(unknown)
    runtime, _ = shaped(tmp_path, [])
    async with runtime:
        again = await runtime.thread(thread.id)
        assert await records(again, 1) == first, "so does a thread that was opened again"


async def test_a_surface_that_stays_the_same_is_stored_once(build: Build, tmp_path: Path) -> None:
    runtime, _ = build([call("add", a=1, b=n) for n in range(20)] + ["done"], add)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread)
        events = [event async for event in thread.events(follow=False) if event.type == EventType.MODEL_STARTED]
        assert len(events) == 21 and len({str(event.data["surface"]) for event in events}) == 1
    (file,) = (tmp_path / "threads").glob("*.db")
    with closing(sqlite3.connect(file)) as db:
        pieces = db.execute("SELECT count(*) FROM surfaces").fetchone()
    assert pieces == (3,), "a prompt, the tools, and the surface"


async def test_calls_of_hooks_and_tools_are_shown_with_what_was_asked(build: Build) -> None:
    @tool
    async def consult(ctx: ToolContext, about: str) -> str:
        """Ask aside."""
        answer = await ctx.ask_model(
            [Message(role="user", content=about)], system="Be brief.", params=ModelParams(temperature=0.1)
        )
        return answer.text

    def script(request: ModelRequest) -> Line:
        if request.system == "Be brief.":
            return "blue"
        return "done" if request.messages[-1].role == "tool" else call("consult", about="the sky", call_id="c1")

    runtime, model = build(script, consult)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread)
        found = await records(thread)
        assert [(each.by, each.call_id) for each in found] == [(None, None), ("consult", "c1"), (None, None)]
        assert [same(*pair) for pair in zip(found, model.requests, strict=True)] == [True] * 3
        aside = found[1]
        assert aside.reply is not None and (aside.reply.content, aside.stop) == ("blue", "stop")
        assert aside.request is not None and [part.by for part in aside.request.prompt] == ["consult"]
        assert await thread.traces() == ()


async def test_a_call_aside_that_fails_shows_its_question_and_its_traceback(build: Build) -> None:
    @tool
    async def consult(ctx: ToolContext) -> str:
        """Ask aside."""
        try:
            return (await ctx.ask_model("the sky?", system="Be brief.")).text
        except ModelError as error:
            return f"no answer: {error.model_code}"

    def script(request: ModelRequest) -> Line:
        if request.system == "Be brief.":
            raise LookupError("no sky")
        return _once(request)

    runtime, _ = build(script, consult)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread)
        aside = (await records(thread))[1]
        assert aside.status == "failure" and aside.reply is None and aside.request is not None
        assert aside.request.messages[0].content == "the sky?" and "LookupError: no sky" in aside.traceback
        (trace,) = await thread.traces()
        assert (trace.kind, trace.seq, trace.traceback) == ("aside", aside.seq, aside.traceback)
        assert await thread.traces(after=aside.seq) == () and await thread.traces(after=aside.seq - 1) == (trace,)


async def test_a_question_that_is_too_long_to_be_kept_says_so(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agency.store.details.DETAIL_BYTES", 600)
    words = " ".join(str(n * 7919 % 10_007) for n in range(2_000))

    @tool
    async def consult(ctx: ToolContext) -> str:
        """Ask aside."""
        return (await ctx.ask_model(words, system="Be brief.")).text

    runtime, _ = build(lambda request: "yes" if request.system == "Be brief." else _once(request), consult)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread)
        aside = (await records(thread))[1]
        assert aside.request is None and "too long" in aside.missing and aside.usage is not None


def _once(request: ModelRequest) -> Line:
    return "done" if request.messages[-1].role == "tool" else call("consult", call_id="c1")


class Flaky:
    """Fails twice, and then answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        self.asked += 1
        if self.asked < 3:
            raise ModelError("busy", model_code="ERR_RATE_LIMIT", retryable=True, request_id=f"req_{self.asked}")
        on_delta("fine")
        return ModelReply(text="fine", usage=Usage(input=5, output=1), request_id="req_3")


async def test_every_attempt_is_a_call_with_the_providers_name_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agency.turn.chain.retry_delay", lambda *_: 1)
    system = AgentSystem("own:any", providers={"own": Flaky()}).add_agent(
        name="clerk", description="", prompt="You work."
    )
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread)
        found = await records(thread)
        assert [(each.status, each.request_id) for each in found] == [
            ("failure", "req_1"),
            ("failure", "req_2"),
            ("success", "req_3"),
        ]
        assert found[0].error is not None and found[0].error.message == "busy" and found[0].reply is None
        assert found[0].request == found[2].request and found[0].curl is None
        assert found[2].cost_usd is None and found[2].usage == Usage(input=5, output=1)


class Silent:
    """Never answers."""

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError("never")


async def test_a_call_that_is_made_again_took_as_long_as_its_last_attempt(tmp_path: Path) -> None:
    def built(model: Model) -> AgentSystem:
        return AgentSystem("own:any", providers={"own": model}).add_agent(name="clerk", description="", prompt="p")

    async with LocalRuntime(built(Silent()), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        async for event in thread.events():
            if event.type == EventType.MODEL_STARTED:
                break
    with closing(sqlite3.connect(tmp_path / "t.db")) as file, file:
        file.execute("UPDATE events SET ts = ts - 3600000")  # an hour without a process
    async with LocalRuntime(built(ScriptedModel(["fine"])), tmp_path) as runtime:
        thread = await runtime.thread("t")
        await thread.wait(10)
        (asked,) = await thread.model_calls()
    assert (asked.status, asked.attempts) == ("success", 2)
    assert asked.took_ms is not None and asked.took_ms < 3_600_000


async def test_a_fork_has_the_calls_up_to_where_it_begins(build: Build, tmp_path: Path) -> None:
    @tool
    async def fail(n: int) -> str:
        """Fail."""
        raise RuntimeError(f"number {n}")

    runtime, _ = build([call("fail", n=1, call_id="c1"), call("fail", n=2, call_id="c2"), "done"], fail)
    async with runtime:
        thread = await runtime.create_thread("clerk", thread_id="original")
        await ran(thread)
        calls, traces = await records(thread), await thread.traces()
        fork = await runtime.fork("original", after_seq=calls[1].seq, thread_id="fork")
        kept = await records(fork)
        assert [each.request for each in kept] == [each.request for each in calls[:2]]
        assert kept[0].reply == calls[0].reply and kept[1].status == "canceled"
        assert [each.traceback for each in await fork.traces()] == [traces[0].traceback]


ENTRY = Provider(api="openai", base_url="https://models.example/v1", key="env:SHOP_KEY", headers={"X-Team": "a$b"})


@pytest.mark.parametrize(
    ("entry", "url", "header"),
    [
        (ENTRY, "https://models.example/v1/chat/completions", "authorization: Bearer $SHOP_KEY"),
        (Provider(api="anthropic"), "https://api.anthropic.com/v1/messages", "x-api-key: $ANTHROPIC_API_KEY"),
        (
            Provider(api="openai", base_url="http://localhost:1/v1", key="file:/run/key"),
            "http://localhost:1/v1/chat/completions",
            "authorization: Bearer $API_KEY",
        ),
    ],
)
def test_a_request_can_be_made_again_by_hand_without_its_key(
    entry: Provider, url: str, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHOP_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-never-to-be-seen")
    request = ModelRequest(
        model="m1",
        system="You're brief.",
        messages=[Message(role="user", content="it's 'quoted'\nJSON")],
        tools=(add.spec,),
        params=ModelParams(max_tokens=5),
        key="k",
    )
    http = ProviderModel("shop", entry).http(request)
    curl, python = as_curl(http), as_python(http)
    assert curl.startswith(f"curl '{url}' \\\n") and f'"{header}"' in curl
    assert http.body["model"] == "m1" and http.body["stream"] is True
    assert "never-to-be-seen" not in curl + python
    assert re.search(r"os\.environ\['\w+'\]", python)
    compile(python, "request.py", "exec")


async def test_a_model_that_speaks_http_has_its_request_as_text(tmp_path: Path) -> None:
    system = AgentSystem(
        "shop:m1", providers={"shop": Provider(api="openai", base_url="http://127.0.0.1:9/v1", key="env:NO_SUCH")}
    ).add_agent(name="clerk", description="", prompt="You work.")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread, "hello", "error")
        (failed,) = await records(thread)
        assert failed.status == "failure" and failed.curl is not None and "$NO_SUCH" in failed.curl
        assert failed.python is not None and "hello" in failed.python
