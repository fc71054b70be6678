"""What a run comes to for the code that asked for it: a value of the wanted type, or an error that says why not.

The one idea: who names a type gets an instance of it or an exception, never something in between. The envelope of a run
(`RunEnvelope`) is for those who look at every status themselves. Clients read the same envelope, so this is used there
too, and it must ask nothing of the thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import to_json

from agency.define.output import OutputType, is_output_type
from agency.errors import InvalidInput, RunFailed, RunUnfinished
from agency.thread.views import RunEnvelope, ThreadState
from agency.wire import explain

Output = TypeVar("Output")
AnyOutput = TypeVar("AnyOutput", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Output]):
    """A run that has completed: its `output`, the whole of the `run`, and the `thread` as it was then, with all
    messages."""

    output: Output
    run: RunEnvelope
    thread: ThreadState


@overload
def output_of(run: RunEnvelope, wanted: None) -> str: ...
@overload
def output_of(run: RunEnvelope, wanted: type[AnyOutput]) -> AnyOutput: ...
@overload
def output_of(run: RunEnvelope, wanted: Mapping[str, JsonValue]) -> JsonValue: ...
@overload
def output_of(run: RunEnvelope, wanted: OutputType | None) -> object: ...
def output_of(run: RunEnvelope, wanted: OutputType | None) -> object:
    """The result of a run as an instance of a pydantic model, as the value that fits a JSON schema, or as text.

    `RunFailed` if the run has none, `RunUnfinished` if it has none yet."""
    check_completed(run)
    if isinstance(wanted, type):
        try:
            return wanted.model_validate(run.data)
        except ValidationError as error:
            problem = f"the result is no {wanted.__name__}: {explain(error)}"
            raise _failed(run, "ERR_JSON_OUTPUT_SCHEMA", problem) from error
    if wanted is not None or isinstance(run.data, str):
        return run.data
    return "" if run.data is None else to_json(run.data).decode()


def checked_output(wanted: type[AnyOutput]) -> type[AnyOutput]:
    """What a result is to be an instance of; `InvalidInput` if none can be made."""
    if not is_output_type(wanted):
        raise InvalidInput(f"output is a pydantic model, not {wanted!r:.100}")
    return wanted


def check_completed(run: RunEnvelope) -> None:
    """Raise unless the run has a result."""
    if run.status in ("running", "paused", "registered"):
        waits = tuple(call.id for call in run.meta.pending_tool_calls)
        raise RunUnfinished(_unfinished(run), reason=run.meta.pause_reason or "running", waits=waits, **_names(run))
    if run.status != "completed":
        told = run.errors[0] if run.errors else None
        code = "ERR_CANCELED" if told is None else told.code
        raise _failed(run, code, "the run was canceled" if told is None else told.message)


def _failed(run: RunEnvelope, code: str, reason: str) -> RunFailed:
    return RunFailed(f"{code}: {reason}", run_code=code, reason=reason, **_names(run))


def _names(run: RunEnvelope) -> dict[str, str]:
    return {"thread_id": run.meta.thread_id, "run_id": run.run_id}


def _unfinished(run: RunEnvelope) -> str:
    """What the run waits for, and what lets it go on."""
    meta = run.meta
    if meta.pending_tool_calls:
        calls = ", ".join(f"{call.name} ({call.id})" for call in meta.pending_tool_calls)
        return f"the run waits for a person to decide on {calls}: open its thread and approve, deny or decide"
    if meta.waiting_for is not None:
        return f"the run waits for its descendant {meta.waiting_for.thread_id}, which waits for a person"
    match meta.pause_reason:
        case "exhausted":
            return f"the run waits for more to spend: {run.errors[0].message if run.errors else 'lift its limits'}"
        case "manual":
            return "the run was paused by hand: resume it"
        case "outside":
            return f"the run waits for the outside: {', '.join(call.waits_for for call in meta.waiting_calls)}"
        case "subagent":
            return "the run waits for its children, which are still at work"
        case _:
            return "the run is still at work: wait again, or longer"
