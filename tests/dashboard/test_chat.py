"""`agency chat`: a conversation at a terminal and in a pipe, canceled, approved, begun anew, with files."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from agency.errors import InvalidInput
from dashboard.command.chat import with_files
from tests.support.terminals import COMMAND, surroundings, terminal

OFFICE = """
import asyncio
from agency import AgentSystem, tool
from middleware import hitl


@tool(risk="high")
async def publish(path: str) -> str:
    "Publish."
    return f"{path} is public"


@tool(safe=True)
async def ponder(seconds: float) -> str:
    "Think."
    await asyncio.sleep(seconds)
    return "pondered"


system = (
    AgentSystem("demo:instant")
    .use(hitl, tags=["default"])
    .add_tool(publish)
    .add_tool(ponder)
    .add_agent(name="author", description="-", prompt="-", config={"hitl": {"tools": ["publish"]}})
)
"""
HERE = ("chat", "--system", "office:system")
PUBLISH = 'call publish {"path": "/draft.md"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "office.py").write_text(OFFICE)
    return tmp_path


def piped(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *HERE],
        cwd=folder,
        env=surroundings(),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_lines_of_a_pipe_are_one_conversation_until_it_is_begun_anew(folder: Path) -> None:
    done = piped(folder, "echo one", "echo two", "/turns", "/clear", "echo three", "/nonsense", "echo @nowhere.md")
    assert done.stdout == "one\ntwo\nthree\n"
    assert "  1  echo one  1 turn, " in done.stderr and "  2  echo two  1 turn, " in done.stderr
    assert "there is no /nonsense" in done.stderr and "there is no file nowhere.md" in done.stderr
    assert done.returncode == 1, "the last line was refused"
    assert len(list((folder / "data" / "runs").iterdir())) == 2


def test_in_a_pipe_what_waits_is_approved_by_a_line_or_waits_on(folder: Path) -> None:
    done = piped(folder, PUBLISH)
    assert done.returncode == 3 and "waits for you: /approve" in done.stderr
    done = piped(folder, PUBLISH, "/approve", "/approve")
    assert done.returncode == 1 and "nothing waits for you" in done.stderr, done.stderr
    assert done.stderr.count("completed: ") == 1
    assert (
        "publish answered: /draft.md is public" in done.stdout.replace("\n", " ")
        or "/draft.md is public" in done.stderr
    )


def test_at_a_terminal_a_run_is_canceled_and_the_chat_goes_on(folder: Path) -> None:
    with terminal(*HERE, folder=folder) as screen:
        screen.until("› ")
        screen.type('call ponder {"seconds": 60}\n')
        screen.until("ponder(seconds=60)")
        screen.interrupt()
        screen.until("canceled: ")
        screen.until("› ")
        screen.type(f"{PUBLISH}\n")
        screen.until("approve?")
        screen.type("y\n")
        screen.until("completed: ")
        screen.until("› ")
        screen.type("/model demo:nothing-like-it\n/exit\n")
        screen.until("to go on: agency chat --continue thr_")
        assert screen.end() == 0
    assert "call ponder" in (folder / "data" / "chat_history").read_text()


def test_files_go_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("rye")
    (tmp_path / "two words.txt").write_text("oats")
    (tmp_path / "cake.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "blob.bin").write_bytes(b"\xff\xfe")
    assert with_files(f"@{'x' * 300} @~absent_user").images == ()  # no file can have these names
    made = with_files('Compare @notes.md and @"two words.txt" with @cake.png, @ann')
    assert made.content.endswith("\n\n--- notes.md ---\nrye\n\n--- two words.txt ---\noats")
    made = with_files("@cake.png")
    assert [(image.media_type, image.data) for image in made.images] == [
        ("image/png", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode())
    ]
    for line, problem in (("@lost/notes.md", "there is no file"), ("@blob.bin", "neither text nor a picture")):
        with pytest.raises(InvalidInput, match=problem):
            with_files(line)
