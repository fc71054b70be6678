"""Files in the thread's own store: what can be done with them, and each way in which it is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agency import InvalidInput, LocalRuntime, ToolCall
from agency.define.file_limits import FileLimits
from agency.errors import NotFound, TooLarge
from agency.testing import call
from middleware import filesystem, planning

if TYPE_CHECKING:
    from tests.support.call_runner import CallRunner, MakeRunner, OpenRunner


@pytest.fixture
def runner(make_runner: MakeRunner) -> OpenRunner:
    return make_runner(filesystem)


def ls() -> ToolCall:
    return call("ls")


def read(path: str, **lines: int) -> ToolCall:
    return call("read_file").model_copy(update={"args": {"path": path, **lines}})


def write(path: str, content: str) -> ToolCall:
    return call("write_file", path=path, content=content)


def edit(path: str, old: str, new: str, *, everywhere: bool = False) -> ToolCall:
    return call("edit_file", path=path, oldString=old, newString=new, replaceAll=everywhere)


def numbered(*lines: str, start: int = 1) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, start))


def put_bytes(runner: CallRunner, path: str, content: bytes) -> None:
    """Put a file into the thread's store as no tool would."""
    with closing(sqlite3.connect(runner.path)) as db, db:
        db.execute("INSERT INTO files (path, content) VALUES (?, ?)", (path, content))


# Writing and listing.


async def test_a_thread_begins_without_files(runner: OpenRunner) -> None:
    async with runner() as clerk:
        assert await clerk.do(ls()) == ["[]"]
        assert await clerk.more() == {"files": {}}


async def test_what_is_written_is_listed_in_order_and_shown_in_the_state(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do([write("/b.txt", "two\n"), write("/a/x.txt", "ünï")], ls())
        assert results == ["Wrote /b.txt (4 characters).", "Wrote /a/x.txt (3 characters).", '["/a/x.txt","/b.txt"]']
        assert await clerk.more() == {"files": {"/a/x.txt": "ünï", "/b.txt": "two\n"}}


async def test_writing_again_replaces_the_file(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "long and old"), write("/a", "new"))
        assert await clerk.more() == {"files": {"/a": "new"}}


async def test_files_outlive_the_process(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "kept"))
    async with runner() as clerk:
        assert await clerk.do(read("/a")) == [numbered("kept")]


async def test_a_later_call_of_the_same_batch_sees_what_an_earlier_one_wrote(runner: OpenRunner) -> None:
    async with runner() as clerk:
        batch = [write("/a", "one"), read("/a"), edit("/a", "one", "two"), read("/a"), ls()]
        assert await clerk.do(batch) == [
            "Wrote /a (3 characters).",
            numbered("one"),
            "Replaced 1 occurrence in /a.",
            numbered("two"),
            '["/a"]',
        ]


async def test_content_with_nul_characters_is_refused_and_nothing_is_written(runner: OpenRunner) -> None:
    async with runner() as clerk:
        (refusal,) = await clerk.do(write("/a", "a\0b"))
        assert refusal.startswith("Error: invalid_request: the content is binary")
        assert await clerk.more() == {"files": {}}


async def test_content_that_is_too_long_is_refused_and_nothing_is_written(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(write("/a", "x" * 2_000_001), write("/b", "x" * 2_000_000))
        assert results[0] == "Error: resource_limit: the content has 2000001 characters; a file has at most 2000000"
        assert list((await clerk.more())["files"]) == ["/b"]


async def test_content_that_utf8_cannot_say_does_not_stop_the_run(runner: OpenRunner) -> None:
    async with runner() as clerk:
        (result,) = await clerk.do(write("/a", "half a pair: \ud83d"))
        assert result.startswith(("Error: invalid_request: the content is not valid text", "Wrote /a"))


# Reading.


async def test_lines_are_numbered_six_wide_with_a_tab(runner: OpenRunner) -> None:
    async with runner() as clerk:
        (_, text) = await clerk.do(write("/a", "first\n\n  third\n"), read("/a"))
        assert text == "     1\tfirst\n     2\t\n     3\t  third"


async def test_offset_skips_lines_and_limit_ends_the_reading(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "\n".join("abcde")))
        results = await clerk.do(
            [read("/a", offset=2), read("/a", limit=2), read("/a", offset=1, limit=2), read("/a", offset=4, limit=9)]
        )
        assert results == [
            numbered("c", "d", "e", start=3),
            numbered("a", "b"),
            numbered("b", "c", start=2),
            numbered("e", start=5),
        ]


async def test_at_most_2000_lines_are_read_whatever_the_limit(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "\n".join("x" * 2_001)))
        results = await clerk.do([read("/a"), read("/a", limit=5_000), read("/a", offset=2_000)])
        assert [len(text.splitlines()) for text in results] == [2_000, 2_000, 1]
        assert results[2] == numbered("x", start=2_001)


async def test_a_line_is_cut_at_2000_characters(runner: OpenRunner) -> None:
    async with runner() as clerk:
        (_, text) = await clerk.do(write("/a", "x" * 2_001 + "\n" + "y" * 2_000), read("/a"))
        assert text == numbered("x" * 2_000, "y" * 2_000)


async def test_only_a_newline_ends_a_line(runner: OpenRunner) -> None:
    async with runner() as clerk:
        (_, text) = await clerk.do(write("/a", "one\x0cstill one\u2028and still\ntwo"), read("/a"))
        assert text == numbered("one\x0cstill one\u2028and still", "two")


async def test_an_empty_file_says_so_and_counts_as_read(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(write("/a", ""), read("/a"), edit("/a", "x", "y"))
        assert results[1:] == ["(the file is empty)", "Error: invalid_request: oldString was not found in /a"]


async def test_a_missing_file_is_an_error_for_reading_and_editing(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(read("/nowhere"), edit("/nowhere", "a", "b"))
        assert results == ["Error: invalid_request: there is no file /nowhere"] * 2


async def test_an_offset_past_the_end_is_an_error_that_names_the_length(runner: OpenRunner) -> None:
    async with runner() as clerk:
        (_, refusal) = await clerk.do(write("/a", "one\ntwo"), read("/a", offset=2))
        assert refusal == "Error: invalid_request: offset 2 is past the end: /a has 2 lines"


@pytest.mark.parametrize(("argument", "value"), [("offset", -1), ("limit", 0), ("limit", -5)])
async def test_offset_and_limit_out_of_range_are_refused(argument: str, value: int, runner: OpenRunner) -> None:
    async with runner() as clerk:
        (_, refusal) = await clerk.do(write("/a", "one"), read("/a", **{argument: value}))
        assert refusal.startswith(f"Error: invalid_request: wrong arguments for read_file: {argument}: ")


@pytest.mark.parametrize("content", [b"\x89PNG\0\x01", b"\xff\xfe\x41"], ids=["nul", "not utf-8"])
async def test_a_binary_file_is_neither_read_nor_edited_and_is_shown_by_its_size(
    content: bytes, runner: OpenRunner
) -> None:
    async with runner() as clerk:
        put_bytes(clerk, "/image", content)
        refusal = f"Error: invalid_request: /image is binary ({len(content)} bytes), not text"
        assert await clerk.do([read("/image"), edit("/image", "a", "b"), ls()]) == [refusal, refusal, '["/image"]']
        assert await clerk.more() == {"files": {"/image": f"(binary, {len(content)} bytes)"}}
        await clerk.do(write("/image", "text now"))
        assert await clerk.do(read("/image")) == [numbered("text now")]


# Editing.


async def test_an_edit_replaces_the_one_occurrence(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(write("/a", "one two three"), read("/a"), edit("/a", "two", "2"))
        assert results[2] == "Replaced 1 occurrence in /a."
        assert await clerk.more() == {"files": {"/a": "one 2 three"}}


async def test_an_edit_may_delete(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "one two"), read("/a"), edit("/a", " two", ""))
        assert await clerk.more() == {"files": {"/a": "one"}}


async def test_a_string_that_is_not_there_is_an_error_and_the_file_stays(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(write("/a", "one"), read("/a"), edit("/a", "ONE", "two"))
        assert results[2] == "Error: invalid_request: oldString was not found in /a"
        assert await clerk.more() == {"files": {"/a": "one"}}


async def test_an_ambiguous_string_is_an_error_unless_all_are_to_be_replaced(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(
            write("/a", "x x x"), read("/a"), edit("/a", "x", "y"), edit("/a", "x", "y", everywhere=True)
        )
        assert results[2].startswith("Error: invalid_request: oldString occurs 3 times in /a")
        assert results[3] == "Replaced 3 occurrences in /a."
        assert await clerk.more() == {"files": {"/a": "y y y"}}


async def test_an_empty_old_string_is_refused(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(write("/a", "one"), read("/a"), edit("/a", "", "two"))
        assert results[2].startswith("Error: invalid_request: wrong arguments for edit_file: oldString: ")


# Read before edit.

UNREAD = "Error: invalid_request: read /a with read_file before you edit it"


async def test_a_file_that_was_not_read_cannot_be_edited(runner: OpenRunner) -> None:
    async with runner() as clerk:
        assert await clerk.do(write("/a", "one"), edit("/a", "one", "two")) == ["Wrote /a (3 characters).", UNREAD]
        assert await clerk.more() == {"files": {"/a": "one"}}


async def test_reading_one_file_does_not_allow_editing_another(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do([write("/a", "one"), write("/b", "one")], read("/b"), edit("/a", "one", "two"))
        assert results[3] == UNREAD


async def test_a_reading_that_failed_does_not_count(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(write("/a", "one"), read("/a", offset=7), edit("/a", "one", "two"))
        assert results[2] == UNREAD


async def test_a_file_is_read_under_every_spelling_of_its_path(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(write("/a", "one"), read("//b/../a"), edit("/./a", "one", "two"))
        assert results[2] == "Replaced 1 occurrence in /a."


async def test_a_file_that_was_read_can_be_edited_more_than_once_and_after_being_rewritten(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "one"), read("/a"), edit("/a", "one", "two"), edit("/a", "two", "three"))
        await clerk.do(write("/a", "four"), edit("/a", "four", "five"))
        assert await clerk.more() == {"files": {"/a": "five"}}


async def test_that_a_file_was_read_is_known_in_later_runs(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "one"))
        assert await clerk.do(edit("/a", "one", "two")) == [UNREAD]
        await clerk.do(read("/a"))
        assert await clerk.do(edit("/a", "one", "two")) == ["Replaced 1 occurrence in /a."]


async def test_that_a_file_was_read_is_known_after_reopening(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do([write("/a", "one"), write("/b", "one")], read("/b"))
    async with runner() as clerk:
        results = await clerk.do([edit("/b", "one", "two"), edit("/a", "one", "two")])
        assert results == ["Replaced 1 occurrence in /b.", UNREAD]


# Paths.


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("notes.txt", 'a path begins with "/"'),
        ("./notes.txt", 'a path begins with "/"'),
        ("../etc/passwd", 'a path begins with "/"'),
        ("", 'a path begins with "/"'),
        ("/a\0b", "no NUL"),
        ("/" + "x" * 1_024, "at most 1024 characters"),
        ("/", "that is a folder"),
        ("/notes/", "that is a folder"),
        ("/notes/..", "that is a folder"),
        ("/../../etc/passwd", 'does not lead above "/"'),
        ("/a/../../b", 'does not lead above "/"'),
        ("/..", 'does not lead above "/"'),
        ("/..\\..\\b", 'separated by "/"'),
        ("/invoice\u202egnp.exe", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
        ("/a\nb", "U+000A"),
    ],
)
async def test_a_path_that_names_no_file_is_refused_by_every_tool(
    path: str, complaint: str, runner: OpenRunner
) -> None:
    async with runner() as clerk:
        results = await clerk.do([read(path), write(path, "x"), edit(path, "x", "y")])
        for name, refusal in zip(("read_file", "write_file", "edit_file"), results, strict=True):
            assert refusal.startswith(f"Error: invalid_request: wrong arguments for {name}: path: ")
            assert complaint in refusal
        assert await clerk.more() == {"files": {}}


@pytest.mark.parametrize(
    ("path", "tidy"),
    [
        ("/a/../b", "/b"),
        ("//a///b", "/a/b"),
        ("/a/./b", "/a/b"),
        ("/with space/ü", "/with space/ü"),
    ],
)
async def test_a_path_is_tidied_and_never_leaves_the_root(path: str, tidy: str, runner: OpenRunner) -> None:
    async with runner() as clerk:
        assert await clerk.do(write(path, "x"), read(tidy)) == [f"Wrote {tidy} (1 characters).", numbered("x")]
        assert await clerk.more() == {"files": {tidy: "x"}}


# What the model sees.


async def test_the_model_is_told_of_the_four_tools_and_their_arguments(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do()
        request = clerk.last_request
    assert "Read a file before you edit it" in request.system
    assert {spec.name: list(spec.parameters["properties"]) for spec in request.tools} == {  # type: ignore[arg-type]  # JSON
        "ls": [],
        "read_file": ["path", "offset", "limit"],
        "write_file": ["path", "content"],
        "edit_file": ["path", "oldString", "newString", "replaceAll"],
    }


# Files that are handed in.


async def test_files_handed_in_with_a_message_are_there_when_the_model_reads_it(runner: OpenRunner) -> None:
    async with runner() as clerk:
        clerk.lines[:] = [ls(), "done"]
        await clerk.thread.invoke("look", files={"/a.txt": "one", "/b/../c.txt": "two"})
        await clerk.thread.wait(timeout=10)
        assert (await clerk.more())["files"] == {"/a.txt": "one", "/c.txt": "two"}
        assert [m.content for m in (await clerk.thread.state()).messages if m.role == "tool"] == ['["/a.txt","/c.txt"]']


async def test_files_can_be_put_without_a_message_and_replace_what_is_there(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.thread.put_files({"/a.txt": "one", "/b.txt": "two"})
        await clerk.thread.put_files({"/a.txt": "three"})
        assert (await clerk.more())["files"] == {"/a.txt": "three", "/b.txt": "two"}


async def test_files_may_be_binary_and_are_read_and_deleted_by_path(runner: OpenRunner) -> None:
    pixels = b"\x89PNG\r\n\x1a\n\0\xff"
    async with runner() as clerk:
        await clerk.thread.put_files({"/b/../pixels.png": pixels, "/a.txt": "ä"})
        assert [(each.path, each.size) for each in await clerk.thread.files()] == [("/a.txt", 2), ("/pixels.png", 10)]
        assert await clerk.thread.read_file("/pixels.png") == pixels
        assert await clerk.thread.read_file("/x/../a.txt") == "ä".encode()
        assert (await clerk.more())["files"] == {"/a.txt": "ä", "/pixels.png": "(binary, 10 bytes)"}
        await clerk.thread.delete_file("/a.txt")
        for gone in (clerk.thread.read_file, clerk.thread.delete_file):
            with pytest.raises(NotFound, match=r"/a\.txt"):
                await gone("/a.txt")
            with pytest.raises(InvalidInput, match='begins with "/"'):
                await gone("a.txt")
        assert [each.path for each in await clerk.thread.files()] == ["/pixels.png"]


async def test_a_file_that_a_person_replaced_must_be_read_again_before_it_is_edited(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.thread.put_files({"/a.txt": "one"})
        await clerk.do(read("/a.txt"))
        await clerk.thread.put_files({"/a.txt": "two"})
        (refused,) = await clerk.do(edit("/a.txt", "two", "three"))
        assert "before you edit it" in refused
        assert await clerk.thread.read_file("/a.txt") == b"two"


async def test_what_is_too_large_is_refused_as_such(runner: OpenRunner) -> None:
    async with runner() as clerk:
        for large in ("x" * 2_000_001, bytes(8_000_001)):
            with pytest.raises(TooLarge):
                await clerk.thread.put_files({"/large": large})
        assert await clerk.thread.files() == ()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a thread may have two files, and 30 bytes in them, 20 in one."""
    monkeypatch.setattr(LocalRuntime, "file_limits", lambda _: FileLimits(each=20, most=2, together=30))


@pytest.mark.usefixtures("narrow")
async def test_what_the_agent_writes_is_within_the_limits_of_the_installation(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(
            write("/a", "x" * 21), write("/a", "x" * 20), write("/b", "x" * 11), write("/b", "x"), write("/c", "")
        )
        assert "AGENCY_FILE_BYTES" in results[0]
        assert "AGENCY_FILES_BYTES" in results[2]
        assert "AGENCY_FILES_MOST" in results[4]
        assert await clerk.do(write("/a", "y" * 20), write("/b", "y" * 10)) == [
            "Wrote /a (20 characters).",
            "Wrote /b (10 characters).",
        ]


@pytest.mark.usefixtures("narrow")
async def test_what_people_hand_in_is_within_the_limits_or_refused_whole(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.thread.put_files({"/a": "x" * 20})
        for files, said in (
            ({"/b": b"x" * 21}, "AGENCY_FILE_BYTES"),
            ({"/b": "x" * 6, "/a": "x" * 6, "/c": ""}, "AGENCY_FILES_MOST"),
            ({"/b": "x" * 11}, "AGENCY_FILES_BYTES"),
        ):
            with pytest.raises(TooLarge, match=said):
                await clerk.thread.put_files(files)
        assert [each.path for each in await clerk.thread.files()] == ["/a"]
        await clerk.thread.put_files({"/a": "x" * 15, "/b": "x" * 15})


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"/good.txt": "x", "relative.txt": "y"}, 'begins with "/"'),
        ({"/good.txt": "x", "/folder/": "y"}, "folder"),
        ({"/good.txt": "x", "/nul.txt": "a\0b"}, "binary"),
        ({"/good.txt": "x", "/half.txt": "\ud800"}, "not valid text"),
        ({"/good.txt": "x" * 2_000_001}, "2000000"),
        ({f"/{n}": "" for n in range(1_001)}, "at most 1000"),
    ],
)
async def test_files_that_cannot_be_kept_are_refused_whole(
    runner: OpenRunner, files: dict[str, str], problem: str
) -> None:
    async with runner() as clerk:
        with pytest.raises(InvalidInput, match=problem):
            await clerk.thread.invoke("look", files=files)
        assert (await clerk.more())["files"] == {}
        assert (await clerk.thread.state()).messages == ()


async def test_an_agent_without_a_filesystem_says_so(make_runner: MakeRunner) -> None:
    async with make_runner(planning)() as clerk:
        with pytest.raises(InvalidInput, match="no filesystem"):
            await clerk.thread.invoke("look", files={"/a.txt": "one"})
        assert (await clerk.thread.state()).messages == ()


@pytest.mark.parametrize("old", ["/../../etc/x", "/a\\b", "/a\nb", "/a\u202eb"])
async def test_a_file_that_an_earlier_release_took_in_can_be_read_and_deleted(old: str, runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(write("/a", "x"))
        with closing(sqlite3.connect(clerk.path)) as db, db:
            db.execute("UPDATE files SET path = ?", (old,))
        assert [each.path for each in await clerk.thread.files()] == [old]
        assert await clerk.thread.read_file(old) == b"x"
        await clerk.thread.delete_file(old)
        assert await clerk.thread.files() == ()
