"""A tenant of a soak: its agency, its keys, and requests that outlive the death of what answers them.

The rule that the whole soak checks: a request is answered, or refused with a 503 or 429 that says when to try again, or
its connection breaks; then it is made once more with the same key. Any other answer of the server's own fault is a
finding.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException

from tests.support.gateway_requests import message
from tests.support.scripted_system import Line
from tests.support.soak.served import SECRET

Json = Any
PATIENCE = 120.0
"""How long anything may take, deaths of everything included."""
MOST_FINDINGS = 100


class Findings:
    """What was counted, and what must not have happened."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.counts["findings"] += 1
            if len(self.wrong) < MOST_FINDINGS:
                self.wrong.append(otherwise)


class Tenant:
    """An agency with keys; it deletes what it has made."""

    def __init__(self, http: httpx.AsyncClient, findings: Findings, ledgers: Path) -> None:
        self._http = http
        self.findings = findings
        self._ledgers = ledgers
        self.agency = ""
        self._credentials: dict[str, str] = {"owner": SECRET}

    async def open(self) -> Tenant:
        wanted = {"name": "soaked", "idempotencyKey": fresh()}
        self.agency = (await self.ask("POST", "/agencies", wanted, role="owner"))["id"]
        for role in ("viewer", "operator", "admin"):
            made = await self.ask("POST", f"/agency/{self.agency}/keys", {"name": role, "role": role}, role="owner")
            self._credentials[role] = made["key"]
        return self

    async def close(self) -> None:
        await self.ask("DELETE", f"/agency/{self.agency}", role="owner", repeated=(401, 404))

    def path(self, thread: str, rest: str = "") -> str:
        return f"/agency/{self.agency}/agent/{thread}{rest}"

    def ledger(self) -> Path:
        """A new file in which tools note what they do."""
        path = self._ledgers / fresh()
        path.touch()
        return path

    async def ask(
        self,
        method: str,
        address: str,
        body: Json = None,
        /,
        *,
        role: str = "operator",
        repeated: tuple[int, ...] = (),
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        **query: str | int,
    ) -> Json:
        """An answer, however often it takes. A request that was made before may have been done then, and is refused
        with one of `repeated`: that counts as an answer, too."""
        sent = {"content": content} if content is not None else {} if body is None else {"json": body}
        given = {"X-SECRET": self._credentials[role], **(headers or {})}
        deadline, tries = time.monotonic() + PATIENCE, 0
        while True:
            tries += 1
            pause = 0.2
            try:
                answer = await self._http.request(method, address, params=query, headers=given, **sent)
            except httpx.TransportError as error:
                self.findings.count("broken connections")
                told = repr(error)
            else:
                told = f"{answer.status_code} {answer.text:.300}"
                if answer.is_success:
                    self.findings.count("requests")
                    return answer.json() if answer.content and is_json(answer) else answer.text
                if tries > 1 and answer.status_code in repeated:
                    return None
                if answer.status_code not in (429, 503):
                    kind = "fault of the server" if answer.status_code >= 500 else "refusal"
                    self.findings.expect(False, f"{kind}: {method} {address}: {told}")
                    raise Refused(told)
                self.findings.count(f"{answer.status_code} with Retry-After")
                pause = float(answer.headers.get("retry-after", 0))
                self.findings.expect("retry-after" in answer.headers, f"no Retry-After: {method} {address}: {told}")
            if time.monotonic() > deadline:
                self.findings.expect(False, f"no answer in {PATIENCE:g} s: {method} {address}: {told}")
                raise Refused(told)
            await asyncio.sleep(min(pause, 2.0))

    async def create(self, *lines: Line, agent: str = "clerk", **more: Json) -> str:
        body = {
            "agentType": agent,
            "idempotencyKey": fresh(),
            **({"messages": message(*lines)} if lines else {}),
            **more,
        }
        return str((await self.ask("POST", f"/agency/{self.agency}/agents", body))["id"])

    async def invoke(self, thread: str, *lines: Line, key: str | None = None) -> Json:
        body = {"messages": message(*lines), "idempotencyKey": key or fresh()}
        return await self.ask("POST", self.path(thread, "/invoke"), body)

    async def ended(self, thread: str) -> Json:
        """The thread's run once it has ended or waits for a person."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            run = await self.ask("GET", self.path(thread, "/run"), role="viewer", wait=10)
            if run["status"] not in ("running", "registered"):
                return run
        self.findings.expect(False, f"a run was acknowledged and has not ended in {PATIENCE:g} s: {run}")
        raise Refused("it has not ended")

    async def must_say(self, thread: str, text: str) -> None:
        run = await self.ended(thread)
        self.findings.expect(
            (run["status"], run["data"]) == ("completed", text),
            f"a run should have said {text!r}: {json.dumps(run):.500}",
        )

    async def delete(self, thread: str) -> None:
        await self.ask("DELETE", self.path(thread), role="admin", repeated=(404,))

    async def follow(self, thread: str) -> list[Json]:
        """All stored events of a thread to the end of its run over a WebSocket that comes back."""
        seen: list[Json] = []
        url = str(self._http.base_url).rstrip("/").replace("http", "ws", 1) + self.path(thread, "/ws")
        async with asyncio.timeout(PATIENCE):
            while True:
                after = seen[-1]["seq"] if seen else 0
                try:
                    async with connect(
                        f"{url}?after={after}", proxy=None, additional_headers={"X-SECRET": self._credentials["viewer"]}
                    ) as opened:
                        async for frame in opened:
                            event = json.loads(frame)
                            if event["seq"] is not None:
                                seen.append(event)
                            if event["type"] == "agent.completed":
                                return seen
                except InvalidStatus as error:
                    code, known = error.response.status_code, error.response.headers
                    self.findings.expect(code in (429, 503), f"a socket was refused with {code}")
                    self.findings.expect("retry-after" in known, f"a socket was refused with {code} and no Retry-After")
                except (OSError, WebSocketException):
                    self.findings.count("broken connections")
                await asyncio.sleep(0.2)

    async def stream(self, thread: str) -> list[int]:
        """The seqs of a thread's stored events to the end of its run, as server-sent events, from the last on."""
        seen: list[int] = []
        headers = {"X-SECRET": self._credentials["viewer"], "Accept": "text/event-stream"}
        async with asyncio.timeout(PATIENCE):
            while True:
                headers["Last-Event-ID"] = str(seen[-1] if seen else 0)
                try:
                    async with self._http.stream("GET", self.path(thread, "/events"), headers=headers) as opened:
                        async for line in opened.aiter_lines():
                            if line.startswith("id: "):
                                seen.append(int(line.removeprefix("id: ")))
                            if line.startswith("data: ") and '"agent.completed"' in line:
                                return seen
                except httpx.TransportError:
                    self.findings.count("broken connections")
                await asyncio.sleep(0.2)


class Refused(Exception):
    """A story cannot go on; the finding is noted."""


def is_json(answer: httpx.Response) -> bool:
    return "application/json" in answer.headers.get("content-type", "")


def fresh() -> str:
    return secrets.token_hex(8)
