"""What one run has in the place of its blueprint's: models, parameters, tools, and options of its middleware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agency import (
    AgentSystem,
    DefinitionError,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelRequest,
    Plan,
    Thread,
    ToolFilter,
    tool,
)
from agency.define.options import RunOptions
from agency.errors import InvalidInput, TooLarge
from agency.testing import Line, ScriptedModel, call
from middleware import hitl, subagents

PATIENCE = 10.0


class ToneOptions(BaseModel):
    word: str = "plain"
    api_key: str = ""


class Tone(Middleware[None, ToneOptions]):
    """Says in the prompt which options the run has."""

    name = "tone"
    options_model = ToneOptions

    async def before_model(self, ctx: HookContext[None, ToneOptions], plan: Plan) -> None:
        plan.add_prompt(f"tone: {ctx.options.word}")


@tool
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(risk="high")
async def publish(what: str) -> str:
    """Publish something."""
    return f"published {what}"


class Office:
    """Agents whose model follows a script by the agent's name; opening it again opens the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[str, list[Line]] = {"clerk": ["done"], "worker": ["worked"]}
        self.models = {name: ScriptedModel(self._script) for name in ("scripted", "other")}

    def _script(self, request: ModelRequest) -> Line:
        begin = max(i for i, message in enumerate(request.messages) if message.role == "user")
        step = sum(message.role == "assistant" for message in request.messages[begin:])
        return self.lines[request.system.split()[0]][step]

    @property
    def requests(self) -> list[ModelRequest]:
        return [request for model in self.models.values() for request in model.requests]

    def system(self) -> AgentSystem:
        params: dict[str, Any] = {"temperature": 0.5, "max_tokens": 100}
        return (
            AgentSystem("scripted:any", providers=self.models)
            .use(subagents, tags=["default"])
            .use(Tone(), tags=["default"])
            .use(hitl)
            .add_tool(look)
            .add_tool(publish, tags=["default", "worker"])
            .add_agent(name="clerk", description="Clerk.", prompt="clerk", params=params, tags=["default", "hitl"])
            .add_agent(name="worker", description="Worker.", prompt="worker", tags=["worker"], unattended=True)
        )

    def open(self) -> LocalRuntime:
        return LocalRuntime(self.system(), self.folder)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "threads")


def names(request: ModelRequest) -> set[str]:
    return {each.name for each in request.tools}


async def ended(thread: Thread) -> Any:
    run = await thread.wait(PATIENCE)
    assert run.status == "completed", run
    return run


async def test_a_run_has_its_own_model_and_parameters_and_the_next_has_the_blueprints(office: Office) -> None:
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", model="other:large", params={"max_tokens": 9})
        run = await ended(thread)
        assert (run.meta.model, run.meta.options.model) == ("other:large", "other:large")
        assert (await thread.state()).model == "other:large"
        await thread.invoke("again")
        run = await ended(thread)
        assert (run.meta.model, run.meta.options) == ("scripted:any", None)
    (own,), (blueprints,) = office.models["other"].requests, office.models["scripted"].requests
    assert (own.model, own.params.max_tokens, own.params.temperature) == ("large", 9, 0.5)
    assert (blueprints.params.max_tokens, blueprints.params.temperature) == (100, 0.5)


async def test_a_chain_of_models_and_a_bare_name_may_be_given(office: Office) -> None:
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", model=["small", "other:large"])
        assert (await ended(thread)).meta.model == "scripted:small"


async def test_only_allowed_tools_are_offered_and_denied_ones_do_not_run(office: Office) -> None:
    office.lines["clerk"] = [[call("publish", what="a"), call("look", what="b")], "done"]
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", tools={"deny": ["publish"]})
        await ended(thread)
        assert "publish" not in names(office.requests[0]) and "look" in names(office.requests[0])
        results = [message.content for message in (await thread.state()).messages if message.role == "tool"]
        assert "no tool is named 'publish'" in results[0] and results[1] == "saw b"
        await thread.invoke("again", tools=ToolFilter(allow=("look",)))
        await ended(thread)
        assert names(office.requests[-1]) == {"look"}


async def test_middleware_get_the_options_that_their_model_describes(office: Office) -> None:
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", options={"tone": {"word": "kind", "api_key": "hush"}})
        run = await ended(thread)
        assert run.meta.options.options == {"tone": {"word": "kind", "api_key": "••••••"}}
        await thread.invoke("again")
        await ended(thread)
    assert ["tone: kind" in request.system for request in office.requests] == [True, False]
    assert "tone: plain" in office.requests[1].system


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "nobody:large"}, "no provider named 'nobody'"),
        ({"model": " padded "}, "model"),
        ({"params": {"temprature": 1}}, "temprature"),
        ({"tools": {"deny": ["publsh"]}}, "no tool 'publsh'; it has "),
        ({"tools": {"allow": ["look", "lok"]}}, "no tool 'lok'"),
        ({"tools": ["look"]}, "tools"),
        ({"options": {"tune": {}}}, "no middleware 'tune' that takes options; those that take options are tone"),
        ({"options": {"hitl": {}}}, "no middleware 'hitl' that takes options"),
        ({"options": {"tone": {"word": 7}}}, "options.tone: word"),
    ],
)
async def test_what_a_run_cannot_have_is_refused_and_changes_nothing(
    office: Office, options: dict[str, Any], told: str
) -> None:
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        before = [event.seq async for event in thread.events(follow=False)]
        with pytest.raises(InvalidInput) as refused:
            await thread.invoke("go", **options)
        assert told in str(refused.value)
        assert [event.seq async for event in thread.events(follow=False)] == before
        assert (await thread.state()).messages == ()


async def test_each_field_of_an_options_model_needs_a_default() -> None:
    class Needy(BaseModel):
        word: str

    class Wanting(Middleware[None, Needy]):
        name = "wanting"
        options_model = Needy

    with pytest.raises(DefinitionError, match="each field of its options_model needs a default; 'word' has none"):
        AgentSystem("demo:default").use(Wanting(), tags=["default"])


async def test_a_queued_message_brings_the_options_of_its_run(office: Office) -> None:
    office.lines["clerk"] = [call("publish", what="a"), "done"]
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", options={"tone": {"word": "first"}})
        assert (await thread.wait(PATIENCE)).status == "paused"
        await thread.invoke("next", when="next_run", model="other:any", params={"max_tokens": 9})
        office.lines["clerk"] = ["done", "done"]
        await thread.approve()
        await thread.rest()
        run = thread.run()
        assert (run.run_id, run.meta.model) == (f"{thread.id}.2", "other:any")
    assert [("first" in request.system) for request in office.models["scripted"].requests] == [True, True]
    (queued,) = office.models["other"].requests
    assert ("tone: plain" in queued.system, queued.params.max_tokens, queued.params.temperature) == (True, 9, 0.5)


async def test_a_child_gets_no_tool_that_was_denied_and_what_middleware_were_given(office: Office) -> None:
    office.lines["clerk"] = [
        [call("task", description="do it", subagentType="worker"), call("task", description="x", subagentType="clerk")],
        "done",
    ]
    office.lines["worker"] = [call("publish", what="a"), "worked"]

    def clerk(request: ModelRequest) -> Line:
        return "copied" if request.messages[0].content == "x" else office._script(request)

    office.models = {name: ScriptedModel(clerk) for name in office.models}
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke(
            "go", model="other:large", tools={"deny": ["publish", "look"]}, options={"tone": {"word": "kind"}}
        )
        await ended(thread)
        worker = next(request for request in office.requests if request.system.startswith("worker"))
        assert "publish" not in names(worker)
        assert worker in office.models["scripted"].requests, "another agent has its own model"
        copies = [request for request in office.requests if request.messages[0].content == "x"]
        assert copies, "an agent may start a copy of itself"
        assert all(each in office.models["other"].requests and "tone: kind" in each.system for each in copies)
        assert not any({"look", "publish"} & names(each) for each in copies)


async def test_a_fork_has_the_options_of_its_first_message(office: Office) -> None:
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", model="other:large")
        await ended(thread)
        fork = await runtime.fork(thread.id, "again", options={"tone": {"word": "kind"}})
        run = await ended(fork)
        assert (run.meta.model, "tone: kind" in office.requests[0].system) == ("scripted:any", True)


async def test_options_are_the_same_when_the_thread_is_opened_again(office: Office) -> None:
    office.lines["clerk"] = [call("publish", what="a"), "done"]
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke(
            "go",
            model="other:large",
            params={"max_tokens": 9},
            tools={"deny": ["look"]},
            options={"tone": {"word": "k"}},
        )
        assert (await thread.wait(PATIENCE)).status == "paused"
    async with office.open() as runtime:
        thread = await runtime.thread("t")
        assert thread.run().meta.options is not None
        await thread.approve()
        await ended(thread)
    first, second = office.models["other"].requests
    assert (first.system, first.tools, first.params) == (second.system, second.tools, second.params)
    assert (second.params.max_tokens, second.params.temperature) == (9, 0.5)


def test_two_filters_admit_what_both_of_them_do() -> None:
    a, b = ToolFilter(allow=("x", "y"), deny=("z",)), ToolFilter(allow=("y", "z"), deny=("w",))
    assert a.narrowed(b) == ToolFilter(allow=("y",), deny=("z", "w"))
    assert ToolFilter(deny=("x",)).narrowed(ToolFilter(allow=("x", "y"))).admits("x") is False
    assert ToolFilter(allow=()).admits("x") is False
    assert RunOptions.model_validate_json(RunOptions(tools=a).model_dump_json()).tools == a


async def test_of_two_messages_that_start_a_run_together_neither_gives_what_the_other_denies(office: Office) -> None:
    office.lines["clerk"] = [call("publish", what="a"), "done"]
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).status == "paused"
        await thread.invoke("next", when="next_run", tools={"deny": ["look"]}, options={"tone": {"word": "kind"}})
        await thread.invoke("too", when="next_run", model="other:any")
        office.lines["clerk"] = ["done", "done"]
        await thread.approve()
        await thread.rest()
        assert thread.run().run_id == f"{thread.id}.2"
    (request,) = office.models["other"].requests
    assert "look" not in names(request) and "publish" in names(request) and "tone: kind" in request.system


async def test_options_that_new_code_does_not_take_keep_no_thread_shut(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.lines["clerk"] = [call("publish", what="a"), "done"]
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go", tools={"deny": ["look"]}, options={"tone": {"word": "kind"}})
        assert (await thread.wait(PATIENCE)).status == "paused"
        await thread.invoke("next", when="next_run", options={"tone": {"word": "kind"}})

    class Numbered(BaseModel):
        word: int = 7

    monkeypatch.setattr(Tone, "options_model", Numbered)
    office.models = {name: ScriptedModel(office._script) for name in office.models}
    async with office.open() as runtime:
        thread = await runtime.thread("t")
        warned = thread.run().meta.warnings
        assert [each.kind for each in warned] == ["options_left_out"] and "options.tone: word" in warned[0].message
        await thread.approve()
        office.lines["clerk"] = ["done", "done"]
        await thread.rest()
        run = thread.run()
        assert (run.run_id, [each.kind for each in run.meta.warnings]) == ("t.2", ["options_left_out"])
    first, second = office.requests
    assert "tone: 7" in first.system and "look" not in names(first)
    assert "tone: 7" in second.system and "look" in names(second)


async def test_options_that_are_too_large_to_be_kept_with_a_run_are_refused(office: Office) -> None:
    async with office.open() as runtime:
        thread = await runtime.create_thread("clerk")
        with pytest.raises(TooLarge, match="options: a run has at most 100000 bytes"):
            await thread.invoke("go", options={"tone": {"word": "x" * 100_000}})
        with pytest.raises(TooLarge, match="200000 are accepted"):
            await thread.invoke("go", params={"stop": ["x" * 300_000]})
        assert not (await thread.state()).messages
