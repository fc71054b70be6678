"""What goes wrong at a provider, as a `ModelError`: by the types, status codes and error codes of the APIs, never by
their prose.

Both SDKs come from one generator and name their errors alike, so one table serves both. What a person reads is short,
and holds neither a key nor a body. The SDK's own error is not shown as the cause: it knows all of the request.

    code                   from                                          tried again
    ERR_AUTH               401, 403, no key                              no
    ERR_QUOTA              402, insufficient_quota, billing_error        no
    ERR_BAD_REQUEST        400, 422 and any other 4xx                    no
    ERR_MODEL_NOT_FOUND    404                                           no
    ERR_CONTEXT_OVERFLOW   413, context_length_exceeded                  no
    ERR_CONTENT_FILTER     content_filter, content_policy_violation      no
    ERR_RATE_LIMIT         429                                           when Retry-After says
    ERR_OVERLOADED         503, 529                                      when Retry-After says, if it does
    ERR_API                409, any other 5xx, an error in the stream    yes
    ERR_TIMEOUT            408, 504, silence                             yes
    ERR_CONNECTION         no connection, or one that broke              yes
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from types import ModuleType

from agency.clock import now_ms
from agency.errors import ModelError

WORDS_CHARS = 300
LONGEST_WAIT_MS = 24 * 60 * 60 * 1000

_BY_STATUS = {
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
_BY_WORD = {
    "context_length_exceeded": "ERR_CONTEXT_OVERFLOW",
    "insufficient_quota": "ERR_QUOTA",
    "content_filter": "ERR_CONTENT_FILTER",
    "content_policy_violation": "ERR_CONTENT_FILTER",
    "rate_limit_exceeded": "ERR_RATE_LIMIT",
    # Anthropic's types. An error that comes within a stream has no status but the stream's 200.
    "authentication_error": "ERR_AUTH",
    "permission_error": "ERR_AUTH",
    "billing_error": "ERR_QUOTA",
    "invalid_request_error": "ERR_BAD_REQUEST",
    "not_found_error": "ERR_MODEL_NOT_FOUND",
    "rate_limit_error": "ERR_RATE_LIMIT",
    "overloaded_error": "ERR_OVERLOADED",
    "timeout_error": "ERR_TIMEOUT",
}
_RETRYABLE = frozenset({"ERR_RATE_LIMIT", "ERR_OVERLOADED", "ERR_API", "ERR_TIMEOUT", "ERR_CONNECTION"})
_HTTP_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "anyio"})


@dataclass(frozen=True, slots=True)
class Account:
    """Whose failures these are, and what a person can set right."""

    provider: str
    key_variable: str
    address_variable: str

    def no_key(self) -> ModelError:
        return _model_error("ERR_AUTH", f"there is no key for {self.provider}: set {self.key_variable}")

    def cut_short(self) -> ModelError:
        """For a stream that ended properly, but before the reply did."""
        hint = f"if it always does, check {self.address_variable}"
        return _model_error("ERR_CONNECTION", f"the reply of {self.provider} ended before it was whole; {hint}")

    @contextmanager
    def failures(self, sdk: ModuleType, secrets: Sequence[str | None]) -> Iterator[None]:
        """Whatever the SDK raises within is raised as a `ModelError`; `secrets` are never part of its message."""
        try:
            yield
        except Exception as error:
            if not (isinstance(error, sdk.APIError) or _is_of_the_wire(error)):
                raise
            raise self._told(error, sdk, secrets) from None

    def _told(self, error: Exception, sdk: ModuleType, secrets: Sequence[str | None]) -> ModelError:
        if isinstance(error, sdk.APITimeoutError) or _is_timeout(error):
            return _model_error("ERR_TIMEOUT", f"{self.provider} did not answer in time")
        if isinstance(error, sdk.APIConnectionError) or not isinstance(error, sdk.APIError):
            hint = f"check the network and {self.address_variable}"
            return _model_error("ERR_CONNECTION", f"the connection to {self.provider} failed or broke off: {hint}")
        status, said = getattr(error, "status_code", 200), _said(error)
        code = _code(status, said)
        wait = retry_after_ms(error.response.headers) if isinstance(error, sdk.APIStatusError) else None
        return _model_error(code, self._message(code, status, _words(said, secrets)), wait)

    def _message(self, code: str, status: int, words: str) -> str:
        if status == 401:  # what they say here may repeat a part of the key
            return f"{self.provider} refused the key (401): check {self.key_variable}"
        what = f"{self.provider} answered {status}" if status >= 400 else f"{self.provider} gave up within its reply"
        hint = f" (check the model's name and {self.address_variable})" if code == "ERR_MODEL_NOT_FOUND" else ""
        return f"{what}: {words or code}{hint}"


def _model_error(code: str, message: str, wait_ms: int | None = None) -> ModelError:
    retryable = code in _RETRYABLE
    return ModelError(message, model_code=code, retryable=retryable, retry_after_ms=wait_ms if retryable else None)


def _is_of_the_wire(error: Exception) -> bool:
    """Whether it comes from below the SDK: a stream that breaks, or holds no JSON, is not everywhere wrapped."""
    return isinstance(error, OSError | JSONDecodeError) or type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES


def _is_timeout(error: Exception) -> bool:
    return any(kind.__name__ == "TimeoutException" for kind in type(error).__mro__)  # of whichever HTTP library


def _said(error: Exception) -> Mapping[str, object]:
    """What the API says about an error: `{"error": {…}}`, which one of the SDKs has unwrapped already."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _code(status: int, said: Mapping[str, object]) -> str:
    code = said.get("code")
    if (known := _BY_WORD.get(str(code))) is not None:
        return known
    if status < 400 and isinstance(code, int):
        status = code  # how OpenAI-compatible servers put an error into a stream
    if status >= 400:
        return _BY_STATUS.get(status) or ("ERR_API" if status >= 500 else "ERR_BAD_REQUEST")
    return _BY_WORD.get(str(said.get("type")), "ERR_API")


def _words(said: Mapping[str, object], secrets: Sequence[str | None]) -> str:
    message = said.get("message")
    text = redacted(" ".join(message.split()), secrets) if isinstance(message, str) else ""
    return text if len(text) <= WORDS_CHARS else f"{text[:WORDS_CHARS]}…"


def redacted(text: str, secrets: Sequence[str | None]) -> str:
    """The text without the secrets, and without anything that begins like one."""
    for secret in secrets:
        if secret and len(secret) >= 8:  # a shorter one is a placeholder, for a server that wants no key
            text = text.replace(secret, "[redacted]")
            text = re.sub(re.escape(secret[:6]) + r"[\w*.…-]*", "[redacted]", text)
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
