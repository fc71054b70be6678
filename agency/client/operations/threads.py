"""Operations of a thread: messages to it, its runs, its events and its state."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from pydantic import JsonValue
from typing_extensions import Unpack

from agency.api import bodies as api
from agency.api.settling import SettleBody
from agency.api.steering import RetryBody, StateEdit
from agency.api.tenancy import ThreadSummary
from agency.approvals.decisions import ApproveResult
from agency.client.operation import Resource, asks, follows, makes_thread
from agency.client.request import (
    FOLLOW_SECONDS,
    EventFeed,
    Messages,
    Request,
    body,
    chat,
    delete,
    encoded,
    get,
    key,
    order,
    post,
)
from agency.define.options import RunOptionFields
from agency.define.output import OutputType, as_schema
from agency.errors import NotFound, WrongState
from agency.events import Event
from agency.metadata import ThreadMetadata
from agency.store.draft import When
from agency.thread.call_records import CallRecord
from agency.thread.model_records import ModelCallRecord, ModelCallSummary
from agency.thread.outside import Settlement
from agency.thread.traces import TraceRecord
from agency.thread.views import Accepted, RunEnvelope
from agency.turn.outcomes import Decision
from agency.turn.state import Limits


class ThreadOperations(Resource):
    @asks
    def info(self) -> Request[ThreadSummary]:
        """The thread's metadata and status."""
        return get(ThreadSummary, self._path)

    @asks
    def rename(self, title: str | None) -> Request[ThreadSummary]:
        """Give the thread another title; None gives it its own title back."""
        return post(ThreadSummary, self._path, encoded(api.ThreadChange, {"title": title}), method="PATCH")

    @asks
    def delete(self) -> Request[None]:
        """Delete the thread with all its descendants."""
        return delete(self._path, done=NotFound)

    @makes_thread
    def fork(
        self,
        message: Messages = (),
        *,
        after_seq: int | None = None,
        before_message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RunOptionFields],
    ) -> Request[ThreadMetadata]:
        """Create a thread that begins as this one was: after one of its events, before one of its user's messages, or
        as it is now. A message starts its first run at once, with these `options` (`RunOptions`). This thread does not
        change, whatever it is doing."""
        wanted = body(
            api.NewFork,
            after_seq=after_seq,
            before_message=before_message,
            messages=chat(message),
            idempotency_key=idempotency_key or key(),
            **options,
        )
        return post(ThreadMetadata, f"{self._path}/fork", wanted)

    @asks
    def invoke(
        self,
        message: Messages = (),
        *,
        files: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        output_schema: OutputType | None = None,
        when: When = "next_step",
        idempotency_key: str | None = None,
        **options: Unpack[RunOptionFields],
    ) -> Request[Accepted]:
        """Send a message, which starts a run. Without one, a run starts on the conversation as it is, or continues.

        During a run, the message joins it at its next turn, or starts the run after it (`when="next_run"`), or
        interrupts it (`when="now"`). `limits` and `output_schema` (a pydantic model or a JSON schema) replace the
        blueprint's for a run that this message starts, and so do the `options` (`RunOptions`): the `model` or a chain
        of them, `params` of its calls, which `tools` it has, and `options` for middleware by name.
        """
        wanted = body(
            api.InvokeBody,
            messages=chat(message),
            files=files,
            limits=limits,
            output_schema=None if output_schema is None else as_schema(output_schema),
            when=when,
            idempotency_key=idempotency_key or key(),
            **options,
        )
        return post(Accepted, f"{self._path}/invoke", wanted)

    @follows
    def events(self, after: int = 0, *, patience: float = FOLLOW_SECONDS) -> EventFeed[Event]:
        """Every event after a seq, then new ones as they happen, with the text that models stream (`model.delta`,
        without a seq).

        A broken connection is opened again, and no stored event is missed or repeated. After `patience` seconds without
        a connection it raises `Unavailable`. It ends when you close it, or with `NotFound` when the thread is deleted.
        """
        return EventFeed(f"{self._path}/events", Event, lambda event: event.seq, after, patience)

    @asks
    def stored_events(self, after: int = 0, limit: int = 1_000) -> Request[tuple[Event, ...]]:
        """A page of the stored events after a seq."""
        return get(api.EventPage, f"{self._path}/events", {"after": after, "limit": limit}).then(
            lambda found: found.events
        )

    @asks
    def state(self) -> Request[api.StateAndRun]:
        """The messages, the tools, what middleware keep (todos, files, subagents), and the run at that moment."""
        return get(api.StateAndRun, f"{self._path}/state")

    @asks
    def tool_call(self, call_id: str, *, seq: int | None = None) -> Request[CallRecord]:
        """A tool call with all of its arguments and its output, which events show cut if they are long. Of several
        calls with this id it is the latest, or the one that the event `seq` tells of. Its `traces`, what it raised and
        printed, come to operators and admins."""
        return get(CallRecord, f"{self._path}/call/{quote(call_id, safe='')}", {} if seq is None else {"seq": seq})

    @asks
    def traces(self, after: int = 0) -> Request[tuple[TraceRecord, ...]]:
        """What failed with a traceback or printed something, oldest first; with `after`, what later events tell of. It
        needs the role `operator`."""
        return get(api.TraceList, f"{self._path}/traces", {"after": after}).then(lambda found: found.traces)

    @asks
    def model_calls(self, run: int | None = None) -> Request[tuple[ModelCallSummary, ...]]:
        """The model calls of a run in figures, also those of hooks and tools; of the latest run if none is named."""
        wanted = {} if run is None else {"run": run}
        return get(api.ModelCallList, f"{self._path}/model-calls", wanted).then(lambda found: found.model_calls)

    @asks
    def model_call(self, seq: int) -> Request[ModelCallRecord]:
        """A model call with what was sent and what came back, by an event that tells of it. It needs the role
        `operator`."""
        return get(ModelCallRecord, f"{self._path}/model-call/{seq}")

    @asks
    def run(self) -> Request[RunEnvelope]:
        """The latest run, as it is now."""
        return get(RunEnvelope, f"{self._path}/run")

    def _run_after(self, wait: float) -> Request[RunEnvelope]:
        """The latest run, when it has ended or needs a person, or after `wait` seconds."""
        return get(RunEnvelope, f"{self._path}/run", {"wait": wait}, seconds=wait + 60.0)

    @asks
    def approve(self, *, idempotency_key: str | None = None) -> Request[ApproveResult]:
        """Approve every call that waits for approval. Calls in doubt may have happened and go on waiting: the answer
        names them. Decide on them by `Rerun()` or `Happened(result)`."""
        approved = body(api.ApproveBody, approved=True, idempotency_key=idempotency_key or key())
        return post(ApproveResult, f"{self._path}/approve", approved)

    @asks
    def deny(self, reason: str = "", *, idempotency_key: str | None = None) -> Request[None]:
        """Deny every call that waits for approval, and tell the model why."""
        answer = body(api.ApproveBody, approved=False, reason=reason, idempotency_key=idempotency_key or key())
        return order(f"{self._path}/approve", answer)

    @asks
    def decide(self, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None) -> Request[None]:
        """Decide on calls that wait for approval, by their ids, or by their `approval_id`s, which name a call with
        exactly the arguments that were shown. Calls that you do not name continue to wait."""
        return order(
            f"{self._path}/approve",
            body(api.ApproveBody, decisions=decisions, idempotency_key=idempotency_key or key()),
        )

    @asks
    def settle(self, token: str, result: JsonValue = None, *, error: str | None = None) -> Request[Settlement]:
        """Give a call that waits for the outside its result or its error, by the token that its tool has handed out. A
        token settles once: settling again changes nothing, and the answer says so."""
        return post(Settlement, f"{self._path}/settle", body(SettleBody, token=token, result=result, error=error))

    @asks
    def cancel(self) -> Request[None]:
        """Cancel the run, and the runs of its children. With nothing to cancel, this changes nothing."""
        return order(f"{self._path}/cancel")

    @asks
    def pause(self) -> Request[None]:
        """Pause the run until you resume it. The calls in progress finish, and nothing new begins."""
        return order(f"{self._path}/pause", done=WrongState)

    @asks
    def resume(self) -> Request[None]:
        """Resume a run that was paused with `pause`."""
        return order(f"{self._path}/resume", done=WrongState)

    @asks
    def lift_limits(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> Request[None]:
        """Raise the limits of a run that has used one up, and let it continue."""
        lifted = body(api.NewLimits, turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
        return order(f"{self._path}/limits", lifted, done=WrongState)

    @asks
    def retry(self, *, limits: Limits | None = None, idempotency_key: str | None = None) -> Request[Accepted]:
        """Try the latest run again, which has failed, from where it failed: a new run goes on with the conversation, so
        that what was done is kept. `limits` replace those of the run that failed."""
        wanted = body(RetryBody, limits=limits, idempotency_key=idempotency_key or key())
        return post(Accepted, f"{self._path}/retry", wanted)

    @asks
    def edit_state(self, changes: Mapping[str, JsonValue], *, seq: int | None = None) -> Request[None]:
        """Change what the agent keeps, by the parts of its state: `todos` to a new list, `files` by path to new text,
        or to None to delete one. It is refused while a run is at work, and, with the `seq` of the latest event that
        you know, if anything has happened since."""
        wanted = body(StateEdit, state=dict(changes), seq=seq)
        return order(f"{self._path}/state", wanted, method="PATCH", done=WrongState)
