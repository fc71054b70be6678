"""A soak: a served installation under mixed load, whose processes are killed and whose clients are slow.

    python -m tests.support.soak [--seconds 300] [--tenants 4] [--seed 7] [--brief]

It begins with storms: hosts, the directory and the gateway are killed at intervals while tenants work. Then nothing is
killed, and the load goes on with rest points in between, at which memory and descriptors are measured (`measuring`).
Tenants (`stories`) check everything that they were told had happened, and count effects; their requests (`tenant`) take
no answer for one that is the server's own fault.

`--brief` is for some seconds: processes are measured and not judged, since they are still warming up.

Prints what was done, what was measured, what is wrong, and one JSON object as the last line. The exit code is 0 if
nothing is wrong. It listens on loopback only, and ends what it has started, also if it is interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from dataclasses import dataclass, replace

import httpx

from tests.support.soak.measuring import RestPoint, changes, replaced, table
from tests.support.soak.served import SECRET, Kind, Served
from tests.support.soak.slow_clients import SlowClients
from tests.support.soak.stories import STORIES, tell
from tests.support.soak.tenant import PATIENCE, Findings, Tenant
from tests.support.waiting import cancel_all


@dataclass(frozen=True)
class Plan:
    seconds: float
    tenants: int
    seed: int
    storms: float = 0.4
    """The part of the time in which processes are killed."""
    warm_ups: int = 2
    """Legs of load after the last kill, at whose end is the first rest point that counts."""
    legs: int = 4
    """Legs after that, each with a rest point at its end."""
    judges: bool = True
    """Whether processes may not grow."""


KILLED: tuple[Kind, ...] = ("host", "host", "host", "directory", "gateway")
BETWEEN_KILLS = (2.0, 6.0)
RENEWED = 40
"""After so many stories a tenant is deleted, with all that it has left, and a new one comes."""
SAMPLES = 5
SAMPLES_APART = 0.3


class Soak:
    def __init__(self, served: Served, plan: Plan) -> None:
        self.findings = Findings()
        self.points: list[RestPoint] = []
        self._served = served
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._http = httpx.AsyncClient(base_url=served.url, timeout=40, limits=httpx.Limits(max_connections=100))
        self._ledgers = served.folder / "ledgers"
        self._ledgers.mkdir()
        self._tenants: list[Tenant] = []

    async def run(self) -> None:
        plan = self._plan
        self._tenants = [await self._new_tenant() for _ in range(plan.tenants)]
        await self._leg(plan.storms * plan.seconds, storm=True)
        leg = (1 - plan.storms) * plan.seconds / (plan.warm_ups + plan.legs)
        for number in range(plan.warm_ups + plan.legs):
            await self._leg(leg, storm=False)
            if number >= plan.warm_ups - 1:
                self.points.append(await self._rest())
        if plan.judges:
            self._judge()

    def _judge(self) -> None:
        for kind, (before, after) in replaced(self.points).items():
            self.findings.expect(False, f"a {kind} ended, or began, though nothing was killed: {before}, {after}")
        for change in changes(self.points):
            grown = f"{change.kind}: {change.name} grew from {change.before:.1f} to {change.after:.1f}"
            self.findings.expect(change.flat or not change.judged, grown)

    async def close(self) -> None:
        await self._http.aclose()

    async def _new_tenant(self) -> Tenant:
        return await Tenant(self._http, self.findings, self._ledgers).open()

    async def _leg(self, seconds: float, *, storm: bool) -> None:
        """So long of load; it is over when every story that had begun has come to its end."""
        slow = SlowClients(lambda: self._served.url, self._feed, SECRET, self.findings)
        end = time.monotonic() + seconds
        slow.begin()
        killing = asyncio.create_task(self._kill_until(end)) if storm else None
        try:
            await asyncio.gather(*(self._work_until(end, place) for place in range(self._plan.tenants)))
            if killing is not None:
                await killing
        finally:
            await cancel_all([killing] if killing is not None else [])
            await slow.end()

    def _feed(self) -> str:
        return f"/agency/{self._tenants[0].agency}/ws"

    async def _work_until(self, end: float, place: int) -> None:
        told = place
        while time.monotonic() < end:
            await tell(self._tenants[place], STORIES[told % len(STORIES)])
            told += 1
            if told % RENEWED == 0:
                old, self._tenants[place] = self._tenants[place], await self._new_tenant()
                await old.close()

    async def _kill_until(self, end: float) -> None:
        while (pause := self._random.uniform(*BETWEEN_KILLS)) < end - time.monotonic():
            await asyncio.sleep(pause)
            kind = self._random.choice(KILLED)
            if await asyncio.to_thread(self._served.kill_one, kind):
                self.findings.count(f"killed {kind}")

    async def _rest(self) -> RestPoint:
        """The figures when nothing is to be done, and nothing awake."""
        await self._nothing_is_awake()
        point = RestPoint()
        for _ in range(SAMPLES):
            point.add(await asyncio.to_thread(self._served.processes))
            await asyncio.sleep(SAMPLES_APART)
        return point

    async def _nothing_is_awake(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            status = await self._tenants[0].ask("GET", "/status", role="owner")
            if status["awake"] == 0 and not status["agencies"]:
                return
            await asyncio.sleep(0.5)
        self.findings.expect(False, f"threads or agencies are awake though nothing is to be done: {status}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(soak: Soak, plan: Plan, began: float) -> dict[str, object]:
    findings = soak.findings
    for what, count in sorted(findings.counts.items()):
        say(f"{count:8} {what}")
    if soak.points:
        say(table(soak.points))
    for wrong in findings.wrong:
        say(f"WRONG: {wrong}")
    return {
        "seconds": plan.seconds,
        "seed": plan.seed,
        "took": round(time.monotonic() - began, 1),
        "counts": dict(findings.counts),
        "figures": [
            {"process": each.kind, "figure": each.name, "before": each.before, "after": each.after, "flat": each.flat}
            for each in changes(soak.points)
        ]
        if soak.points
        else [],
        "wrong": findings.wrong,
        "ok": not findings.wrong and bool(soak.points),
    }


async def soak(plan: Plan) -> bool:
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, this.cancel)
    began = time.monotonic()
    say(f"soaking for {plan.seconds:g} s with the seed {plan.seed}")
    served = await asyncio.to_thread(Served)
    try:
        made = Soak(served, plan)
        try:
            await made.run()
        finally:
            await made.close()
            told = report(made, plan, began)
            if not told["ok"]:
                say(f"the end of the server's log:\n{served.log[-4_000:]}")
            say(json.dumps(told))
        return bool(told["ok"])
    finally:
        served.stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.soak", description="Load, kills and slow clients, for a while."
    )
    parser.add_argument("--seconds", type=float, default=300, help="how long to load the installation (default: 300)")
    parser.add_argument("--tenants", type=int, default=4, help="how many agencies work at once (default: 4)")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="of what is killed when")
    parser.add_argument("--brief", action="store_true", help="for some seconds: measure, and do not judge")
    given = parser.parse_args()
    plan = Plan(given.seconds, given.tenants, given.seed)
    if given.brief:
        plan = replace(plan, storms=0.6, warm_ups=1, legs=1, judges=False)
    try:
        return 0 if asyncio.run(soak(plan)) else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted; everything that was started has ended")
        return 130


if __name__ == "__main__":
    sys.exit(main())
