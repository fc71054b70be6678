"""Bodies of requests: who may send them, and how much of the gateway they may take."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace

import httpx
import pytest
from starlette.types import Message

from agency.errors import DefinitionError, RateLimited, Unavailable
from dashboard.gateway.intake import Intake
from dashboard.gateway.parsing import LARGE_BYTES, VALUES_MOST, JsonRequest, has_more_values
from dashboard.gateway.settings import GatewaySettings, gateway_settings
from dashboard.gateway.visit import Visit
from tests.support.gateway_requests import assert_problem, create, key
from tests.support.gateways import Server
from tests.support.raw_sockets import answered, opened
from tests.support.waiting import eventually_sync


def announced(path: str, *credential: str, begun: str = "{") -> bytes:
    """A request whose body never comes whole."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Connection: close"]
    return "\r\n".join([*lines, *credential, "Content-Length: 1000000", "", begun]).encode()


@pytest.mark.parametrize("begun", ["", "{", "this is no JSON"])
def test_no_body_is_waited_for_before_its_caller_is_known(guarded: Server, owner: httpx.Client, begun: str) -> None:
    agency = owner.post("/agencies").json()["id"]
    viewer = f"X-SECRET: {key(owner, agency, 'viewer')['key']}"
    operator = f"Authorization: Bearer {key(owner, agency, 'operator')['key']}"
    threads, blueprints = f"/agency/{agency}/agents", f"/agency/{agency}/blueprints"
    for path, credential, status in (
        (threads, (), 401),
        (threads, ("X-SECRET: guessed",), 401),
        (threads, (viewer,), 403),
        (blueprints, (operator,), 403),
        ("/agency/agc_another/agents", (operator,), 404),
        ("/agencies", (operator,), 403),
    ):
        answer = answered(guarded, announced(path, *credential, begun=begun))
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer


def test_a_caller_counts_once_however_often_it_is_looked_at(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    made = key(owner, agency, "operator")["key"]
    with guarded.client(Authorization=f"Bearer {made}") as client:
        headers = client.post(f"/agency/{agency}/agents", json={}).headers
    most, left = (
        re.search(rf'"key";{of}=(\d+)', headers[name]) for name, of in (("ratelimit-policy", "q"), ("ratelimit", "r"))
    )
    assert most is not None and left is not None
    assert int(most[1]) - int(left[1]) == 1


# Values.


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (b"7", 1),
        (b"[1,2,3]", 4),
        (b'{"a":[1,{"b":2}]}', 5),
        (b'["a,b,c[[{{"]', 2),
        (rb'["a\",[\\",","]', 3),
        (b'["' + b"," * 200_000 + b'"]', 2),
        (b'["' + rb"\"," * 100_000 + b'",1]', 3),
        (b"[" + b'"\xc3\xa4,",' * 30_000 + b"1]", 30_002),
        (b"[" + b"[],{},1," * 30_000 + b"1]", 150_002),
        (b'["' + b"x" * 65_533 + rb"\"," + b'",2]', 3),
        (b'["never ended, ' * 3, 4),
    ],
)
def test_the_values_of_a_body_are_counted_and_what_is_in_texts_is_not(given: bytes, values: int) -> None:
    assert (has_more_values(given, values - 1), has_more_values(given, values)) == (True, False)


def test_a_body_of_too_many_values_is_refused(http: httpx.Client, agency: str) -> None:
    for body in (b"[" * 1_000_000, b'{"agentType":"clerk","messages":[' + b"0," * VALUES_MOST + b"0]}"):
        answer = http.post(f"/agency/{agency}/agents", content=body)
        assert f"{VALUES_MOST} values" in assert_problem(answer, 413, "ERR_TOO_LARGE")
    many_commas = [{"role": "user", "content": "a, " * VALUES_MOST}]
    assert create(http, agency, messages=many_commas)


async def test_large_bodies_are_parsed_in_turns_and_small_ones_at_once() -> None:
    turn = asyncio.Lock()

    def asked(body: bytes) -> JsonRequest:
        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        app = SimpleNamespace(state=SimpleNamespace(parsing=turn))
        return JsonRequest({"type": "http", "headers": [], "app": app}, receive)

    values = ["x" * LARGE_BYTES]
    async with turn:
        large = asyncio.create_task(asked(json.dumps(values).encode()).json())
        assert await asked(b"[1]").json() == [1]
        assert not large.done()
    assert await large == values


# Memory.


def test_the_bodies_under_way_have_a_limit_and_each_agency_a_share() -> None:
    intake = Intake(GatewaySettings(body_bytes=2_000, bodies_bytes=8_000))
    bakery, again, cafe, owner = Visit(whose="bakery"), Visit(whose="bakery"), Visit(whose="cafe"), Visit(whose=None)
    intake.take(bakery, 6_000)
    with pytest.raises(RateLimited, match="6000 bytes"):
        intake.take(again, 1)
    intake.take(cafe, 1_000)
    intake.take(owner, 1_000)
    for each in (cafe, owner, Visit()):
        with pytest.raises(Unavailable, match="AGENCY_BODIES_BYTES"):
            intake.take(each, 1)
    bakery.end()
    intake.take(again, 6_000)
    for each in (again, cafe, owner):
        each.end()
    intake.take(owner, 8_000)


def test_one_body_more_than_there_is_memory_for_is_told_to_come_again(
    gateway: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    given = {"AGENCY_BODY_BYTES": "200000", "AGENCY_BODIES_BYTES": "300000"}
    server = Server(gateway.settings, tmp_path_factory.mktemp("small") / "log", **given)
    try:
        held = announced("/agencies").replace(b"Content-Length: 1000000", b"Content-Length: 200000") + b" " * 190_000
        with opened(server, held) as first, server.client() as client:
            body = b" " * 199_900 + b"{}"

            def is_refused() -> bool:
                answer = client.post("/agencies", content=body)
                if answer.status_code == 201:
                    return False
                assert_problem(answer, 503, "ERR_UNAVAILABLE")
                return int(answer.headers["retry-after"]) >= 1

            eventually_sync(is_refused)
            assert client.post("/agencies", json={}).status_code == 201
            first.close()
            eventually_sync(lambda: client.post("/agencies", content=body).status_code == 201)
    finally:
        server.stop()


def test_all_bodies_together_may_take_what_one_alone_may() -> None:
    with pytest.raises(DefinitionError, match="AGENCY_BODIES_BYTES"):
        gateway_settings(body_bytes=4_000, bodies_bytes=2_000)
