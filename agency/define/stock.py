"""The stock middleware, by name. The library may not import them: they are found by their entry points."""

from __future__ import annotations

from importlib.metadata import entry_points

from agency.define.hooks import AnyMiddleware, Middleware
from agency.errors import DefinitionError
from agency.own_names import check_names


def stock_middleware(name: str) -> AnyMiddleware:
    """A middleware that comes with the project."""
    check_names(names=["middleware"])
    found = next(iter(entry_points(group="agency.defaults", name=name)), None)
    if found is None:
        raise DefinitionError(
            f"the stock middleware {name!r} is not installed: install the project, as `make setup` does"
        )
    middleware = found.load()
    if not isinstance(middleware, Middleware):
        raise DefinitionError(f"the entry point {name!r} names {middleware!r:.100}, which is no Middleware")
    return middleware
