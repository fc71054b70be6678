"""Forks: what they begin with, that they are on their own, and that nothing is lost or made up on the way.

One rich story is told once: two runs with todos, files, values, a subagent, an approval, parallel calls and a message
that joins. After every commit what is in the file is written down, by somebody who knows nothing of the undo log. Every
fork is compared with that.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from agency import (
    AgentSystem,
    EventType,
    InvalidInput,
    LocalRuntime,
    Message,
    ModelRequest,
    NotFound,
    Observation,
    RetryPolicy,
    Thread,
    ToolCall,
    ToolError,
    WrongState,
    events,
    tool,
)
from agency.metadata import ForkInfo
from agency.store import sqlite
from agency.store.cut_run import NOT_RUN
from agency.store.forking import Cut, find_origin, make_fork
from agency.store.peek import glance
from agency.store.sqlite import Storage
from agency.store.store import EVENT_TYPES, ThreadStore
from agency.testing import Line, ScriptedModel, call
from tests.support.forked_story import LONG, OWNED, State, build, events_of, fork, look, state_of, tell
from tests.support.thread_files import messages_of


def types_of(path: Path) -> list[EventType]:
    return [EVENT_TYPES[row[2]] for row in events_of(path)]


@dataclass(frozen=True)
class Story:
    path: Path
    recorded: dict[int, list[State]]
    """What was in the file after each commit, by the seq of the latest event: there are commits without one."""

    @property
    def last(self) -> int:
        return max(self.recorded)

    def after(self, seq: int) -> State:
        """What was known after an event. What came of no event belongs to the last one of the commit before it."""
        end = min(known for known in self.recorded if known >= seq)
        return self.recorded[end][-1 if end == seq else 0]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    path = folder / "editor.db"
    recorded: dict[int, list[State]] = defaultdict(list)

    def record(moment: Literal["before", "after"]) -> None:
        if moment == "after" and path.exists() and (told := events_of(path)):
            with closing(sqlite3.connect(path)) as db:
                tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
            if tables.issuperset(OWNED):
                recorded[len(told)].append(state_of(path))

    sqlite.commit_hook = record
    try:
        asyncio.run(tell(folder))
    finally:
        sqlite.commit_hook = None
    assert len(recorded) > 15
    return Story(path, recorded)


def check_results(messages: list[Message]) -> None:
    """Every call has one result, right after the reply that made it."""
    for i, message in enumerate(messages):
        wanted = [each.id for each in message.tool_calls]
        assert [each.tool_call_id for each in messages[i + 1 : i + 1 + len(wanted)]] == wanted
    made = Counter(each.id for message in messages for each in message.tool_calls)
    assert made == Counter(message.tool_call_id for message in messages if message.role == "tool")


def check(forked: Path, source: Path, seq: int, known: State) -> None:
    found = state_of(forked)
    messages, expected = found.pop("messages"), known["messages"]
    assert messages[: len(expected)] == expected
    assert found == {name: rows for name, rows in known.items() if name != "messages"}
    assert {message.role for message in messages[len(expected) :]} <= {"tool"}
    check_results(messages)
    assert events_of(forked)[:seq] == events_of(source)[:seq]
    own = types_of(forked)[seq:]
    assert own in ([EventType.THREAD_CREATED], [EventType.THREAD_CREATED, EventType.RUN_CANCELED])
    assert glance(forked).status in ("registered", "canceled", "completed")
    assert glance(forked).due is None


def test_a_fork_after_every_single_event_is_what_the_thread_was_then(story: Story, tmp_path: Path) -> None:
    before = story.path.read_bytes()
    for seq in range(1, story.last + 1):
        forked = fork(story.path, tmp_path / f"f{seq}.db", seq)
        check(forked, story.path, seq, story.after(seq))
    assert story.path.read_bytes() == before, "the original is as it was"
    assert len(list(tmp_path.iterdir())) == story.last, "and nothing is left over"


def test_a_fork_of_a_fork_is_identical_up_to_its_point(story: Story, tmp_path: Path) -> None:
    for first in range(9, story.last + 1, 16):
        once = fork(story.path, tmp_path / f"{first}.db", first)
        for second in {1, first // 2, first - 1, first}:
            twice = fork(once, tmp_path / f"{first}-{second}.db", second)
            check(twice, story.path, second, story.after(second))
            direct = fork(story.path, tmp_path / f"{first}={second}.db", second)
            assert state_of(twice) == state_of(direct)
            assert [row[:1] + row[2:] for row in events_of(twice)[:second]] == [
                row[:1] + row[2:] for row in events_of(direct)[:second]
            ]
            assert types_of(twice) == types_of(direct)
        own = fork(once, tmp_path / f"{first}-own.db", first + 1)
        assert types_of(own)[: first + 1] == types_of(once)[: first + 1]
        assert state_of(own) == state_of(once)


def test_a_fork_of_now_has_what_came_of_no_event(story: Story, tmp_path: Path) -> None:
    forked = fork(story.path, tmp_path / "now.db")
    assert "/last.txt" in {row[0] for row in state_of(forked)["files"]}
    check(forked, story.path, story.last, story.after(story.last))


def test_calls_that_had_ended_keep_their_results_and_the_others_are_told_not_to_have_run(
    story: Story, tmp_path: Path
) -> None:
    whole = {message.tool_call_id: message.content for message in messages_of(story.path) if message.role == "tool"}
    told = [
        (row[0], kind, json.loads(row[4]))
        for row, kind in zip(events_of(story.path), types_of(story.path), strict=True)
    ]
    outputs = {data["callId"]: seq for seq, kind, data in told if kind == EventType.TOOL_OUTPUT}
    (reported,) = (seq for seq, kind, _ in told if kind == EventType.SUBAGENT_COMPLETED)  # with which the batch ended
    for seq in range(outputs["b1"], reported):
        forked = fork(story.path, tmp_path / f"{seq}.db", seq)
        results = {m.tool_call_id: m for m in messages_of(forked) if m.role == "tool"}
        for call_id in ("b1", "b2", "b3", "b4", "b5"):
            ended = outputs[call_id] <= seq
            assert results[call_id].content == (whole[call_id] if ended else NOT_RUN.text), (seq, call_id)
            assert results[call_id].meta == (None if ended else {"status": "canceled"})


async def hang() -> Line:
    await asyncio.Event().wait()
    raise AssertionError("never")


@tool
async def stuck() -> str:
    """Never end."""
    await hang()
    return ""


@tool(retry=RetryPolicy(attempts=2))
async def flaky() -> str:
    """Fail at first."""
    raise ToolError("not yet", retry_after_ms=60_000)


@pytest.mark.parametrize(
    ("last", "until", "expected"),
    [
        (call("stuck", call_id="z"), EventType.TOOL_STARTED, NOT_RUN.text),
        (call("task", description="d", subagentType="scout", call_id="z"), EventType.RUN_PAUSED, NOT_RUN.text),
        (call("flaky", call_id="z"), EventType.TOOL_ERROR, "Error: execution: not yet"),
    ],
    ids=["a call at work", "a child at work", "a call to be tried again"],
)
async def test_of_a_run_in_progress_the_fork_has_the_results_that_it_holds(
    last: ToolCall, until: EventType, expected: str, tmp_path: Path
) -> None:
    def work(request: ModelRequest) -> Any:
        return hang() if request.system.startswith("scout") else [call("look", what="north", call_id="y"), last]

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(work)}).defaults()
    for each in (look, stuck, flaky):
        system.add_tool(each)
    system.add_agent(name="editor", description="Edits.", prompt="editor").add_agent(
        name="scout", description="Looks.", prompt="scout"
    )
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("editor", thread_id="editor")
        await thread.invoke("go")
        async for event in thread.events():
            if event.type == until and event.data.get("callId") in ("z", None):
                break
        forked = await runtime.fork("editor", thread_id="fork")
        messages = list((await forked.state()).messages)
        check_results(messages)
        assert [message.content for message in messages[2:]] == [f"{LONG}north", expected]
        assert [message.meta for message in messages[2:]] == [None, messages[3].meta]
        assert messages[3].meta is not None
        assert thread.run().status != "canceled"


def test_a_run_that_was_cut_has_used_what_it_had_used_then_and_the_fork_itself_nothing(
    story: Story, tmp_path: Path
) -> None:
    second = next(i for i, kind in enumerate(types_of(story.path), 1) if kind == EventType.HITL_INTERRUPT)
    forked = fork(story.path, tmp_path / "cut.db", second)
    store = ThreadStore.open(forked)
    metadata, blueprint = store.meta("metadata"), store.meta("blueprint")
    (machine,) = store.query("SELECT machine FROM runs WHERE n = 2")[0]
    store.close()
    assert store.epoch == 1
    run = json.loads(machine)  # type: ignore[arg-type]  # a blob
    assert run["state"]["outcome"]["message"] == "the thread was forked in the middle of this run"
    assert (run["usage"]["input"], run["turn"], run["paused"]) == (10, 1, None)
    assert json.loads(str(metadata))["forkedFrom"] == {"threadId": "editor", "seq": second}
    assert json.loads(str(blueprint))["name"] == "editor"
    found = glance(forked)
    assert (found.spent.usage.total, found.spent.turns, found.children.usage.total) == (0, 0, 0)


def test_the_fork_goes_on_and_so_does_the_original_and_neither_knows_of_the_other(story: Story, tmp_path: Path) -> None:
    async def both() -> None:
        async with LocalRuntime(build(), tmp_path) as runtime:
            original = await runtime.thread("editor")
            before = (await original.state()).messages
            forked = await runtime.fork("editor", "second", after_seq=interrupt, thread_id="fork")
            assert forked.metadata.forked_from == ForkInfo(thread_id="editor", seq=interrupt)
            assert (await forked.wait(20)).meta.pause_reason == "hitl"
            assert (await forked.wait(20)).run_id == "fork.3"
            await forked.approve()
            assert (await forked.wait(20)).data == "Published."
            assert (await original.state()).messages == before
            await original.invoke("edited")
            assert (await original.wait(20)).data == "That is another question."
            assert len((await original.state()).messages) == len(before) + 2
            there: dict[str, Any] = (await forked.state()).more
            assert there["todos"] == []
            assert [each["status"] for each in there["subagents"]] == ["completed"]
            seqs = [event.seq async for event in forked.events(follow=False)]
            assert seqs == list(range(1, len(seqs) + 1))

    shutil.copy(story.path, tmp_path / "editor.db")
    interrupt = next(i for i, kind in enumerate(types_of(story.path), 1) if kind == EventType.HITL_INTERRUPT)
    asyncio.run(both())


def test_a_message_is_edited_and_the_run_done_again(story: Story, tmp_path: Path) -> None:
    async def again() -> None:
        async with LocalRuntime(build(), tmp_path) as runtime:
            messages = (await (await runtime.thread("editor")).state()).messages
            (second,) = (message.id for message in messages if message.content == "second")
            forked = await runtime.fork("editor", "edited", before_message=second)
            assert (await forked.wait(20)).data == "That is another question."
            state = await forked.state()
            kept = [message.content for message in messages[: [m.id for m in messages].index(second)]]
            assert [message.content for message in state.messages] == [*kept, "edited", "That is another question."]
            assert state.more["todos"] == [
                {"content": "look", "status": "pending"},
                {"content": "write", "status": "pending"},
            ]
            assert set(state.more["files"]) == {"/given.txt", "/notes.md", "/between.txt"}  # type: ignore[arg-type]  # a dict

    shutil.copy(story.path, tmp_path / "editor.db")
    asyncio.run(again())


def test_before_a_message_that_joined_a_run_the_results_that_came_with_it_are_kept(
    story: Story, tmp_path: Path
) -> None:
    messages = messages_of(story.path)
    index = next(i for i, message in enumerate(messages) if message.content == "joined")
    forked = fork(story.path, tmp_path / "joined.db", before=messages[index].id)
    assert messages_of(forked) == messages[:index]
    assert messages[index - 1].role == "tool"
    kept = json.loads(ThreadStore.open(forked).meta("metadata"))["forkedFrom"]["seq"]  # type: ignore[arg-type]  # text
    assert types_of(forked)[kept - 1 :] == [
        EventType.SUBAGENT_COMPLETED,
        EventType.THREAD_CREATED,
        EventType.RUN_CANCELED,
    ]
    found, known = state_of(forked), story.after(kept)
    assert {name: found[name] for name in OWNED} == {name: known[name] for name in OWNED}


def test_what_cannot_be_forked_is_refused(story: Story, tmp_path: Path) -> None:
    answer = next(message.id for message in messages_of(story.path) if message.role == "assistant")
    wrong: dict[tuple[int | None, str | None], type[Exception]] = {
        (0, None): InvalidInput,
        (story.last + 1, None): InvalidInput,
        (None, "m9.9"): InvalidInput,
        (None, answer): InvalidInput,
        (1, "m1.1"): InvalidInput,
    }
    for (seq, before), error in wrong.items():
        with pytest.raises(error):
            find_origin(story.path, after=seq, before=before)
    with pytest.raises(NotFound):
        find_origin(tmp_path / "nobody.db")
    with pytest.raises(NotFound, match="gone"):
        fork_of = find_origin(story.path)
        make_fork(tmp_path / "nobody.db", tmp_path / "fork.db", fork_of.fork("fork"), fork_of.cut)
    assert list(tmp_path.iterdir()) == []


def test_a_fork_that_is_there_is_left_as_it_is(story: Story, tmp_path: Path) -> None:
    forked = fork(story.path, tmp_path / "fork.db", 7)
    before = forked.read_bytes()
    origin = find_origin(story.path, after=20)
    make_fork(story.path, forked, origin.fork("fork"), origin.cut)
    assert forked.read_bytes() == before


def test_what_an_attempt_that_was_killed_has_left_is_cleared_away(story: Story, tmp_path: Path) -> None:
    (tmp_path / ".fork.db.0badcafe").write_bytes(b"half")
    (tmp_path / ".fork.db.0badcafe-journal").write_bytes(b"half")
    fork(story.path, tmp_path / "fork.db", 7)
    assert [path.name for path in tmp_path.iterdir()] == ["fork.db"]


@pytest.mark.parametrize("storage", [Storage(), Storage(synchronous="FULL"), Storage(shared=True)])
def test_a_thread_is_forked_while_somebody_writes_it(story: Story, tmp_path: Path, storage: Storage) -> None:
    shutil.copy(story.path, tmp_path / "editor.db")
    store = ThreadStore.open(tmp_path / "editor.db", storage=storage)
    draft = store.draft()
    draft.put("test", "now", "written")
    store.commit(draft)
    forked = fork(store.path, tmp_path / "fork.db", storage=storage)
    assert ("test", "now", '"written"') in state_of(forked)["kv"]
    store.commit(store.draft())  # it is still its writer's
    again = ThreadStore.open(forked, storage=storage)
    assert again.query("PRAGMA journal_mode") == [(storage.journal.lower(),)]
    again.close()
    store.close()


def test_an_observer_is_told_of_the_fork_and_not_of_what_the_original_did(story: Story, tmp_path: Path) -> None:
    seen: list[Observation] = []

    class Watching:
        def observe(self, seen_now: Observation) -> None:
            seen.append(seen_now)

    async def forking() -> Thread:
        async with LocalRuntime(build().observe(Watching()), tmp_path) as runtime:
            return await runtime.fork("editor", after_seq=9, thread_id="fork")

    shutil.copy(story.path, tmp_path / "editor.db")
    asyncio.run(forking())
    assert [(each.thread.id, each.seq, each.type) for each in seen] == [("fork", 10, EventType.THREAD_CREATED)]
    assert seen[0].data["forkedFrom"] == {"threadId": "editor", "seq": 9}


RECORDED = Path(__file__).parent / "stores"


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "editor.db"
    shutil.copy(RECORDED / "v2.db", path)
    yield path


def test_a_file_of_an_earlier_release_is_forked_as_it_is_and_not_as_it_was(old: Path, tmp_path: Path) -> None:
    last = len(events_of(old))
    with pytest.raises(WrongState, match=f"before event {last} is not known"):
        find_origin(old, after=last - 1)
    with pytest.raises(WrongState, match="earlier release"):
        find_origin(old, before="m1.1")
    forked = fork(old, tmp_path / "fork.db")
    check_results(messages_of(forked))
    with pytest.raises(WrongState, match="not known"):
        find_origin(forked, after=last - 1)


def test_a_file_of_an_earlier_release_has_a_history_from_its_next_event_on(old: Path, tmp_path: Path) -> None:
    last = len(events_of(old))
    store = ThreadStore.open(old)
    before = {table: store.query(f"SELECT * FROM {table}") for table in ("files", "todos")}
    draft = store.draft(run=2)
    draft.execute("DELETE FROM todos")
    draft.execute("UPDATE files SET content = ?", (b"changed",))
    draft.messages.append(Message(id="m2.9", role="user", content="new"))
    draft.emit(events.run_tick(9))
    store.commit(draft)
    store.close()
    with pytest.raises(WrongState, match="not known"):
        find_origin(old, after=last - 1)
    back = fork(old, tmp_path / "back.db", last)
    with closing(sqlite3.connect(back)) as db:
        assert {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in before} == before
    assert "new" not in [message.content for message in messages_of(back)]
    now = fork(old, tmp_path / "now.db", last + 1)
    with closing(sqlite3.connect(now)) as db:
        assert db.execute("SELECT content FROM files").fetchall() == [(b"changed",)]
    assert messages_of(now)[len(messages_of(back)) - 2].content == "new" or "new" in [
        m.content for m in messages_of(now)
    ]
    assert find_origin(old, before="m2.9").cut == Cut(seq=last)
