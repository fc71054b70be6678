"""Bodies of requests: who may send them, and how much of the gateway they may take."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.support.gateway_requests import key
from tests.support.gateways import Server
from tests.support.raw_sockets import answered


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
