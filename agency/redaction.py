"""What people are shown of a call's arguments: no secrets, and nothing endless. What runs is never touched.

What is hidden: arguments that a tool declares as secret (pydantic's `SecretStr`) or that hold something secret, text
under names that secrets go by, and text that looks like a key or a token wherever it stands. A person who
edits the arguments edits what was shown, so `restored` puts back what was left as it was; a placeholder never runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from pydantic import JsonValue

from agency.errors import InvalidInput

HIDDEN = "••••••"
SHOWN_CHARS = 2_000
"""A longer text is cut."""
_PLACEHOLDER = re.compile(HIDDEN + r"|… \(\d+ more characters\)$")

_SECRET_NAME = re.compile(
    r"(?:^|[^a-z])(?:pass(?:word|wd|phrase)|secret|token|api[^a-z]?key|authorization|credentials?|private[^a-z]?key)s?$",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_TEXT = re.compile(
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}"  # keys as providers write them
    r"|(?<=\bBearer )[A-Za-z0-9._~+/=-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"  # signed tokens
)


def shown(args: JsonValue, hidden: Collection[str] = (), *, longest: int | None = SHOWN_CHARS) -> JsonValue:
    """A call's arguments for people; `hidden` are those at the top that the tool declares as secret."""
    if isinstance(args, dict):
        return {name: _named(name, value, name in hidden, longest) for name, value in args.items()}
    return _value(args, longest)


def restored(edited: JsonValue, original: JsonValue, hidden: Collection[str] = ()) -> JsonValue:
    """Arguments as a person has edited them, with the real values where these are as they were shown. `InvalidInput` if
    what was hidden or cut stands where its original cannot be known."""
    back = _back(edited, original, shown(original, hidden))
    left = {text for text in _texts(back) if _PLACEHOLDER.search(text)}
    if unknown := left.difference(_texts(original)):
        raise InvalidInput(
            f"{min(unknown)!r:.100} holds what was hidden or cut: leave such a value as it was shown, or give a new one"
        )
    return back


def secret_names(schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The arguments that a tool's schema marks as secret."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ()
    return tuple(name for name, described in properties.items() if _holds_secret(described, schema, set()))


def _holds_secret(described: JsonValue, schema: Mapping[str, JsonValue], seen: set[str]) -> bool:
    """Whether a part of a schema describes something secret, at whatever depth; `seen` are references taken already."""
    if isinstance(described, list):
        return any(_holds_secret(each, schema, seen) for each in described)
    if not isinstance(described, dict):
        return False
    if described.get("writeOnly") is True or described.get("format") == "password":
        return True
    named = described.get("$ref")
    if isinstance(named, str) and named not in seen:
        seen.add(named)
        definitions = schema.get("$defs")
        known = definitions.get(named.removeprefix("#/$defs/")) if isinstance(definitions, dict) else None
        if _holds_secret(known, schema, seen):
            return True
    return any(_holds_secret(each, schema, seen) for each in described.values())


def _named(name: str, value: JsonValue, hidden: bool, longest: int | None) -> JsonValue:
    if hidden and value is not None:
        return HIDDEN
    is_secret = _SECRET_NAME.search(_HUMP.sub("_", name)) is not None
    return _without_texts(value) if is_secret else _value(value, longest)


def _without_texts(value: JsonValue) -> JsonValue:
    """What stands under a secret's name. Numbers are shown: they count tokens more often than they are one."""
    match value:
        case str():
            return HIDDEN
        case list():
            return [_without_texts(each) for each in value]
        case dict():
            return {name: _without_texts(each) for name, each in value.items()}
        case _:
            return value


def _value(value: JsonValue, longest: int | None) -> JsonValue:
    match value:
        case str():
            return _text(value, longest)
        case list():
            return [_value(each, longest) for each in value]
        case dict():
            return {name: _named(name, each, False, longest) for name, each in value.items()}
        case _:
            return value


def _text(text: str, longest: int | None) -> str:
    text = _SECRET_TEXT.sub(HIDDEN, text)
    left_out = 0 if longest is None else len(text) - longest
    return text if left_out <= 0 else f"{text[:longest]}… ({left_out} more characters)"


def _back(edited: JsonValue, original: JsonValue, seen: JsonValue) -> JsonValue:
    if edited == seen:
        return original
    if isinstance(edited, dict) and isinstance(original, dict) and isinstance(seen, dict):
        return {
            name: _back(value, original[name], seen[name]) if name in original else value
            for name, value in edited.items()
        }
    if isinstance(edited, list) and isinstance(original, list) and isinstance(seen, list):
        return [_item_back(i, each, original, seen, len(edited)) for i, each in enumerate(edited)]
    return edited


def _item_back(i: int, item: JsonValue, original: list[JsonValue], seen: list[JsonValue], items: int) -> JsonValue:
    """An item of a list, which may stand elsewhere now. One that was changed is known by its place, if none was added
    or taken away."""
    if seen.count(item) == 1:
        return original[seen.index(item)]
    return _back(item, original[i], seen[i]) if items == len(seen) else item


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            for each in value.values():
                yield from _texts(each)
