"""Answers that can be long: written in pieces, and given up when their client leaves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from pydantic import ConfigDict, field_serializer
from starlette.responses import Response
from starlette.types import Message as Sent

from agency.api.bodies import AgentState, StateAndRun
from agency.messages import Message, ToolCall
from agency.metadata import ThreadMetadata
from agency.thread.views import RunState
from agency.wire import Wire
from dashboard.gateway.leaving import Leaving
from dashboard.gateway.streaming import PIECE_BYTES, PatientStream, content_of, whole
from tests.support.gateway_requests import assert_problem, create, finished
from tests.support.scripted_system import say
from tests.support.waiting import eventually, turns_of_the_loop


class Odd(Wire):
    model_config = ConfigDict(extra="allow")

    some_thing: tuple[float | None, ...] = ()
    by_name: dict[str, list[dict[str, int]]] = {}


class Shy(Wire):
    secret: str = "hunter2"

    @field_serializer("secret")
    def _hidden(self, secret: str) -> str:
        return "…"


def state(count: int, length: int) -> StateAndRun:
    thread = ThreadMetadata(id="t", agent_type="clerk", created_at="2025-01-01T00:00:00.000Z")
    call = ToolCall(id="c", name="add", args={"deep": [{"a": None, "ü": 1.5}]})
    said = tuple(Message(role="assistant", content="ä" * length, tool_calls=(call,)) for _ in range(count))
    more: Any = {"files": {f"/{n}.txt": "x" * length for n in range(count)}, "todos": []}
    known = AgentState(
        messages=said,
        tools=(),
        thread=thread,
        thread_id="t",
        parent=None,
        agent_type="clerk",
        model="demo",
        **more,
    )
    return StateAndRun(state=known, run=RunState(run_id="", status="registered", step=0))


def asked() -> Request:
    settings = SimpleNamespace(slow=30.0)
    app = SimpleNamespace(state=SimpleNamespace(settings=settings))
    return Request({"type": "http", "app": app, "headers": []})


async def pieces_of(answer: Response) -> list[bytes]:
    if not isinstance(answer, PatientStream):
        return [bytes(answer.body)]
    return [bytes(piece) async for piece in answer.body_iterator]  # type: ignore[arg-type]  # these are bytes


@pytest.mark.parametrize(
    "model",
    [
        state(0, 0),
        state(3, 10),
        state(300, 3_000),
        Odd(),
        Odd(some_thing=(1.5, None), by_name={"a": [{"b": 1}], "c": []}, more={"x": [1]}),  # type: ignore[call-arg]
        Shy(),
    ],
    ids=["empty", "small", "long", "bare", "odd", "shy"],
)
async def test_in_pieces_it_is_what_the_model_says(model: Wire) -> None:
    pieces = await pieces_of(whole(model, asked()))
    assert b"".join(pieces).decode() == model.model_dump_json()
    assert all(len(piece) < 3 * PIECE_BYTES for piece in pieces)


async def test_content_is_sent_in_pieces_with_its_length() -> None:
    content = bytes(range(256)) * 2_000
    answer = content_of(content, asked(), {"Content-Type": "text/plain"})
    pieces = await pieces_of(answer)
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) == PIECE_BYTES
    assert answer.headers["content-length"] == str(len(content))


async def test_between_two_pieces_others_are_served() -> None:
    answer = whole(state(300, 3_000), asked())
    assert isinstance(answer, PatientStream)
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    found = len(await pieces_of(answer))
    counting.cancel()
    assert found > 20
    assert others >= found - 1


def test_a_long_state_and_a_large_file_arrive_whole(http: httpx.Client, agency: str) -> None:
    files = {f"/{n}.txt": f"{n} " * 60_000 for n in range(4)}
    thread = create(http, agency, say("here"), files=files)
    finished(http, agency, thread)
    at = f"/agency/{agency}/agent/{thread}"
    answer = http.get(f"{at}/state")
    assert answer.json()["state"]["files"] == files
    assert answer.headers["transfer-encoding"] == "chunked"
    assert http.get(f"{at}/file", params={"path": "/3.txt"}).text == files["/3.txt"]
    assert [each["path"] for each in http.get(f"{at}/files").json()["files"]] == sorted(files)


# Bodies and clients that leave.


def test_a_body_that_is_far_too_long_is_not_taken_apart(http: httpx.Client, agency: str) -> None:
    long = b'{"name": "x", "prompt": "' + b"p" * 4_000_000 + b'"}'
    answer = http.post(f"/agency/{agency}/blueprints", content=long, headers={"Content-Type": "application/json"})
    assert "6 times AGENCY_BLUEPRINT_BYTES" in assert_problem(answer, 413, "ERR_TOO_LARGE")


class Client:
    """A client that sends a request and may leave."""

    def __init__(self, method: str = "GET") -> None:
        self.scope: Any = {"type": "http", "method": method, "path": "/slow", "headers": [], "query_string": b""}
        self.left = asyncio.Event()
        self.got: list[Sent] = []
        self._asked = False

    async def receive(self) -> Sent:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Sent) -> None:
        self.got.append(message)


def slow_app(over: asyncio.Event, told: list[str]) -> FastAPI:
    app = FastAPI()

    @app.api_route("/slow", methods=["GET", "POST"])
    async def slow() -> str:
        told.append("begun")
        try:
            await over.wait()
        except asyncio.CancelledError:
            told.append("given up")
            raise
        told.append("done")
        return "done"

    app.add_middleware(Leaving)
    return app


async def test_what_a_client_has_left_is_given_up() -> None:
    over, told, client = asyncio.Event(), list[str](), Client()
    serving = asyncio.create_task(slow_app(over, told)(client.scope, client.receive, client.send))
    await eventually(lambda: told == ["begun"])
    client.left.set()
    await serving
    assert (told, client.got) == (["begun", "given up"], [])


async def test_a_change_goes_on_though_its_client_has_left() -> None:
    over, told, client = asyncio.Event(), list[str](), Client("POST")
    serving = asyncio.create_task(slow_app(over, told)(client.scope, client.receive, client.send))
    await eventually(lambda: told == ["begun"])
    client.left.set()
    await turns_of_the_loop()
    over.set()
    await serving
    assert told == ["begun", "done"]


async def test_a_client_that_stays_gets_its_answer() -> None:
    over, told, client = asyncio.Event(), list[str](), Client()
    over.set()
    await slow_app(over, told)(client.scope, client.receive, client.send)
    assert [each.get("status") for each in client.got[:1]] == [200]


async def test_one_that_serves_and_is_stopped_itself_says_so() -> None:
    over, told, client = asyncio.Event(), list[str](), Client()
    serving = asyncio.create_task(slow_app(over, told)(client.scope, client.receive, client.send))
    await eventually(lambda: told == ["begun"])
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
