"""A soak in little: what `make soak` does for minutes, for some seconds, so that it works when it is wanted.

Memory and descriptors are measured and not judged here: processes are still warming up.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def test_a_short_soak_finds_nothing_lost_and_nothing_done_twice() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.soak",
        "--seconds",
        "12",
        "--tenants",
        "2",
        "--seed",
        "7",
        "--brief",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=840, check=False)
    told = json.loads(done.stdout.strip().splitlines()[-1]) if done.stdout.strip() else {}
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert told["ok"] and told["wrong"] == []
    assert told["counts"]["requests"] > 30 and told["counts"]["effects"] > 5
    assert sum(count for what, count in told["counts"].items() if what.startswith("killed")) >= 1
    assert {each["process"] for each in told["figures"]} >= {"keeper", "gateway", "directory", "host"}
