"""A run in progress, in a terminal: finished work is printed line by line, and a live area below shows current work.

When the output goes to a file or a pipe, there is no live area: only the lines are printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from agency.events import Event, EventData, EventType
from dashboard.command.terminal.console import print_line
from dashboard.command.terminal.rendering import as_call, clean, compact, one_line, todo_lines

TEXT_LINES, TEXT_CHARS = 8, 4_000
"""How much of a reply the live area shows while the model streams it."""

ARGUMENT_CHARS = 60

QUIET_TOOLS = ("write_todos", "task")
"""Tools without a line of their own: the todo list and the subagents show what they do."""


@dataclass
class WatchedThread:
    """What the display knows about a thread."""

    name: str
    depth: int
    text: str = ""
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The calls that run now, by their ids: the call as text, and the time at which it began."""
    asked: dict[str, str] = field(default_factory=dict)
    """The tools of the calls that a person was asked about, by the calls' ids."""


class RunDisplay:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._threads: dict[str, WatchedThread] = {}
        self._root = ""
        self._todos: list[Text] = []
        self._postponed: list[Text] | None = None
        self._live = Live(get_renderable=self._live_area, console=console, refresh_per_second=10, transient=True)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show the live area inside this block."""
        try:
            self._start()
            yield
        finally:
            self._live.stop()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Print nothing inside this block, because a person is being asked; print the lines afterwards."""
        self._live.stop()
        self._postponed = []
        try:
            yield
        finally:
            lines, self._postponed = self._postponed, None
            for line in lines:
                self._print(line)
            self._start()

    def _start(self) -> None:
        if self._console.is_terminal and not self._console.quiet:
            self._live.start()

    def watch(self, thread_id: str, name: str) -> None:
        """Begin to show a thread. The first one is the run's own; the others are its subagents."""
        self._root = self._root or thread_id
        self._threads[thread_id] = WatchedThread(name, depth=0 if thread_id == self._root else 1)

    def take(self, thread_id: str, event: Event) -> None:
        shown = self._threads[thread_id]
        match event.type, event.data:
            case EventType.MODEL_DELTA, {"delta": str(delta), "offset": int(offset)}:
                shown.text = shown.text[:offset] + clean(delta)
            case EventType.TOOL_STARTED, {"toolName": "write_todos", "args": {"todos": todos}}:
                self._say(shown)
                self._plan(thread_id, todo_lines(todos))
            case EventType.TOOL_STARTED, {"toolName": str(name), "callId": str(call), "args": args}:
                self._say(shown)
                if name not in QUIET_TOOLS:
                    shown.calls[call] = (as_call(name, args, ARGUMENT_CHARS), event.ts)
            case EventType.TOOL_OUTPUT, {"callId": str(call), "output": output}:
                self._ended(shown, call, event.ts, ("✓", "green"), compact(output))
            case EventType.TOOL_ERROR, {"callId": str(call), "error": str(error)}:
                self._ended(shown, call, event.ts, ("✗", "red"), error)
            case EventType.HITL_INTERRUPT, {"proposedToolCalls": list(calls)}:
                self._say(shown)
                shown.asked |= dict(_named(calls))
            case EventType.TOOL_WAITING, {"toolName": str(name), "waitsFor": str(what)}:
                self._line(shown, ("⏳ ", "yellow"), f"{name} waits for {one_line(what)}")
            case EventType.HITL_RESUME, {"decisions": dict(decisions)}:
                told = (f"{each} {shown.asked.get(call, '')}".rstrip() for call, each in decisions.items())
                self._line(shown, ("✋ ", "yellow"), ", ".join(one_line(each) for each in told))
            case EventType.SUBAGENT_COMPLETED, {"childThreadId": str(child), "status": str(status), "result": result}:
                name = self._threads[child].name if child in self._threads else child
                mark = ("✓ ", "green") if status == "completed" else ("✗ ", "red")
                self._line(shown, mark, (name, "magenta"), f": {compact(result)}")
            case EventType.MODEL_COMPLETED, {"error": {"code": str(code), "message": str(message)}}:
                self._line(shown, ("✗ ", "red"), f"{code} {one_line(message)}", (_what_next(event.data), "dim"))
                shown.text = ""
            case EventType.RUN_RECOVERED, {"why": str(why), "attempt": int(attempt)}:
                shown.text = ""
                gone = "was stopped" if why == "stopped" else "died"
                self._line(shown, ("↻ ", "yellow"), f"a process {gone}; the run goes on (attempt {attempt})")
            case EventType.TOOL_RETRIED, {"callId": str(call), "toolName": str(name), "attempt": int(attempt)}:
                again = event.data.get("retryAt")
                when = f" at {again[11:19]}" if isinstance(again, str) else ""
                self._line(shown, ("↻ ", "yellow"), f"{one_line(name)} again{when} (attempt {attempt})")
            case EventType.RUNTIME_WARNING, {"message": str(message)}:
                self._line(shown, ("! ", "yellow"), one_line(message))
            case EventType.MODEL_ASKED, {"by": str(by), "error": {"code": str(code), "message": str(message)}}:
                self._line(shown, ("✗ ", "red"), f"{by}: {code} {one_line(message)}")
            case ((EventType.AGENT_COMPLETED | EventType.AGENT_ERROR | EventType.RUN_CANCELED), _):
                shown.text = ""  # the text is the result, which the command prints
                shown.calls.clear()
            case _:
                pass

    def _say(self, shown: WatchedThread) -> None:
        """Print what the model said besides its calls."""
        text, shown.text = shown.text.strip(), ""
        if text and shown.depth == 0:
            for line in text.splitlines():
                self._line(shown, line)
        elif text:
            self._line(shown, (f"{one_line(text)}", "dim"))

    def _plan(self, thread_id: str, todos: list[Text]) -> None:
        if thread_id == self._root:
            self._todos = todos
            if not self._console.is_terminal:
                for line in todos:
                    self._print(line)

    def _ended(self, shown: WatchedThread, call: str, ts: str, mark: tuple[str, str], told: str) -> None:
        if (begun := shown.calls.pop(call, None)) is None:
            return
        label, since = begun
        seconds = _seconds(since, ts)
        took = f"  {seconds:.1f} s" if seconds >= 1 else ""
        self._line(shown, mark, f" {label}", (took, "dim"), (f"  {one_line(told)}", "dim"))

    def _line(self, shown: WatchedThread, *parts: str | tuple[str, str]) -> None:
        self._print(Text.assemble(_who(shown), *parts))

    def _print(self, line: Text) -> None:
        if self._postponed is not None:
            self._postponed.append(line)
        else:
            print_line(line, self._console)

    def _live_area(self) -> Group:
        lines: list[Text | Spinner] = []
        for shown in self._threads.values():
            lines += self._said(shown)
            for label, _ in shown.calls.values():
                lines.append(Spinner("dots", Text.assemble(_who(shown), label, no_wrap=True), style="cyan"))
        return Group(*lines, *self._todos)

    def _said(self, shown: WatchedThread) -> list[Text]:
        """The end of the streamed text: one line of a subagent's, several of the run's own."""
        if shown.depth:
            last = shown.text.splitlines()[-1:]
            return [Text.assemble(_who(shown), (line, "dim"), no_wrap=True, overflow="ellipsis") for line in last]
        wrapped = Text(shown.text[-TEXT_CHARS:]).wrap(self._console, self._console.width)
        return list(wrapped)[-TEXT_LINES:]

    def finish(self) -> None:
        """Print the final todo list, which stays on the screen when the live area goes."""
        if self._console.is_terminal:
            for line in self._todos:
                self._print(line)


def _what_next(data: EventData) -> str:
    """What happens after a failed model call: another model, or another try."""
    match data:
        case {"next": str(model)}:
            return f"  → {one_line(model)}"
        case {"retryAt": str(at)}:
            return f"  → again at {at[11:19]}"
        case _:
            return ""


def _who(shown: WatchedThread) -> tuple[str, str]:
    """What begins a line: a subagent's name, or nothing for the run itself."""
    return (f"  {shown.name}  " if shown.depth else "", "magenta")


def _seconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def _named(calls: list[JsonValue]) -> Iterator[tuple[str, str]]:
    """The tools of calls that a person is asked about, with the calls' ids."""
    for call in calls:
        match call:
            case {"toolName": str(name), "callId": str(call_id)}:
                yield call_id, name
