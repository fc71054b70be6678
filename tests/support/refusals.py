"""What a refusal may tell: what is wrong for the caller, and nothing of the machine that the server runs on."""

from __future__ import annotations

import re

import httpx

from tests.support.gateway_requests import assert_problem

INTERNALS = re.compile(
    r"/tmp|/home|/root|/usr|\.db\b|\bpid\b|actor_id|actor id|\bray\b|Ray[A-Z]|Actor[A-Z]|namespace|Traceback|sqlite"
    r"|\b[0-9a-f]{32,}\b|127\.0\.0\.1|\bHost-\d",
    re.IGNORECASE,
)
AGAIN = (429, 503, 507)
"""The statuses that say when to try again."""


def refused(answer: httpx.Response, status: int, code: str) -> str:
    """What people are told by a refusal that is a passing fault of the server."""
    told = assert_problem(answer, status, code)
    assert_tells_nothing(answer)
    return told


def assert_tells_nothing(answer: httpx.Response) -> None:
    assert answer.status_code != 500, (answer.request.url, answer.text)
    assert not INTERNALS.search(answer.text), (answer.request.url, answer.text)
    if answer.status_code in AGAIN:
        assert int(answer.headers["retry-after"]) > 0
