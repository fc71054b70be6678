"""The programs in the README run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "asyncio.run(" in block and "Cluster" not in block]
(ON_RAY,) = [block for block in BLOCKS if "asyncio.run(" in block and "Cluster" in block]
EXPECTED = ["completed", "refunded 500 cents of order 7"]


@pytest.mark.parametrize(
    ("program", "expected"), list(zip(PROGRAMS, EXPECTED, strict=True)), ids=["first", "approvals"]
)
def test_a_program_of_the_readme_runs_as_it_stands(program: str, expected: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert expected in done.stdout
    assert done.stderr == ""


def test_the_program_on_ray_runs_as_it_stands_and_one_command_stops_it(tmp_path: Path) -> None:
    system, _, _ = PROGRAMS[0].partition("async def main()")
    (tmp_path / "shop.py").write_text(system)
    environment = {**os.environ, "AGENCY_DATA_DIR": "data"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )

    try:
        done = run("-c", ON_RAY)
        assert "agent.completed" in done.stdout, done.stderr
        assert '"hosts": [' in run("-m", "actors", "status", "shop:system").stdout
    finally:
        stopped = run("-m", "actors", "down", "shop:system")
    assert (stopped.returncode, stopped.stdout) == (0, ""), stopped.stderr
    again = run("-m", "actors", "down", "shop:system")
    assert again.returncode == 1
    assert "nothing runs here" in again.stderr


def test_the_fragments_of_the_readme_are_python() -> None:
    for block in BLOCKS:
        body = "\n".join(f"    {line}" for line in block.splitlines())
        compile(f"async def fragment():\n{body}\n    pass", "README.md", "exec")
