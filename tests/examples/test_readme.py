"""The programs in the README run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "asyncio.run(" in block]
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


def test_the_fragments_of_the_readme_are_python() -> None:
    for block in BLOCKS:
        body = "\n".join(f"    {line}" for line in block.splitlines())
        compile(f"async def fragment():\n{body}\n    pass", "README.md", "exec")
