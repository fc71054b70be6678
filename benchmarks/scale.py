"""Where one directory, one head node and one file server stop: a simulation of what things were measured to cost.

    python -m benchmarks.scale [--json] [--directory-ms 0.6] [--file-servers 4] …
    python -m benchmarks.scale --write     puts its tables into docs/scale.md

Threads arrive at random. Each is made (gateway, agency, directory, two commits), and then has its round
trips, whose commits meet those of new threads at the file server; once in its life it sleeps and is woken by the
directory. Every directory is one queue, every file server one queue with as many places as it does syncs at once. Nodes
are added as their CPU is needed, so they are never what stops. The same arguments give the same figures.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import ceil, inf

from benchmarks import pages

PAGE = pages.ROOT / "docs" / "scale.md"

RATES = (25, 50, 100, 200, 400, 800, 1_600, 3_200)
THREADS = 3_000
"""How many are simulated for each rate."""
BUSY = 0.8
"""From here on a queue is too long too often: a part stops where it is at work for this share of the time."""


@dataclass(frozen=True)
class Costs:
    """What was measured on 2 cores, and what was assumed of a cluster; each is an option of the command."""

    gateway_ms: float = 3.2
    """CPU of a gateway for a thread."""
    directory_ms: float = 1.25
    """CPU of the directory for a new thread, and for one that it wakes."""
    agency_ms: float = 3.4
    """CPU of an agency host for a new thread. Agencies are spread over as many of them as it takes."""
    host_ms: float = 6.1
    """CPU of a host for a new thread with its first round trip."""
    round_trip_ms: float = 2.2
    """CPU of a host for each further round trip."""
    head_ms_per_node: float = 4.8
    """CPU of Ray's head (its GCS) in each second, for a node that is there."""
    head_ms_per_host: float = 10.0
    """CPU of Ray's head for a host that starts."""
    host_starts_per_hour: float = 10.0
    """Of one node: hosts that are replaced, dedicated ones."""
    create_commits: int = 2
    """Commits that a client waits for when it makes a thread: the agency's, the thread's."""
    commits_per_round_trip: int = 2
    syncs_per_commit: int = 3
    sync_ms: float = 5.0
    syncs_per_s: float = 20_000.0
    """What a file server can do; so it does `sync_ms` times that at once."""
    round_trips: int = 5
    wakes: float = 1.0
    """How often a thread is woken in its life."""
    cores_per_node: int = 8
    cores_used: float = 0.7
    directories: int = 1
    """Among which threads are spread by id."""
    file_servers: int = 1
    """The same."""

    @property
    def cpu_ms(self) -> float:
        """Of a thread, on the nodes."""
        return self.gateway_ms + self.agency_ms + self.host_ms + (self.round_trips - 1) * self.round_trip_ms

    @property
    def syncs(self) -> float:
        """Of a thread."""
        return (self.create_commits + self.round_trips * self.commits_per_round_trip) * self.syncs_per_commit

    def nodes(self, rate: float) -> int:
        return ceil(rate * self.cpu_ms / (1_000 * self.cores_per_node * self.cores_used))


@dataclass(frozen=True)
class Load:
    """What so many new threads a second do. Where a share of time is over 1, a queue grows for ever."""

    threads_per_s: float
    nodes: int
    directory: float
    head: float
    file_server: float
    create_p50_ms: float
    create_p99_ms: float


def busy(costs: Costs, rate: float) -> tuple[float, float, float]:
    """For which share of the time directory, head and file server are at work."""
    nodes = costs.nodes(rate)
    starts = costs.host_starts_per_hour / 3_600
    return (
        rate * (1 + costs.wakes) * costs.directory_ms / 1_000 / costs.directories,
        nodes * (costs.head_ms_per_node + starts * costs.head_ms_per_host) / 1_000,
        rate * costs.syncs / costs.syncs_per_s / costs.file_servers,
    )


def stops_at(costs: Costs) -> dict[str, float]:
    """New threads a second at which each part stops."""
    at_one = busy(costs, 1_000_000)  # so many that whole nodes do not matter
    return {
        name: BUSY * 1_000_000 / share for name, share in zip(("directory", "head", "file_server"), at_one, strict=True)
    }


def simulate(costs: Costs, rate: float) -> Load:
    directory, head, file_server = busy(costs, rate)
    times = [inf, inf] if max(directory, file_server) >= 1 else creations(costs, rate)
    return Load(
        threads_per_s=rate,
        nodes=costs.nodes(rate),
        directory=directory,
        head=head,
        file_server=file_server,
        create_p50_ms=statistics.median(times),
        create_p99_ms=inf if inf in times else statistics.quantiles(times, n=100)[98],
    )


def creations(costs: Costs, rate: float) -> list[float]:
    """Milliseconds from a client's request until its thread is on disk, of each thread."""
    chance = random.Random(f"{rate}")
    arrived = list(accumulated(chance.expovariate(rate) for _ in range(THREADS)))
    found = through_directory(costs, rate, arrived, chance)
    stored = through_file_servers(costs, rate, found, chance)
    others = costs.gateway_ms + costs.agency_ms
    return [(end - begin) * 1_000 + others for begin, end in zip(arrived, stored, strict=True)]


def accumulated(steps: Iterator[float]) -> Iterator[float]:
    now = 0.0
    for step in steps:
        now += step
        yield now


def through_directory(costs: Costs, rate: float, arrived: Sequence[float], chance: random.Random) -> list[float]:
    """When the directory is done with each thread. Threads that wake wait in the same queues."""
    wakes = accumulated(chance.expovariate(rate * costs.wakes) for _ in range(int(THREADS * costs.wakes)))
    asked = sorted([*((time, number) for number, time in enumerate(arrived)), *((time, -1) for time in wakes)])
    free = [0.0] * costs.directories
    done = [0.0] * len(arrived)
    for time, number in asked:
        shard = chance.randrange(costs.directories)
        free[shard] = max(free[shard], time) + costs.directory_ms / 1_000
        if number >= 0:
            done[number] = free[shard]
    return done


def through_file_servers(costs: Costs, rate: float, begun: Sequence[float], chance: random.Random) -> list[float]:
    """When each thread's first commits are on disk, among the commits of threads whose runs go on."""
    at_once = max(1, round(costs.syncs_per_s * costs.sync_ms / 1_000))
    places = [[0.0] * at_once for _ in range(costs.file_servers)]
    others = rate * costs.round_trips * costs.commits_per_round_trip
    going_on = accumulated(chance.expovariate(others) for _ in range(int(others * (begun[-1] - begun[0]))))
    asked = [(time, number, 1) for number, time in enumerate(begun)]
    asked += [(begun[0] + time, len(begun) + number, costs.create_commits) for number, time in enumerate(going_on)]
    shard = [chance.randrange(costs.file_servers) for _ in asked]
    heapq.heapify(asked)
    made = [0.0] * len(asked)
    while asked:
        time, number, nth = heapq.heappop(asked)
        free = places[shard[number]]
        made[number] = max(heapq.heappop(free), time) + costs.syncs_per_commit * costs.sync_ms / 1_000
        heapq.heappush(free, made[number])
        if nth < costs.create_commits:
            heapq.heappush(asked, (made[number], number, nth + 1))
    return made[: len(begun)]


# What is printed, and kept in the manual.


def scenarios(costs: Costs) -> dict[str, Costs]:
    directories = replace(costs, directories=4)
    return {
        "One directory, one file server": costs,
        "Four directories": directories,
        "Four directories, four file servers": replace(directories, file_servers=4),
    }


def table(costs: Costs) -> str:
    head = ("new threads/s", "nodes", "directory", "head node", "file server", "thread made, p50", "p99")
    lines = [head, tuple("---" for _ in head), *(_row(simulate(costs, rate)) for rate in RATES)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _row(load: Load) -> tuple[str, ...]:
    shares = (f"{share:.0%}" for share in (load.directory, load.head, load.file_server))
    times = (f"{ms:,.0f} ms" if ms < inf else "never" for ms in (load.create_p50_ms, load.create_p99_ms))
    return (f"{load.threads_per_s:,.0f}", f"{load.nodes:,}", *shares, *times)


def limits(costs: Costs) -> str:
    stops = stops_at(costs)
    nodes = costs.nodes(stops["head"])
    return (
        f"At {BUSY:.0%} at work: the directory at {stops['directory']:,.0f} new threads a second, the file server at "
        f"{stops['file_server']:,.0f}, the head node at {nodes:,} nodes."
    )


def report(costs: Costs) -> str:
    return "\n\n".join(f"**{name}.** {limits(each)}\n\n{table(each)}" for name, each in scenarios(costs).items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scale.md")
    for field in fields(Costs):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default, help="%(default)s")
    options = parser.parse_args()
    costs = Costs(**{field.name: getattr(options, field.name) for field in fields(Costs)})
    print(report(costs))
    if options.write:
        pages.write(PAGE, "scale", report(costs))
    if options.json:
        stops = {f"{name}_stops_at_threads_per_s": round(rate, 1) for name, rate in stops_at(costs).items()}
        print(json.dumps({**asdict(costs), **stops}))


if __name__ == "__main__":
    main()
