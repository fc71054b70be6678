"""Processes that create the same file at the same moment: what one of them was told is accepted stays."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

from agency import AgencyError, AgentSystem, StaleActivation, open_thread
from agency.testing import ScriptedModel

PROCESSES = 4
ROUNDS = 6
LEAD = 0.02
"""Seconds between the agreement to start and the start."""


def build() -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lambda request: "ok")})
    return system.add_agent(name="clerk", description="d", prompt="p")


async def take_part(path: Path, number: int) -> str:
    """Open, say something, and wait for the answer; what came of it."""
    try:
        async with open_thread(build(), path, agent="clerk") as thread:
            await thread.invoke(f"hello from {number}", idempotency_key=f"key {number}")
            await thread.wait(5)
            return "accepted"
    except AgencyError as error:
        return type(error).__name__


async def compete(folder: Path, number: int) -> None:
    """One process: takes part in a round whenever it is told when that starts."""
    for line in sys.stdin:
        game, start = json.loads(line)
        while time.time() < start:
            pass  # all at once means to the microsecond
        sys.stdout.write(await take_part(folder / f"{game}.db", number) + "\n")
        sys.stdout.flush()


async def messages_in(path: Path) -> list[str]:
    async with open_thread(build(), path) as thread:
        await thread.wait(5)
        seqs = [event.seq async for event in thread.events(follow=False)]
        assert seqs == list(range(1, len(seqs) + 1))
        return [message.content for message in (await thread.state()).messages if message.role == "user"]


def test_of_processes_that_create_one_file_at_once_none_loses_a_message_that_it_was_told_is_accepted(
    tmp_path: Path,
) -> None:
    program = "import asyncio, runpy, sys; from pathlib import Path; m = runpy.run_path(sys.argv[1]); "
    program += "asyncio.run(m['compete'](Path(sys.argv[2]), int(sys.argv[3])))"
    players = [
        subprocess.Popen(
            [sys.executable, "-c", program, __file__, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        for game in range(-1, ROUNDS):  # the first is for warming up: all have started when it is over
            start = time.time() + LEAD
            for player in players:
                assert player.stdin is not None
                player.stdin.write(json.dumps([game, start]) + "\n")
                player.stdin.flush()
            outcomes = [player.stdout.readline().strip() for player in players if player.stdout is not None]
            assert set(outcomes) <= {"accepted", StaleActivation.__name__}, outcomes
            assert "accepted" in outcomes
            said = asyncio.run(messages_in(tmp_path / f"{game}.db"))
            accepted = [f"hello from {number}" for number, outcome in enumerate(outcomes) if outcome == "accepted"]
            assert set(accepted) <= set(said)
            assert len(said) == len(set(said))
    finally:
        for player in players:
            player.kill()
            player.communicate()
