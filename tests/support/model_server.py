"""A model server on loopback that speaks the wire formats of OpenAI and Anthropic, streams included, by a script.

    async with ModelServer([Reply(calls=(Call(name="lookup"),)), Reply(text=("Found ", "it."))]) as server:
        os.environ.update(server.environment)
        …
        server.requests[0].body

A script is a list, used up request by request. Or it is keyed by what the user said last, and then has the replies to
that: the first one, the one after its calls, and so on. That kind keeps no state, so a request that is repeated after a
crash gets the same reply; a step that is itself a list has one reply for each attempt, the last of them for all further
ones. It also runs alone: `python -m tests.support.model_server --port 8900 script.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import model_wire as wire
from tests.support.model_script import SCRIPT, Reply, Script

KEY = "sk-test-0123456789abcdefSECRET"
ENDPOINTS: Mapping[str, wire.Api] = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}


@dataclass(slots=True)
class Request:
    """A request that came. `left` is set when the client hangs up before the reply has ended."""

    api: wire.Api
    peer: tuple[str, int]
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    left: asyncio.Event = field(default_factory=asyncio.Event)


class ModelServer:
    def __init__(self, script: Script = (), *, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.window = 200_000
        """How many tokens its models take, where they are asked."""
        self._port = port
        self._keyed = script if isinstance(script, Mapping) else None
        self._queue = deque(script if not isinstance(script, Mapping) else ())
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which both SDKs find it, whatever proxy the machine has."""
        addresses = {"OPENAI_BASE_URL": f"{self.url}/v1", "ANTHROPIC_BASE_URL": self.url}
        direct = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return {**addresses, **direct, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}

    def add(self, *replies: Reply) -> None:
        """Go on with these when the list is used up."""
        self._queue.extend(replies)

    # Serving.

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        peer, ahead = writer.get_extra_info("peername"), b""
        try:
            while (request := await _request(reader, ahead, peer)) is not None:
                self.requests.append(request)
                if (read := await self._serve(request, reader, writer)) is None:
                    break
                ahead = read
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has left, or the server does; a task of asyncio's own cannot end as canceled quietly
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()  # else it may outlive the loop
            self._connections.discard(task)

    async def _serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """Reply. Returns what was read of the next request meanwhile, or None if there will be none."""
        if (told := self._told(request)) is not None:
            writer.write(_answer(200, told, {}))
            return b""
        reply = self._reply(request)
        if reply.status != 200:
            writer.write(_error(request.api, reply))
            return b""
        reading = asyncio.ensure_future(reader.read(1))  # this is how a client is seen to leave
        speaking = asyncio.ensure_future(_speak(request.api, reply, request.body["model"], writer))
        try:
            await asyncio.wait({reading, speaking}, return_when=asyncio.FIRST_COMPLETED)
            if not speaking.done():
                request.left.set()
        finally:
            reading.cancel()
            speaking.cancel()
        read, spoke = await asyncio.gather(reading, speaking, return_exceptions=True)
        return (read if isinstance(read, bytes) else b"") if spoke is True else None

    def _told(self, request: Request) -> dict[str, Any] | None:
        """What Anthropic's API tells of a model, and of the length of a conversation."""
        if request.path == "/v1/messages/count_tokens":
            return {"input_tokens": len(json.dumps(request.body["messages"])) // 4}
        if request.path.startswith("/v1/models/"):
            return {"id": request.path.rpartition("/")[2], "type": "model", "max_input_tokens": self.window}
        return None

    def _reply(self, request: Request) -> Reply:
        if request.path not in ENDPOINTS:
            return Reply(status=404, error={"type": "not_found_error", "message": f"nothing is at {request.path}"})
        if self._keyed is None:
            return self._queue.popleft() if self._queue else _unscripted("the script is used up")
        said, step = wire.where(request.body["messages"])
        steps = self._keyed.get(said, ())
        if step >= len(steps):
            return _unscripted(f"the script has {len(steps)} replies to {said!r}, and here is one more")
        attempt, replies = self._attempts[said, step], steps[step]
        self._attempts[said, step] += 1
        return replies if isinstance(replies, Reply) else replies[min(attempt, len(replies) - 1)]


def _unscripted(message: str) -> Reply:
    return Reply(status=400, error={"type": "invalid_request_error", "message": message})


async def _request(reader: asyncio.StreamReader, ahead: bytes, peer: tuple[str, int]) -> Request | None:
    try:
        head = (ahead + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    path = first.split(" ")[1].partition("?")[0]
    return Request(ENDPOINTS.get(path, "openai"), peer, path, headers, body)


def _error(api: wire.Api, reply: Reply) -> bytes:
    body = wire.error_body(api, reply.error or {"message": f"status {reply.status}"})
    return _answer(reply.status, body if reply.whole is None else reply.whole, reply.headers)


def _answer(status: int, value: object, more: Mapping[str, str]) -> bytes:
    body = json.dumps(value).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **more}
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _speak(api: wire.Api, reply: Reply, model: str, writer: asyncio.StreamWriter) -> bool:
    """Stream a reply; whether the connection is still of use."""
    if reply.then == "hang":
        await asyncio.Event().wait()
    headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **reply.headers}
    writer.write(("HTTP/1.1 200 OK\r\n" + "".join(f"{name}: {said}\r\n" for name, said in headers.items())).encode())
    writer.write(b"\r\n")
    for event in wire.stream(api, reply, model):
        if isinstance(event, float):
            await asyncio.sleep(event)
        else:
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
    if reply.then == "silence":
        await asyncio.Event().wait()
    if reply.then == "cut":
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _alone(script: Script, port: int) -> None:
    async with ModelServer(script, port=port) as server:
        for name, value in server.environment.items():
            print(f"export {name}={value}", flush=True)  # noqa: T201
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted model server, until it is interrupted.")
    parser.add_argument("script", type=Path, help="a JSON file: a list of replies, or an object of such lists")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_alone(SCRIPT.validate_json(given.script.read_bytes()), given.port))


if __name__ == "__main__":
    main()
