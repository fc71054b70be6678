"""What a tool gets to see and do. It writes through `store`: staged, and committed with its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from agency.blueprint import Blueprint, ParentInfo, ThreadMetadata
from agency.clock import now_ms
from agency.errors import ToolError
from agency.events import subagent_spawned
from agency.messages import MESSAGE_CHARS
from agency.parcels import Spawn, child_id
from agency.store import records
from agency.store.draft import Draft
from agency.turn.outcomes import Deferred


@dataclass(slots=True)
class ToolContext:
    """The call that a tool is running for.

    `idempotency_key` names this call for ever: it is the same when the call is retried or runs again after a crash.
    `config` is the blueprint's.
    """

    thread: ThreadMetadata
    run_id: str
    call_id: str
    idempotency_key: str
    attempt: int
    config: Mapping[str, JsonValue]
    agents: Mapping[str, Blueprint]
    """Every agent that can be started here."""
    store: Draft
    effect: int
    token: str
    spawned: bool = False

    def spawn(self, agent_type: str, message: str, *, timeout_ms: int | None = None) -> Deferred:
        """Start a child thread whose report becomes the result of this call. The tool returns what this returns.

        The waiter, the timer and the order to start the child are committed together, so the waiter is there before
        the child, and the child's id follows from the call, so that a repeated call makes no second one.
        """
        if self.spawned:
            raise ToolError("a call can start one child", kind="invalid_request")
        if not message.strip() or len(message) > MESSAGE_CHARS:
            raise ToolError(f"a child's message has 1 to {MESSAGE_CHARS} characters", kind="invalid_request")
        now, child = now_ms(), child_id(self.thread.id, self.token)
        waiter = records.Child(
            token=self.token,
            thread=child,
            agent_type=agent_type,
            run=self.store.run,
            effect=self.effect,
            call=self.call_id,
            status="waiting",
            report=None,
            created_at=now,
            completed_at=None,
        )
        records.add_child(self.store, waiter)
        if timeout_ms is not None:
            records.set_timer(self.store, records.child_timer(self.token), now + timeout_ms)
        order = Spawn(
            to=child,
            agent_type=agent_type,
            message=message,
            agency_id=self.thread.agency_id,
            request=self.thread.request,
            parent=ParentInfo(thread_id=self.thread.id, token=self.token),
        )
        records.send(self.store, order)
        self.store.emit(subagent_spawned(child, agent_type, self.call_id))
        self.spawned = True
        return Deferred(waits_for="child")
