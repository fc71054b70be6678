"""A person decides, and the process is killed before, during or after the answer: one effect and one result per call.

*Before* is between the question and the answer. *During* is at every commit of taking the answer, on both sides of it.
*After* is at every commit from there to the end of the run. Whoever asks finds, in the end, what was decided: the tool
took effect once if it was to run, never if it was not, and each call of the batch has exactly one result. A call that
was running when the process died may be in doubt; then it was executed at most once all the same.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Literal

import pytest

from agency import (
    AgentSystem,
    Always,
    Approve,
    Decision,
    Deny,
    Edit,
    EventType,
    LocalRuntime,
    Respond,
    ToolContext,
    WrongState,
    tool,
)
from agency.store.store import ThreadStore
from agency.testing import Line, ScriptedModel, call, die_at_commit
from middleware import hitl
from tests.support.crashes import IN_DOUBT, in_a_process

DECISIONS: dict[str, Decision] = {
    "approve": Approve(),
    "edit": Edit(args={"cents": 3}),
    "deny": Deny(reason="too dear"),
    "respond": Respond(content="paid in cash"),
    "always": Always(),
}
TEXTS = {
    "approve": "charged 5",
    "edit": "(A person changed the arguments to {'cents': 3}.)\ncharged 3",
    "deny": "Error: permission_denied: a person denied this call, it was not run: too dear",
    "respond": "paid in cash",
    "always": "charged 5",
}
EFFECTS = {"approve": ["charge 5"], "edit": ["charge 3"], "deny": [], "respond": [], "always": ["charge 5"]}
Side = Literal["before", "after"]
SIDES: tuple[Side, ...] = ("before", "after")
COMMITS: dict[str, Sequence[int]] = {"before": [0], "during": [1], "after": range(2, 100)}
"""The answer is taken in one commit: dying at it is "during", at a later one "after"."""
KILLS = {"before": 0, "during": 2, "after": 6}


def build(folder: Path) -> AgentSystem:
    def note(line: str) -> None:
        with (folder / "ledger").open("a") as ledger:
            ledger.write(line + "\n")

    @tool(idempotent=False)
    async def charge(cents: int, ctx: ToolContext) -> str:
        note(f"charge {cents}")
        await asyncio.sleep(0)
        return f"charged {cents}"

    @tool(safe=True)
    async def look(ctx: ToolContext) -> str:
        note("look")
        return "seen"

    lines: list[Line] = [[call("charge", cents=5, call_id="ch"), call("look", call_id="lo")], "done"]
    return (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)})
        .use(hitl, tags=["default"])
        .add_tool(charge)
        .add_tool(look)
        .add_agent(name="clerk", description="", prompt="clerk", config={"hitl": {"tools": ["charge"]}})
    )


async def ask(folder: Path) -> None:
    """Get as far as the question, and die."""
    async with LocalRuntime(build(folder), folder / "threads") as runtime:
        thread = await runtime.create_thread("clerk", thread_id="clerk")
        await thread.invoke("go", idempotency_key="1")
        assert (await thread.wait(20)).meta.pause_reason == "hitl"
        os.kill(os.getpid(), signal.SIGKILL)


async def finish(folder: Path, decision: str, die: tuple[int, Side] | None = None) -> None:
    """Answer what waits, twice over as people do, and see the run end; the death is counted from the answer on."""
    async with LocalRuntime(build(folder), folder / "threads") as runtime:
        thread = await runtime.thread("clerk")
        if (await thread.wait(20)).meta.pause_reason == "hitl":
            (pending,) = thread.run().meta.pending_tool_calls
            if die is not None:
                die_at_commit(*die)
            await thread.decide({pending.approval_id: DECISIONS[decision]}, idempotency_key="answer")
            await thread.decide({pending.approval_id: DECISIONS[decision]}, idempotency_key="answer")
            with pytest.raises(WrongState):
                await thread.decide({pending.approval_id: Approve()})
        assert (await thread.wait(20)).status == "completed"


def operate(work: Callable[..., Coroutine[None, None, None]], *args: object) -> int:
    return in_a_process(lambda: asyncio.run(work(*args)))


def check(folder: Path, decision: str) -> None:
    store = ThreadStore.open(folder / "threads" / "clerk.db")
    messages, events = store.messages(), store.events(limit=1_000)
    store.close()
    ran = (folder / "ledger").read_text().splitlines()
    results = [(message.tool_call_id, message.content) for message in messages if message.role == "tool"]
    assert [call_id for call_id, _ in results] == ["ch", "lo"], "one result per call, in the order of the calls"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    told = Counter(event.type for event in events)
    assert told[EventType.HITL_INTERRUPT] == told[EventType.HITL_RESUME] == 1, "asked once, answered once"
    charged = [line for line in ran if line.startswith("charge")]
    if IN_DOUBT in results[0][1]:
        assert EFFECTS[decision] and charged in ([], EFFECTS[decision])
    else:
        assert results[0][1] == TEXTS[decision]
        assert charged == EFFECTS[decision]
    assert results[1][1] == "seen"
    assert 1 <= ran.count("look") <= 2, "a call that may run again does so only if it had not ended"


@pytest.mark.parametrize("moment", COMMITS)
@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_and_a_crash_leave_one_effect_and_one_result_per_call(
    decision: str, moment: str, tmp_path: Path
) -> None:
    killed = 0
    for n in COMMITS[moment]:
        statuses: list[int] = []
        for side in SIDES:
            folder = tmp_path / f"{n}-{side}"
            folder.mkdir()
            assert operate(ask, folder) == -signal.SIGKILL
            if n:
                statuses.append(operate(finish, folder, decision, (n, side)))
            assert operate(finish, folder, decision) == 0
            check(folder, decision)
        killed += statuses.count(-signal.SIGKILL)
        if 0 in statuses:
            break
    assert killed >= KILLS[moment]
