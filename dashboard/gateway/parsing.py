"""JSON of requests, parsed strictly: a lone surrogate such as `"\\ud800"`, which UTF-8 cannot encode, is refused here.

Python's own JSON parser accepts it, and storing or sending the text would fail later.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request
from pydantic_core import from_json
from starlette.exceptions import HTTPException

UNSAID = ("", "text/plain")
"""The content types that say nothing about a body."""


class JsonRequest(Request):
    async def json(self) -> Any:
        try:
            return from_json(await self.body())
        except ValueError as error:
            # An error of ours would reach the client as FastAPI's, without the reason.
            raise HTTPException(400, f"the body is not valid JSON: {error}") from error
