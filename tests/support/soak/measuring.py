"""Whether an installation stays as large as it is.

Memory under load says more of the load than of the program: what is read, what is buffered, how far a collection is
away. So it is measured at **rest points**: the load has paused, its threads are deleted, no thread and no agency is
awake (each has files open), slow clients are gone. A rest point has several samples, and its figure is their median.
Each process is its own series, because a kind of process that is killed begins anew: what is judged is the time
without kills, in which every process is there from the end of the warm-up to the end. Of a kind with several
processes the figure is the mean.

Memory is PSS (what of shared pages is a process's part), RSS stands beside it. A figure may grow by 5 %, and by what a
reading is not finer than: of descriptors a few, of memory one arena of the allocator.
"""

from __future__ import annotations

import statistics
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tests.support.soak.served import Kind

MORE = 0.05
FINEST = {"pss": 1.0, "rss": 1.0, "fds": 3.0}
"""MiB of memory, and descriptors: a change that is no larger is none."""
JUDGED: tuple[Kind, ...] = ("keeper", "gateway", "directory", "host")
MIB = 1024 * 1024


@dataclass
class RestPoint:
    """The figures of each kind of process, and which processes they are."""

    samples: dict[tuple[Kind, str], list[float]] = field(default_factory=dict)
    pids: dict[Kind, list[int]] = field(default_factory=dict)

    def add(self, processes: dict[Kind, list[int]]) -> None:
        self.pids = {kind: sorted(pids) for kind, pids in processes.items()}
        for kind, pids in processes.items():
            found = [figures for pid in pids if (figures := figures_of(pid)) is not None]
            for name in FINEST:
                if found:
                    self.samples.setdefault((kind, name), []).append(statistics.mean(each[name] for each in found))

    def figure(self, kind: Kind, name: str) -> float:
        return statistics.median(self.samples.get((kind, name), [0.0]))


def figures_of(pid: int) -> dict[str, float] | None:
    """Of a process; None if it has ended."""
    with suppress(OSError, psutil.Error):
        memory = psutil.Process(pid).memory_full_info()
        return {
            "pss": memory.pss / MIB,
            "rss": memory.rss / MIB,
            "fds": float(psutil.Process(pid).num_fds()),
        }
    return None


@dataclass(frozen=True)
class Change:
    """A figure of a kind of process at the end of the warm-up, and at the end."""

    kind: Kind
    name: str
    before: float
    after: float

    @property
    def growth(self) -> float:
        return (self.after - self.before) / self.before if self.before else 0.0

    @property
    def judged(self) -> bool:
        return self.kind in JUDGED and self.name != "rss"

    @property
    def flat(self) -> bool:
        return self.growth <= MORE or self.after - self.before <= FINEST[self.name]


def changes(points: list[RestPoint]) -> list[Change]:
    first, last = points[0], points[-1]
    return [
        Change(kind, name, first.figure(kind, name), last.figure(kind, name)) for kind, name in sorted(first.samples)
    ]


def replaced(points: list[RestPoint]) -> dict[Kind, tuple[list[int], list[int]]]:
    """The kinds of which a process has ended, or begun, though none was killed."""
    first, last = points[0].pids, points[-1].pids
    return {kind: (first[kind], last[kind]) for kind in JUDGED if first[kind] != last[kind]}


def table(points: list[RestPoint]) -> str:
    lines = [f"{'process':10} {'figure':6} {'rest points':44} {'growth':>7}"]
    for change in changes(points):
        series = " ".join(f"{point.figure(change.kind, change.name):.1f}" for point in points)
        verdict = "" if not change.judged else "flat" if change.flat else "GROWS"
        lines.append(f"{change.kind:10} {change.name:6} {series:44} {100 * change.growth:6.1f}% {verdict}")
    return "\n".join(lines)
