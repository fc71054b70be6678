"""Requests byte by byte: what no whole request is, or more than is taken, is refused, and keeps nothing in memory."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.gateways import Server
from tests.support.raw_sockets import answered, opened, told

HOST = b"Host: localhost\r\n"
LAST = HOST + b"Connection: close\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\n"
CREATE = b"POST /agencies HTTP/1.1\r\nContent-Type: application/json\r\n"


def statuses(said: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]


@pytest.mark.parametrize(
    "said",
    [
        b"who are you?\r\n\r\n",
        HEALTH + b"\r\n",
        HEALTH + HOST + HOST + b"\r\n",
        HEALTH + HOST + b"X: a\0b\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        CREATE + HOST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CREATE + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        CREATE + HOST + b"Transfer-Encoding: chunked\r\n\r\nmany\r\n",
    ],
)
def test_what_is_no_valid_request_is_told_so(gateway: Server, said: bytes) -> None:
    answer = answered(gateway, said)
    assert statuses(answer) == [400]
    problem = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (problem["code"], problem["detail"]) == ("ERR_INVALID_INPUT", "the request is not valid HTTP")


@pytest.mark.parametrize(
    "endless",
    [
        HEALTH + HOST + b"X: ",
        b"GET /",
        CREATE + HOST + b"Transfer-Encoding: chunked\r\n\r\n5;",
        CREATE + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        HEALTH + HOST + b"\r\n",
    ],
)
def test_what_never_ends_is_not_kept(gateway: Server, endless: bytes) -> None:
    filler = b"\r\n" * 2_000 if endless.endswith(b"\r\n\r\n") else b"x" * 4_000
    with opened(gateway, endless) as client:
        sent = 0
        try:
            while sent < 8_000_000:
                client.sendall(filler)
                sent += len(filler)
        except ConnectionError:
            pass
    assert sent < 8_000_000


def test_a_head_in_many_pieces_is_read(gateway: Server) -> None:
    with opened(gateway) as client:
        for piece in re.findall(rb"(?s).{1,7}", HEALTH + LAST + b"X-Long: " + b"x" * 1_000 + b"\r\n\r\n"):
            client.sendall(piece)
        assert statuses(told(client)) == [200]


def test_requests_that_come_together_are_answered_in_their_order(gateway: Server) -> None:
    named = CREATE + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    body = b'8;note=yes\r\n{"name":\r\n6\r\n "two"\r\n1\r\n}\r\n0\r\nX-Trailer: yes\r\n\r\n'
    answer = answered(gateway, HEALTH + HOST + b"\r\n" + named + body + b"GET /no HTTP/1.1\r\n" + LAST + b"\r\n")
    assert statuses(answer) == [200, 201, 404]
    assert b'"two"' in answer


def test_more_requests_at_once_than_are_taken_end_the_connection(gateway: Server) -> None:
    answer = answered(gateway, (HEALTH + HOST + b"\r\n") * 3_000)
    assert len(statuses(answer)) < 3_000


def test_a_trailer_is_no_header(gateway: Server) -> None:
    refused = b"Transfer-Encoding: chunked\r\nOrigin: http://elsewhere.example\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert statuses(answered(gateway, CREATE + LAST + refused)) == [403]
    trailer = b'Transfer-Encoding: chunked\r\n\r\nc\r\n{"name":"t"}\r\n0\r\nOrigin: http://elsewhere.example\r\n\r\n'
    assert statuses(answered(gateway, CREATE + LAST + trailer)) == [201]


@pytest.mark.parametrize("wanted", [b"h2c", b"websocket, h2c", b"TLS/1.3"])
def test_a_protocol_that_is_not_spoken_here_is_ignored(gateway: Server, wanted: bytes) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + wanted + b"\r\n"
    second = HEALTH + LAST + b"\r\n"
    assert statuses(answered(gateway, HEALTH + HOST + upgrade + b"\r\n" + second)) == [200, 200]


@pytest.mark.parametrize("wanted", [b"h2c", b"websocket"])
def test_a_body_that_comes_with_a_wish_for_another_protocol_is_no_second_request(
    gateway: Server, wanted: bytes
) -> None:
    body = HEALTH + HOST + b"\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + wanted + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert statuses(answered(gateway, CREATE + HOST + upgrade + body + HEALTH + LAST + b"\r\n")) == [400, 200]


def test_a_socket_is_not_opened_while_an_answer_is_on_its_way(gateway: Server) -> None:
    asks = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    socket = b"GET /agency/a/ws HTTP/1.1\r\n" + HOST + asks + key
    answer = answered(gateway, HEALTH + HOST + b"\r\n" + socket + HEALTH + LAST + b"\r\n")
    assert statuses(answer)[0] == 200
    assert 101 not in statuses(answer)
