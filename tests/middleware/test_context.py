"""A conversation that is too long goes on without its beginning, and the thread keeps all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agency import AgentSystem, DefinitionError, LocalRuntime, ModelError, ModelRequest
from agency.testing import Line, ScriptedModel
from middleware import context

PATIENCE = 20.0


def short_sighted(most: int) -> ScriptedModel:
    """A model that takes so many messages."""

    def script(request: ModelRequest) -> Line:
        if len(request.messages) > most:
            return ModelError("too long", model_code="ERR_CONTEXT_OVERFLOW")
        return f"answer to {request.messages[-1].content}"

    return ScriptedModel(script)


def system_of(model: ScriptedModel, **config: object) -> AgentSystem:
    system = AgentSystem("short:any", providers={"short": model}).use(context)
    chosen = {"context": config} if config else None
    return system.add_agent(name="clerk", description="…", prompt="…", tags=["context"], config=chosen)


async def test_a_long_conversation_goes_on_without_its_beginning_and_loses_nothing(tmp_path: Path) -> None:
    model = short_sighted(6)
    async with LocalRuntime(system_of(model), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        for n in range(20):
            await thread.invoke(f"question {n}")
            run = await thread.wait(PATIENCE)
            assert (run.status, run.data) == ("completed", f"answer to question {n}")
        messages = (await thread.state()).messages
        assert [m.content for m in messages if m.role == "user"] == [f"question {n}" for n in range(20)]
    asked = model.requests[-1].messages
    assert len(asked) <= 6
    assert "question 0" in asked[0].content
    assert "earlier messages are left out" in asked[0].content


async def test_what_is_left_out_stays_left_out_when_the_thread_is_opened_again(tmp_path: Path) -> None:
    system = system_of(short_sighted(6))
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        for n in range(5):
            await thread.invoke(f"question {n}")
            await thread.wait(PATIENCE)
    model = short_sighted(6)
    async with LocalRuntime(system_of(model), tmp_path) as runtime:
        thread = await runtime.thread("t")
        await thread.invoke("one more")
        assert (await thread.wait(PATIENCE)).data == "answer to one more"
    assert "left out" in model.requests[0].messages[0].content


async def test_when_nothing_more_can_go_the_run_says_that_it_is_too_long(tmp_path: Path) -> None:
    model = short_sighted(2)
    async with LocalRuntime(system_of(model, keep=3), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("one")
        await thread.wait(PATIENCE)
        await thread.invoke("two")
        run = await thread.wait(PATIENCE)
        assert [error.code for error in run.errors] == ["ERR_CONTEXT_OVERFLOW"]


def test_a_wrong_configuration_is_refused() -> None:
    with pytest.raises(DefinitionError, match="keep"):
        assert system_of(short_sighted(1), keep=0).agents
