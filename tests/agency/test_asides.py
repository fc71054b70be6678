"""Tools and hooks ask models aside: the answer is recorded, priced and charged to the run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agency import (
    AgentSystem,
    Aside,
    EventType,
    HookContext,
    InvalidInput,
    Limits,
    LocalRuntime,
    Message,
    Middleware,
    ModelError,
    ModelReply,
    ModelRequest,
    Plan,
    Price,
    RunEnd,
    RunEnvelope,
    Thread,
    ThreadMetadata,
    ToolCall,
    ToolContext,
    Usage,
    tool,
)
from agency.spending import Spent
from agency.testing import Line, ScriptedModel, call

PATIENCE = 10.0
ASIDE = Usage(input=100, output=20)
PRICE = Price(input=1.0, output=1.0)


class Verdict(BaseModel):
    fits: bool


class Desk:
    """An agent with one tool that asks, and a model that answers asides by `aside`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.question: dict[str, Any] = {"asked": "Which colour?"}
        self.answers: list[Aside] = []
        self.failed: list[Exception] = []
        self.asides: list[ModelRequest] = []
        self.replies: list[Line] = []
        self.model = ScriptedModel(self._line, price=PRICE)
        self.middleware: list[Middleware[Any]] = []
        self.second: list[Line] = []

    def _line(self, request: ModelRequest) -> Line:
        if request.system == "You are a clerk.":
            return "done" if request.messages[-1].role == "tool" else call("consult", call_id="c1")
        self.asides.append(request)
        return self.replies.pop(0) if self.replies else ModelReply(text="blue", stop="stop", usage=ASIDE)

    def _second(self, request: ModelRequest) -> Line:
        return self.second.pop(0)

    def system(self) -> AgentSystem:
        @tool
        async def consult(ctx: ToolContext) -> str:
            """Ask a model aside."""
            try:
                answer = await ctx.ask_model(**self.question)
            except Exception as error:
                self.failed.append(error)
                raise
            self.answers.append(answer)
            return answer.text

        providers = {"scripted": self.model, "second": ScriptedModel(self._second)}
        system = AgentSystem("scripted:any", providers=providers).add_tool(consult)
        for each in self.middleware:
            system.use(each)
        tags = ["default", *(tag for each in self.middleware for tag in each.tags)]
        return system.add_agent(name="clerk", description="d", prompt="You are a clerk.", tags=tags)

    async def run(self, **terms: Any) -> tuple[RunEnvelope, list[Mapping[str, Any]]]:
        """The run, and the data of its asides' events."""
        async with LocalRuntime(self.system(), self.folder) as runtime:
            thread = await runtime.create_thread("clerk")
            await thread.invoke("Which colour?", **terms)
            run = await thread.wait(PATIENCE)
            return run, await asked(thread)


async def asked(thread: Thread) -> list[Mapping[str, Any]]:
    return [event.data async for event in thread.events(follow=False) if event.type is EventType.MODEL_ASKED]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_tool_asks_a_model_and_the_run_pays_for_it(desk: Desk) -> None:
    desk.question = {"asked": "Which colour?", "system": "Be brief.", "params": {"temperature": 0.5}}
    run, told = await desk.run()
    assert (run.status, run.data) == ("completed", "done")
    assert not desk.failed
    (answer,) = desk.answers
    assert (answer.text, answer.model, answer.usage, answer.cost_usd) == ("blue", "scripted:any", ASIDE, 0.00012)
    (request,) = desk.asides
    assert (request.system, [m.content for m in request.messages]) == ("Be brief.", ["Which colour?"])
    assert (request.params.temperature, request.tools) == (0.5, ())
    assert run.meta.tokens_used == Usage(input=10 + 100 + 10, output=5 + 20 + 5)
    assert run.meta.cost_usd == pytest.approx(0.00012 + 2 * 0.000015)
    (event,) = told
    assert event["by"] == "consult" and event["callId"] == "c1" and event["model"] == "scripted:any"
    assert event["usage"] == {"inputTokens": 100, "outputTokens": 20} and event["costUsd"] == 0.00012
    assert event["total"] == {"inputTokens": 110, "outputTokens": 25}
    assert "error" not in event


async def test_a_whole_conversation_can_be_asked(desk: Desk) -> None:
    said = [
        Message(role="user", content="a"),
        Message(role="assistant", content="b"),
        Message(role="user", content="c"),
    ]
    desk.question = {"asked": said}
    await desk.run()
    assert [m.content for m in desk.asides[0].messages] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("question", "wrong"),
    [
        ({"asked": "  "}, "at least one message"),
        ({"asked": []}, "at least one message"),
        ({"asked": "x", "model": " padded "}, "'provider:model'"),
        ({"asked": "x", "params": {"temperature": 9}}, "temperature"),
        ({"asked": "x", "output": {"type": "nonsense"}}, "nonsense"),
    ],
)
async def test_a_wrong_question_is_refused_before_any_model_is_asked(
    question: dict[str, Any], wrong: str, desk: Desk
) -> None:
    desk.question = question
    run, told = await desk.run()
    assert run.status == "completed" and not told and not desk.asides
    (error,) = desk.failed
    assert isinstance(error, InvalidInput) and wrong in str(error)


async def test_a_model_that_is_not_there_says_so(desk: Desk) -> None:
    desk.question = {"asked": "x", "model": "nowhere:any"}
    run, told = await desk.run()
    (error,) = desk.failed
    assert isinstance(error, ModelError) and error.model_code == "ERR_CONFIG"
    assert told[0]["error"]["code"] == "ERR_CONFIG" and run.status == "completed"


# Structured output.


async def test_a_model_that_can_be_held_to_a_schema_is(desk: Desk) -> None:
    desk.model = ScriptedModel(desk._line, capabilities=("tools", "structured_output"), price=PRICE)
    desk.replies = ['{"fits": true}']
    desk.question = {"asked": "x", "output": Verdict}
    await desk.run()
    assert desk.answers[0].value == {"fits": True}
    assert desk.asides[0].params.response_format is not None and not desk.asides[0].tools


async def test_any_other_model_hands_its_answer_in_and_what_does_not_fit_is_sent_back(desk: Desk) -> None:
    desk.replies = [call("submit_result", fits="perhaps"), call("submit_result", fits=False)]
    desk.question = {"asked": "x", "output": Verdict}
    _, told = await desk.run()
    assert desk.answers[0].value == {"fits": False}
    assert desk.asides[0].params.tool_choice == "required"
    assert "not the result that was asked for" in desk.asides[1].messages[-1].content
    assert desk.answers[0].usage == Usage(input=20, output=10) and len(told) == 2


async def test_a_model_that_never_fits_fails_the_call_and_is_paid(desk: Desk) -> None:
    desk.replies = ["no", "never", "not at all"]
    desk.question = {"asked": "x", "output": {"type": "object"}}
    run, told = await desk.run()
    assert isinstance(desk.failed[0], ModelError) and desk.failed[0].model_code == "ERR_JSON_OUTPUT_PARSE"
    assert len(told) == 3 and run.meta.tokens_used.input == 10 + 30 + 10


# Failures.


async def test_a_failure_that_may_pass_is_tried_again_and_every_try_is_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agency.thread.asides.retry_delay", lambda attempt, after: 1)
    desk.replies = [
        ModelError("busy", model_code="ERR_OVERLOADED", retryable=True, usage=Usage(input=7)),
        ModelReply(text="red", stop="stop", usage=ASIDE),
    ]
    run, told = await desk.run()
    assert desk.answers[0].text == "red"
    assert [each.get("error", {}).get("code") for each in told] == ["ERR_OVERLOADED", None]
    assert run.meta.tokens_used.input == 10 + 7 + 100 + 10


async def test_the_next_model_of_a_chain_answers_when_the_first_cannot(desk: Desk) -> None:
    desk.question = {"asked": "x", "model": ["second:any", "scripted:other"]}
    desk.second = [ModelError("busy", retryable=True)]
    await desk.run()
    assert (desk.answers[0].text, desk.answers[0].model) == ("blue", "scripted:other")


@pytest.mark.parametrize("stop", ["content_filter", "context_overflow", "canceled"])
async def test_a_reply_that_was_stopped_is_an_error_and_paid(stop: Any, desk: Desk) -> None:
    desk.replies = [ModelReply(text="bl", stop=stop, usage=ASIDE)]
    run, told = await desk.run()
    assert isinstance(desk.failed[0], ModelError) and told[0]["usage"]["inputTokens"] == 100
    assert run.status == "completed" and run.meta.tokens_used.input == 120


async def test_a_reply_that_was_cut_says_so(desk: Desk) -> None:
    desk.replies = [ModelReply(text="bl", stop="output_limit", usage=ASIDE)]
    await desk.run()
    assert desk.answers[0].cut and desk.answers[0].text == "bl"


async def test_what_a_canceled_aside_has_used_is_charged(desk: Desk) -> None:
    reached = asyncio.Event()

    async def hang(request: ModelRequest) -> Line:
        if request.system == "You are a clerk.":
            return call("consult")
        request.meter.usage = Usage(input=33)
        reached.set()
        await asyncio.Event().wait()
        return ""

    desk.model = ScriptedModel(hang, price=PRICE)
    async with LocalRuntime(desk.system(), desk.folder) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await asyncio.wait_for(reached.wait(), PATIENCE)
        await thread.cancel()
        assert thread.run().status == "canceled" and thread.run().meta.tokens_used.input == 10 + 33
        (told,) = await asked(thread)
        assert told["error"]["code"] == "ERR_INTERRUPTED"


# Limits and budgets.


async def test_a_tool_asks_nothing_more_when_a_limit_is_used_up(desk: Desk) -> None:
    run, told = await desk.run(limits=Limits(tokens=15))
    assert not desk.asides and not told
    assert isinstance(desk.failed[0], ModelError) and desk.failed[0].model_code == "ERR_TOKEN_LIMIT"
    assert (run.status, run.meta.pause_reason) == ("paused", "exhausted")


async def test_what_an_aside_uses_counts_against_the_limit_of_the_run(desk: Desk) -> None:
    run, _ = await desk.run(limits=Limits(tokens=100))
    assert (run.status, run.errors[0].code) == ("paused", "ERR_TOKEN_LIMIT")


class Thrifty(LocalRuntime):
    """Its agency has a budget of so many tokens."""

    tokens = 50

    def budgeted(self) -> bool:
        return True

    async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
        return "ERR_AGENCY_TOKENS" if spent.usage.total >= self.tokens else None


class Summary(Middleware[None]):
    """Asks a model before every call of the run's own."""

    name = "summary"
    tags = ("summary",)

    def __init__(self) -> None:
        self.answers: list[Aside] = []
        self.errors: list[Exception] = []

    async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
        self.answers.append(await ctx.ask_model("Sum it up.", system="You sum up."))
        plan.add_prompt(self.answers[-1].text)

    async def on_run_end(self, ctx: HookContext[None], run: RunEnd) -> None:
        try:
            await ctx.ask_model("Too late?")
        except Exception as error:
            self.errors.append(error)


class Reviewer(Middleware[None]):
    """Asks about every result, the same question each time."""

    name = "reviewer"
    tags = ("reviewer",)

    async def on_tool_result(self, ctx: HookContext[None], call: ToolCall, result: str) -> None:
        first, second = await ctx.ask_model("Is it so?"), await ctx.ask_model("Is it so?")
        assert first.text != second.text


def clerk(desk: Desk, *middleware: Middleware[Any]) -> None:
    desk.middleware = list(middleware)

    def line(request: ModelRequest) -> Line:
        if request.system.startswith("You are a clerk."):
            return "done" if request.messages[-1].role == "tool" else call("consult", call_id="c1")
        desk.asides.append(request)
        return ModelReply(text=f"blue {len(desk.asides)}", stop="stop", usage=ASIDE)

    desk.model = ScriptedModel(line, price=PRICE)


async def test_a_hook_asks_once_a_turn_and_is_charged_to_the_run(desk: Desk) -> None:
    summary = Summary()
    clerk(desk, summary)
    run, told = await desk.run()
    assert run.status == "completed" and run.meta.tokens_used.input == 3 * 100 + 20
    assert [(each["by"], each.get("callId")) for each in told] == [
        ("summary", None),
        ("consult", "c1"),
        ("summary", None),
    ]
    assert [answer.text for answer in summary.answers] == ["blue 1", "blue 3"]


async def test_after_a_run_there_is_none_to_charge(desk: Desk) -> None:
    summary = Summary()
    clerk(desk, summary)
    await desk.run()
    (error,) = summary.errors
    assert "no run is in progress" in str(error)


async def test_the_same_question_twice_is_two_asides(desk: Desk) -> None:
    clerk(desk, Reviewer())
    run, told = await desk.run()
    assert run.status == "completed" and [each["by"] for each in told] == ["consult", "reviewer", "reviewer"]


async def test_a_hook_that_meets_a_used_up_budget_pauses_the_run(desk: Desk) -> None:
    clerk(desk, Summary())
    async with Thrifty(desk.system(), desk.folder) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        run = await thread.wait(PATIENCE)
        assert (run.status, run.errors[0].code) == ("paused", "ERR_AGENCY_TOKENS")
        Thrifty.tokens = 10_000
        await thread.budget_lifted()
        assert (await thread.wait(PATIENCE)).status == "completed"
    assert [request.messages[-1].content for request in desk.asides].count("Sum it up.") == 2  # one each turn
    Thrifty.tokens = 50


async def test_a_limit_that_a_hook_meets_pauses_the_run_and_the_turn_asks_nothing_twice(desk: Desk) -> None:
    clerk(desk, Summary())
    async with LocalRuntime(desk.system(), desk.folder) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x", limits=Limits(tokens=110))
        run = await thread.wait(PATIENCE)
        assert (run.status, run.errors[0].code) == ("paused", "ERR_TOKEN_LIMIT")
        await thread.lift_limits(tokens=10_000)
        assert (await thread.wait(PATIENCE)).status == "completed"
        assert len(await asked(thread)) == 3


# Where it is asked from.


async def test_a_sync_tool_asks_from_its_own_thread(tmp_path: Path) -> None:
    @tool
    def consult(ctx: ToolContext) -> str:
        """Ask a model aside."""
        return asyncio.run(ctx.ask_model("Which colour?")).text

    def line(request: ModelRequest) -> Line:
        last = request.messages[-1]
        return "green" if request.system == "" else last.content if last.role == "tool" else call("consult")

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(line)}).add_tool(consult)
    system.add_agent(name="clerk", description="d", prompt="You are a clerk.")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        run = await thread.wait(PATIENCE)
        assert run.data == "green" and len(await asked(thread)) == 1


async def test_several_asides_of_one_call_are_asked_side_by_side(tmp_path: Path) -> None:
    together = asyncio.Barrier(3)

    @tool
    async def consult(ctx: ToolContext) -> str:
        """Ask three models aside."""
        answers = await asyncio.gather(*(ctx.ask_model(f"question {n}") for n in range(3)))
        return ", ".join(answer.text for answer in answers)

    async def line(request: ModelRequest) -> Line:
        last = request.messages[-1]
        if request.system == "":
            await asyncio.wait_for(together.wait(), PATIENCE)
            return last.content.removeprefix("question ")
        return last.content if last.role == "tool" else call("consult")

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(line)}).add_tool(consult)
    system.add_agent(name="clerk", description="d", prompt="You are a clerk.")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        assert (await thread.wait(PATIENCE)).data == "0, 1, 2"
