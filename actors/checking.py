"""Arguments that come from outside are checked against the type hints of what they are for."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from pydantic import ConfigDict, ValidationError, validate_call

from agency.errors import InvalidInput
from agency.wire import explain

Params = ParamSpec("Params")
Result = TypeVar("Result")


def checked(method: Callable[Params, Awaitable[Result]]) -> Callable[Params, Awaitable[Result]]:
    """Refuse arguments of wrong types with `InvalidInput`, before the method begins."""
    validated = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(method)

    @functools.wraps(method)
    async def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            coroutine = validated(*args, **kwargs)
        except ValidationError as error:
            raise InvalidInput(f"{method.__name__}: {explain(error)}") from error
        return await coroutine

    return call
