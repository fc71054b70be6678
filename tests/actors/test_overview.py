"""Searching an agency's threads and its figures over time: read from the threads' files, whatever died meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from actors import Settings
from actors.address import Address, Files
from actors.agency import overview
from actors.agency.agency import Agency
from actors.agency.creation import Creation
from actors.agency.figures import Figures, figures_of, percentile, total_of
from actors.agency.overview import as_match
from actors.agency.store import AgencyStore
from actors.updates import ThreadUpdate, update_from_file
from agency import AgentSystem, open_thread
from agency.api.overview import SearchPage, Statistics
from agency.api.tenancy import AgencyInfo, ThreadSummary
from agency.children.parcels import Report
from agency.errors import InvalidInput, NotFound
from agency.events import EventType
from agency.metadata import ThreadMetadata
from agency.store import sqlite
from agency.store.peek import glance
from agency.store.since import CountedEvent

BORN = "2025-01-01T00:00:00.000Z"
SYSTEM = (
    AgentSystem("demo:instant")
    .add_agent(name="clerk", description="-", prompt="-")
    .add_agent(name="cook", description="-", prompt="-")
)


class Office:
    """An agency with real threads' files, and without hosts: what a host would tell, the files do."""

    def __init__(self, path: Path) -> None:
        self.settings = Settings(system="tests.support.scripted_system:system", data_dir=path)
        self.files = Files(path)
        info = AgencyInfo(id="bakery", name="Bakery", created_at=BORN)
        self.agency = Agency.open(self.files.of(Address("bakery")), self.settings, lambda: SYSTEM, self, info)
        self.store = AgencyStore.open(self.files.of(Address("bakery")), self.settings.files)

    def reopen(self) -> None:
        self.agency.close()
        path = self.files.of(Address("bakery"))
        self.agency = Agency.open(path, self.settings, lambda: SYSTEM, self)

    def close(self) -> None:
        self.store.close()
        self.agency.close()

    async def say(self, thread: str, *messages: str, agent: str = "clerk", told: bool = True) -> None:
        """Have a thread answer messages, and its agency told of it."""
        address = Address("bakery", thread)
        if self.store.thread(thread) is None:
            metadata = ThreadMetadata(id=thread, agent_type=agent, created_at=BORN, agency_id="bakery")
            self.store.add_thread(Creation(metadata=metadata, blueprint=SYSTEM.agents[agent]))
            self.store.thread_made(thread)
        async with open_thread(SYSTEM, self.files.of(address), agent=agent) as opened:
            for message in messages:
                await opened.invoke(message)
                await opened.wait()
        if told:
            await self.tell(thread)

    async def tell(self, thread: str) -> None:
        seen = glance(self.files.of(Address("bakery", thread)))
        told = update_from_file(Address("bakery", thread), seen)
        await self.agency.take([replace(told, born=BORN)])

    async def search(self, query: str, after: int = 0, limit: int = 20) -> SearchPage:
        found: SearchPage = await self.agency.call("search", (query, after, limit), {})
        return found

    async def found(self, query: str) -> list[str]:
        return [hit.thread_id for hit in (await self.search(query)).hits]

    async def statistics(self, *args: object) -> Statistics:
        found: Statistics = await self.agency.call("statistics", args, {})
        return found

    async def summaries(self) -> dict[str, ThreadSummary]:
        listing = await self.agency.call("threads", (), {})
        return {each.id: each for each in listing.threads}

    # What an agency asks of an installation.

    async def create(self, creation: Creation) -> None: ...

    async def end_run(self, address: Address) -> None: ...

    async def evict(self, address: Address) -> ThreadUpdate | None:
        return None

    async def give_way(self, agency: str) -> None: ...

    async def announce(self, agency: str) -> None: ...

    def lift_soon(self, agency: str) -> None: ...

    async def lift(self, address: Address) -> None: ...

    async def report(self, agency: str, report: Report) -> None: ...

    def ring_at(self, agency: str, due: int | None) -> None: ...


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


# Search.


async def test_threads_are_found_by_what_was_said_in_them_and_by_their_titles(office: Office) -> None:
    await office.say("rolls", "Bake ten Brötchen for Monday", "And send the invoice to Petersen")
    await office.say("cake", "What does a cake cost?", agent="cook")
    page = await office.search("petersen")
    (hit,) = page.hits
    assert (hit.thread_id, hit.agent_type, hit.title) == ("rolls", "clerk", "Bake ten Brötchen for Monday")
    assert (page.next, page.behind) == (None, 0)
    assert hit.found_in in ("user", "assistant")
    assert hit.message_id
    assert hit.at is not None
    assert [part.text for part in hit.snippet if part.match] == ["Petersen"]
    assert "".join(part.text for part in hit.snippet).startswith("And send the invoice")
    assert (await office.search("brotchen monday")).hits[0].found_in == "title"
    assert await office.found('"does a cake"') == ["cake"]
    assert await office.found("cake does what") == ["cake"]
    assert await office.found("inv") == ["rolls"], "the last word may go on"
    assert await office.found("inv petersen") == []
    assert await office.found("bake -petersen") == ["rolls"], "each message for itself"
    assert await office.found("cake -cost") == []
    assert await office.found("nothing") == []


async def test_what_is_said_later_is_found_and_nothing_is_found_twice(office: Office) -> None:
    await office.say("rolls", "Bake ten rolls")
    assert await office.found("rolls") == ["rolls"]
    assert await office.found("cinnamon") == []
    await office.say("rolls", "With cinnamon", told=False)
    assert await office.found("cinnamon") == [], "its agency does not know yet"
    await office.tell("rolls")
    office.reopen()
    assert await office.found("cinnamon") == ["rolls"]
    assert await office.found("rolls") == ["rolls"]


async def test_pages_follow_each_other(office: Office) -> None:
    for i in range(5):
        await office.say(f"t{i}", f"Bread number {i}")
    first = await office.search("bread", 0, 2)
    second = await office.search("bread", first.next or 0, 2)
    third = await office.search("bread", second.next or 0, 2)
    assert third.next is None
    assert {hit.thread_id for page in (first, second, third) for hit in page.hits} == {f"t{i}" for i in range(5)}
    assert (await office.search("bread", 99, 2)).hits == ()


@pytest.mark.parametrize(
    "query",
    ['"', "' OR 1=1", "a AND", "NEAR(a b", "text:a", "a*b", "(a", "^a", "-", "{", "a -", "\0a", "a\ud800", "𞤀", "*"],
)
async def test_no_search_is_a_syntax_error(office: Office, query: str) -> None:
    await office.say("rolls", "Bake ten rolls")
    try:
        await office.search(query)
    except InvalidInput as error:
        assert "at least one word" in str(error)


def test_a_search_says_what_it_cannot_do() -> None:
    for query in ("", "  ", "-only", "!!!"):
        with pytest.raises(InvalidInput, match="at least one word"):
            as_match(query)
    with pytest.raises(InvalidInput, match="500"):
        as_match("x" * 501)
    with pytest.raises(InvalidInput, match="32"):
        as_match("x " * 40)
    assert as_match('ten "new rolls" -old mon') == '"ten" AND "new rolls" AND "mon"* NOT "old"'


async def test_a_deleted_thread_is_not_found_and_its_words_are_gone(office: Office, tmp_path: Path) -> None:
    await office.say("rolls", "Bake ten rolls with zanzibarian cinnamon")
    await office.say("never-searched", "Bake cake")
    assert await office.found("zanzibarian") == ["rolls"]
    for thread in ("rolls", "never-searched"):
        await office.agency.call("delete_thread", (thread,), {})
    assert await office.found("zanzibarian") == []
    total = (await office.statistics("day")).total
    assert total.runs == 2, "what it did stays counted"


async def test_a_deletion_that_the_overview_missed_is_made_good(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.say("rolls", "Bake ten rolls")
    assert await office.found("rolls") == ["rolls"]
    office.store.forget_thread("rolls")
    assert await office.found("rolls") == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_death_at_any_commit_counts_nothing_twice_and_loses_nothing(
    office: Office, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    for i in range(3):
        await office.say(f"t{i}", "Bread")
    monkeypatch.setattr(overview, "CHUNK", 1)
    left = 0

    def die(moment: str) -> None:
        nonlocal left
        if moment == when:
            left -= 1
            if left < 0:
                raise RuntimeError("killed")

    monkeypatch.setattr(sqlite, "commit_hook", die)
    while True:
        spared = left = left + 1 if left >= 0 else 1
        try:
            found = await office.found("bread")
            break
        except RuntimeError:
            left = spared
    monkeypatch.setattr(sqlite, "commit_hook", None)
    assert len(found) == 3
    assert (await office.statistics("day")).total.runs == 3


async def test_the_overview_can_be_lost(office: Office) -> None:
    await office.say("rolls", "Bake ten rolls")
    assert await office.found("rolls") == ["rolls"]
    for path in office.files.folder("bakery").glob("overview.db*"):
        path.unlink()
    assert await office.found("rolls") == ["rolls"]
    assert (await office.statistics("day")).total.runs == 1


async def test_a_file_from_an_earlier_time_is_read_anew(office: Office) -> None:
    await office.say("rolls", "Bake ten rolls")
    path = office.files.of(Address("bakery", "rolls"))
    backup = path.with_suffix(".backup")
    shutil.copy(path, backup)
    await office.say("rolls", "With cinnamon")
    assert await office.found("cinnamon") == ["rolls"]
    shutil.copy(backup, path)
    known = office.store.summary("rolls")
    assert known is not None
    seen = glance(path)
    lost = update_from_file(Address("bakery", "rolls"), seen, known.seq)
    await office.agency.take([replace(lost, born=BORN)])
    assert await office.found("cinnamon") == []
    assert await office.found("rolls") == ["rolls"]
    assert (await office.statistics("day")).total.runs == 2, "it did run"


async def test_a_long_reading_goes_on_after_the_answer(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(4):
        await office.say(f"t{i}", "Bread")
    monkeypatch.setattr(overview, "CHUNK", 1)
    monkeypatch.setattr(overview, "PATIENCE_SECONDS", 0.0)
    page = await office.search("bread")
    assert page.behind > 0
    monkeypatch.setattr(overview, "PATIENCE_SECONDS", 10.0)
    assert len(await office.found("bread")) == 4


# Titles.


async def test_a_person_may_name_a_thread_and_take_that_back(office: Office) -> None:
    await office.say("rolls", "Bake ten rolls")
    renamed = await office.agency.call("rename_thread", ("rolls", "  The order\nof Petersen "), {})
    assert renamed.title == "The order of Petersen"
    await office.say("rolls", "And a cake")
    assert (await office.summaries())["rolls"].title == "The order of Petersen"
    assert (await office.search("order petersen")).hits[0].found_in == "title"
    back = await office.agency.call("rename_thread", ("rolls", " "), {})
    assert back.title == "Bake ten rolls"
    assert await office.found("petersen") == []
    with pytest.raises(InvalidInput, match="200"):
        await office.agency.call("rename_thread", ("rolls", "x" * 201), {})
    with pytest.raises(NotFound):
        await office.agency.call("rename_thread", ("none", "x"), {})


async def test_threads_that_an_earlier_release_told_of_get_their_titles_when_they_are_listed(office: Office) -> None:
    await office.say("rolls", "Bake ten rolls")
    office.store.write(("UPDATE threads SET title = NULL", ()))
    assert (await office.summaries())["rolls"].title == "Bake ten rolls"
    assert office.store.rows("SELECT title FROM threads") == [("Bake ten rolls",)]


# Figures.


async def test_figures_are_counted_once_by_hour_day_and_agent(office: Office) -> None:
    await office.say("rolls", "Bake ten rolls", "And a cake")
    await office.say("cake", "What does it cost?", agent="cook")
    for _ in range(2):
        found = await office.statistics("hour")
    assert len(found.spans) == 24
    assert sum(span.runs for span in found.spans) == found.total.runs == found.total.completed == 3
    assert found.total.tokens_used.total > 0
    assert found.total.duration_p50_ms is not None
    assert {each.agent_type: each.runs for each in found.agents} == {"clerk": 2, "cook": 1}
    days = await office.statistics("day", None, "cook")
    assert len(days.spans) == 30
    assert days.total.runs == days.spans[-1].runs == 1
    await office.say("cake", "And a large one?", agent="cook")
    assert (await office.statistics("day", None, "cook")).total.runs == 2


async def test_figures_of_times_that_do_not_fit_are_refused(office: Office) -> None:
    now = datetime.now(UTC)
    with pytest.raises(InvalidInput, match="at most 1000 hours"):
        await office.statistics("hour", now - timedelta(days=60))
    with pytest.raises(InvalidInput, match=r"at most 1000 days ago$"):
        await office.statistics("day", now - timedelta(days=2_000))
    with pytest.raises(InvalidInput, match="in the past"):
        await office.statistics("hour", now + timedelta(days=2))
    with pytest.raises(InvalidInput):
        await office.statistics("week")
    assert len((await office.statistics("hour", now - timedelta(hours=3))).spans) == 4
    assert (await office.statistics()).total.duration_p50_ms is None


def test_percentiles_are_right_within_five_per_cent() -> None:
    ended = [CountedEvent(0, EventType.AGENT_COMPLETED, {}, ms) for ms in range(1, 1001)]
    total = total_of(figures_of(each) for each in ended)
    for part in (0.5, 0.95):
        found = percentile(total.durations, part)
        assert found == pytest.approx(1000 * part, rel=0.05)
    assert percentile({}, 0.5) is None
    assert total == Figures.model_validate_json(total.model_dump_json())


def test_each_event_adds_what_it_tells() -> None:
    used = {"usage": {"inputTokens": 3, "outputTokens": 4}, "costUsd": 0.5}
    events = [
        CountedEvent(0, EventType.MODEL_COMPLETED, used),
        CountedEvent(0, EventType.MODEL_ASKED, {**used, "costUsd": None}),
        CountedEvent(0, EventType.MODEL_COMPLETED, {"error": {"code": "ERR_API"}}),
        CountedEvent(0, EventType.TOOL_STARTED, {"toolName": "bake"}),
        CountedEvent(0, EventType.TOOL_ERROR, {"toolName": "bake", "kind": "execution"}),
        CountedEvent(0, EventType.TOOL_STARTED, {"toolName": "bake"}),
        CountedEvent(0, EventType.TOOL_ERROR, {"toolName": "bake", "kind": "canceled"}),  # which is none of the tool's
        CountedEvent(0, EventType.AGENT_ERROR, {}, 10),
        CountedEvent(0, EventType.RUN_CANCELED, {}),
    ]
    shown = (total := total_of(figures_of(each) for each in events)).shown()
    assert (shown.runs, shown.failed, shown.canceled) == (2, 1, 1)
    assert (shown.tokens_used.input, shown.tokens_used.output) == (6, 8)
    assert (shown.cost_usd, shown.unpriced) == (0.5, 1)
    assert [(each.tool, each.calls, each.errors) for each in total.tools()] == [("bake", 2, 1)]
