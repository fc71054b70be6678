"""What a person is asked at the terminal about a call, and what `--yes` decides: never on a call in doubt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.console import Console

from agency import Approve, Decision, Deny, Happened, Rerun
from agency.approvals.pending import PendingToolCall
from agency.define.system import AgentSystem
from agency.define.tools import tool
from agency.events import Event, EventType
from dashboard.command.doctor import unattended
from dashboard.command.terminal.display import RunDisplay
from dashboard.command.terminal.prompts import ApproveAll, Question
from dashboard.command.terminal.rendering import call_line, left_in_doubt

CALL = PendingToolCall(id="c1", name="publish", args={"path": "/a.md"})
DOUBT = PendingToolCall(id="c2", name="publish", args={"path": "/b.md"}, kind="in_doubt")


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["r"], Rerun()),
        (["y", "a", "e", "r"], Rerun()),
        (["h", '{"public": true}'], Happened({"public": True})),
        (["h", "", "h", "it is public"], Happened("it is public")),
        (["n", "leave it"], Deny("leave it")),
    ],
)
def test_a_call_in_doubt_is_run_again_or_did_happen(typed: Sequence[str], decision: Decision) -> None:
    question = Question(DOUBT)
    for each in typed:
        assert question.decision is None
        question.take(each)
    assert question.decision == decision


async def test_yes_approves_what_has_not_begun_and_leaves_calls_in_doubt() -> None:
    assert await ApproveAll().decide([CALL, DOUBT]) == {"c1": Approve()}
    assert await ApproveAll().decide([DOUBT]) is None


def test_a_call_in_doubt_is_shown_as_one_with_what_to_do() -> None:
    assert "in doubt" in call_line(DOUBT).plain and "in doubt" not in call_line(CALL).plain
    said = left_in_doubt(DOUBT, "agency approve thr_1").plain
    assert all(word in said for word in ("publish", "goes on waiting", "agency approve thr_1 --rerun", "--happened"))


def test_the_display_names_the_tools_that_were_decided_on() -> None:
    console = Console(record=True, quiet=False, force_terminal=False, width=100)
    display = RunDisplay(console)
    display.watch("t", "clerk")
    calls = [{"toolName": "publish", "callId": "c1", "args": {}}]
    for seq, (kind, data) in enumerate(
        [
            (EventType.HITL_INTERRUPT, {"proposedToolCalls": calls, "kind": "approval"}),
            (EventType.HITL_RESUME, {"approved": True, "decisions": {"c1": "approve"}}),
        ]
    ):
        display.take("t", Event.model_validate({"threadId": "t", "seq": seq + 1, "ts": "", "type": kind, "data": data}))
    assert "✋ approve publish" in console.export_text()


def test_the_doctor_warns_of_agents_that_are_unattended() -> None:
    @tool(risk="high")
    async def publish(path: str) -> str:
        return path

    system = AgentSystem("demo:instant").add_tool(publish)
    system.add_agent(name="editor", prompt="You publish.", unattended=True)
    finding = unattended("editor", system.risky_tools(system.agents["editor"]))
    assert (finding.state, finding.what) == ("warning", "agent editor")
    assert "publish without asking a person" in finding.found and "approvals=True" in finding.to_do
