"""A server for one test that does exactly what it is told to each connection, wrong or not."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def after(self) -> int:
        return int(self.headers["last-event-id"])


Play = Callable[[Asked, socket.socket], None]


@dataclass
class Scripted:
    """Plays to connections in turn; the last play is repeated."""

    plays: list[Play]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    open: int = 0

    def play(self, asked: Asked, connection: socket.socket) -> None:
        self.asked.append(asked)
        chosen = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        chosen(asked, connection)


@contextmanager
def scripted(*plays: Play) -> Iterator[Scripted]:
    script = Scripted(list(plays))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = self._read()
            if asked is not None:
                script.open += 1
                with suppress(OSError):
                    script.play(asked, self.request)
                script.open -= 1

        def _read(self) -> Asked | None:
            first = self.rfile.readline().decode()
            if not first.strip():
                return None
            headers = {}
            while line := self.rfile.readline().decode().strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            method, path, _ = first.split(" ", 2)
            return Asked(method, path, headers, self.rfile.read(int(headers.get("content-length", "0"))))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


def answer(status: int, body: object = None, media: str = "application/json", **headers: str) -> Play:
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {media}", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    def play(asked: Asked, connection: socket.socket) -> None:
        connection.sendall("\r\n".join([*lines, "connection: close", "", ""]).encode() + content)

    return play


def problem(status: int, code: str, detail: str = "no", **headers: str) -> Play:
    body = {"type": f"urn:agency:problem:{code}", "title": "", "status": status, "detail": detail, "code": code}
    return answer(status, body, "application/problem+json", **headers)


def nothing(asked: Asked, connection: socket.socket) -> None:
    """Take the request, and close without a word."""


def rubbish(asked: Asked, connection: socket.socket) -> None:
    connection.sendall(b"\x00\xff this is no HTTP\r\n\r\n")


def stream(write: Callable[[Asked], Iterator[bytes]], media: str = "text/event-stream") -> Play:
    """Server-sent events, which end with the connection."""

    def play(asked: Asked, connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\n\r\nretry: 1000\n\n".encode())
        for piece in write(asked):
            connection.sendall(piece)

    return play


def until_gone(connection: socket.socket) -> None:
    """Say nothing until the other side hangs up."""
    connection.recv(1)
