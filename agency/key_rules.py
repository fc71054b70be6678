"""Which keys of an installation an agency may use, and where (`AGENCY_KEYS`).

Variables that begin with `AGENCY_KEY_` are the only ones that the providers and blueprints of agencies can refer to.
What an agency's admin writes down decides where a value is sent, so the operator says of each variable which agencies
may use it and at which hosts; one of which nothing is said is of use to none. It is checked when an entry is stored,
and again where the value is looked up: an entry may be older than the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue, StringConstraints
from pydantic_core import to_json

from agency.guarded.addresses import DEFAULT_PORTS, PrivateHostText
from agency.secrets import named_in
from agency.wire import Wire

FOR_AGENCIES = "AGENCY_KEY_"
"""How variables begin that agencies may refer to, if `AGENCY_KEYS` says so."""

SETTING = "AGENCY_KEYS"
ANY_AGENCY = "*"

_HOST = re.compile(r"(?:(https?)://)?((?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::(\d{1,5}))?")
_PLAIN = re.compile(r"[a-z0-9_.-]+|[0-9a-f:.]+")


def _readable_host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError(
            f"{text!r:.200} is no host of a key: write it in small letters as 'api.openai.com', '*.openai.azure.com', "
            "'models.example.com:8443', or with 'http://' before it if the key may go there unencrypted"
        )
    return text


def _id(text: str) -> str:
    if text != ANY_AGENCY and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise ValueError(f"{text!r:.100} is no agency: name it by its id, as 'agc_1f2e', because admins choose names")
    return text


KeyName = Annotated[str, StringConstraints(pattern=rf"^{FOR_AGENCIES}[A-Za-z0-9_]+$", max_length=200)]


class KeyRule(Wire):
    """Who may use a key, and where."""

    agencies: Annotated[tuple[Annotated[str, AfterValidator(_id)], ...], Field(min_length=1)]
    """Their ids; `*` is every agency."""
    hosts: tuple[Annotated[str, AfterValidator(_readable_host)], ...] = ()
    """Where providers may send it: by https, and by http where that is written before the host."""
    middleware: tuple[str, ...] = ()
    """The sections of `config` in which blueprints may refer to it: that middleware decides where it goes."""


class OutgoingRules(Wire):
    """What agencies may reach, and with which keys."""

    keys: Mapping[str, KeyRule] = {}
    private_hosts: tuple[PrivateHostText, ...] = ()

    def refuses_at(self, agency: str, reference: str, address: str) -> str | None:
        """Why a provider of an agency may not send a key to an address; None if it may."""
        rule = self._rule(agency, reference)
        if rule is not None and any(_is_at(host, address) for host in rule.hosts):
            return None
        host = _shown(address)
        if rule is None:
            return _unknown(agency, reference, {"hosts": [host]})
        return f"this agency may use {reference} at {', '.join(rule.hosts) or 'no host'}, and not at {host}"

    def refuses_in(self, agency: str, reference: str, section: str) -> str | None:
        """Why a blueprint of an agency may not refer to a key in a section of its configuration; None if it may."""
        rule = self._rule(agency, reference)
        if rule is not None and section in rule.middleware:
            return None
        if rule is None or not rule.middleware:
            return _unknown(agency, reference, {"middleware": [section]})
        return f"this agency may use {reference} in config.{', config.'.join(rule.middleware)}, not in config.{section}"

    def _rule(self, agency: str, reference: str) -> KeyRule | None:
        rule = self.keys.get(reference.removeprefix("env:"))
        return rule if rule is not None and not {agency, ANY_AGENCY}.isdisjoint(rule.agencies) else None


def _unknown(agency: str, reference: str, where: Mapping[str, list[str]]) -> str:
    """The same for a variable that is another agency's and for one that is not there: which there are is not told."""
    wanted = {reference.removeprefix("env:"): {"agencies": [agency], **where}}
    return (
        f"this agency may not use {reference} so; to let it, the operator of this installation adds to {SETTING}: "
        f"{to_json(wanted).decode()}"
    )


def _is_at(pattern: str, address: str) -> bool:
    found, url = _HOST.fullmatch(pattern), urlsplit(address)
    assert found is not None
    scheme, wanted, port = found[1] or "https", found[2].strip("[]"), found[3]
    host = (url.hostname or "").lower().rstrip(".")
    if url.scheme != scheme or not _PLAIN.fullmatch(host):
        return False
    if (url.port or DEFAULT_PORTS[scheme]) != int(port or DEFAULT_PORTS[scheme]):
        return False
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted


def _shown(address: str) -> str:
    """An address as it is written in a rule."""
    url = urlsplit(address)
    return f"{'http://' if url.scheme == 'http' else ''}{url.netloc.lower()}"


def sections_in(config: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """The sections of a configuration that refer to secrets, by whose they are. An agent that a section defines has a
    `config` of its own, whose sections are apart."""
    for name, section in config.items():
        inner: list[tuple[str, JsonValue]] = []
        outer = _without_inner(section, inner)
        if any(True for _ in named_in(outer)):
            yield name, section
        yield from inner


def _without_inner(value: JsonValue, inner: list[tuple[str, JsonValue]]) -> JsonValue:
    match value:
        case dict():
            own = value.get("config")
            if isinstance(own, dict):
                inner.extend(sections_in(own))
            rest = {name: each for name, each in value.items() if not (name == "config" and isinstance(each, dict))}
            return {name: _without_inner(each, inner) for name, each in rest.items()}
        case list():
            return [_without_inner(each, inner) for each in value]
        case _:
            return value
