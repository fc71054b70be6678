"""`agency chat`: a conversation in the terminal, one run after the other, in this process or at a server.

The one idea: a line is a message, and the prompt comes back when its run has ended or waits for a person. Ctrl-C
cancels the run, not the chat. Lines may also come from a pipe; then nothing is asked, and the exit code is that of the
last run.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
import readline
import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from agency.define.options import RunOptionFields
from agency.errors import AgencyError, InvalidInput
from agency.messages import Image, Message
from agency.thread.protocols import AnyThread
from agency.thread.views import RunEnvelope
from dashboard.command.run import ENDS_WITH, WAITS, cancel_run, print_result, what_was_used
from dashboard.command.terminal.backends import Backend
from dashboard.command.terminal.console import DataDir, IsDemo, SystemOption, app, complain, err
from dashboard.command.terminal.display import RunDisplay
from dashboard.command.terminal.prompts import ApproveAll, AskAtTerminal, Decider, LeaveWaiting
from dashboard.command.terminal.rendering import call_line, clean, one_line
from dashboard.command.terminal.session import Session
from dashboard.command.terminal.targets import AgencyId
from dashboard.command.workplace import Workplace

HELP = """\
/clear          begin a new conversation
/turns          what was said so far, and what each run took
/model [NAME]   the model of the messages to come; without a name, the agent's own
/approve [all]  decide on the calls that wait; all: approve them
/exit           leave (Ctrl-D does, too)
@path           a file's text, or a picture, goes with the message
Ctrl-C          cancel the run"""

HISTORY_LINES = 1_000
FILE_BYTES = 200_000
_MENTION = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")


@app.command()
def chat(
    system: SystemOption = None,
    agent: Annotated[
        str | None,
        typer.Option(help="The agent. [dim]Default: the module's AGENT, or the first one[/]", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model. [dim]Default: the agent's[/]", show_default=False)
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--continue", metavar="THREAD", help="Continue an earlier conversation.")
    ] = None,
    data_dir: DataDir = None,
    url: Annotated[
        str | None,
        typer.Option(help="Talk at this server. [dim]Default: AGENCY_URL, else in this process[/]", show_default=False),
    ] = None,
    agency: AgencyId = None,
    demo: IsDemo = False,
) -> None:
    """Talk to an agent in the terminal. [dim]/help lists what you can type; Ctrl-C cancels a run.[/]"""
    opened = Workplace.of(url, agency, system, data_dir, resume, demo=demo, model=model)
    opened.introduce(model)
    with asyncio.Runner() as runner:
        talk = Chat(runner, opened, agent, model, resume)
        try:
            with _history(opened.data_dir / "chat_history"):
                talk.loop()
        finally:
            talk.close()
    raise typer.Exit(talk.code)


class Chat:
    def __init__(
        self, runner: asyncio.Runner, opened: Workplace, agent: str | None, model: str | None, resume: str | None
    ) -> None:
        self._runner = runner
        self._opened = opened
        self._agent = agent
        self._model = model
        self._resume = resume
        self._backend: tuple[AbstractAsyncContextManager[Backend], Backend] | None = None
        self._thread: AnyThread | None = None
        self._turns: list[tuple[str, RunEnvelope]] = []
        self._at_terminal = sys.stdin.isatty()
        self.code = 0

    def loop(self) -> None:
        for line in _lines(self._at_terminal):
            try:
                if line.startswith("/"):
                    if not self._command(line):
                        return
                elif line:
                    self._say(line)
            except AgencyError as error:
                complain(error)
                self.code = 1

    def close(self) -> None:
        """Let go of the thread, and say how to go on with it."""
        if self._thread is not None and self._backend is not None and self._at_terminal:
            name = self._backend[1].name(self._thread.id)
            again = shlex.join(["agency", "chat", "--continue", name, *self._opened.options])
            err.print(f"to go on: {again}", style="dim", markup=False, highlight=False, soft_wrap=True)
        self._leave()

    # What was typed.

    def _command(self, line: str) -> bool:
        """Do what a line that begins with a slash says; False to leave."""
        name, _, rest = line[1:].strip().partition(" ")
        match name, rest.strip():
            case (("exit" | "quit" | "q"), ""):
                return False
            case "clear", "":
                self._leave()
                err.print("a new conversation", style="dim")
            case "turns", "":
                self._print_turns()
            case "model", wanted:
                self._model = wanted or None
                err.print(f"model: {wanted or 'the agent’s own'}", style="dim", markup=False, highlight=False)
            case "approve", ("" | "all") as which:
                self._approve(everything=which == "all")
            case "help", "":
                err.print(HELP, markup=False, highlight=False)
            case _:
                raise InvalidInput(f"there is no {line.split()[0]} with that; /help lists what there is")
        return True

    def _say(self, line: str) -> None:
        message = with_files(line)
        for_run = RunOptionFields() if self._model is None else RunOptionFields(model=self._model)
        run = self._runner.run(self._turn(message, for_run))
        self._tell(line, run)

    def _approve(self, *, everything: bool) -> None:
        if self._thread is None and self._resume is None:
            raise InvalidInput("nothing waits: the conversation has not begun")
        run = self._runner.run(self._turn(None, RunOptionFields(), approving=True, everything=everything))
        self._tell("/approve", run)

    async def _turn(
        self, message: Message | None, for_run: RunOptionFields, *, approving: bool = False, everything: bool = False
    ) -> RunEnvelope:
        backend = await self._opened_backend()
        if self._thread is not None:
            self._thread = await backend.resume(self._thread.id, message, for_run)
        elif self._resume is not None:
            self._thread = await backend.resume(self._resume, message, for_run)
        else:
            assert message is not None
            self._thread = await backend.begin(self._agent, message, for_run)
        if approving and ENDS_WITH[(await self._thread.wait(0)).status] != WAITS:
            raise InvalidInput("nothing waits for you")
        return await self._follow(backend, self._thread, everything=everything or (approving and not self._at_terminal))

    async def _follow(self, backend: Backend, thread: AnyThread, *, everything: bool) -> RunEnvelope:
        display = RunDisplay(Console(stderr=True))
        decider: Decider = AskAtTerminal(display) if self._at_terminal else LeaveWaiting()
        session = Session(backend, thread, display, ApproveAll() if everything else decider)
        try:
            with display.showing():
                run = await session.follow()
            display.finish()
        except asyncio.CancelledError:  # Ctrl-C
            run = await cancel_run(backend, thread)
        for call in (call for calls in session.waiting.values() for call in calls):
            err.print("✋ ", call_line(call), sep="", soft_wrap=True)
        return run

    async def _opened_backend(self) -> Backend:
        if self._backend is None:
            opening = self._opened.backend(self._resume)
            self._backend = (opening, await opening.__aenter__())
        return self._backend[1]

    def _leave(self) -> None:
        if self._backend is not None:
            opening, self._backend = self._backend[0], None
            self._runner.run(_closed(opening))
        self._thread, self._resume, self._turns = None, None, []

    # What is told.

    def _tell(self, line: str, run: RunEnvelope) -> None:
        self._turns.append((line, run))
        self.code = ENDS_WITH[run.status]
        if run.status == "completed":
            print_result(run.data)
        for error in run.errors:
            err.print(Text.assemble((error.code, "red"), f" {clean(error.message)}"), soft_wrap=True)
        waits = " · waits for you: /approve" if self.code == WAITS else ""
        err.print(f"{run.status}: {what_was_used(run)}{waits}", style="dim", markup=False, highlight=False)

    def _print_turns(self) -> None:
        if not self._turns:
            err.print("nothing was said yet", style="dim")
        for number, (line, run) in enumerate(self._turns, 1):
            said = Text.assemble((f"{number:>3}  ", "dim"), one_line(line), (f"  {what_was_used(run)}", "dim"))
            err.print(said, soft_wrap=True)


async def _closed(opening: AbstractAsyncContextManager[Backend]) -> None:
    await opening.__aexit__(None, None, None)


def with_files(line: str) -> Message:
    """A message of a line, with the files that it mentions. A word after `@` that names no file stays a word, unless it
    can be nothing else."""
    texts, images = [line], []
    for found in _MENTION.findall(line):
        name = found.strip('"')
        if (path := _file(name)) is None:
            name = name.rstrip(".,;:!?)")  # the end of a sentence
            path = _file(name)
        if path is None:
            if "/" in name or Path(name).suffix:
                raise InvalidInput(f"there is no file {name}; nothing was sent")
            continue
        kind = mimetypes.guess_type(path.name)[0]
        content = _content(path, name)
        if (kind or "").startswith("image/"):
            images.append(_picture(name, content))
        elif len(content) > FILE_BYTES:
            raise InvalidInput(f"{name} has {len(content):,} bytes; a file that goes with a message has {FILE_BYTES:,}")
        else:
            try:
                texts.append(f"--- {name} ---\n{content.decode()}")
            except UnicodeDecodeError:
                raise InvalidInput(f"{name} is neither text nor a picture") from None
    return Message(role="user", content="\n\n".join(texts), images=tuple(images))


def _file(name: str) -> Path | None:
    """The file of a name; None if there is none, or if no file could have that name."""
    try:
        path = Path(name).expanduser()
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # it is too long, or the home of a user who is not there
        return None


def _content(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror or error}; nothing was sent") from None


def _picture(name: str, content: bytes) -> Image:
    try:
        return Image.from_bytes(content)
    except ValueError:
        raise InvalidInput(f"{name} is no picture that models read: PNG, JPEG, GIF or WebP") from None


def _lines(at_terminal: bool) -> Iterator[str]:
    """What is typed, or comes from a pipe. Ctrl-C at the prompt discards the line; twice, it ends the chat."""
    if not at_terminal:
        yield from (line.strip() for line in sys.stdin)
        return
    interrupted = False
    while True:
        try:
            line = input("› ").strip()
        except EOFError:
            err.print()
            return
        except KeyboardInterrupt:
            err.print()
            if interrupted:
                return
            interrupted = True
            err.print("Ctrl-C again leaves the chat; /help lists what you can type", style="dim", highlight=False)
            continue
        interrupted = False
        yield line


@contextmanager
def _history(file: Path) -> Iterator[None]:
    """What was typed before, by the arrow keys; kept in the data folder, readable for its owner."""
    if not sys.stdin.isatty():
        yield
        return
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
            readline.write_history_file(file)
