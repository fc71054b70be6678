"""Durable round trips in one process: ours, deepagents with its SQLite saver, pydantic-ai with and without DBOS.

All have the same model, which answers at once, and the same tool. Each runs in a process of its own, which waits while
others are measured; they take turns, and the best of several rounds counts: what a noisy machine adds is not theirs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import python_of

TRIPS, ROUNDS = 50, 8
AGENTS, TRIPS_OF_EACH, ROUNDS_OF_MANY = 200, 25, 2
SLOW_SECONDS = 40
"""A contender that takes longer with all agents is asked for it once only."""


@dataclass(frozen=True)
class Contender:
    """A program of `programs`, in the Python of a peer or in ours."""

    name: str
    program: str
    peer: str | None = None
    words: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        return sys.executable if self.peer is None else str(python_of(self.peer))


CONTENDERS = (
    Contender("ours", "ours"),
    Contender("ours_stock", "ours", words=("stock",)),
    Contender("deepagents", "deepagents", "deepagents"),
    Contender("pydantic_ai", "pydantic_ai", "pydantic_ai"),
    Contender("pydantic_ai_dbos", "pydantic_ai", "pydantic_ai", ("dbos",)),
)


class Program:
    """A running program that is told what to do by lines, and answers by lines."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._read()

    def run(self, agents: int, trips: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{agents} {trips}\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> int:
        """Ends it in peace, and gives how many bytes it leaves on disk."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def _read(self) -> dict[str, Any]:
        """The next line that is an answer; frameworks may print others."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        raise RuntimeError(f"{self._process.args!r} has ended with {self._process.wait()}")


@contextmanager
def started(contender: Contender) -> Iterator[Program]:
    with tempfile.TemporaryDirectory(prefix="agency-bench-") as folder:
        module = f"benchmarks.peers.programs.{contender.program}"
        command = [contender.python, "-m", module, folder, *contender.words]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield Program(process, Path(folder))
            finally:
                process.kill()


def measure() -> dict[str, float]:
    with ExitStack() as stack:
        programs = {each.name: stack.enter_context(started(each)) for each in CONTENDERS}
        one: dict[str, list[float]] = {name: [] for name in programs}
        cpu: dict[str, list[float]] = {name: [] for name in programs}
        many: dict[str, list[float]] = {name: [] for name in programs}
        peak: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, program in programs.items():
                answer = program.run(1, TRIPS)
                one[name].append(answer["seconds"])
                cpu[name].append(answer["cpu_seconds"])
        for _ in range(ROUNDS_OF_MANY):
            for name, program in programs.items():
                if not many[name] or many[name][0] < SLOW_SECONDS:
                    answer = program.run(AGENTS, TRIPS_OF_EACH)
                    many[name].append(answer["seconds"])
                    peak[name] = answer["peak_mb"]
        disk = {name: program.close() for name, program in programs.items()}
    found: dict[str, float] = {}
    for name in programs:
        found[f"{name}_round_trip_ms"] = min(one[name]) * 1_000 / TRIPS
        found[f"{name}_round_trip_cpu_ms"] = min(cpu[name]) * 1_000 / TRIPS
        found[f"{name}_round_trips_per_s_200"] = AGENTS * TRIPS_OF_EACH / min(many[name])
        made = len(one[name]) * TRIPS + len(many[name]) * AGENTS * TRIPS_OF_EACH
        found[f"{name}_disk_bytes_per_round_trip"] = disk[name] / made
        found[f"{name}_peak_mb"] = peak[name]
    return found | speedups(found)


def speedups(found: dict[str, float]) -> dict[str, float]:
    """Against deepagents with the like of its planning, files and subagents, and as `bare` without; against pydantic-ai
    without."""
    pairs = {
        "": ("deepagents", "ours_stock"),
        "_bare": ("deepagents", "ours"),
        "_pydantic_ai_dbos": ("pydantic_ai_dbos", "ours"),
        "_pydantic_ai": ("pydantic_ai", "ours"),
    }
    of: dict[str, float] = {}
    for suffix, (peer, ours) in pairs.items():
        of[f"speedup_round_trip{suffix}"] = found[f"{peer}_round_trip_ms"] / found[f"{ours}_round_trip_ms"]
        of[f"speedup_round_trip_cpu{suffix}"] = found[f"{peer}_round_trip_cpu_ms"] / found[f"{ours}_round_trip_cpu_ms"]
        of[f"speedup_200_agents{suffix}"] = (
            found[f"{ours}_round_trips_per_s_200"] / found[f"{peer}_round_trips_per_s_200"]
        )
    return of
