"""The process is killed before and after every commit of a run with options: each of its model calls has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from agency import AgentSystem, HookContext, LocalRuntime, Middleware, ModelRequest, Plan, tool
from agency.testing import Line, ScriptedModel, call
from middleware import subagents
from tests.support.crashes import killed_and_resumed


class ToneOptions(BaseModel):
    word: str = "plain"


class Tone(Middleware[None, ToneOptions]):
    """Says in the prompt which options the run has."""

    name = "tone"
    options_model = ToneOptions

    async def before_model(self, ctx: HookContext[None, ToneOptions], plan: Plan) -> None:
        plan.add_prompt(ctx.options.word)


@tool(safe=True)
async def look() -> str:
    """Look."""
    return "seen"


def build(ledger: Path) -> AgentSystem:
    def script(request: ModelRequest) -> Line:
        asked = [request.system.split()[0], request.model, request.system.split()[-1], request.params.max_tokens]
        with ledger.open("a") as file:
            file.write(json.dumps([*asked, "look" in {each.name for each in request.tools}]) + "\n")
        step = sum(message.role == "assistant" for message in request.messages)
        lines: list[Line] = [call("task", description="work", subagentType="worker", call_id="t"), "one more", "done"]
        return lines[step] if request.system.startswith("clerk") else "worked"

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    system.use(subagents, tags=["default"]).use(Tone(), tags=["default"]).add_tool(look)
    system.add_agent(name="clerk", description="Clerk.", prompt="clerk")
    return system.add_agent(name="worker", description="Worker.", prompt="worker")


async def operate(folder: Path) -> None:
    """What a patient user does: make the thread if it is not there, send, and wait."""
    async with LocalRuntime(build(folder / "ledger"), folder) as runtime:
        known = "t" in runtime.thread_ids()
        thread = await (runtime.thread("t") if known else runtime.create_thread("clerk", thread_id="t"))
        await thread.invoke(
            "go",
            idempotency_key="1",
            model="scripted:large",
            params={"max_tokens": 9},
            tools={"deny": ["look"]},
            options={"tone": {"word": "kind"}},
        )
        assert (await thread.wait(20)).data == "one more"


@pytest.mark.kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_changes_no_option(when: Literal["before", "after"], tmp_path: Path) -> None:
    for folder in killed_and_resumed(tmp_path, when, operate, least=5):
        asked = {tuple(json.loads(line)) for line in (folder / "ledger").read_text().splitlines()}
        assert asked == {("clerk", "large", "kind", 9, False), ("worker", "any", "kind", None, False)}, folder.name
