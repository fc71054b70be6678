"""Routes that take JSON, from callers who may call them: a body is read once its caller's credential was found right.

FastAPI would read it first, for every client. What is in a body is up to `parsing`.

A body without a content type is JSON, and so is `text/plain`, which is what a browser's `fetch` calls a string. Pages
of other sites may send both without asking first, so `guard` looks at which page a request comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import Scope

from actors import Cluster
from agency.errors import TooLarge
from dashboard.gateway.access import access_of, check_caller_of
from dashboard.gateway.content import given
from dashboard.gateway.parsing import UNSAID, JsonRequest

ESCAPED = 6
"""Of one byte, JSON may make so many, as in "\\u0007"."""


class JsonRoute(APIRoute):
    most = ""
    """The setting of the installation that limits what these bodies become; far longer ones are not read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, needed = super().get_route_handler(), access_of(self.dependant)

        async def strictly(request: Request) -> Response:
            wanted = JsonRequest(_as_json(request.scope), request.receive)
            if self.body_field is not None:
                await check_caller_of(needed, wanted)
                if self.most:
                    await _check_length(wanted, self.most)
                await wanted.check_values()
            return await handle(wanted)

        return strictly


def json_of(setting: str) -> type[JsonRoute]:
    """Routes for what a setting of the installation limits, in bytes."""
    return type("JsonRoute", (JsonRoute,), {"most": setting})


async def _check_length(request: Request, setting: str) -> None:
    """Refuse a body that is too long whatever is in it: taking it apart would hold up all others."""
    joined: Cluster | None = request.app.state.cluster
    if joined is None:
        return  # the route will say so
    most = ESCAPED * getattr(joined.settings, setting)
    announced = request.headers.get("content-length", "")
    length = int(announced) if announced.isdigit() else len(await given(request))
    if length > most:
        raise TooLarge(f"the body has {length} bytes; {most} are read here ({ESCAPED} times AGENCY_{setting.upper()})")


def _as_json(scope: Scope) -> Scope:
    """The request, called JSON if it does not say what its body is."""
    said = Headers(scope=scope).get("content-type", "")
    if said.partition(";")[0].strip().lower() not in UNSAID:
        return scope
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}
