"""Secrets by reference, one way for providers, tools and middleware: `secret("env:SHOP_KEY")`, `secret("file:/path")`.

The one idea: what is written down is where a secret is, never what it is. A reference is text, so it may be stored,
shown and logged. It is looked up at every use, so a value that is replaced counts from the next use on.

A value must never reach a file, an event, a log, an error or the argument of a Ray task. For that, this process
remembers the values that it has looked up, and those in its environment that go by a secret's name;
`without_secrets` takes them out of text that other people's code made.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args
from urllib.parse import quote, quote_plus, unquote

from pydantic import BaseModel, GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema

from agency.errors import DefinitionError

AS_REFERENCE = "must say where the key is, as in 'env:NAME' or 'file:/path', and never be the key itself"
REDACTED = "[redacted]"
SECRET_CHARS = 16_000
REFERENCE_CHARS = 1_000
SHORTEST = 6
"""A shorter value is not taken out of text: it cannot be told from ordinary words."""
MOST_VALUES = 1_000
"""So many values are remembered; the oldest are forgotten first."""

_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\x00\r\n]+")
_SHORTEST_SPELLING = 8
FEW = 12
"""Up to so many spellings, one search for each is quicker than one for all."""
BRANCHED = 6


class NoSecret(Exception):
    """A reference leads to nothing. The message names the reference, which is no secret."""


class Secret(str):
    """Where a secret is: `env:NAME` or `file:/path`. As the type of a field of a `config_model`, it is how a blueprint
    names one."""

    __slots__ = ()

    def __new__(cls, reference: str) -> Secret:
        if not is_reference(reference):
            raise ValueError(AS_REFERENCE)
        return super().__new__(cls, reference)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(max_length=REFERENCE_CHARS)
        return core_schema.no_info_after_validator_function(cls, text)


def secret(reference: str) -> Secret:
    """A secret by reference: `env:NAME`, a variable of the environment, or `file:/path`, a file's content."""
    try:
        return Secret(reference)
    except (ValueError, TypeError):
        raise DefinitionError(f"secret(…) {AS_REFERENCE}") from None


def is_reference(value: str) -> bool:
    return _REFERENCE.fullmatch(value) is not None


def references_in(value: object) -> Iterator[Secret]:
    """Every `Secret` in a value: in models, mappings and lists at whatever depth."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, BaseModel):
        yield from references_in(value.__dict__)
    elif dataclasses.is_dataclass(value):
        yield from (found for field in dataclasses.fields(value) for found in references_in(getattr(value, field.name)))
    elif isinstance(value, Mapping):
        yield from (found for each in value.values() for found in references_in(each))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (found for each in value for found in references_in(each))


def named_in(value: JsonValue) -> Iterator[str]:
    """Every text in a JSON value that is a reference, whatever it is meant to be. Blanks around it do not hide it: the
    configuration of a middleware may strip them."""
    match value:
        case str():
            if is_reference(value.strip()):
                yield value.strip()
        case list():
            yield from (found for each in value for found in named_in(each))
        case dict():
            yield from (found for each in value.values() for found in named_in(each))


@functools.lru_cache(maxsize=256)
def default_references(kind: type[BaseModel]) -> frozenset[Secret]:
    """What a model of a configuration refers to where nothing is said: that is in code."""
    return frozenset(_defaults(kind, frozenset()))


def _defaults(kind: type[BaseModel], around: frozenset[type]) -> Iterator[Secret]:
    for field in kind.model_fields.values() if kind not in around else ():
        default = field.default if field.default_factory is None else _made_by(field.default_factory)
        yield from references_in(default)
        if isinstance(default, str) and is_reference(default):
            yield Secret(default)
        for inner in _models_in(field.annotation):
            yield from _defaults(inner, around | {kind})


def _made_by(factory: Callable[..., object]) -> object:
    """None if it wants what the other fields say."""
    try:
        return factory()
    except TypeError:
        return None


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)


# Looking up.


def look_up(reference: str) -> str:
    """What a reference refers to, now."""
    kind, _, where = reference.partition(":")
    try:
        found = (_handed.get(reference) or _variable_or_content(kind, where)).strip()
    except (OSError, ValueError) as error:
        raise NoSecret(f"{reference} cannot be read ({type(error).__name__})") from None
    if not found:
        raise NoSecret(f"{reference} is {'not set' if kind == 'env' else 'empty'}")
    if len(found) > SECRET_CHARS:
        raise NoSecret(f"{reference} is longer than {SECRET_CHARS} characters")
    remember(found)
    return found


def _variable_or_content(kind: str, where: str) -> str:
    if kind == "env":
        return os.environ.get(where, "")
    with Path(where).open(encoding="utf-8") as file:
        return file.read(SECRET_CHARS + 2)


_handed: Mapping[str, str] = {}


@contextmanager
def handed(values: Mapping[str, str]) -> Iterator[None]:
    """Within, these references refer to these values, in the whole process: a worker that runs one call at a time."""
    global _handed
    before, _handed = _handed, values
    for value in values.values():
        remember(value)
    try:
        yield
    finally:
        _handed = before


@dataclass(frozen=True, slots=True)
class Declared:
    """The secrets that a tool or a middleware may look up: by the names that it declares, and what its configuration
    refers to."""

    owner: str
    named: Mapping[str, Secret]
    configured: frozenset[Secret] = frozenset()
    check: Callable[[Secret], None] | None = None
    """Raises `NoSecret` for what its configuration may not refer to here."""

    @property
    def references(self) -> frozenset[Secret]:
        return self.configured.union(self.named.values())

    def value(self, wanted: str) -> str:
        if isinstance(wanted, Secret):
            reference = wanted if wanted in self.references else None
        else:
            reference = self.named.get(wanted)
        if reference is None:
            there = ", ".join(self.named) or "none"
            raise DefinitionError(f"{self.owner} declares no secret {wanted!r:.100}; it declares: {there}")
        if self.check is not None:
            self.check(reference)
        return look_up(reference)


# Taking values out of what other people's code says.

_values: dict[str, tuple[str, ...]] = {}
_spellings: tuple[str, ...] = ()
_pattern: re.Pattern[str] | None = None  # of all spellings, made when it is first used
_remembering = threading.Lock()  # sync tools look up in threads of their own


def remember(value: str | None) -> None:
    """From now on, `without_secrets` takes this value out."""
    global _spellings, _pattern
    if value is None or len(value) < SHORTEST or value in _values:
        return
    with _remembering:
        while len(_values) >= MOST_VALUES:
            del _values[next(iter(_values))]
        _values[value] = tuple(_spelled(value))
        every = {spelling for each in _values.values() for spelling in each}
        _spellings, _pattern = tuple(sorted(every, key=len, reverse=True)), None


def remember_all(references: Iterable[Secret]) -> None:
    """The same for what these references refer to now, before a tool comes across it in its environment."""
    for reference in references:
        with suppress(NoSecret):
            look_up(reference)


def remember_environment() -> None:
    """The same for the variables of this process that go by the names of secrets, declared or not: other
    people's code finds them in its environment, and may say them."""
    for name, value in os.environ.items():
        if name in _OURS or (_SECRET_NAME.search(name) and _may_be_secret(value)):
            remember(value.strip())
        elif (found := _PASSWORD.match(value)) is not None and _may_be_secret(found[1]):
            remember(found[1])
            remember(unquote(found[1]))


_OURS = frozenset({"AGENCY_SECRET"})
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:KEYS?|TOKENS?|SECRETS?|PASS|PASSWD|PASSWORDS?|PASSPHRASE|CREDENTIALS?|PAT)"
    r"(?:_(?:[0-9]+|BASE|PROD|LIVE|TEST|DEV))?$",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s:]*:([^/@\s]+)@")
"""In an address, as that of a database."""
_SHORTEST_UNTOLD = 10
"""Of a variable that no reference names. A shorter one may be any word, and is left in texts."""


def _may_be_secret(value: str) -> bool:
    """Whether a variable with a secret's name may have a secret's value: no number, no word, no place."""
    value = value.strip()
    plain = value.isdigit() or (value.isalpha() and (value.islower() or value.isupper()))
    return len(value) >= _SHORTEST_UNTOLD and not plain and not value.startswith(("/", "~", "./", "env:", "file:"))


def has_secrets() -> bool:
    """Whether there is anything to take out."""
    return bool(_spellings)


def without_secrets(text: str) -> str:
    """The text without the values that this process knows, plain, in JSON, URL-encoded or in base64."""
    global _pattern
    if len(_spellings) > FEW:
        if (pattern := _pattern) is None:
            pattern = _pattern = _matching(_spellings)
        return pattern.sub(REDACTED, text)
    for spelling in _spellings:
        if spelling in text:
            text = text.replace(spelling, REDACTED)
    return text


def free_of_secrets(value: JsonValue) -> JsonValue:
    """The same for a JSON value, at whatever depth."""
    if not _spellings:
        return value
    match value:
        case str():
            return without_secrets(value)
        case list():
            return [free_of_secrets(each) for each in value]
        case dict():
            return {without_secrets(name): free_of_secrets(each) for name, each in value.items()}
        case _:
            return value


def bytes_without_secrets(content: bytes) -> bytes:
    """The same for a file's content."""
    for spelling in _spellings:
        content = content.replace(spelling.encode(), REDACTED.encode())
    return content


def _matching(spellings: Sequence[str]) -> re.Pattern[str]:
    """One search for all of them: by their first characters, so that how many there are hardly matters."""
    return re.compile(_one_of(spellings, BRANCHED))


def _one_of(spellings: Sequence[str], branched: int) -> str:
    """They come longest first, and so does what is tried at each place."""
    if branched == 0 or len(spellings) == 1 or "" in spellings:
        return f"(?:{'|'.join(map(re.escape, spellings))})"
    after: dict[str, list[str]] = {}
    for each in spellings:
        after.setdefault(each[0], []).append(each[1:])
    return f"(?:{'|'.join(re.escape(first) + _one_of(rest, branched - 1) for first, rest in after.items())})"


def _spelled(value: str) -> Iterable[str]:
    """A value as it may stand in a text."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), encoded)
    for before in range(3):
        yield from _in_base64(value.encode(), before)


def _in_base64(value: bytes, before: int) -> Iterator[str]:
    """The characters that are the same whatever stands around the value, if so many bytes stand before it in its group
    of three; as in the `user:key` of basic authentication."""
    whole = base64.b64encode(bytes(before) + value).decode()
    first = (0, 2, 3)[before]
    last = (before + len(value)) * 8 // 6
    if last - first >= _SHORTEST_SPELLING:
        yield whole[first:last]
        yield whole[first:last].translate(str.maketrans("+/", "-_"))
