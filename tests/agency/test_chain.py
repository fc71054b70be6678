"""Chains of models, their costs and their limits, in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from agency import AgentSystem, LocalRuntime, ModelError
from agency.define.hooks import HookContext, Middleware, Plan
from agency.define.tools import tool
from agency.errors import DefinitionError, InvalidInput
from agency.events import EventType
from agency.messages import Image, Message, Usage
from agency.metadata import ThreadMetadata
from agency.models.interface import ModelParams
from agency.models.providers.entry import Price
from agency.runtime import ThreadProgress
from agency.store.peek import glance
from agency.testing import Line, Script, ScriptedModel, call
from agency.thread.thread import Thread
from agency.turn.effects import ModelReply
from middleware import subagents
from tests.support.waiting import eventually

PATIENCE = 20.0
PRICE = Price(input=1_000_000, output=2_000_000)
"""A dollar for a token, and two."""


def busy(code: str = "ERR_OVERLOADED") -> ModelError:
    return ModelError("busy", model_code=code, retryable=True, request_id="req_1")


def system_of(models: Mapping[str, ScriptedModel], **agent: object) -> AgentSystem:
    system = AgentSystem("a:x", providers=models)
    return system.add_agent(name="clerk", description="…", prompt="…", **agent)  # type: ignore[call-overload, no-any-return]


async def ran(system: AgentSystem, folder: Path, message: str | Message = "go") -> Thread:
    runtime = LocalRuntime(system, folder)
    await runtime.__aenter__()
    thread = await runtime.create_thread("clerk")
    await thread.invoke(message)
    await thread.wait(PATIENCE)
    return thread


def always(line: Line) -> Callable[[object], Line]:
    return lambda request: line


async def test_the_next_model_answers_in_the_same_turn_with_the_same_conversation(tmp_path: Path) -> None:
    first, second = ScriptedModel(always(busy())), ScriptedModel(["at last"])
    thread = await ran(system_of({"a": first, "b": second}, model=["a:x", "b:y"]), tmp_path)

    run = thread.run()
    assert (run.status, run.data, run.meta.turns, run.meta.model) == ("completed", "at last", 1, "b:y")
    assert [(a.model, a.turn, a.code, a.request_id) for a in run.meta.attempts] == [
        ("a:x", 1, "ERR_OVERLOADED", "req_1")
    ]
    assert first.requests[0].messages == second.requests[0].messages
    assert (first.requests[0].system, second.requests[0].model) == (second.requests[0].system, "y")
    await thread.close()


async def test_a_wrong_key_ends_the_run_under_its_own_name_and_nobody_else_is_asked(tmp_path: Path) -> None:
    first, second = ScriptedModel(always(ModelError("no", model_code="ERR_AUTH"))), ScriptedModel(["never"])
    thread = await ran(system_of({"a": first, "b": second}, model=["a:x", "b:y"]), tmp_path)

    assert [e.code for e in thread.run().errors] == ["ERR_AUTH"]
    assert second.requests == []
    await thread.close()


async def test_models_that_lack_what_is_required_are_passed_over(tmp_path: Path) -> None:
    first, second = ScriptedModel(["blind"]), ScriptedModel(["I see"], capabilities=["images"])
    chain = [{"model": "a:x", "requires": ["images"]}, "b:y"]
    thread = await ran(system_of({"a": first, "b": second}, model=chain), tmp_path)

    run = thread.run()
    assert (run.data, first.requests) == ("I see", [])
    assert [(a.model, a.code) for a in run.meta.attempts] == [("a:x", "ERR_CAPABILITY")]
    await thread.close()


async def test_a_model_that_takes_no_images_is_passed_over_when_there_are_some(tmp_path: Path) -> None:
    first, second = ScriptedModel(["blind"]), ScriptedModel(["I see"], capabilities=["images"])
    picture = Message(role="user", images=(Image(url="https://example.org/cat.png"),))
    thread = await ran(system_of({"a": first, "b": second}, model=["a:x", "b:y"]), tmp_path, picture)

    assert (thread.run().data, first.requests) == ("I see", [])
    assert [(a.model, a.code) for a in thread.run().meta.attempts] == [("a:x", "ERR_CAPABILITY")]
    await thread.close()


@pytest.mark.parametrize("model", ["g p t", [], ["a:x", 7], [{"model": "a:x", "requires": ["magic"]}], {"a": 1}])
def test_what_is_no_chain_is_refused_in_plain_words(model: object) -> None:
    with pytest.raises(DefinitionError, match=r"agent 'clerk': model: .*a model reads 'provider:model'"):
        system_of({"a": ScriptedModel([])}, model=model)


def test_an_agent_that_no_model_is_good_enough_for_is_wrongly_defined() -> None:
    system = system_of({"a": ScriptedModel([])}, requires=["images"])
    with pytest.raises(DefinitionError, match=r"no model can do what is required.*images"):
        assert system.agents
    with pytest.raises(DefinitionError, match="requires"):
        system_of({"a": ScriptedModel([])}, requires=["telepathy"])
    with pytest.raises(DefinitionError, match="no provider named 'c'"):
        assert system_of({"a": ScriptedModel([])}, model=["a:x", "c:y"]).agents


async def test_parameters_of_an_agent_reach_its_model(tmp_path: Path) -> None:
    model = ScriptedModel(["ok"])
    params = {"temperature": 0.5, "maxTokens": 7, "stop": ["END"]}
    thread = await ran(system_of({"a": model}, params=params), tmp_path)

    assert model.requests[0].params == ModelParams(temperature=0.5, max_tokens=7, stop=("END",))
    await thread.close()


# What it costs.


async def test_a_run_tells_what_it_cost(tmp_path: Path) -> None:
    thread = await ran(system_of({"a": ScriptedModel(["hi"], price=PRICE)}), tmp_path)

    assert thread.run().meta.cost_usd == 20.0
    (told,) = [e.data async for e in thread.events(follow=False) if e.type is EventType.MODEL_COMPLETED]
    assert (told["model"], told["costUsd"], told["totalCostUsd"]) == ("a:x", 20.0, 20.0)
    await thread.close()


async def test_an_unknown_price_is_unknown_and_not_zero(tmp_path: Path) -> None:
    thread = await ran(system_of({"a": ScriptedModel(["hi"])}), tmp_path)

    assert thread.run().meta.cost_usd is None
    await thread.close()


def family(
    parent: Script, child: Script, *, limits: Mapping[str, float] | None = None, price: Price | None = PRICE
) -> AgentSystem:
    models = {"a": ScriptedModel(parent, price=price), "b": ScriptedModel(child, price=price)}
    system = AgentSystem("a:x", providers=models).use(subagents, tags=["default"])
    system.add_agent(name="clerk", description="…", prompt="…", limits=limits)
    return system.add_agent(name="scout", description="…", prompt="…", model="b:y", tags=[])


async def test_what_children_cost_is_part_of_the_whole_and_shown_apart(tmp_path: Path) -> None:
    task = call("task", description="look", subagent_type="scout")
    thread = await ran(family([task, "done"], ["seen"]), tmp_path)

    meta = thread.run().meta
    assert (meta.cost_usd, meta.tokens_used.total) == (60.0, 45)
    assert (meta.children.cost_usd, meta.children.tokens_used) == (20.0, Usage(input=10, output=5))
    await thread.close()


async def test_what_a_child_used_that_was_not_waited_for_any_more_is_counted_when_it_tells(tmp_path: Path) -> None:
    @tool
    async def dawdle() -> str:
        """Take long."""
        await asyncio.sleep(60)
        return "late"

    task = call("task", description="look", subagent_type="scout", timeout_ms=300)
    models = {
        "a": ScriptedModel([task, "done"], price=PRICE),
        "b": ScriptedModel([call("dawdle")], price=PRICE),
    }
    system = AgentSystem("a:x", providers=models).use(subagents, tags=["default"]).add_tool(dawdle, tags=["slow"])
    system.add_agent(name="clerk", description="…", prompt="…")
    system.add_agent(name="scout", description="…", prompt="…", model="b:y", tags=["slow"])
    told: list[tuple[float | None, float | None]] = []

    class Listening(LocalRuntime):
        def committed(self, thread: ThreadMetadata, progress: ThreadProgress) -> None:
            if thread.agent_type == "clerk":
                told.append((progress.spent.cost_usd, progress.children.cost_usd))

    async with Listening(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "done"
        await eventually(lambda: told[-1] == (40.0, 20.0))
        assert thread.run().meta.children.cost_usd == 20.0


async def test_what_a_call_that_failed_had_used_is_counted(tmp_path: Path) -> None:
    broken = ModelError("cut", model_code="ERR_STREAM_INCOMPLETE", retryable=True, usage=Usage(input=7))
    lines: Iterator[Line] = iter([broken, "whole"])
    model = ScriptedModel(lambda request: next(lines), price=PRICE)
    thread = await ran(system_of({"a": model}), tmp_path)

    assert (thread.run().data, thread.run().meta.cost_usd) == ("whole", 27.0)
    await thread.close()


async def test_a_limit_of_cost_cannot_be_raised_while_the_cost_is_unknown_but_it_can_be_lifted(tmp_path: Path) -> None:
    thread = await ran(family([call("nothing"), "done"], [], limits={"cost_usd": 1.0}, price=None), tmp_path)
    assert thread.run().errors[0].code == "ERR_COST_UNKNOWN"
    with pytest.raises(InvalidInput, match="not known"):
        await thread.lift_limits(cost_usd=50)
    assert thread.run().meta.pause_reason == "exhausted"
    await thread.lift_limits()

    assert (await thread.wait(PATIENCE)).data == "done"
    await thread.close()


async def test_children_count_for_the_limits_of_their_parents_run(tmp_path: Path) -> None:
    task = call("task", description="look", subagent_type="scout")
    thread = await ran(family([task, "done"], ["seen"], limits={"cost_usd": 40.0}), tmp_path)

    run = thread.run()
    assert (run.meta.pause_reason, run.errors[0].code) == ("exhausted", "ERR_COST_LIMIT")
    await thread.lift_limits(cost_usd=100.0)
    assert (await thread.wait(PATIENCE)).data == "done"
    await thread.close()


async def test_a_thread_that_is_opened_again_knows_what_it_has_used(tmp_path: Path) -> None:
    task = call("task", description="look", subagent_type="scout")
    system = family(lambda r: task if r.messages[-1].content == "go" else "done", ["seen"])
    thread = await ran(system, tmp_path)
    await thread.invoke("and again")
    await thread.wait(PATIENCE)
    before = glance(tmp_path / f"{thread.id}.db")
    await thread.close()

    async with LocalRuntime(system, tmp_path) as runtime:
        await runtime.thread(thread.id)
        after = glance(tmp_path / f"{thread.id}.db")
        assert (after.spent.cost_usd, after.spent.turns, after.children.cost_usd) == (60.0, 3, 20.0)
        assert (after.spent, after.children) == (before.spent, before.children)


async def test_more_money_lets_a_paused_run_go_on_after_a_restart(tmp_path: Path) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([call("look"), "done"], price=PRICE)
    system = AgentSystem("a:x", providers={"a": model}).add_tool(look)
    system.add_agent(name="clerk", description="…", prompt="…", limits={"cost_usd": 5})
    thread = await ran(system, tmp_path)
    assert thread.run().errors[0].code == "ERR_COST_LIMIT"
    await thread.close()

    async with LocalRuntime(system, tmp_path) as runtime:
        again = await runtime.thread(thread.id)
        assert again.run().meta.pause_reason == "exhausted"
        await again.lift_limits(cost_usd=50)
        assert (await again.wait(PATIENCE)).data == "done"


# Replies and requests that do not fit.


async def test_a_reply_that_was_cut_off_is_completed(tmp_path: Path) -> None:
    model = ScriptedModel([ModelReply(text="one, ", stop="output_limit"), "two"])
    thread = await ran(system_of({"a": model}), tmp_path)

    assert thread.run().data == "one, two"
    await thread.close()


class Window(Middleware[None]):
    """Leaves out whatever there was, once a model complains."""

    name = "window"
    tags = ("default",)

    async def on_overflow(self, ctx: HookContext[None], plan: Plan) -> bool:
        ctx.store.put("window", "from", plan.messages - 1)
        return True

    async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
        first = ctx.store.get("window", "from")
        if isinstance(first, int):
            plan.forget(first, "(There was more.)")


async def test_a_middleware_can_make_room_for_a_request_that_is_too_large(tmp_path: Path) -> None:
    def script(request: object) -> Line:
        messages = model.requests[-1].messages
        too_large = ModelError("too long", model_code="ERR_CONTEXT_OVERFLOW")
        return too_large if len(messages) > 2 else f"{len(messages)} messages"

    model = ScriptedModel(script)
    system = system_of({"a": model}).use(Window())
    thread = await ran(system, tmp_path)
    assert thread.run().data == "1 messages"
    await thread.invoke("more")
    run = await thread.wait(PATIENCE)

    assert run.data == "2 messages"
    assert [m.content for m in model.requests[-1].messages] == ["(There was more.)", "more"]
    assert [a.code for a in run.meta.attempts] == ["ERR_CONTEXT_OVERFLOW"]
    await thread.close()


async def test_without_such_a_middleware_it_ends_with_a_clear_code(tmp_path: Path) -> None:
    model = ScriptedModel(always(ModelError("too long", model_code="ERR_CONTEXT_OVERFLOW")))
    thread = await ran(system_of({"a": model}), tmp_path)

    assert [e.code for e in thread.run().errors] == ["ERR_CONTEXT_OVERFLOW"]
    await thread.close()


async def test_text_leaves_in_pieces_of_some_30_ms_and_whole(tmp_path: Path) -> None:
    words = [f"word{n} " for n in range(400)]

    class Chatty(ScriptedModel):
        async def respond(self, request, on_delta):  # type: ignore[no-untyped-def]
            for word in words:
                on_delta(word)
                await asyncio.sleep(0.0002)
            return ModelReply(text="".join(words), stop="stop")

    async with LocalRuntime(system_of({"a": Chatty([])}), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        deltas: list[str] = []

        async def follow() -> None:
            async for event in thread.events():
                if event.type is EventType.MODEL_DELTA:
                    deltas.append(str(event.data["delta"]))
                elif event.type is EventType.AGENT_COMPLETED:
                    return

        following = asyncio.create_task(follow())
        await thread.invoke("go")
        await asyncio.wait_for(following, PATIENCE)
        assert "".join(deltas) == "".join(words)
        assert len(deltas) < len(words) / 4
