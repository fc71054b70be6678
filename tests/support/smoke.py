"""Whether an installed wheel works: run by `make dist`, in an environment that has nothing else of this repository.

It runs a task in the terminal, serves the demo on a free port, looks at the page, sends a message over HTTP, and stops
it all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version
from pathlib import Path

COMMAND = str(Path(sys.executable).with_name("agency"))
SECONDS = 120.0
VARIABLES = {name: value for name, value in os.environ.items() if not name.startswith(("AGENCY_", "PYTHONPATH"))}


def agency(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [COMMAND, *arguments], cwd=folder, env=VARIABLES, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(url: str, body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def address(folder: Path) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for note in folder.glob("data/gateways/*.json"):
            return str(json.loads(note.read_text())["url"])
        time.sleep(0.1)
    raise AssertionError("the gateway did not start")


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        assert "Hello" in agency(folder, "run", "echo Hello")
        with (folder / "log").open("wb") as log:
            command = [COMMAND, "serve", "--port", "0"]
            serving = subprocess.Popen(command, cwd=folder, env=VARIABLES, stdout=log, stderr=log)
        try:
            url = address(folder)
            assert '<div id="root">' in ask(url), "the page is in the wheel"
            assert json.loads(ask(f"{url}/openapi.json"))["info"]["version"] == version("agency")
            thread = json.loads(
                ask(f"{url}/agency/demo/agents", {"agentType": "researcher", "messages": [{"content": "echo Hello"}]})
            )
            deadline = time.monotonic() + SECONDS
            while (run := json.loads(ask(f"{url}/agency/demo/agent/{thread['id']}/run")))["status"] != "completed":
                assert time.monotonic() < deadline, run
                time.sleep(0.1)
            assert run["data"] == "Hello"
        finally:
            agency(folder, "down")
            serving.wait(SECONDS)
    sys.stdout.write(f"the wheel of agency {version('agency')} works\n")


if __name__ == "__main__":
    main()
