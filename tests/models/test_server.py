"""The scripted server itself, where other tests rely on more than its replies."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agency import Message, ModelError, ToolCall
from tests.support.model_requests import ask
from tests.support.model_script import Call, Reply, Step
from tests.support.model_server import ModelServer


@contextmanager
def alone(script: Path) -> Iterator[dict[str, str]]:
    """The server in a process of its own; gives the variables that it prints."""
    command = [sys.executable, "-m", "tests.support.model_server", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in ModelServer().environment]
            yield dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
        finally:
            process.kill()


async def test_a_keyed_script_knows_the_place_in_the_conversation(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = Reply(status=429, error={"message": "Slow down."})
    script: dict[str, list[Step]] = {
        "Weather?": [Reply(calls=(Call(name="weather", id="c1"),)), (limited, Reply(text=("Sunny.",)))]
    }
    first = [Message(role="user", content="Weather?")]
    call = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="weather"),))
    second = [*first, call, Message(role="tool", content="sun", tool_call_id="c1")]
    async with ModelServer(script) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        for _ in range(2):
            assert [call.name for call in (await ask(provider, first)).tool_calls] == ["weather"]
        with pytest.raises(ModelError):
            await ask(provider, second)
        for _ in range(2):
            assert (await ask(provider, second)).text == "Sunny."
        with pytest.raises(ModelError, match="0 replies to 'Snow"):
            await ask(provider, "Snow?")


async def test_it_serves_other_processes(provider: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": ["Hello ", "there."], "delay": 0.01}]))
    monkeypatch.chdir(Path(__file__).parents[2])
    with alone(script) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        async with asyncio.timeout(20):
            assert (await ask(provider)).text == "Hello there."


async def test_a_proxy_of_the_machine_is_not_in_the_way(
    server: ModelServer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.add(Reply(text=("Direct.",)))
    assert (await ask(provider)).text == "Direct."
    assert os.environ["NO_PROXY"] == "127.0.0.1"
