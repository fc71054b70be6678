"""One request and its tries: what an answer means, and whether and when to send the request again. No I/O.

    exchange = Exchange(request, url)
    while (delay := exchange.take(<an answer, or why none came>)) is not None: <sleep, and send the request again>
    exchange.value

A request is repeated only if that can do no harm: it changes nothing, or carries an idempotency key, or surely never
reached the gateway.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

from pydantic import BaseModel, ValidationError

from agency.backoff import Backoff
from agency.client.request import Request, Value
from agency.errors import (
    AgencyError,
    Forbidden,
    NotFound,
    RateLimited,
    StorageFull,
    TooLarge,
    Unauthorized,
    Unavailable,
    revive,
)
from agency.wire import explain

PATIENCE_SECONDS = 30.0
"""How long a request is tried again before its caller gets the error."""

RETRY_DELAYS = Backoff(first=0.1, longest=5.0)
"""Between tries. Jitter keeps many clients of a restarted gateway from coming back all at once."""

_BY_STATUS: dict[int, type[AgencyError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    413: TooLarge,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: StorageFull,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that came, whatever its status."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def retry_after(self) -> float:
        """How many seconds the server asks clients to wait."""
        given = self.headers.get("retry-after", "")
        return float(given) if given.isascii() and given.isdigit() else 0.0


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A try without an answer. If it was not `sent`, the gateway surely did not carry it out."""

    why: str
    sent: bool


class Exchange(Generic[Value]):
    def __init__(self, request: Request[Value], url: str, patience: float) -> None:
        self._request = request
        self._url = url
        self._until = time.monotonic() + patience
        self._delays = RETRY_DELAYS.delays(random.random)
        self._perhaps_done = False
        self.value: Value

    def take(self, got: Answer | NoAnswer) -> float | None:
        """How long to sleep before the next try; None when `value` is set. It raises the error when it gives up."""
        if isinstance(got, NoAnswer):
            self._perhaps_done |= got.sent
            return self._again(unreachable(self._url, got.why), may=not got.sent or self._repeats)
        if got.status < 300:
            self.value = self._read(got)
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
        delay = max(next(self._delays), least)
        if self._request.repeat == "never" or not may or time.monotonic() + delay > self._until:
            raise error
        return delay

    def _read(self, answer: Answer) -> Value:
        try:
            value = self._request.read(answer.content)
            return value if self._request.finish is None else self._request.finish(value, answer.headers)
        except ValidationError as error:
            what = f"{self._request.method} {self._request.path}"
            raise AgencyError(
                f"{self._url} answers {what} in a way that this client does not understand ({explain(error):.200}): "
                "it is no gateway, or one of another version"
            ) from error


class _ProblemBody(BaseModel):
    code: str
    detail: str


def refusal(answer: Answer, url: str) -> AgencyError:
    """The error of an answer: the gateway's own problem, or one that fits the status if something else answered."""
    try:
        problem = _ProblemBody.model_validate_json(answer.content)
    except ValidationError:
        kind = _BY_STATUS.get(answer.status, AgencyError)
        return kind(f"{url} answered with status {answer.status}, and not as a gateway does")
    return revive(problem.code, problem.detail)


def unreachable(url: str, why: str) -> Unavailable:
    return Unavailable(f"no server answers at {url} ({why}); start one with `agency serve`")
