"""What is kept of a call of a tool for people who look for a defect: where it failed, and what it printed.

It is staged in the draft that carries the call's outcome, so it is there if and only if that is. Neither the model nor
a viewer reads any of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from agency.captured import Recording
from agency.store.details import Detail, details, failures, keep_detail, telling_event
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.tracebacks import is_unexpected
from agency.wire import Wire


@dataclass(slots=True)
class Trace:
    """Of a call that is running."""

    call: str
    attempt: int
    recording: Recording | None = None
    traceback: str = ""

    def keep(self, draft: Draft) -> None:
        """Stage what there is."""
        output = "" if self.recording is None else self.recording.text()
        if self.traceback or output:
            body: dict[str, JsonValue] = {"attempt": self.attempt, "traceback": self.traceback, "output": output}
            keep_detail(draft, "tool", self.call, body)


class CallTrace(Wire):
    """One attempt of a call: the traceback of the error that it raised, and what it printed and logged."""

    attempt: int = 1
    traceback: str = ""
    output: str = ""


class TraceRecord(Wire):
    """Something that failed or printed: a `tool`, by its call, a `model`, one that was asked `aside`, or the `run` by a
    hook. `seq` is the event that tells of it."""

    seq: int
    run_id: str
    kind: str
    call_id: str | None = None
    attempt: int = 1
    traceback: str = ""
    output: str = ""


def trace_records(store: ThreadStore, after: int = 0) -> tuple[TraceRecord, ...]:
    """What failed or printed in the thread, oldest first; with `after`, what later events tell of."""
    found = (_record(store, each) for each in failures(store, after))
    return tuple(each for each in found if (each.traceback or each.output) and each.seq > after)


def _record(store: ThreadStore, detail: Detail) -> TraceRecord:
    body = CallTrace.model_validate({name: detail.body[name] for name in CallTrace.model_fields if name in detail.body})
    return TraceRecord(
        seq=telling_event(store, detail),
        run_id=run_id(store.thread_id, detail.run),
        kind="aside" if detail.kind == "failed_aside" else detail.kind,
        call_id=detail.call if detail.kind == "tool" else None,
        attempt=body.attempt,
        traceback=body.traceback,
        output=body.output,
    )


def calls_traces(store: ThreadStore, call: str, after: int, before: int) -> tuple[CallTrace, ...]:
    """The attempts of a call that failed or printed, between two events."""
    return tuple(
        CallTrace.model_validate(each.body)
        for each in details(store, kind="tool", call=call, after=after, before=before)
    )


def shows_stack(error: BaseException) -> bool:
    """Whether the traceback of what a tool has raised tells more than its message: it is no error of ours, or one that
    was raised because of another."""
    return is_unexpected(error) or any(
        each is not None and is_unexpected(each) for each in (error.__cause__, error.__context__)
    )
