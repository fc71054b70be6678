"""What goes wrong at a provider, as a `ModelError`: by the types, status codes and error codes of the APIs, never by
their prose.

Both SDKs come from one generator and name their errors alike, so one table serves both. What a person reads is short,
and holds neither a key nor a body. The SDK's own error is not shown as the cause: it knows all of the request.

    code                    from
    ERR_AUTH                401, 403, no key
    ERR_ADDRESS_REFUSED     a guarded client refused the server of an agency
    ERR_QUOTA               402, insufficient_quota, billing_error, a spend limit
    ERR_BAD_REQUEST         400, 422 and any other 4xx
    ERR_MODEL_NOT_FOUND     404, a redirection
    ERR_CONTEXT_OVERFLOW    413, context_length_exceeded, or counted (`anthropic.py`)
    ERR_CONTENT_FILTER      content_filter, content_policy_violation
    ERR_RATE_LIMIT          429
    ERR_OVERLOADED          503, 529
    ERR_API                 409, any other 5xx, an error in the stream
    ERR_TIMEOUT             408, 504, silence
    ERR_CONNECTION          no connection
    ERR_STREAM_INCOMPLETE   a reply that breaks off, or ends without saying so
    ERR_STREAM_PARSE        a reply that is not as its API has it

Which of them are tried again is said in `agency/codes.py`; when, by the provider's Retry-After.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Protocol

from agency.clock import now_ms
from agency.codes import CODES
from agency.errors import ModelError
from agency.guarded.addresses import Refused
from agency.messages import Usage
from agency.secrets import REDACTED

WORDS_CHARS = 300
LONGEST_WAIT_MS = 24 * 60 * 60 * 1000

_BY_STATUS = {
    **dict.fromkeys((301, 302, 303, 307, 308), "ERR_MODEL_NOT_FOUND"),  # it has moved, and a key does not follow
    401: "ERR_AUTH",
    402: "ERR_QUOTA",
    403: "ERR_AUTH",
    404: "ERR_MODEL_NOT_FOUND",
    408: "ERR_TIMEOUT",
    409: "ERR_API",
    413: "ERR_CONTEXT_OVERFLOW",
    429: "ERR_RATE_LIMIT",
    503: "ERR_OVERLOADED",
    504: "ERR_TIMEOUT",
    529: "ERR_OVERLOADED",
}
_BY_WORD = {  # these say more than a status does
    "context_length_exceeded": "ERR_CONTEXT_OVERFLOW",
    "exceed_context_size_error": "ERR_CONTEXT_OVERFLOW",  # llama.cpp's
    "request_body_too_large_after_decoding": "ERR_CONTEXT_OVERFLOW",
    "insufficient_quota": "ERR_QUOTA",
    "billing_hard_limit_reached": "ERR_QUOTA",
    "billing_not_active": "ERR_QUOTA",
    "enforced_spend_limit_reached": "ERR_QUOTA",
    "content_filter": "ERR_CONTENT_FILTER",
    "content_policy_violation": "ERR_CONTENT_FILTER",
    "rate_limit_exceeded": "ERR_RATE_LIMIT",
}
_BY_TYPE = {  # an error that comes within a stream has no status but the stream's 200
    "authentication_error": "ERR_AUTH",
    "permission_error": "ERR_AUTH",
    "billing_error": "ERR_QUOTA",
    "invalid_request_error": "ERR_BAD_REQUEST",
    "not_found_error": "ERR_MODEL_NOT_FOUND",
    "request_too_large": "ERR_CONTEXT_OVERFLOW",
    "rate_limit_error": "ERR_RATE_LIMIT",
    "overloaded_error": "ERR_OVERLOADED",
    "timeout_error": "ERR_TIMEOUT",
}
_HTTP_LIBRARIES = frozenset({"httpx2", "httpcore2", "aiohttp"})
_REQUEST_IDS = ("x-request-id", "request-id", "apim-request-id")
_MISREAD = (ValueError, TypeError, AttributeError, LookupError)
"""What reading raises when data has another shape than its API promises: the SDKs do not check what they read."""


class Response(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...


def count(said: int | None) -> int:
    """A number of tokens as a server says it: none is never less than nothing."""
    return max(0, said or 0)


@dataclass(slots=True)
class ModelExchange:
    """One request and its reply. `secrets` are never part of a message."""

    sdk: ModuleType
    secrets: Sequence[str | None]
    response: Response | None = None
    """Set once the reply has begun."""
    usage: Usage | None = None
    """What it has used so far, as soon as it says so."""
    refused: bool = False
    """Whether the model has said that it will not answer."""

    @property
    def request_id(self) -> str | None:
        return _request_id(self.response, self.secrets)


@dataclass(frozen=True, slots=True)
class Account:
    """Whose failures these are, and where a person can set right the key and the address."""

    provider: str
    key: str
    address: str

    def no_key(self, why: str) -> ModelError:
        return failure("ERR_AUTH", f"there is no key for {self.provider}: {why}")

    def cut_short(self, exchange: ModelExchange) -> ModelError:
        """For a reply that ended before it was whole."""
        message = f"the reply of {self.provider} ended before it was whole; if it always does, check {self.address}"
        return failure("ERR_STREAM_INCOMPLETE", message, request_id=exchange.request_id)

    @contextmanager
    def failures(self, sdk: ModuleType, secrets: Sequence[str | None]) -> Iterator[ModelExchange]:
        """Whatever the SDK raises within is raised as a `ModelError`."""
        exchange = ModelExchange(sdk, secrets)
        try:
            yield exchange
        except ModelError as error:
            error.usage = exchange.usage
            raise
        except Exception as error:
            told = self._told(error, exchange)
            if told is None:
                raise
            told.usage = exchange.usage
            raise told from None

    def _told(self, error: Exception, exchange: ModelExchange) -> ModelError | None:
        sdk = exchange.sdk
        if (refused := _refused(error)) is not None:
            return failure("ERR_ADDRESS_REFUSED", f"the server of {self.provider} is refused: {refused}")
        if isinstance(error, sdk.APIConnectionError) or _is_of_the_wire(error):
            return self._unreached(error, exchange)
        if isinstance(error, getattr(sdk, "CredentialsError", ())):
            return failure("ERR_AUTH", f"there is no key for {self.provider}: check {self.key}")
        if isinstance(error, sdk.APIError) and not isinstance(error, sdk.APIResponseValidationError):
            return self._answered(error, exchange)
        if exchange.response is not None and isinstance(error, (*_MISREAD, sdk.APIError)):
            message = f"the reply of {self.provider} is not as its API has it ({type(error).__name__})"
            return failure("ERR_STREAM_PARSE", message, request_id=exchange.request_id)
        return None

    def _unreached(self, error: Exception, exchange: ModelExchange) -> ModelError:
        if _is_timeout(error):
            message = f"{self.provider} did not answer in time"
            return failure("ERR_TIMEOUT", message, request_id=exchange.request_id)
        if exchange.response is not None:
            return self.cut_short(exchange)
        hint = f"check the network and {self.address}"
        return failure("ERR_CONNECTION", f"there is no connection to {self.provider}: {hint}")

    def _answered(self, error: Exception, exchange: ModelExchange) -> ModelError:
        status, said = getattr(error, "status_code", 200), _said(error)
        code = _code(status, said)
        message = self._message(code, status, _words(said, exchange.secrets))
        response: Response | None = getattr(error, "response", exchange.response)
        wait = retry_after_ms(response.headers) if response is not None else None
        told = failure(code, message, wait, _request_id(response, exchange.secrets))
        told.status = status if response is not None else None
        return told

    def _message(self, code: str, status: int, words: str) -> str:
        if status == 401:  # what they say here may repeat a part of the key
            return f"{self.provider} refused the key (401): check {self.key}"
        what = f"{self.provider} answered {status}" if status >= 300 else f"{self.provider} gave up within its reply"
        hint = f" (check the model's name and {self.address})" if code == "ERR_MODEL_NOT_FOUND" else ""
        return f"{what}: {words or code}{hint}"


def failure(code: str, message: str, wait_ms: int | None = None, request_id: str | None = None) -> ModelError:
    """A failure by its code, which says whether it is tried again."""
    retryable = CODES[code].retryable
    wait = wait_ms if retryable else None
    return ModelError(message, model_code=code, retryable=retryable, retry_after_ms=wait, request_id=request_id)


def _is_of_the_wire(error: Exception) -> bool:
    """Whether it comes from below the SDK: a stream that breaks is not everywhere wrapped."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES


def _refused(error: BaseException) -> Refused | None:
    """What a guarded client said, if that is at the bottom of it."""
    below: BaseException | None = error
    while below is not None and not isinstance(below, Refused):
        below = below.__cause__
    return below


def _is_timeout(error: BaseException) -> bool:
    """By what is at the bottom of it: on its way up, a connection that is refused becomes a timeout."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, TimeoutError):
            return True
        below = below.__cause__
    return False


def _request_id(response: Response | None, secrets: Sequence[str | None]) -> str | None:
    found = (response.headers.get(name) for name in _REQUEST_IDS) if response is not None else ()
    return next((redacted(each, secrets)[:200] for each in found if each), None)


def _said(error: Exception) -> Mapping[str, object]:
    """What the API says about an error: `{"error": {…}}`, which one of the SDKs has unwrapped already, and which some
    servers put into a list."""
    body = getattr(error, "body", None)
    if isinstance(body, list) and body:
        body = body[0]
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _code(status: int, said: Mapping[str, object]) -> str:
    code, kind, details = said.get("code"), said.get("type"), said.get("details")
    precise = details.get("error_code") if isinstance(details, Mapping) else None
    for word in (precise, code, kind):
        if isinstance(word, str) and word in _BY_WORD:
            return _BY_WORD[word]
    if status < 400 and isinstance(code, int):
        status = code  # how OpenAI-compatible servers put an error into a stream
    if status >= 300:
        return _BY_STATUS.get(status) or ("ERR_API" if status >= 500 else "ERR_BAD_REQUEST")
    return _BY_TYPE.get(str(kind), "ERR_API")


def _words(said: Mapping[str, object], secrets: Sequence[str | None]) -> str:
    message = said.get("message")
    text = redacted(" ".join(message.split()), secrets) if isinstance(message, str) else ""
    return text if len(text) <= WORDS_CHARS else f"{text[:WORDS_CHARS]}…"


def redacted(text: str, secrets: Sequence[str | None]) -> str:
    """The text without the secrets, and without anything that begins like one."""
    for secret in secrets:
        if secret and len(secret) >= 8:  # a shorter one is a placeholder, for a server that wants no key
            text = text.replace(secret, REDACTED)
            text = re.sub(re.escape(secret[:6]) + r"[\w*.…-]*", REDACTED, text)
    return text


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long the provider wants us to wait: milliseconds, seconds, or a date."""
    for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            wait = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(wait):
            return min(max(0, math.ceil(wait)), LONGEST_WAIT_MS)
    try:
        until = parsedate_to_datetime(headers["retry-after"]).timestamp() * 1000
    except (KeyError, ValueError):
        return None
    return min(max(0, int(until) - now_ms()), LONGEST_WAIT_MS)
