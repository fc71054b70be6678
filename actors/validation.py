"""Arguments that come from outside are checked against the type hints of what they are for."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, ParamSpec, TypeVar

from pydantic import ConfigDict, Field, ValidationError, validate_call

from agency.errors import InvalidInput
from agency.wire import explain

Seq = Annotated[int, Field(ge=0, lt=2**63)]
"""After which to begin; 0 is at the beginning."""

Params = ParamSpec("Params")
Result = TypeVar("Result")


def checked(method: Callable[Params, Awaitable[Result]]) -> Callable[Params, Awaitable[Result]]:
    """Refuse arguments of wrong types with `InvalidInput`, before the method begins."""
    validated = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(method)

    @functools.wraps(method)
    async def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return await validated(*args, **kwargs)
        except ValidationError as error:
            if error.title != method.__qualname__:
                raise  # of something else that it did
            raise InvalidInput(f"{method.__name__}: {explain(error)}") from error

    return call
