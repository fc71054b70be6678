"""JSON bodies, read strictly: a lone surrogate such as `"\\ud800"`, which UTF-8 cannot encode, is refused here.

Python's own JSON parser accepts it, and storing or sending the text would fail later.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from agency.errors import InvalidInput


class _JsonRequest(Request):
    async def json(self) -> Any:
        try:
            return from_json(await self.body())
        except ValueError as error:
            raise InvalidInput(f"the body is not valid JSON: {error}") from error


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return strictly
