"""Settling a call from outside, where its token is the credential: an address that a tool hands out as a webhook.

Only `POST` settles: what follows links, to preview them, must not. The body is the result as it comes, of whatever
shape the sender has. The token is a secret, so it is in no log line, and every token that settles nothing here has the
same answer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import JsonValue

from agency.define.outside import address_of
from agency.errors import InvalidInput, NotFound, TooLarge
from agency.thread.outside import Settlement
from agency.wire import read_json
from dashboard.gateway.access import TheCluster
from dashboard.gateway.guard import SETTLE
from dashboard.gateway.problems import refusals

router = APIRouter(tags=["threads"])

BODY_BYTES = 200_000
"""A webhook's body is no larger; the model reads the first 100,000 characters."""

_BODY = {"requestBody": {"content": {"application/json": {"schema": {}}, "text/plain": {"schema": {"type": "string"}}}}}


@router.post(f"{SETTLE}{{token}}", responses=refusals(404), openapi_extra=_BODY)
async def settle_by_token(
    request: Request,
    cluster: TheCluster,
    token: Annotated[str, Path(max_length=300, description="The token that a waiting call's tool has handed out.")],
    outcome: Annotated[
        Literal["result", "error"], Query(description="Whether the body is the call's result, or why it fails.")
    ] = "result",
) -> Settlement:
    """Settle the call that waits for this token. The body, JSON or text, is its result. The token is the credential:
    no key is needed. A second request changes nothing, and its answer says so."""
    said = _read(await _body(request))
    try:
        thread = cluster.thread(*address_of(token))
        if outcome == "result":
            return await thread.settle(token, said)
        return await thread.settle(token, error=said if isinstance(said, str) else _text(said))
    except (NotFound, InvalidInput):
        raise NotFound("no call waits for this token") from None


async def _body(request: Request) -> bytes:
    got = bytearray()
    async for chunk in request.stream():
        got += chunk
        if len(got) > BODY_BYTES:
            raise TooLarge(f"what settles a call has at most {BODY_BYTES} bytes")
    return bytes(got)


def _read(body: bytes) -> JsonValue:
    """JSON if it is some, else text; nothing if it is empty."""
    text = body.decode("utf-8", "replace")
    if not text.strip():
        return None
    try:
        return read_json(text)
    except ValueError:
        return text


def _text(said: JsonValue) -> str:
    return "" if said is None else str(said)
