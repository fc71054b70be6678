"""A provider entry: where models are and how they are asked for, as data. OpenRouter, Ollama, vLLM, Azure (its v1
endpoint) and Gemini's compatible endpoint are such entries, and so are OpenAI and Anthropic themselves.

    AgentSystem("ollama:qwen3", providers={"ollama": Provider(api="openai", base_url="http://localhost:11434/v1")})

An entry holds no key, only where one is (`agency/secrets.py`). So it may be stored, shown and logged. A reference is
looked up for every call, so a key that is replaced is used from the next call on.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, StringConstraints

from agency.key_rules import OutgoingRules
from agency.models.interface import Capability
from agency.secrets import AS_REFERENCE, REFERENCE_CHARS, NoSecret, Secret, is_reference, look_up
from agency.wire import Wire

ApiName = Literal["openai", "anthropic"]
"""The API that is spoken: Chat Completions, or Messages."""

TIMEOUT_MS = 120_000
"""How long a provider may be silent: before its reply begins, and between two pieces of it."""

ADDRESSES: Mapping[ApiName, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""Where the APIs themselves are."""

ProviderName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
"""The word before the colon in a model's name."""

TELLS_USAGE = "stream_options"
"""The field by which Chat Completions is asked to say what a reply has used: budgets go by that."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET_HEADER = re.compile(r"authorization|key$|token$|secret|cookie|password|credential|^x-auth", re.IGNORECASE)
_OF_THE_CONNECTION = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te"})


def sent_secret(reference: str) -> str:
    """What a reference refers to, now, if a request can carry it."""
    found = look_up(reference)
    if not (found.isprintable() and found.isascii()):
        raise NoSecret(f"{reference} holds no key: a key is one line of printable ASCII")
    return found


def _address(value: str) -> str:
    try:
        url = urlsplit(value)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an address as in 'https://host/v1'")
    if "@" in url.netloc:
        raise ValueError("must hold no user and no password: those go into `key` or `headers`, as references")
    if url.query or url.fragment or re.search(r"\s", value):
        raise ValueError("must end with its path: it takes no '?', no '#' and no blanks")
    return value


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, said in value.items():
        if not _HEADER.fullmatch(name):
            raise ValueError("a name of a header has letters, digits and '-'")
        if name.lower() in _OF_THE_CONNECTION:
            raise ValueError(f"header {name!r} belongs to the connection, and cannot be set")
        if not is_reference(said):
            if _SECRET_HEADER.search(name):
                raise ValueError(f"header {name!r} {AS_REFERENCE}")
            if not (said.isprintable() and said.isascii()):
                raise ValueError(f"header {name!r} must be printable ASCII on one line")
    return value


def _body(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if ours := value.keys() & {"model", "messages", "stream"}:
        raise ValueError(f"{', '.join(sorted(ours))}: not for an entry to say")
    for name, said in value.items():
        if isinstance(said, str) and _SECRET_HEADER.search(name):
            raise ValueError(f"field {name!r} looks like a key, and an entry holds none: use `key` or `headers`")
    return value


Reference = Annotated[str, Field(max_length=REFERENCE_CHARS), AfterValidator(Secret)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(Wire):
    """US dollars per million tokens. What is read from or written to the provider's cache costs as much as other input
    where nothing is said about it."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None


class Provider(Wire):
    """Without `base_url` and `key`, those of the API's own SDK count: its address, its variables. A provider with a
    `base_url` and no `key` is taken to want none."""

    # A user may write a key where a reference belongs, and errors reach more people than keys may.
    model_config = ConfigDict(hide_input_in_errors=True)

    api: ApiName
    base_url: Annotated[str, Field(max_length=2_000), AfterValidator(_address)] | None = None
    """As the SDKs want it: one of the `openai` kind ends in `/v1` or the like, one of the `anthropic` kind does not."""
    key: Reference | None = None
    headers: Annotated[dict[str, str], Field(max_length=50), AfterValidator(_headers)] = {}
    """Sent with every request. A value may be a reference; one that is a secret must be."""
    body: Annotated[dict[str, JsonValue], AfterValidator(_body)] = {}
    """Fields that go into the body of every request, over what is there already. One that is null is left out, for a
    server that does not know it."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """How Chat Completions names the limit of a reply. OpenAI and Azure want the first. Ollama, DeepSeek and Mistral
    know only the second."""
    capabilities: tuple[Capability, ...] | None = None
    """What its models can do; None is whatever the API can."""
    prices: dict[str, Price] = {}
    """Our own prices, by the model's name. They go before the published ones."""
    priced_as: Annotated[str, Field(pattern=r"^[a-z0-9._-]+$", max_length=100)] | None = None
    """Whose published prices count, as genai-prices names them: 'openrouter', 'azure', 'google'."""
    timeout_ms: Annotated[int, Field(ge=1, le=3_600_000)] = TIMEOUT_MS

    @property
    def is_private(self) -> bool:
        """Whether its address is one of this machine or of a private network."""
        host = None if self.base_url is None else urlsplit(self.base_url).hostname
        if host is None:
            return False
        try:
            return ipaddress.ip_address(host).is_private
        except ValueError:
            return host == "localhost" or host.endswith((".localhost", ".local", ".internal")) or "." not in host

    @property
    def references(self) -> frozenset[Secret]:
        """Where its secrets are: the key, and what headers refer to."""
        given = (self.key, *self.headers.values())
        return frozenset(Secret(each) for each in given if each is not None and is_reference(each))

    @property
    def address(self) -> str:
        """Where it is, unless the SDK's variables say something else."""
        return self.base_url or ADDRESSES[self.api]

    @property
    def own_address(self) -> str | None:
        """Where it is, whatever variables say; None leaves it to them."""
        return self.base_url

    @property
    def sent_body(self) -> Mapping[str, JsonValue]:
        """The fields that go into every body."""
        return self.body

    def sent_headers(self) -> Mapping[str, str]:
        """The headers, with what their references refer to."""
        return {name: sent_secret(said) if is_reference(said) else said for name, said in self.headers.items()}


class GuardedProvider(Provider):
    """An entry that an agency has set for itself, as hosts use it. It is at its address and nowhere else, shows only
    keys that are meant for that, makes nothing cheaper than it is known to be, and asks for the usage of replies."""

    agency: str
    outgoing: OutgoingRules

    @property
    def own_address(self) -> str:
        return self.address

    @property
    def sent_body(self) -> Mapping[str, JsonValue]:
        """Without what would keep the provider from saying what it used: an entry may be older than that rule."""
        return {name: said for name, said in self.body.items() if name != TELLS_USAGE}

    def check_keys(self) -> None:
        """Raise `NoSecret` if it refers to a key that the agency may not use at this address."""
        for reference in sorted(self.references):
            if (why := self.outgoing.refuses_at(self.agency, reference, self.address)) is not None:
                raise NoSecret(why)
