"""What a thread can do wherever it is: in this process, on a cluster, or at a server. And what makes new ones.

The one idea: code that is written against these runs with a `LocalRuntime` in a test and with the client's
`AsyncAgency` in production. They have what all of them have, under the same names and with the same types, and no
more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol, overload

from pydantic import JsonValue
from typing_extensions import Unpack

from agency.approvals.decisions import ApproveResult
from agency.define.options import RunOptionFields
from agency.define.output import OutputType
from agency.events import Event
from agency.messages import Message
from agency.store.draft import When
from agency.thread.call_records import CallRecord
from agency.thread.outside import Settlement
from agency.thread.results import AnyOutput
from agency.thread.views import Accepted, FileInfo, RunEnvelope
from agency.turn.outcomes import Decision
from agency.turn.state import Limits


class AnyThread(Protocol):
    """A thread: `agency.Thread`, a `ThreadHandle` of a cluster, or an `AsyncThread` of the client."""

    @property
    def id(self) -> str: ...

    async def invoke(
        self,
        message: str | Message | Sequence[Message] = (),
        *,
        files: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        output_schema: OutputType | None = None,
        when: When = "next_step",
        idempotency_key: str | None = None,
        **options: Unpack[RunOptionFields],
    ) -> Accepted: ...

    @overload
    async def wait(self, timeout: float | None = None) -> RunEnvelope: ...
    @overload
    async def wait(self, timeout: float | None = None, *, output: type[AnyOutput]) -> AnyOutput: ...

    def events(self, after: int = 0) -> AsyncGenerator[Event, None]: ...

    async def decide(self, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None) -> None: ...

    async def approve(self, *, idempotency_key: str | None = None) -> ApproveResult: ...

    async def deny(self, reason: str = "", *, idempotency_key: str | None = None) -> None: ...

    async def settle(self, token: str, result: JsonValue = None, *, error: str | None = None) -> Settlement: ...

    async def cancel(self) -> None: ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def retry(self, *, limits: Limits | None = None, idempotency_key: str | None = None) -> Accepted: ...

    async def lift_limits(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None: ...

    async def tool_call(self, call_id: str, *, seq: int | None = None) -> CallRecord: ...

    async def files(self) -> tuple[FileInfo, ...]: ...

    async def read_file(self, path: str) -> bytes: ...

    async def delete_file(self, path: str) -> None: ...


class ThreadMaker(Protocol):
    """What makes threads: a `LocalRuntime`, an `AgencyHandle` of a cluster, or an `AsyncAgency` of the client."""

    async def create_thread(
        self,
        agent: str,
        message: str | Message | Sequence[Message] = (),
        *,
        files: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        output_schema: OutputType | None = None,
        **options: Unpack[RunOptionFields],
    ) -> AnyThread: ...
