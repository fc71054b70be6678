"""JSON bodies, read strictly: a lone surrogate such as `"\\ud800"`, which UTF-8 cannot encode, is refused here.

Python's own JSON parser accepts it, and storing or sending the text would fail later.

A body without a content type is JSON, and so is `text/plain`, which is what a browser's `fetch` calls a string. Pages
of other sites may send both without asking first, so `guard` looks at which page a request comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

UNSAID = ("", "text/plain")
"""The content types that say nothing about a body."""


class _JsonRequest(Request):
    async def json(self) -> Any:
        try:
            return from_json(await self.body())
        except ValueError as error:
            # An error of ours would reach the client as FastAPI's, without the reason.
            raise HTTPException(400, f"the body is not valid JSON: {error}") from error


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_JsonRequest(_as_json(request.scope), request.receive))

        return strictly


def _as_json(scope: Scope) -> Scope:
    """The request, called JSON if it does not say what its body is."""
    given = Headers(scope=scope).get("content-type", "")
    if given.partition(";")[0].strip().lower() not in UNSAID:
        return scope
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}
