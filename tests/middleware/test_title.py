"""A small model gives a thread its title, once, charged to the run; and never costs a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agency import AgentSystem, LocalRuntime, ModelError, ModelRequest
from agency.store.peek import glance
from agency.testing import Line, ScriptedModel
from middleware import title

PATIENCE = 20.0


def system_of(small: Line) -> tuple[AgentSystem, list[str]]:
    asked: list[str] = []

    def namer(request: ModelRequest) -> Line:
        asked.append(request.messages[-1].content)
        return small

    def clerk(request: ModelRequest) -> Line:
        return "With pleasure."

    models = {"big": ScriptedModel(clerk), "small": ScriptedModel(namer)}
    system = AgentSystem("big:any", providers=models).use(title)
    config = {"title": {"model": "small:any"}}
    return system.add_agent(name="clerk", description="…", prompt="…", tags=["title"], config=config), asked


async def test_the_title_is_made_once_after_the_first_reply_and_charged_to_the_run(tmp_path: Path) -> None:
    system, asked = system_of('"Rolls for Monday."')
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        for message in ("Please bake ten rolls.", "And a cake."):
            await thread.invoke(message)
            assert (await thread.wait(PATIENCE)).status == "completed"
    assert asked == ["user: Please bake ten rolls.\n\nassistant: With pleasure."]
    assert [glance(path).title for path in tmp_path.rglob("t.db")] == ["Rolls for Monday"]


@pytest.mark.parametrize("small", [ModelError("no", model_code="ERR_AUTH"), "  ", "***"])
async def test_without_a_title_the_first_message_stays(tmp_path: Path, small: Line) -> None:
    system, _ = system_of(small)
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("Please bake ten rolls.")
        run = await thread.wait(PATIENCE)
        assert (run.status, run.data) == ("completed", "With pleasure.")
        assert [each.kind for each in run.meta.warnings] == ["no_title"]
    assert [glance(path).title for path in tmp_path.rglob("t.db")] == ["Please bake ten rolls."]
