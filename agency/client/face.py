"""What the two clients share in making methods of requests, so that a request's parameters are named once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def like(make: Callable[..., object]) -> Callable[[Method], Method]:
    """Give a method the name, the words and the parameters of the function that makes its request."""
    _, *parameters = inspect.signature(make).parameters.values()
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)

    def dress(method: Method) -> Method:
        method.__name__, method.__doc__ = make.__name__, make.__doc__
        method.__signature__ = inspect.Signature([itself, *parameters])  # type: ignore[attr-defined]  # what `help` shows
        return method

    return dress
