"""Servers to compare: how each is started, asked, killed and looked at. All have the same model server behind them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from actors.cluster import local_ray
from benchmarks.gateway import free_port
from benchmarks.peers.environments import python_of

WAIT_SECONDS = 120
START_SECONDS = 180


@contextmanager
def model_server() -> Iterator[str]:
    """The model's address."""
    command = [sys.executable, "-m", "benchmarks.peers.model_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


@dataclass(frozen=True)
class Begun:
    """A run that a server has accepted."""

    run: str
    session: str


class Server(ABC):
    def __init__(self, folder: Path, model: str) -> None:
        self.folder = folder
        self.model = model
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, http: aiohttp.ClientSession) -> None:
        """Returns when it answers."""
        with (self.folder / "log").open("ab") as out:
            self._process = subprocess.Popen(  # noqa: ASYNC220
                self._command(), env={**os.environ, **self._variables()}, stdout=out, stderr=out
            )
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while asyncio.get_running_loop().time() < deadline and self._process.poll() is None:
            with suppress(aiohttp.ClientError):
                async with http.get(self.at(self._health)) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
        raise RuntimeError((self.folder / "log").read_text())

    def at(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def processes(self) -> list[psutil.Process]:
        """All processes of the server, those that others of them have started included."""
        assert self._process is not None
        found = {self._process.pid, *self._others()}
        for pid in tuple(found):
            with suppress(psutil.Error):
                found |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        alive = []
        for pid in found:
            with suppress(psutil.Error):
                alive.append(psutil.Process(pid))
        return alive

    def kill(self) -> None:
        """As when the machine loses power, but for what the kernel has not written yet."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        assert self._process is not None
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self.kill()

    def cpu_ms(self) -> float:
        total = 0.0
        for process in self.processes():
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total * 1_000

    def pss_mb(self) -> float:
        """Memory, with what processes share counted once."""
        total = 0
        for process in self.processes():
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total / 1_000_000

    def disk_bytes(self) -> int:
        files = (path for path in self._data().rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files)

    _health: str

    def _others(self) -> list[int]:
        """Processes that are no children of the one that was started."""
        return []

    def _variables(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _data(self) -> Path: ...

    @abstractmethod
    async def run(self, http: aiohttp.ClientSession, message: str) -> None:
        """A new conversation with one run, until it has ended."""

    @abstractmethod
    async def begin(self, http: aiohttp.ClientSession, message: str) -> Begun:
        """The same without waiting for its end."""

    @abstractmethod
    async def has_completed(self, http: aiohttp.ClientSession, begun: Begun) -> bool: ...


class Ours(Server):
    """The gateway, on a local Ray of its own."""

    _health = "/healthz"
    _agency = ""

    def _command(self) -> list[str]:
        system = "benchmarks.peers.programs.served:system"
        return [sys.executable, "-m", "dashboard.command", "serve", system, "--port", str(self.port)]

    def _variables(self) -> dict[str, str]:
        own = {"AGENCY_DATA_DIR": str(self._data()), "AGENCY_LOG_LEVEL": "WARNING"}
        return {**own, "OPENAI_BASE_URL": self.model, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}

    def _data(self) -> Path:
        return self.folder / "data"

    def _others(self) -> list[int]:
        running = local_ray.find(self._data())
        return [] if running is None else running.processes

    async def start(self, http: aiohttp.ClientSession) -> None:
        await super().start(http)
        if not self._agency:
            async with http.post(self.at("/agencies"), json={"name": "bench"}) as answer:
                self._agency = (await _json(answer))["id"]

    def disk_bytes(self) -> int:
        """Without Ray's own folder, which holds nothing of any run."""
        return sum(path.stat().st_size for path in self._data().rglob("*.db*") if path.is_file())

    def stop(self) -> None:
        if self._process is not None:
            command = [sys.executable, "-m", "dashboard.command", "down"]
            subprocess.run(command, env={**os.environ, **self._variables()}, check=False, stdout=subprocess.DEVNULL)
            self._process.wait()

    async def run(self, http: aiohttp.ClientSession, message: str) -> None:
        begun = await self.begin(http, message)
        assert (await self._run_of(http, begun, WAIT_SECONDS))["status"] == "completed"

    async def begin(self, http: aiohttp.ClientSession, message: str) -> Begun:
        body = {"agentType": "clerk", "messages": [{"role": "user", "content": message}]}
        async with http.post(self.at(f"/agency/{self._agency}/agents"), json=body) as answer:
            return Begun("", (await _json(answer))["id"])

    async def has_completed(self, http: aiohttp.ClientSession, begun: Begun) -> bool:
        return bool((await self._run_of(http, begun, 0))["status"] == "completed")

    async def _run_of(self, http: aiohttp.ClientSession, begun: Begun, wait: int) -> dict[str, Any]:
        path = f"/agency/{self._agency}/agent/{begun.session}/run?wait={wait}"
        async with http.get(self.at(path)) as answer:
            return await _json(answer)


class Agno(Server):
    """AgentOS; runs that are to outlive their request are its background runs."""

    _health = "/health"

    def __init__(self, folder: Path, model: str, *, checkpoints: bool = False) -> None:
        super().__init__(folder, model)
        self._words = ["checkpoints"] if checkpoints else []

    def _command(self) -> list[str]:
        module = [str(python_of("agno")), "-m", "benchmarks.peers.programs.agno"]
        return [*module, str(self._data()), str(self.port), self.model, *self._words]

    def _data(self) -> Path:
        return self.folder

    async def run(self, http: aiohttp.ClientSession, message: str) -> None:
        form = {"message": message, "stream": "false"}
        async with http.post(self.at("/agents/clerk/runs"), data=form) as answer:
            assert (await _json(answer))["status"] == "COMPLETED"

    async def begin(self, http: aiohttp.ClientSession, message: str) -> Begun:
        form = {"message": message, "stream": "false", "background": "true"}
        async with http.post(self.at("/agents/clerk/runs"), data=form) as answer:
            accepted = await _json(answer)
            return Begun(accepted["run_id"], accepted["session_id"])

    async def has_completed(self, http: aiohttp.ClientSession, begun: Begun) -> bool:
        path = f"/agents/clerk/runs/{begun.run}?session_id={begun.session}"
        async with http.get(self.at(path)) as answer:
            return answer.status == 200 and (await answer.json())["status"] == "COMPLETED"


async def _json(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    if answer.status >= 300:
        raise RuntimeError(f"{answer.status}: {await answer.text()}")
    return dict(await answer.json())
