"""The programs in the README run as they stand, but for the port."""

from __future__ import annotations

import json
import os
import re
import runpy
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors import Settings
from actors.cluster import local_ray
from agency import open_thread
from tests.support.gateways import Server
from tests.support.model_script import Reply
from tests.support.model_server import ModelServer

README = Path(__file__).parents[2] / "README.md"
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def block(*words: str) -> str:
    (found,) = [each for each in BLOCKS if all(word in each for word in words)]
    return found


SUPPORT, TALK = block("def order_status"), block("Client(", "Thank you!")
REFUND, DECIDE = block("def refund"), block("Client(", "decisions")
(TASK,) = re.findall(r"agency run '(.*)' --system", README.read_text())
GEOGRAPHER = block("class City")
IN_ONE_PROCESS, WITHOUT_HTTP = block("open_thread("), block("Cluster.join(")


@contextmanager
def serving(shared: Settings, folder: Path, system: str) -> Iterator[Server]:
    """What a reader serves, in a folder of his own, on the Ray that all tests share."""
    local_ray.join(shared)
    running = local_ray.find(shared.data_dir)
    assert running is not None
    path = json.dumps([str(folder)])
    own = {"system": system, "data_dir": folder / "data", "namespace": f"readme-{secrets.token_hex(4)}"}
    server = Server(
        shared.model_copy(update=own), folder / "log", AGENCY_RAY_ADDRESS=running.address, AGENCY_PYTHON_PATH=path
    )
    try:
        yield server
    finally:
        down = run(folder, server, "-m", "dashboard.command", "down")
        assert "stopped" in down.stderr
        assert server.process.wait(10) is not None


def run(folder: Path, server: Server | None, *command: str) -> subprocess.CompletedProcess[str]:
    own = {} if server is None else {**server.environment, "AGENCY_DATA_DIR": "data"}
    environment = {**os.environ, **own}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=100
    )


def test_the_first_agent_is_served_and_talked_to(ray_settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "support.py").write_text(SUPPORT)
    with serving(ray_settings, tmp_path, "support:system") as server:
        talk = run(tmp_path, server, "-c", TALK.replace("http://127.0.0.1:8000", server.url))
        assert (talk.returncode, talk.stderr) == (0, "")
        assert "agent.completed" in talk.stdout
        assert talk.stdout.endswith("completed\n")
        without = run(tmp_path, server, "-c", WITHOUT_HTTP)
        assert without.returncode == 0, without.stderr
        assert "order 7" in without.stdout
        status = run(tmp_path, server, "-m", "dashboard.command", "status", "--json")
        assert '"hosts": [' in status.stdout


def test_a_call_is_approved_from_a_program(ray_settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "billing.py").write_text(REFUND)
    with serving(ray_settings, tmp_path, "billing:system") as server:
        decide = run(tmp_path, server, "-c", DECIDE.replace("http://127.0.0.1:8000", server.url))
    assert (decide.returncode, decide.stderr) == (0, "")
    assert "refunded 500 cents of order 7" in decide.stdout


def test_the_program_without_a_server_runs_and_so_does_the_command(tmp_path: Path) -> None:
    (tmp_path / "support.py").write_text(SUPPORT)
    alone = run(tmp_path, None, "-c", IN_ONE_PROCESS)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert "completed" in alone.stdout
    terminal = run(tmp_path, None, "-m", "dashboard.command", "run", TASK, "--system", "support:system")
    assert terminal.returncode == 0, terminal.stderr
    assert "shipped" in terminal.stdout


async def test_the_agent_with_everything_gets_its_answer_from_its_second_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "geography.py").write_text(GEOGRAPHER)
    system = runpy.run_path(str(tmp_path / "geography.py"))["system"]
    script = [Reply(status=529), Reply(text=('{"name": "Bern", ', '"people": 134000}'))]
    async with ModelServer(script) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        async with open_thread(system, tmp_path / "thread.db", agent="geographer") as thread:
            await thread.send("What is the capital of Switzerland?")
            answer = await thread.wait(60)
    assert (answer.errors, answer.data) == ((), {"name": "Bern", "people": 134000})
    assert [(each.model, each.code) for each in answer.meta.attempts] == [("openai:gpt-5.4-mini", "ERR_OVERLOADED")]
    assert answer.meta.model == "anthropic:claude-sonnet-5"
    assert answer.meta.cost_usd and answer.meta.cost_usd < 0.001


def test_the_fragments_of_the_readme_are_python() -> None:
    for each in BLOCKS:
        body = "\n".join(f"    {line}" for line in each.splitlines())
        compile(f"async def fragment():\n{body}\n    pass", "README.md", "exec")
