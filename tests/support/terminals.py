"""The command as people run it: at a terminal, where it is typed into, and in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.paths import ROOT

COMMAND = (sys.executable, "-m", "dashboard.command")
SECONDS = 60.0
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


def surroundings(**variables: str) -> dict[str, str]:
    """The environment without what belongs to other installations."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENCY_")}
    return {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **variables}


def agency(*arguments: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it in a pipe, with nobody at the keyboard."""
    command = [*COMMAND, *map(str, arguments)]
    environment = surroundings(**variables)
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )


class Terminal:
    """A terminal in which it runs."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int) -> None:
        self._process = process
        self._keyboard = keyboard
        self._raw = b""
        self._seen = 0

    @property
    def screen(self) -> str:
        """All that was ever on the screen, without colours."""
        return _CONTROLS.sub("", self._raw.decode("utf-8", "replace"))

    @property
    def colours(self) -> bool:
        return b"\x1b[3" in self._raw

    def until(self, text: str) -> None:
        """Read until it shows something new."""
        deadline = time.monotonic() + SECONDS
        while text not in self.screen[self._seen :]:
            assert time.monotonic() < deadline and self._read(), f"never {text!r} in:\n{self.screen}"
        self._seen = self.screen.index(text, self._seen) + len(text)

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def interrupt(self) -> None:
        self.type("\x03")

    def end(self) -> int:
        """What it ends with."""
        while self._read():
            pass
        return self._process.wait(SECONDS)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        assert self.end() == -signal.SIGKILL

    def _read(self) -> bool:
        ready, _, _ = select.select([self._keyboard], [], [], SECONDS)
        assert ready, f"nothing more after:\n{self.screen}"
        try:
            piece = os.read(self._keyboard, 65_536)
        except OSError:  # which is how a terminal says that nobody is left
            return False
        self._raw += piece
        return bool(piece)


def _at_the_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may ignore it


@contextmanager
def terminal(*arguments: str | Path, folder: Path, **variables: str) -> Iterator[Terminal]:
    """Run it at a terminal; it does not outlive the test."""
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        env=surroundings(**variables),
        stdin=screen,
        stdout=screen,
        stderr=screen,
        start_new_session=True,
        preexec_fn=_at_the_terminal,
    )
    os.close(screen)
    try:
        yield Terminal(process, keyboard)
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)
