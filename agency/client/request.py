"""A request as plain data: what is sent, how the answer is read, and whether it may be repeated. No I/O."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json

from agency.errors import AgencyError, InvalidInput
from agency.events import Event
from agency.messages import Message
from agency.wire import explain

Value = TypeVar("Value")
Read = TypeVar("Read")
AnyModel = TypeVar("AnyModel", bound=BaseModel)
AnyEvent = TypeVar("AnyEvent", bound=Event)

Query = Mapping[str, str | int | float | None]
Cursor = str | int
Repeat = Literal["always", "unsent", "never"]
"""When to try again: whenever no answer came; only if the request surely did not reach the gateway; or not at all."""

PAGE = 200
SECONDS = 60.0
"""How long an answer may take, unless the request itself says to wait."""

FOLLOW_SECONDS = 60.0
"""How long live events may be without a connection before the reader gets `Unavailable`."""

Messages = str | Message | Sequence[Message]

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[Value]):
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    read: Callable[[bytes], Value]
    body: bytes | None = None
    query: Query = field(default_factory=dict)
    repeat: Repeat = "always"
    done: type[AgencyError] | None = None
    """The error that a repeated request gets if the first try had been carried out."""
    seconds: float = SECONDS
    media: str = "application/json"
    """The media type of the body."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Headers that say when the request counts."""
    finish: Callable[[Value, Mapping[str, str]], Value] | None = None
    """Adds to the answer what its headers say."""

    @property
    def params(self) -> dict[str, str | int | float]:
        return {name: value for name, value in self.query.items() if value is not None}

    @property
    def headers(self) -> dict[str, str]:
        return {**self.conditions, **({} if self.body is None else {"Content-Type": self.media})}

    def then(self, choose: Callable[[Value], Read]) -> Request[Read]:
        """The same request, for a part of its answer."""
        whole: Request[Any] = self
        return replace(whole, read=lambda content: choose(self.read(content)))


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Value]):
    items: tuple[Value, ...]
    next: Cursor | None


@dataclass(frozen=True, slots=True)
class Listing(Generic[Value]):
    """A list that comes in pages: the request for the page after a cursor."""

    page: Callable[[Cursor], Request[ListPage[Value]]]
    begin: Cursor


@dataclass(frozen=True, slots=True)
class EventFeed(Generic[AnyEvent]):
    """Live events: their path, their model, and the number by which a broken connection begins again."""

    path: str
    model: type[AnyEvent]
    number: Callable[[AnyEvent], int | None]
    after: int | Literal["now"]
    patience: float


def get(
    model: type[AnyModel],
    path: str,
    query: Query | None = None,
    *,
    repeat: Repeat = "always",
    seconds: float = SECONDS,
) -> Request[AnyModel]:
    return Request(method="GET", path=path, query=query or {}, read=_reader(model), repeat=repeat, seconds=seconds)


def listing(
    model: type[AnyModel],
    path: str,
    page_of: Callable[[AnyModel], ListPage[Value]],
    *,
    begin: Cursor = 0,
    **query: str | float | None,
) -> Listing[Value]:
    return Listing(lambda after: get(model, path, {"after": after, "limit": PAGE, **query}).then(page_of), begin)


def post(
    model: type[AnyModel],
    path: str,
    body: bytes,
    *,
    method: Literal["POST", "PUT", "PATCH"] = "POST",
    repeat: Repeat = "always",
) -> Request[AnyModel]:
    return Request(method=method, path=path, body=body, read=_reader(model), repeat=repeat)


def order(
    path: str,
    body: bytes | None = None,
    *,
    method: Literal["POST", "PATCH"] = "POST",
    done: type[AgencyError] | None = None,
) -> Request[None]:
    """A request whose answer says only that it was done."""
    return Request(method=method, path=path, body=body, read=_nothing, done=done)


def delete(path: str, query: Query | None = None, *, done: type[AgencyError]) -> Request[None]:
    return Request(method="DELETE", path=path, query=query or {}, read=_nothing, done=done)


def ask_json(
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"], path: str, body: JsonValue
) -> Request[JsonValue]:
    """A request whose answer can be any JSON. It is repeated if it changes nothing, or surely was not carried out."""
    content = None if body is None else to_json(body)
    repeat: Repeat = "always" if method == "GET" else "unsent"
    return Request(method=method, path=path, body=content, read=_any_json, repeat=repeat)


def get_bytes(path: str, query: Query) -> Request[bytes]:
    return Request(method="GET", path=path, query=query, read=bytes)


def put_bytes(path: str, query: Query, content: bytes) -> Request[None]:
    media = "application/octet-stream"
    return Request(method="PUT", path=path, query=query, body=content, media=media, read=_nothing)


def body(model: type[BaseModel], /, **given: object) -> bytes:
    """The body of a request, as JSON; arguments that are None are left out."""
    return encoded(model, {name: value for name, value in given.items() if value is not None})


def encoded(model: type[BaseModel], given: Mapping[str, object]) -> bytes:
    try:
        return model.model_validate(given).model_dump_json(exclude_unset=True).encode()
    except ValidationError as error:
        raise InvalidInput(explain(error)) from error
    except ValueError as error:  # a lone surrogate, which UTF-8 cannot encode
        raise InvalidInput(f"that cannot be sent: {error}") from error


def key() -> str:
    """An idempotency key for a request that has none, so that it can be repeated when its answer is lost."""
    return f"client-{secrets.token_hex(12)}"


def name_of_agency(given: str) -> str:
    """An agency's name as the server keeps it: with blanks around it, it would not be found again."""
    if not (name := given.strip()):
        raise InvalidInput("say the id or the name of the agency")
    return name


def key_of_name(name: str) -> str:
    """The key under which an agency of a name is created, so that two clients that want it make one."""
    return f"client-name-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}"


def segment(name: str) -> str:
    """An id as one segment of a path. An id with other characters could name another path, and is refused."""
    if not _ID.fullmatch(name):
        raise InvalidInput(f"an id has 1 to 64 letters, digits, '-' and '_', not {name!r:.100}")
    return name


def agency_path(agency_id: str) -> str:
    return f"/agency/{segment(agency_id)}"


def thread_path(agency_id: str, thread_id: str) -> str:
    return f"{agency_path(agency_id)}/agent/{segment(thread_id)}"


def chat(message: Messages) -> tuple[dict[str, object], ...]:
    """Messages as a body has them."""
    if isinstance(message, str):
        message = Message(role="user", content=message)
    given = (message,) if isinstance(message, Message) else message
    return tuple(_chat(each) for each in given)


def _chat(message: Message) -> dict[str, object]:
    """A message with what it says of itself; its id and origin are its thread's."""
    given = message.model_dump(by_alias=False, exclude_defaults=True, exclude={"id", "origin"})
    return {"role": message.role, "content": message.content, **given}


def _reader(model: type[AnyModel]) -> Callable[[bytes], AnyModel]:
    # A newer gateway may send fields that this client does not know.
    return partial(model.model_validate_json, extra="allow")


def _any_json(content: bytes) -> JsonValue:
    return _JSON.validate_json(content) if content else None


def _nothing(content: bytes) -> None:
    return None
