"""What other people's code prints and logs while a call runs, kept for the call and written to the log, line by line.

The one idea: a context variable says which call is running, in this task or this worker thread. The process's standard
streams and one handler of the log look at it when something is written, so a call that writes nothing costs nothing,
and calls that run side by side do not get each other's lines.

Hosts, and the workers of Ray tasks, capture. A program that runs threads in its own process keeps its streams.
Threads that a tool starts by itself do not know their call: what they write is in the log only.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, TextIO

from agency.secrets import without_secrets
from agency.wire import sayable_text

OUTPUT = "agency.output"
"""The logger of what is printed."""

HEAD_CHARS = 4_000
TAIL_CHARS = 12_000
"""A call keeps so much of the beginning and of the end of what it writes."""
LINE_CHARS = 4_000
"""A longer line is several lines of the log."""

_OURS = frozenset({"agency", "actors", "dashboard", "ray"})

log = logging.getLogger(OUTPUT)


@dataclass(slots=True)
class Recording:
    """What one call has written so far. Several threads may write at once."""

    thread: str
    call: str
    tool: str
    partial: dict[str, str] = field(default_factory=dict)
    """By stream, the beginning of a line that has not ended."""
    _head: str = ""
    _tail: deque[str] = field(default_factory=deque)
    _tail_chars: int = 0
    _left_out: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, text: str) -> None:
        free = without_secrets(sayable_text(text))
        with self._lock:
            room = max(0, HEAD_CHARS - len(self._head)) if not self._tail else 0
            self._head += free[:room]
            if len(free) > room:
                self._add_to_tail(free[room:])

    def _add_to_tail(self, text: str) -> None:
        self._tail.append(text)
        self._tail_chars += len(text)
        while (over := self._tail_chars - TAIL_CHARS) > 0:
            first = self._tail.popleft()
            if len(first) > over:
                self._tail.appendleft(first[over:])
            gone = min(over, len(first))
            self._tail_chars -= gone
            self._left_out += gone

    def text(self) -> str:
        """What is kept of it."""
        with self._lock:
            gap = f"\n… ({self._left_out} characters are left out here) …\n" if self._left_out else ""
            return without_secrets(f"{self._head}{gap}{''.join(self._tail)}")


_current: ContextVar[Recording | None] = ContextVar("recording", default=None)
_capturing = False
_NOTHING_KEPT = nullcontext[None](None)


def current() -> Recording | None:
    """The call that is running here, if this process captures."""
    return _current.get()


def recording(thread: str, call: str, tool: str) -> AbstractContextManager[Recording | None]:
    """Keep what is written meanwhile; None if this process does not capture."""
    return _recording(thread, call, tool) if _capturing else _NOTHING_KEPT


@contextmanager
def _recording(thread: str, call: str, tool: str) -> Iterator[Recording]:
    kept = Recording(thread, call, tool)
    token = _current.set(kept)
    try:
        yield kept
    finally:
        for stream, begun in kept.partial.items():
            if begun:
                _write_lines(stream, [begun])
        _current.reset(token)


def replay(text: str) -> None:
    """Write what a call has printed in another process, as if it had been printed here."""
    if text and (kept := _current.get()) is not None:
        kept.add(text)
        _write_lines("stdout", text.splitlines())


def capture(*, lines: bool) -> None:
    """From now on, this process captures. With `lines`, what is printed goes to the log, line by line; without, to
    where it went before."""
    global _capturing
    if _capturing:
        return
    _capturing = True
    sys.stdout = CapturedStream(sys.stdout, "stdout", lines)
    sys.stderr = CapturedStream(sys.stderr, "stderr", lines)
    logging.getLogger().addHandler(CallHandler())


class CapturedStream(io.TextIOBase):
    """In the place of a standard stream."""

    def __init__(self, stream: TextIO, name: Literal["stdout", "stderr"], lines: bool) -> None:
        self._stream = stream
        self._name = name
        self._lines = lines
        self._beside: dict[str, str] = {}
        """The line that was begun outside of any call."""

    def write(self, text: str) -> int:
        kept = _current.get()
        if kept is not None:
            kept.add(text)
        if not self._lines:
            return self._stream.write(text)
        begun = self._beside if kept is None else kept.partial
        *whole, rest = f"{begun.pop(self._name, '')}{text}".split("\n")
        if len(rest) > LINE_CHARS:
            whole, rest = [*whole, rest], ""
        if rest:
            begun[self._name] = rest
        _write_lines(self._name, whole)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        return self._stream.encoding

    @property
    def buffer(self) -> object:
        """For code that writes bytes; those are not captured."""
        return self._stream.buffer


def _write_lines(stream: str, lines: list[str]) -> None:
    for line in lines:
        free = without_secrets(sayable_text(line))
        for at in range(0, len(free), LINE_CHARS):
            log.info("%s", free[at : at + LINE_CHARS], extra={"stream": stream})


class CallHandler(logging.Handler):
    """Keeps what other people's code logs during a call. The log itself has it anyway."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        kept = _current.get()
        if kept is not None and record.name.partition(".")[0] not in _OURS:
            kept.add(f"{self.format(record)}\n")
