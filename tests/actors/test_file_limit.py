"""The limit of open files of our processes is as high as they may make it."""

from __future__ import annotations

import resource
import subprocess
import sys

from tests.support.paths import ROOT

ASK = "from actors.file_limit import raise_file_limit, file_limit; print(raise_file_limit(), file_limit())"


def limits_after(soft: int, hard: int) -> tuple[int, int]:
    """What a process with such limits says."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    asked = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, preexec_fn=limit, capture_output=True, text=True, check=True
    )
    first, second = asked.stdout.split()
    return int(first), int(second)


def test_it_is_raised_to_what_is_allowed_and_never_lowered() -> None:
    assert limits_after(200, 1_000) == (1_000, 1_000)
    assert limits_after(700, 700) == (700, 700)
