"""One request and its tries: what an answer means, and whether and when to ask again. Nothing here does I/O.

    exchange = Exchange(request, url)
    while (pause := exchange.take(<an answer, or what kept it from coming>)) is not None: <pause, and ask again>
    exchange.value

A request is repeated if that cannot do any harm: it changes nothing, or carries a key, or surely never arrived.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

from pydantic import BaseModel, ValidationError

from agency.client.request import Request, Value
from agency.errors import (
    AgencyError,
    Forbidden,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
    revive,
)
from agency.wire import explain

PATIENCE_SECONDS = 30.0
"""For so long a request is tried again, before its caller is told."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

_BY_STATUS: dict[int, type[AgencyError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    413: TooLarge,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that came, whatever it says."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def retry_after(self) -> float:
        """How long the server asks to be left alone."""
        given = self.headers.get("retry-after", "")
        return float(given) if given.isascii() and given.isdigit() else 0.0


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A try that came to nothing. If it was not `sent`, it surely was not carried out."""

    why: str
    sent: bool


class Pauses:
    """Pauses that grow, each a little different, so that many clients do not come back all at once."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE

    def next(self) -> float:
        pause, self._next = self._next, min(2 * self._next, LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._next = FIRST_PAUSE


class Exchange(Generic[Value]):
    def __init__(self, request: Request[Value], url: str, patience: float) -> None:
        self._request = request
        self._url = url
        self._until = time.monotonic() + patience
        self._pauses = Pauses()
        self._perhaps_done = False
        self.value: Value

    def take(self, got: Answer | NoAnswer) -> float | None:
        """How long to pause before the next try; None when `value` is there. It raises if there is no hope."""
        if isinstance(got, NoAnswer):
            self._perhaps_done |= got.sent
            return self._again(unreachable(self._url, got.why), may=not got.sent or self._repeats)
        if got.status < 300:
            self.value = self._read(got.content)
            return None
        error = refusal(got, self._url)
        if isinstance(error, RateLimited):
            return self._again(error, may=self._request.repeat != "never", least=got.retry_after)
        if isinstance(error, Unavailable):
            self._perhaps_done = True
            return self._again(error, may=self._repeats, least=got.retry_after)
        if self._perhaps_done and self._request.done is not None and isinstance(error, self._request.done):
            self.value = self._request.read(b"")
            return None
        raise error

    @property
    def _repeats(self) -> bool:
        return self._request.repeat == "always"

    def _again(self, error: AgencyError, *, may: bool, least: float = 0.0) -> float:
        pause = max(self._pauses.next(), least)
        if self._request.repeat == "never" or not may or time.monotonic() + pause > self._until:
            raise error
        return pause

    def _read(self, content: bytes) -> Value:
        try:
            return self._request.read(content)
        except ValidationError as error:
            what = f"{self._request.method} {self._request.path}"
            raise AgencyError(
                f"{self._url} answers {what} in a way that this client does not understand ({explain(error):.200}): "
                "it is no gateway, or one of another version"
            ) from error


class _Problem(BaseModel):
    code: str
    detail: str


def refusal(answer: Answer, url: str) -> AgencyError:
    """The error that an answer tells of: the gateway's own, or one that its status stands for."""
    try:
        problem = _Problem.model_validate_json(answer.content)
    except ValidationError:
        kind = _BY_STATUS.get(answer.status, AgencyError)
        return kind(f"{url} answered with status {answer.status}, and not as a gateway does")
    return revive(problem.code, problem.detail)


def unreachable(url: str, why: str) -> Unavailable:
    return Unavailable(f"nobody answers at {url} ({why}); `agency serve` starts a server")
