"""Observers of a system that runs in hosts: each sees what happens in its own, over the death of one too."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors import Cluster
from tests.support.paths import ROOT
from tests.support.scripted_system import calls, say, script
from tests.support.waiting import PATIENCE

Install = Callable[..., Awaitable[Cluster]]

SYSTEM = """
import json, os, signal
from pathlib import Path
from agency import AgentSystem, tool
from tests.support.scripted_system import ScriptModel

LEDGER = Path({ledger!r})

class Witness:
    def observe(self, seen):
        self.note([seen.thread.id, seen.seq, seen.type.value])

    def resumed(self, run):
        self.note(["resumed", [one.seq for one in run.turn]])

    def left(self, thread_id):
        self.note(["left", thread_id])

    def flush(self):
        self.note(["flush"])

    def note(self, what):
        with LEDGER.open("a") as file:
            file.write(json.dumps([os.getpid(), what]) + "\\n")

@tool
async def die_once() -> str:
    if "resumed" not in LEDGER.read_text():
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"

system = AgentSystem("script:any", providers={{"script": ScriptModel()}}).observe(Witness()).add_tool(die_once)
system.add_agent(name="clerk", description="Does what it is told.", prompt="clerk")
"""


async def test_two_hosts_see_every_event_of_a_run_once_and_are_flushed_when_all_is_stopped(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Path
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "watched_shop.py").write_text(SYSTEM.format(ledger=str(ledger)))
    cluster = await install(system="watched_shop:system", python_path=(str(tmp_path), str(ROOT)))
    agency = await cluster.create_agency("watched")
    thread = await agency.create_thread("clerk", script(calls(("die_once", {})), say("done")))
    assert (await thread.wait(PATIENCE)).data == "done"
    written = [(event.seq, event.type.value) for event in await thread.stored_events()]
    await cluster.stop()

    noted: list[tuple[int, list[Any]]] = [tuple(json.loads(line)) for line in ledger.read_text().splitlines()]
    seen = [(pid, (what[1], what[2])) for pid, what in noted if what[0] == thread.id]
    assert [event for _, event in seen] == written
    first, second = dict.fromkeys(pid for pid, _ in seen)
    began = [event for pid, event in seen if pid == first]
    (turn,) = [what[1] for pid, what in noted if pid == second and what[0] == "resumed"]
    assert turn == [seq for seq, _ in began[-len(turn) :]]
    assert (began[-1][1], dict(began)[turn[0]]) == ("tool.started", "run.tick")
    assert noted[-1][1] == ["flush"]
    assert (second, ["left", thread.id]) in noted
