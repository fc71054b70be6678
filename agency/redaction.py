"""What people are shown of a call's arguments: no secrets, and nothing endless. What runs is never touched.

What is hidden: the values of arguments that a tool declares as secret (pydantic's `SecretStr`), those under names that
secrets go by, and text that looks like a key or a token wherever it stands. Somebody who edits the arguments edits what
they were shown, so `restored` puts back what they have left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pydantic import JsonValue

HIDDEN = "••••••"
SHOWN_CHARS = 2_000
"""A longer text is cut."""

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
    """Arguments as a person has edited them, with the real values where these are as they were shown."""
    return _back(edited, original, shown(original, hidden))


def secret_names(schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The arguments that a tool's schema marks as secret."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ()
    return tuple(name for name, described in properties.items() if _is_secret(described))


def _is_secret(described: JsonValue) -> bool:
    if not isinstance(described, dict):
        return False
    forms = described.get("anyOf")
    return (
        described.get("writeOnly") is True
        or described.get("format") == "password"
        or (isinstance(forms, list) and any(_is_secret(form) for form in forms))
    )


def _named(name: str, value: JsonValue, hidden: bool, longest: int | None) -> JsonValue:
    is_secret = isinstance(value, str) and _SECRET_NAME.search(_HUMP.sub("_", name)) is not None
    return HIDDEN if value is not None and (hidden or is_secret) else _value(value, longest)


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
        pairs = min(len(edited), len(original))
        return [*(_back(*each) for each in zip(edited, original, seen, strict=False)), *edited[pairs:]]
    return edited
