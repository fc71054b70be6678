"""Running an example as people do: in a process of its own, to its end, or killed on the way there."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.paths import ROOT

SECONDS = 60.0


@contextmanager
def example(
    name: str, *arguments: str | Path, folder: Path, stdin: int = subprocess.DEVNULL, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """An example, running in a folder; it does not outlive the test."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        [sys.executable, "-m", f"examples.{name}", *map(str, arguments)],
        cwd=folder,
        env={**environment, **variables},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str]) -> str:
    """What it has printed since, once it has ended well."""
    printed, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, printed
    return printed


def run(name: str, *arguments: str | Path, folder: Path, stdin: int = subprocess.DEVNULL) -> str:
    """What an example prints, run to its end."""
    with example(name, *arguments, folder=folder, stdin=stdin) as process:
        return end_of(process)


def kill_when(process: subprocess.Popen[str], text: str) -> str:
    """Read what it prints up to a line with this text, then kill it."""
    assert process.stdout is not None
    printed: list[str] = []
    for line in process.stdout:
        printed.append(line)
        if text in line:
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            return "".join(printed)
    raise AssertionError(f"it ended without {text!r}:\n{''.join(printed)}")


@contextmanager
def terminal(typed: str) -> Iterator[int]:
    """A terminal for somebody's stdin, with this already typed into it."""
    keyboard, screen = pty.openpty()
    try:
        os.write(keyboard, typed.encode())
        yield screen
    finally:
        os.close(keyboard)
        os.close(screen)
