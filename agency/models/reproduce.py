"""A request to a model as text that makes it again: for the shell, and in Python. Keys are names of variables in it."""

from __future__ import annotations

import os
import pprint
import re
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from pydantic import JsonValue
from pydantic_core import to_json

from agency.models.interface import ModelRequest
from agency.models.providers.entry import Provider
from agency.secrets import is_reference
from agency.wire import Wire

ANY_KEY = "API_KEY"
"""The variable for a key that is in a file."""

_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class HttpRequest(Wire):
    """What is posted, and where. `$NAME` in a header is a variable with a key."""

    url: str
    headers: dict[str, str]
    body: dict[str, JsonValue]


@runtime_checkable
class SpeaksHttp(Protocol):
    """A provider that can say what it sends."""

    def http(self, request: ModelRequest) -> HttpRequest: ...


def variable(reference: str) -> str:
    """The variable that stands for a secret, by its reference."""
    kind, _, name = reference.partition(":")
    return f"${name if kind == 'env' else ANY_KEY}"


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers of a provider's entry, with variables in the place of references."""
    return {name: variable(said) if is_reference(said) else said for name, said in headers.items()}


def key_in(entry: Provider, own: str) -> str | None:
    """The variable with the key of an entry; `own` is that of the API itself. None: it wants none."""
    if entry.key is not None:
        return variable(entry.key)
    return None if entry.own_address is not None else f"${own}"


def address_of(entry: Provider, own: str, otherwise: str) -> str:
    """Where an entry's models are asked; `own` is the variable of the API itself."""
    named = entry.own_address or os.environ.get(own) or otherwise
    return (otherwise if "@" in named else named).rstrip("/")  # one with a password in it is not shown


def as_curl(request: HttpRequest) -> str:
    headers = [f'  -H "{name}: {_in_double_quotes(said)}" \\' for name, said in request.headers.items()]
    body = to_json(request.body, indent=2).decode()
    return "\n".join((f"curl {_quoted(request.url)} \\", *headers, "  --data-binary @- <<'JSON'", body, "JSON", ""))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _in_double_quotes(text: str) -> str:
    return re.sub(r'(["\\`]|\$(?![A-Za-z_]))', r"\\\1", text)


def as_python(request: HttpRequest) -> str:
    headers = "\n".join(f"    {name!r}: {_expression(said)}," for name, said in request.headers.items())
    body = pprint.pformat(request.body, width=100, sort_dicts=False)
    return (
        "import os\n\nimport httpx\n\n"
        f"headers = {{\n{headers}\n}}\nbody = {body}\n"
        f"answer = httpx.post({request.url!r}, headers=headers, json=body, timeout=600)\n"
        "print(answer.status_code, answer.text)\n"
    )


def _expression(said: str) -> str:
    """A header's value, as Python has it."""
    parts = _VARIABLE.split(said)  # text and names, in turns
    told = [f"os.environ[{part!r}]" if i % 2 else repr(part) for i, part in enumerate(parts) if part]
    return " + ".join(told) or "''"
