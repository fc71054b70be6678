"""Whether a middleware is defined well, said where it is added to a system; and its section of a configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from agency.define.blueprint import Blueprint
from agency.define.files import FileKeeper
from agency.define.hooks import AnyMiddleware, Middleware
from agency.errors import DefinitionError
from agency.secrets import Secret
from agency.wire import explain

_FILE_METHODS = ("on_files", "files", "read_file", "delete_file", "handed_back")
_UNDEFINED = (None, *(vars(FileKeeper)[name] for name in _FILE_METHODS))
"""What a class has under these names that does not define them itself."""


def check_definition(middleware: AnyMiddleware, where: str) -> None:
    """Refuse a middleware that could not work, whatever agent has it. `where` names it in the error."""
    _check_hooks(middleware, where)
    _check_secrets(middleware, where)
    _check_options_model(middleware, where)


def _check_secrets(middleware: AnyMiddleware, where: str) -> None:
    given: object = middleware.secrets
    if not isinstance(given, Mapping) or not all(isinstance(each, Secret) for each in given.values()):
        raise DefinitionError(f'{where}: secrets are a mapping as in {{"key": secret("env:SHOP_KEY")}}')


def _check_hooks(middleware: AnyMiddleware, where: str) -> None:
    """A misspelt hook would never be called, and one that is not async cannot be awaited."""
    defined = [name for name in _FILE_METHODS if getattr(type(middleware), name, None) not in _UNDEFINED]
    keeper = len(defined) == len(_FILE_METHODS)
    if defined and not keeper and (isinstance(middleware, FileKeeper) or "on_files" in defined):
        missing = [name for name in _FILE_METHODS if name not in defined]
        raise DefinitionError(f"{where} has on_files: to be a FileKeeper, it must define {', '.join(missing)}, too")
    for name, value in inspect.getmembers(type(middleware), inspect.isfunction):
        known = getattr(Middleware, name, None) or (getattr(FileKeeper, name, None) if keeper else None)
        if name.startswith(("on_", "before_", "after_")) and known is None:
            raise DefinitionError(f"{where}: there is no hook {name!r}")
        if inspect.iscoroutinefunction(known) and not inspect.iscoroutinefunction(value):
            raise DefinitionError(f"{where}: hook {name!r} must be async")


def _check_options_model(middleware: AnyMiddleware, where: str) -> None:
    """A run without options has what the model has without values."""
    if middleware.options_model is not None:
        needed = [name for name, field in middleware.options_model.model_fields.items() if field.is_required()]
        if needed:
            raise DefinitionError(f"{where}: each field of its options_model needs a default; {needed[0]!r} has none")


def section_of(middleware: AnyMiddleware, blueprint: Blueprint) -> Any:
    """A middleware's part of a blueprint's configuration, validated by its own model."""
    given = blueprint.config.get(middleware.name, {})
    if middleware.config_model is None:
        if given:
            raise DefinitionError(f"agent {blueprint.name!r}: middleware {middleware.name!r} takes no configuration")
        return None
    try:
        return middleware.config_model.model_validate(given)
    except ValidationError as error:
        raise DefinitionError(f"agent {blueprint.name!r}: config.{middleware.name}: {explain(error)}") from error
