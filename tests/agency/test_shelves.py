"""Shelves: bytes by path with versions, which outlive threads and which several processes write at once."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from agency import (
    ABSENT,
    AgentSystem,
    HookContext,
    InvalidInput,
    LocalRuntime,
    Middleware,
    NotFound,
    RunEnd,
    Shelf,
    ShelfStore,
    ToolContext,
    VersionConflict,
    open_thread,
    tool,
)
from agency.errors import NewerStore, StoreError, TooLarge, Unavailable
from agency.shelves import local
from agency.shelves.interface import ENTRY_BYTES, PATH_BYTES
from agency.shelves.local import FILE, LocalShelves
from agency.testing import ScriptedModel
from agency.testing import call as call_of
from tests.support.crashes import in_a_process
from tests.support.waiting import eventually


@pytest.fixture
def shelves(tmp_path: Path) -> LocalShelves:
    return LocalShelves(tmp_path / "shelves")


def paths(store: ShelfStore, shelf: str = "notes", prefix: str = "") -> list[str]:
    return [entry.path for entry in store.entries(shelf, prefix).entries]


# Reading and writing.


def test_what_is_written_is_read_listed_and_deleted(shelves: LocalShelves) -> None:
    made = shelves.write("notes", "a/today.md", b"rye")
    assert (made.shelf, made.path, made.size) == ("notes", "a/today.md", 3)
    found = shelves.read("notes", "a/today.md")
    assert (found.content, found.text, found.version) == (b"rye", "rye", made.version)
    assert shelves.entries("notes").entries == (made,)
    (info,) = shelves.shelves()
    assert (info.name, info.entries, info.size) == ("notes", 1, 3)
    shelves.delete("notes", "a/today.md")
    assert shelves.shelves() == [] and paths(shelves) == []
    with pytest.raises(NotFound, match="today"):
        shelves.read("notes", "a/today.md")


def test_reading_makes_no_file(shelves: LocalShelves) -> None:
    assert shelves.shelves() == [] and paths(shelves) == []
    for miss in (shelves.read, shelves.delete):
        with pytest.raises(NotFound):
            miss("notes", "a")
    assert not shelves.folder.exists()


def test_a_path_is_another_entry_on_another_shelf(shelves: LocalShelves) -> None:
    shelves.write("notes", "a", b"1")
    shelves.write("Notes", "a", b"2")
    assert shelves.read("notes", "a").content == b"1"
    shelves.delete("Notes", "a")
    assert shelves.read("notes", "a").content == b"1"


def test_capital_and_small_letters_are_different_paths(shelves: LocalShelves) -> None:
    shelves.write("notes", "Readme", b"1")
    shelves.write("notes", "README", b"2")
    assert paths(shelves) == ["README", "Readme"]
    assert shelves.read("notes", "Readme").content == b"1"


def test_an_entry_that_is_written_again_keeps_when_it_was_made(
    shelves: LocalShelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "now_ms", lambda: 1_000)
    first = shelves.write("notes", "a", b"1")
    monkeypatch.setattr(local, "now_ms", lambda: 2_000)
    second = shelves.write("notes", "a", b"2")
    assert second.created_at == first.created_at == first.updated_at < second.updated_at


def test_content_that_is_not_text_says_so(shelves: LocalShelves) -> None:
    shelves.write("notes", "a", b"\xff")
    with pytest.raises(InvalidInput, match="not text"):
        _ = shelves.read("notes", "a").text


# Versions.


def test_versions_only_grow_also_over_a_deletion(shelves: LocalShelves) -> None:
    versions = [int(shelves.write("notes", "a", b"1").version) for _ in range(3)]
    shelves.delete("notes", "a")
    versions.append(int(shelves.write("notes", "a", b"1").version))
    assert versions == sorted(set(versions))


def test_a_write_for_another_version_changes_nothing(shelves: LocalShelves) -> None:
    first = shelves.write("notes", "a", b"1", if_version=ABSENT)
    second = shelves.write("notes", "a", b"2", if_version=first.version)
    for stale in (first.version, ABSENT, "x"):
        with pytest.raises(VersionConflict, match=f"its version is {second.version}"):
            shelves.write("notes", "a", b"3", if_version=stale)
    with pytest.raises(VersionConflict):
        shelves.delete("notes", "a", if_version=first.version)
    with pytest.raises(VersionConflict, match="there is no entry"):
        shelves.write("notes", "b", b"3", if_version=second.version)
    assert shelves.read("notes", "a").content == b"2"
    shelves.delete("notes", "a", if_version=second.version)
    assert paths(shelves) == []


def test_an_entry_that_was_deleted_and_written_anew_is_another_one(shelves: LocalShelves) -> None:
    first = shelves.write("notes", "a", b"1")
    shelves.delete("notes", "a")
    shelves.write("notes", "a", b"1")
    with pytest.raises(VersionConflict):
        shelves.write("notes", "a", b"2", if_version=first.version)


def test_a_write_that_is_repeated_with_its_key_gives_what_it_gave(shelves: LocalShelves) -> None:
    first = shelves.write("notes", "a", b"1", if_version=ABSENT, key="k")
    assert shelves.write("notes", "a", b"1", if_version=ABSENT, key="k") == first
    with pytest.raises(VersionConflict):  # another content is another write
        shelves.write("notes", "a", b"2", if_version=ABSENT, key="k")
    with pytest.raises(VersionConflict):  # as is one with another key
        shelves.write("notes", "a", b"1", if_version=ABSENT, key="other")
    shelves.write("notes", "a", b"2", key="k")
    assert shelves.write("notes", "a", b"1", key="k").version > first.version


def test_of_many_writers_that_add_one_each_gets_its_own_turn(shelves: LocalShelves) -> None:
    shelves.write("notes", "n", b"0")

    def add(_: int) -> None:
        while True:
            found = shelves.read("notes", "n")
            try:
                shelves.write("notes", "n", str(int(found.text) + 1).encode(), if_version=found.version)
                return
            except VersionConflict:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(20)))
    assert shelves.read("notes", "n").text == "20"


def test_processes_that_make_the_file_at_once_lose_nothing(shelves: LocalShelves) -> None:
    def work(name: str) -> Callable[[], None]:
        def write() -> None:
            for n in range(10):
                shelves.write("notes", f"{name}/{n}", b"x")

        return write

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda name: in_a_process(work(name)), "abc")) == [0, 0, 0]
    assert len(paths(shelves)) == 30
    assert {int(entry.version) for entry in shelves.entries("notes").entries} == set(range(1, 31))


# Lists.


def test_a_list_has_pages_and_a_prefix(shelves: LocalShelves) -> None:
    names = ["a", "a/b", "a/c", "ab", "b", "ä/é", "\U0001f600"]
    for path in names:
        shelves.write("notes", path, b"")
    assert paths(shelves) == sorted(names)
    assert paths(shelves, prefix="a/") == ["a/b", "a/c"]
    assert paths(shelves, prefix="a") == ["a", "a/b", "a/c", "ab"]
    assert paths(shelves, prefix=unicodedata.normalize("NFD", "ä")) == ["ä/é"]
    assert paths(shelves, prefix="%") == paths(shelves, prefix="*") == []
    page, seen = shelves.entries("notes", "a", limit=3), 0
    while True:
        seen += len(page.entries)
        if page.next is None:
            break
        page = shelves.entries("notes", "a", after=page.next, limit=3)
    assert seen == 4


@pytest.mark.parametrize("limit", [0, 1_001, -1, True])
def test_a_page_has_bounds(shelves: LocalShelves, limit: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 1000"):
        shelves.entries("notes", limit=limit)


# Names, paths and sizes.


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "a/../b",
        "a/./b",
        ".",
        "a//b",
        "a/",
        "a\\..\\b",
        "a\0b",
        "a\nb",
        "\x7f",
        "\ud800",
        "\u2028",
        "a\U0010ffff",
        "x" * (PATH_BYTES + 1),
        "é" * (PATH_BYTES // 2 + 1),
        "\u0958" * 170,  # its composed form is longer
    ],
)
def test_a_path_that_is_none_is_refused_and_nothing_is_made(shelves: LocalShelves, path: str) -> None:
    for refused in (
        lambda: shelves.write("notes", path, b"x"),
        lambda: shelves.read("notes", path),
        lambda: shelves.delete("notes", path),
    ):
        with pytest.raises(InvalidInput, match="path"):
            refused()
    assert not shelves.folder.exists()


@pytest.mark.parametrize("path", ["...", "..a", "a..", ".env", "a b", "%2e%2e/x", "~", "-rf", "CON", "x" * PATH_BYTES])
def test_a_path_is_a_key_and_leads_nowhere(shelves: LocalShelves, tmp_path: Path, path: str) -> None:
    shelves.write("notes", path, b"x")
    assert paths(shelves) == [path]
    assert {found.name for found in tmp_path.rglob("*") if found.is_file()} <= {FILE, f"{FILE}-journal"}


def test_paths_that_look_the_same_are_the_same(shelves: LocalShelves) -> None:
    shelves.write("notes", unicodedata.normalize("NFD", "Brötchen"), b"1")
    assert shelves.read("notes", unicodedata.normalize("NFC", "Brötchen")).content == b"1"
    assert paths(shelves) == ["Brötchen"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "ä", "x" * 65, "a\n", "."])
def test_the_name_of_a_shelf_is_like_an_id(shelves: LocalShelves, name: str) -> None:
    for refused in (
        lambda: shelves.write(name, "a", b"x"),
        lambda: shelves.read(name, "a"),
        lambda: shelves.entries(name),
        lambda: shelves.delete(name, "a"),
    ):
        with pytest.raises(InvalidInput, match="name of a shelf"):
            refused()
    assert not shelves.folder.exists()


def test_wrong_types_are_refused(shelves: LocalShelves) -> None:
    for content in ("text", None, 7, bytearray(b"x")):
        with pytest.raises(InvalidInput, match="bytes"):
            shelves.write("notes", "a", content)  # type: ignore[arg-type]  # that is what it checks
    with pytest.raises(InvalidInput, match="path"):
        shelves.read("notes", 7)  # type: ignore[arg-type]  # that is what it checks
    with pytest.raises(InvalidInput, match="if_version"):
        shelves.write("notes", "a", b"", if_version="")
    with pytest.raises(InvalidInput, match="key"):
        shelves.write("notes", "a", b"", key="k" * 1_000)


def test_text_that_is_no_utf8_is_refused_and_not_changed(shelves: LocalShelves) -> None:
    shelf = Shelf.of(shelves, "notes", "k").blocking
    assert shelf.write("a", "é").size == 2
    with pytest.raises(InvalidInput, match="cannot have the character"):
        shelf.write("a", "rye \ud800")
    assert shelf.read("a").text == "é"


def test_an_entry_has_a_largest_size(shelves: LocalShelves) -> None:
    shelves.write("notes", "a", bytes(ENTRY_BYTES))
    with pytest.raises(TooLarge, match=str(ENTRY_BYTES)):
        shelves.write("notes", "a", bytes(ENTRY_BYTES + 1))
    assert len(shelves.read("notes", "a").content) == ENTRY_BYTES


def test_all_entries_together_have_one_and_what_is_deleted_makes_room(tmp_path: Path) -> None:
    shelves = LocalShelves(tmp_path / "shelves", total_bytes=10)
    shelves.write("notes", "a", bytes(6))
    with pytest.raises(TooLarge, match="at most 10 bytes, and 6 are taken"):
        shelves.write("more", "b", bytes(5))
    shelves.write("more", "b", bytes(4))
    shelves.write("notes", "a", bytes(6))  # in its own place
    shelves.write("notes", "a", bytes(2))
    shelves.write("notes", "a", bytes(6))
    shelves.delete("more", "b")
    shelves.write("notes", "c", bytes(4))


def test_there_is_a_most_of_entries(shelves: LocalShelves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "TOTAL_ENTRIES", 2)
    shelves.write("notes", "a", b"")
    shelves.write("notes", "b", b"")
    shelves.write("notes", "b", b"again")
    with pytest.raises(TooLarge, match="2 entries"):
        shelves.write("notes", "c", b"")


def test_the_file_shrinks_with_what_is_deleted(shelves: LocalShelves) -> None:
    shelves.write("notes", "a", bytes(1_000_000))
    shelves.delete("notes", "a")
    assert (shelves.folder / FILE).stat().st_size < 100_000


# The file.


def test_a_link_in_the_folder_is_no_entry_and_is_not_followed(shelves: LocalShelves, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of another tenant")
    shelves.write("notes", "a", b"1")
    (shelves.folder / "link").symlink_to(secret)
    (shelves.folder / "notes").symlink_to(tmp_path, target_is_directory=True)
    for path in ("link", "secret", "notes/secret"):
        with pytest.raises(NotFound):
            shelves.read("notes", path)
        shelves.write("notes", path, b"mine")
    assert secret.read_text() == "of another tenant"


def test_a_copy_of_the_folder_has_everything_and_goes_on_counting(shelves: LocalShelves, tmp_path: Path) -> None:
    made = shelves.write("notes", "a", b"1")
    copied = LocalShelves(Path(shutil.copytree(shelves.folder, tmp_path / "restored")))
    assert copied.entries("notes").entries == (made,)
    assert int(copied.write("notes", "b", b"2").version) > int(made.version)


def test_only_its_owner_may_read_the_folder(shelves: LocalShelves) -> None:
    shelves.write("notes", "a", b"1")
    assert shelves.folder.stat().st_mode & 0o077 == 0


def test_the_folder_above_is_never_made(tmp_path: Path) -> None:
    shelves = LocalShelves(tmp_path / "deleted" / "shelves")
    for refused in (lambda: shelves.write("notes", "a", b"1"), lambda: shelves.read("notes", "a"), shelves.shelves):
        with pytest.raises(Unavailable, match="shared storage"):
            refused()
    assert not (tmp_path / "deleted").exists()


def test_a_file_of_another_kind_or_a_newer_version_is_left_alone(shelves: LocalShelves) -> None:
    shelves.folder.mkdir()
    path = shelves.folder / FILE
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE foreign_table (a)")
    db.close()
    before = path.read_bytes()
    for refused in (lambda: shelves.write("notes", "a", b"1"), lambda: shelves.read("notes", "a")):
        with pytest.raises(StoreError, match="not an agency's shelves"):
            refused()
    assert path.read_bytes() == before
    path.unlink()
    shelves.write("notes", "a", b"1")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(NewerStore):
        shelves.write("notes", "a", b"1")


def test_a_store_can_be_sent_to_another_process(shelves: LocalShelves) -> None:
    shelves.write("notes", "a", b"1")
    assert pickle.loads(pickle.dumps(shelves)).read("notes", "a").content == b"1"


# Tools and hooks.


@tool
async def remember(ctx: ToolContext, text: str) -> str:
    shelf = ctx.shelf("memory")
    try:
        known = await shelf.read("notes.md")
        made = await shelf.write("notes.md", known.text + text, if_version=known.version)
    except NotFound:
        made = await shelf.write("notes.md", text, if_version=ABSENT)
    return made.version


@tool
def recall(ctx: ToolContext, shelf: str = "memory") -> str:
    blocking = ctx.shelf(shelf).blocking
    page = blocking.entries()
    return " ".join(blocking.read(entry.path).text for entry in page.entries)


class Diary(Middleware):
    name = "diary"
    tags = ("default",)

    async def on_run_end(self, ctx: HookContext, run: RunEnd) -> None:
        await ctx.shelf("diary").write(f"{ctx.thread.id}/{run.run_id}", str(run.result))


def bakery(*lines: object) -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(list(lines))})  # type: ignore[arg-type]  # lines
    system.add_tool(remember).add_tool(recall).use(Diary())
    return system.add_agent(name="clerk", description="", prompt="clerk")


async def test_tools_and_hooks_share_shelves_that_outlive_threads(tmp_path: Path) -> None:
    async with LocalRuntime(bakery(call_of("remember", text="rye"), "noted"), tmp_path) as runtime:
        first = await runtime.create_thread("clerk", thread_id="first")
        await first.invoke("remember rye")
        assert (await first.wait(10)).data == "noted"
    (tmp_path / "first.db").unlink()
    async with LocalRuntime(bakery(call_of("recall"), "done"), tmp_path) as runtime:
        assert runtime.thread_ids() == []
        second = await runtime.create_thread("clerk", thread_id="shelves")  # may have this name, too
        await second.invoke("what was it?")
        await second.wait(10)
        assert [each.content for each in (await second.state()).messages if each.role == "tool"] == ["rye"]
        store = runtime.shelves()
        await eventually(lambda: [info.name for info in store.shelves()] == ["diary", "memory"])


async def test_a_thread_in_a_file_of_its_own_has_shelves_beside_it(tmp_path: Path) -> None:
    system = bakery([call_of("remember", text="rye")], [call_of("recall"), call_of("recall", shelf="a/b")], "done")
    async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
        await thread.invoke("go")
        assert (await thread.wait(10)).status == "completed"
        said = [each.content for each in (await thread.state()).messages if each.role == "tool"]
    assert said[:2] == ["1", "rye"]
    assert "the name of a shelf has 1 to 64 letters" in said[2]
    assert (tmp_path / "clerk.db.threads" / "shelves" / FILE).exists()


def test_an_entry_with_a_path_that_is_none_today_can_be_read_and_deleted(shelves: LocalShelves) -> None:
    shelves.write("notes", "a", b"1")
    old = "in\u202evoice.md"
    with closing(sqlite3.connect(shelves.folder / FILE)) as db, db:
        db.execute("UPDATE entries SET path = ?", (old,))
    with pytest.raises(InvalidInput, match="RIGHT-TO-LEFT OVERRIDE"):
        shelves.write("notes", old, b"2")
    assert [each.path for each in shelves.entries("notes").entries] == [old]
    assert shelves.read("notes", old).content == b"1"
    shelves.delete("notes", old)
    assert shelves.entries("notes").entries == ()
