"""Searching what was said in an agency's threads, and its figures over time.

Both are answered from the overview's file (`overview_store`), which is brought up to date when it is asked for, and
when a thread is about to be deleted: nothing is done for a turn or a run. All threads that have got further since are
read then, from their files and in worker threads. That is a millisecond for each; if it takes longer than a caller
should wait, the answer is given from what has been read and says how many threads are left, and reading goes on.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar, get_args

from actors.address import discard
from actors.agency.context import AgencyContext
from actors.agency.figures import Figures, total_of
from actors.agency.overview_store import CLOSES, OPENS, SPANS, FoundPlace, OverviewStore, UnreadThread, opened
from actors.operations import Seq, index_operation
from agency.api.overview import (
    AgentFigures,
    FiguresSpan,
    SearchHit,
    SearchPage,
    SnippetPart,
    Statistics,
    StatisticsBy,
)
from agency.clock import now_ms
from agency.errors import Damaged, InvalidInput, StoreError
from agency.events import timestamp
from agency.store.since import read_since
from agency.wire import sayable_text

log = logging.getLogger(__name__)

CHUNK = 50
"""So many threads are read together."""
PATIENCE_SECONDS = 2.0
PAGE_MOST = 100
QUERY_CHARS = 500
TERMS_MOST = 32
SPANS_MOST = 1_000
USUAL: dict[StatisticsBy, timedelta] = {"hour": timedelta(hours=24), "day": timedelta(days=30)}

Answer = TypeVar("Answer")

_TERM = re.compile(r"""(-?)(?:"([^"]*)"?|(\S+))""")


class Overview:
    def __init__(self, context: AgencyContext) -> None:
        self._context = context
        self._reading: asyncio.Task[None] | None = None

    @index_operation
    async def search(self, query: str, after: Seq = 0, limit: int = 20) -> SearchPage:
        """The threads in whose titles or messages all these words occur, the best first. Words in quotation marks must
        follow each other, a word after a minus must not occur, and the last word may be the beginning of one."""
        if not 1 <= limit <= PAGE_MOST:
            raise InvalidInput(f"a page has 1 to {PAGE_MOST} threads, not {limit}")
        match = as_match(query)
        behind, (places, more) = await self._ask(lambda store: store.search(match, after, limit))
        hits = tuple(hit for place in places if (hit := self._hit(place)) is not None)
        return SearchPage(hits=hits, next=after + limit if more else None, behind=behind)

    @index_operation
    async def statistics(
        self, by: StatisticsBy = "hour", since: datetime | None = None, agent: str | None = None
    ) -> Statistics:
        """Runs, tokens, cost, working times and failed calls since then, hour by hour or day by day, in UTC; with
        `agent`, of that one alone."""
        if by not in get_args(StatisticsBy):
            raise InvalidInput(f"figures are by {' or '.join(get_args(StatisticsBy))}, not by {by!r:.50}")
        length, now = SPANS[by], now_ms()
        begin = _begin(by, since, now)
        behind, rows = await self._ask(lambda store: store.figures(by, begin, now + 1))
        chosen = [row for row in rows if agent in (None, row[1])]
        spans: dict[int, list[Figures]] = {at: [] for at in range(begin, now + 1, length)}
        agents: dict[str, list[Figures]] = {}
        for at, who, figures in chosen:
            spans[at].append(figures)
            agents.setdefault(who, []).append(figures)
        total = total_of(figures for _, _, figures in chosen)
        by_agent = [(who, total_of(some)) for who, some in agents.items()]
        by_agent.sort(key=lambda each: (-each[1].runs, each[0]))
        return Statistics(
            by=by,
            since=timestamp(begin),
            until=timestamp(now),
            spans=tuple(
                FiguresSpan(at=timestamp(at), **total_of(some).shown().model_dump(by_alias=False))
                for at, some in spans.items()
            ),
            total=total.shown(),
            agents=tuple(
                AgentFigures(agent_type=who, **some.shown().model_dump(by_alias=False)) for who, some in by_agent
            ),
            tools=total.tools(),
            behind=behind,
        )

    async def _ask(self, question: Callable[[OverviewStore], Answer]) -> tuple[int, Answer]:
        """How many threads are not read yet, and the answer from what is. A damaged file was thrown away when it was
        used, and is made anew from the threads' files."""
        try:
            return await self._catch_up(), await asyncio.to_thread(self._use, question)
        except Damaged:
            return await self._catch_up(), await asyncio.to_thread(self._use, question)

    # Reading the threads.

    async def settle(self, thread_id: str) -> None:
        """A thread is about to be deleted: count what it has done, and forget what was said in it."""
        try:
            await asyncio.to_thread(self._settle, thread_id)
        except StoreError as error:  # the next reading forgets it
            log.warning("the overview cannot take leave of thread %s: %s", thread_id, error)

    async def stop(self) -> None:
        """Return when nothing is being read any more; the agency is being deleted."""
        if self._reading is not None:
            await asyncio.wait({self._reading})

    async def _catch_up(self) -> int:
        """Read what there is to read; how many threads are left after a while. A reading that began before this call
        may have missed what happened since, so all callers that come meanwhile share the next one."""
        if self._reading is not None and not self._reading.done():
            await asyncio.wait({self._reading}, timeout=PATIENCE_SECONDS)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_all())
        await asyncio.wait({self._reading}, timeout=PATIENCE_SECONDS)
        if self._reading.done():
            self._reading.result()
            return 0
        return await asyncio.to_thread(self._count_unread)

    async def _read_all(self) -> None:
        after: int | None = 0
        while after is not None and not self._context.deleting:
            after = await asyncio.to_thread(self._read_some, after)

    def _read_some(self, after: int) -> int | None:
        """The number of the last thread that was read, if there may be more."""

        def read(store: OverviewStore) -> int | None:
            unread = store.unread(after, CHUNK)
            self._read(store, unread)
            if len(unread) == CHUNK:
                return unread[-1].number
            store.forget_deleted()
            return None

        return self._use(read)

    def _read(self, store: OverviewStore, unread: list[UnreadThread]) -> None:
        files, address = self._context.files, self._context.address
        read = [(each, read_since(files.of(address(each.id)), each.head, each.messages)) for each in unread]
        store.take((each, since) for each, since in read if since is not None)

    def _settle(self, thread_id: str) -> None:
        def settle(store: OverviewStore) -> None:
            if (thread := store.find(thread_id)) is not None:
                self._read(store, [thread])
                store.forget(thread.number)

        self._use(settle)

    # In worker threads.

    def _use(self, work: Callable[[OverviewStore], Answer]) -> Answer:
        """Do something with the file. If it is damaged, it is thrown away: it only says what other files do, but for
        the figures of threads that were deleted."""
        files, agency = self._context.files, self._context.id
        path = files.overview(agency)
        try:
            with opened(path, files.folder(agency) / "agency.db", self._context.settings.files) as store:
                return work(store)
        except Damaged as error:
            log.warning("the overview of agency %s is made anew: %s", agency, error)
            discard(path)
            raise

    def _count_unread(self) -> int:
        return self._use(OverviewStore.count_unread)

    def _hit(self, place: FoundPlace) -> SearchHit | None:
        """None if the thread has been deleted since."""
        thread = self._context.store.summary(place.thread)
        if thread is None:
            return None
        return SearchHit(
            thread_id=thread.id,
            agent_type=thread.agent_type,
            title=thread.title,
            status=thread.status,
            updated_at=thread.updated_at,
            found_in="user" if place.role == "user" else "assistant" if place.role else "title",
            message_id=place.message or None,
            at=None if place.at is None else timestamp(place.at),
            snippet=_parts(place.snippet),
        )


def as_match(query: str) -> str:
    """What a person has typed, in the language of FTS5; whatever it is, that is no syntax error there."""
    if len(query) > QUERY_CHARS:
        raise InvalidInput(f"a search has at most {QUERY_CHARS} characters")
    wanted: list[str] = []
    unwanted: list[str] = []
    may_go_on = False
    for minus, phrase, word in _TERM.findall(sayable_text(query)):
        text = (phrase or word).replace('"', " ").replace("\0", " ")
        if any(each.isalnum() for each in text):
            (unwanted if minus else wanted).append(f'"{text}"')
            may_go_on = bool(word) and not minus
    if not wanted:
        raise InvalidInput("say what to search for: at least one word that must occur")
    if len(wanted) + len(unwanted) > TERMS_MOST:
        raise InvalidInput(f"a search has at most {TERMS_MOST} words")
    if may_go_on:
        wanted[-1] += "*"
    return "".join([" AND ".join(wanted), *(f" NOT {each}" for each in unwanted)])


def _parts(snippet: str) -> tuple[SnippetPart, ...]:
    parts: list[SnippetPart] = []
    for i, piece in enumerate(snippet.split(OPENS)):
        found, closes, rest = piece.partition(CLOSES) if i else ("", "", piece)
        if closes:
            parts.append(SnippetPart(text=found, match=True))
        else:
            rest = found + rest
        if rest:
            parts.append(SnippetPart(text=rest))
    return tuple(parts)


def _begin(by: StatisticsBy, since: datetime | None, now: int) -> int:
    """The beginning of the first hour or day."""
    length = SPANS[by]
    if since is None:
        wanted = now - int(USUAL[by].total_seconds() * 1000) + length
    else:
        wanted = int((since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp() * 1000)
    begin = wanted - wanted % length
    if not 0 <= (now - begin) // length < SPANS_MOST:
        longer = ": for a longer time ask by day" if by == "hour" else ""
        raise InvalidInput(f"`since` is in the past, and at most {SPANS_MOST} {by}s ago{longer}")
    return begin
