"""The process is killed before and after every commit of a run that begins with an imported conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, KeyReused, LocalRuntime, Message, ModelRequest, ToolCall, tool
from agency.testing import Line, ScriptedModel, call
from tests.support.crashes import killed_and_resumed

PAST = (
    Message(role="user", content="shout"),
    Message(role="assistant", tool_calls=(ToolCall(id="c1", name="shout", args={"word": "a"}),)),
    Message(role="tool", content="A", tool_call_id="c1"),
)


@tool
async def shout(word: str) -> dict[str, str]:
    return {"said": word.upper()}


def script(request: ModelRequest) -> Line:
    results = sum(message.role == "tool" for message in request.messages)
    return call("shout", word="b", call_id="c1") if results == 1 else "done"


def build() -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)}).add_tool(shout)
    return system.add_agent(name="clerk", description="Shouts.", prompt="You shout.")


async def operate(folder: Path) -> None:
    """What a patient client does: send the same again until it has an answer."""
    async with LocalRuntime(build(), folder) as runtime:
        known = "clerk" in runtime.thread_ids()
        thread = await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))
        assert (await thread.invoke(PAST, idempotency_key="k")).run_id == "clerk.1"
        with pytest.raises(KeyReused):
            await thread.invoke(PAST[:1], idempotency_key="k")
        assert (await thread.wait(20)).data == "done"
        assert (await thread.invoke(idempotency_key="l")).run_id == "clerk.2"
        assert (await thread.wait(20)).data == "done"
        said = [(message.role, message.content) for message in (await thread.state()).messages]
        assert said == [
            ("user", "shout"),
            ("assistant", ""),
            ("tool", "A"),
            ("assistant", ""),
            ("tool", '{"said":"B"}'),
            ("assistant", "done"),
            ("assistant", "done"),
        ]
        assert (await thread.tool_call("c1")).output == {"said": "B"}


@pytest.mark.kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_imported_conversation_is_there_once_and_whole_and_its_key_is_remembered(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    for _ in killed_and_resumed(tmp_path, when, operate, least=4):
        pass  # it was resumed to its end, which says it all
