"""Operations of an agency: its name, its threads, its events, its budget and its keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import JsonValue
from typing_extensions import Unpack

from agency.api import bodies as api
from agency.api.extensions import Method
from agency.api.overview import SearchHit, SearchPage, Statistics, StatisticsBy
from agency.api.tenancy import AgencyInfo, AgencyLayers, AgencyUsage, Budget, KeyInfo, KeyRole, NewKey, ThreadSummary
from agency.client.operation import Resource, asks, follows, lists, lists_threads, makes_thread
from agency.client.request import (
    FOLLOW_SECONDS,
    EventFeed,
    Listing,
    ListPage,
    Messages,
    Request,
    ask_json,
    body,
    chat,
    delete,
    get,
    key,
    listing,
    post,
    segment,
)
from agency.define.options import RunOptionFields
from agency.define.output import OutputType, as_schema
from agency.errors import NotFound
from agency.metadata import ThreadMetadata
from agency.thread.views import RunStatus
from agency.turn.state import Limits, RunCeiling


class AgencyOperations(Resource):
    @asks
    def info(self) -> Request[AgencyInfo]:
        """The agency's name, budget and time of creation."""
        return get(AgencyInfo, self._path)

    @asks
    def rename(self, name: str) -> Request[AgencyInfo]:
        """Rename the agency. Its id stays the same."""
        return post(AgencyInfo, self._path, body(api.AgencyChange, name=name), method="PATCH")

    @asks
    def delete(self) -> Request[None]:
        """Delete the agency with all its threads, blueprints and keys."""
        return delete(self._path, done=NotFound)

    @asks
    def extension(self, name: str, method: Method, path: str, body: JsonValue = None) -> Request[JsonValue]:
        """Ask a route that a middleware brings, as in `agency.extension("notes", "GET", "notes")`; its answer."""
        return ask_json(method, f"{self._path}/x/{segment(name)}/{path}", body)

    @makes_thread
    def create_thread(
        self,
        agent: str,
        message: Messages = (),
        *,
        files: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        output_schema: OutputType | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RunOptionFields],
    ) -> Request[ThreadMetadata]:
        """Create a thread for an agent. A message starts its first run at once; `files` are texts by path.

        `limits` and `output_schema` (a pydantic model or a JSON schema) replace the blueprint's for that first run,
        and so do the `options` (`RunOptions`).
        """
        wanted = body(
            api.NewThread,
            agent_type=agent,
            messages=chat(message),
            files=files,
            limits=limits,
            output_schema=None if output_schema is None else as_schema(output_schema),
            idempotency_key=idempotency_key or key(),
            **options,
        )
        return post(ThreadMetadata, f"{self._path}/agents", wanted)

    @lists_threads
    def threads(
        self, *, status: RunStatus | None = None, parent: str | None = None, newest_first: bool = False
    ) -> Listing[ThreadSummary]:
        """The agency's threads, each with its `summary`: all, or those with a status, or a thread's children."""
        order = "newest" if newest_first else "oldest"
        return listing(
            api.ThreadPage,
            f"{self._path}/agents",
            lambda found: ListPage(found.agents, found.next),
            order=order,
            status=status,
            parent=parent,
        )

    @lists
    def search(self, query: str) -> Listing[SearchHit]:
        """The threads in whose titles or messages all these words occur, the best first. Words in quotation marks must
        follow each other, a word after a minus must not occur, and the last word may be the beginning of one."""
        return listing(
            SearchPage, f"{self._path}/search", lambda found: ListPage(found.hits, found.next), q=query, limit=20
        )

    @asks
    def statistics(
        self, by: StatisticsBy = "hour", *, since: datetime | str | None = None, agent: str | None = None
    ) -> Request[Statistics]:
        """Runs, tokens, cost, working times and failed calls, hour by hour or day by day, in UTC: since then, or of the
        last 24 hours or 30 days; with `agent`, of that one alone."""
        begin = since.isoformat() if isinstance(since, datetime) else since
        return get(Statistics, f"{self._path}/statistics", {"by": by, "since": begin, "agent": agent})

    @follows
    def events(
        self, after: int | Literal["now"] = 0, *, patience: float = FOLLOW_SECONDS
    ) -> EventFeed[api.AgencyEvent]:
        """The stored events of all threads after a cursor, then new ones as they happen, like `events` of a thread."""
        return EventFeed(f"{self._path}/events", api.AgencyEvent, lambda event: event.cursor, after, patience)

    @asks
    def usage(self) -> Request[AgencyUsage]:
        """What all threads of the agency have used, deleted ones included, and its budget."""
        return get(AgencyUsage, f"{self._path}/usage")

    @asks
    def set_budget(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> Request[AgencyUsage]:
        """Set what all threads of the agency may use together; None is no limit. Runs that wait for a larger budget
        continue. What the owner has set, an agency's key can only make smaller."""
        wanted = body(Budget, turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
        return post(AgencyUsage, f"{self._path}/budget", wanted, method="PUT")

    @asks
    def limits(self) -> Request[RunCeiling]:
        """The most that any run of the agency may use."""
        return get(RunCeiling, f"{self._path}/limits")

    @asks
    def set_limits(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> Request[RunCeiling]:
        """Set the most that any run of the agency may use, whatever its own limits are; None is no ceiling."""
        wanted = body(RunCeiling, turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
        return post(RunCeiling, f"{self._path}/limits", wanted, method="PUT")

    @asks
    def layers(self) -> Request[AgencyLayers]:
        """The budget, the policy and the limits as the owner and the agency have each set them; `yours` is the layer
        that your secret or key sets."""
        return get(AgencyLayers, f"{self._path}/layers")

    @lists
    def keys(self) -> Listing[KeyInfo]:
        """The agency's keys, without their secret texts."""
        return listing(api.KeyPage, f"{self._path}/keys", lambda found: ListPage(found.keys, found.next), begin="")

    @asks
    def create_key(self, name: str, role: KeyRole) -> Request[NewKey]:
        """Create a key to this agency. Only this answer contains its text."""
        wanted = body(api.KeyWanted, name=name, role=role)
        # A repeated request might create a second key.
        return post(NewKey, f"{self._path}/keys", wanted, repeat="unsent")

    @asks
    def revoke_key(self, key_id: str) -> Request[None]:
        """Revoke a key at once."""
        return delete(f"{self._path}/keys/{segment(key_id)}", done=NotFound)
