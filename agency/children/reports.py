"""What a child's end means: the report to its parent, and there the result of the call that started it."""

from __future__ import annotations

from pydantic_core import to_json

from agency.children.parcels import ChildStatus, Report
from agency.metadata import ThreadMetadata
from agency.spending import Spent
from agency.turn.outcomes import Canceled, Failure, Settled, Stopped, Success, TurnOutcome, result_of


def call_outcome(status: ChildStatus, report: str) -> Settled:
    match status:
        case "completed":
            return Success(content=report)
        case "canceled":
            return Canceled(reason="the subagent was canceled")
        case "timed_out":
            return Failure(kind="timeout", source="runtime", message=f"the subagent was stopped: {report}")
        case "failed":
            return Failure(kind="external", message=f"the subagent failed: {report}")


def report_of(thread: ThreadMetadata, outcome: TurnOutcome, spent: Spent, files: dict[str, str]) -> Report:
    parent = thread.parent
    assert parent is not None
    status: ChildStatus = "completed"
    result = result_of(outcome)
    text = result if isinstance(result, str) else to_json(result).decode()
    if isinstance(outcome, Stopped):
        status = "canceled" if outcome.reason == "canceled" else "failed"
        text = f"{outcome.code}: {outcome.message}"
    return Report(
        to=parent.thread_id,
        thread_id=thread.id,
        token=parent.token,
        status=status,
        report=text,
        spent=spent,
        files=files,
    )
