"""Every error that leaves the library, in one tree.

    AgencyError
    ├── DefinitionError      a system, tool, blueprint or middleware is defined wrongly
    │   └── SystemBroken     the hosts of a server cannot load its agents; only those who run it can mend that
    ├── InvalidInput         what a caller sent cannot be accepted; nothing was changed
    │   └── TooLarge         it is larger than this installation accepts
    ├── NotFound             a thread, run or call that does not exist
    ├── WrongState           the call does not fit what the thread is doing now; nothing was changed
    │   ├── VersionConflict  an entry of a shelf has another version than the caller expects; nothing was changed
    │   └── TooMany          there are as many of these as this installation allows; nothing was changed
    ├── KeyReused            the idempotency key was used for another request; nothing was changed
    ├── Unauthorized         a server wants to know who is asking: there is no secret, key or ticket, or a wrong one
    ├── Forbidden            the caller is known and may not do that
    ├── RateLimited          too many requests for now
    ├── StoreError           a file of a thread or an agency cannot be used now
    │   ├── StorageFull      nothing can be written: the disk or its quota is full, or it may only be read
    │   ├── Damaged          the file is damaged: it does not mend by itself
    │   │   └── NotAThreadStore  what should be a thread's file is none
    │   ├── NewerStore       the file was written by a newer version; it was left untouched
    │   └── StaleActivation  another activation opened the file since; this one may not write
    ├── ResultMismatch       a result was fed to the turn machine that does not fit its state
    ├── HookFailed           a middleware's hook raised; the middleware and hook are named
    ├── RunFailed            a run has ended without a result
    ├── RunUnfinished        a run has no result yet: it waits for a person, or is still at work
    ├── Unavailable          no answer in time; it may or may not have been done, and can be tried again
    ├── Poisoned             a run whose process died with it, time after time
    ├── Interrupted          what ran a tool call died; the call may or may not have taken effect
    ├── ModelError           a model call failed, with what is known about trying again
    └── ToolError            raised by a tool to tell the model precisely what went wrong

`code` is stable and part of the wire contract; messages may change. What a run ends or pauses with is said by the codes
of `agency/codes.py`, or by the `model_code` of a provider's `ModelError`, which is one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

if TYPE_CHECKING:
    from agency.messages import Usage

FailureKind = Literal[
    "invalid_request",
    "unavailable",
    "permission_denied",
    "timeout",
    "execution",
    "external",
    "resource_limit",
    "internal",
]
"""Why a tool call failed, in the words of the one who has to react to it."""


class AgencyError(Exception):
    code: ClassVar[str] = "ERR_INTERNAL"

    told = ""
    """What callers of a server read in the place of the message, if that is for those who run it: it may name a folder
    of theirs, a process or a node. Empty if the message is for everybody."""

    def telling(self, told: str) -> Self:
        """The same error, with what callers of a server read of it."""
        self.told = told
        return self


def told_of(error: BaseException) -> str:
    """What an error says where others than those who run the server read it: in answers, events and runs, and to
    models. The whole of it belongs in tracebacks and in the log."""
    return (error.told if isinstance(error, AgencyError) else "") or str(error)


class DefinitionError(AgencyError):
    code = "ERR_DEFINITION"


class SystemBroken(DefinitionError):
    code = "ERR_SYSTEM"


class InvalidInput(AgencyError):
    code = "ERR_INVALID_INPUT"


class TooLarge(InvalidInput):
    code = "ERR_TOO_LARGE"


class NotFound(AgencyError):
    code = "ERR_NOT_FOUND"


def no_agency(agency_id: str) -> NotFound:
    """The same words for an agency that is not there and for one that is not the caller's: they look alike."""
    return NotFound(f"there is no agency {agency_id!r}")


class WrongState(AgencyError):
    code = "ERR_WRONG_STATE"


class VersionConflict(WrongState):
    code = "ERR_VERSION"


class TooMany(WrongState):
    code = "ERR_TOO_MANY"


class KeyReused(AgencyError):
    code = "ERR_IDEMPOTENCY"


class Unauthorized(AgencyError):
    code = "ERR_UNAUTHORIZED"


class Forbidden(AgencyError):
    code = "ERR_FORBIDDEN"


class RateLimited(AgencyError):
    """`retry_after` is in how many seconds it may work."""

    code = "ERR_RATE_LIMITED"
    retry_after: float = 1.0


class StoreError(AgencyError):
    code = "ERR_STORE"
    told = "the server cannot use one of its files just now; nothing was changed, so try again"


class StorageFull(StoreError):
    code = "ERR_STORAGE_FULL"
    told = (
        "the server cannot write: its disk or quota is full, or it may only read there. Nothing of this was kept, and "
        "nothing that was kept before is lost; try again once those who run the server have made room"
    )


class Damaged(StoreError):
    code = "ERR_DAMAGED"
    told = (
        "a file of the server is damaged: what is in it cannot be read, and trying again does not help. Those who run "
        "the server find it with `agency doctor`, and can restore it from a backup; it can also be deleted"
    )


class NotAThreadStore(Damaged):
    code = "ERR_NOT_A_THREAD_STORE"


class NewerStore(StoreError):
    code = "ERR_NEWER_STORE"
    told = "a newer release of the server has written this: start the server with that release, or with a newer one"


class StaleActivation(StoreError):
    code = "ERR_STALE_ACTIVATION"


class ResultMismatch(AgencyError):
    code = "ERR_RESULT_MISMATCH"


class HookFailed(AgencyError):
    code = "ERR_HOOK"

    def __init__(self, middleware: str, hook: str, problem: str) -> None:
        self.middleware = middleware
        self.hook = hook
        self.stack = ""
        """The traceback of what the hook raised, for people who may see it."""
        message = f"middleware {middleware!r} failed in {hook}: {problem}"
        super().__init__(message.encode("utf-8", "replace").decode())


class RunFailed(AgencyError):
    """The run has ended as an error, or was canceled: `run_code` is its code, one of `agency/codes.py`, and `reason`
    says it in words."""

    code = "ERR_RUN_FAILED"

    def __init__(self, message: str, *, run_code: str, reason: str, thread_id: str, run_id: str) -> None:
        self.run_code = run_code
        self.reason = reason
        self.thread_id = thread_id
        self.run_id = run_id
        super().__init__(message)


class RunUnfinished(AgencyError):
    """The run goes on, or waits. `reason` is what it is paused for (`hitl`, `subagent`, `exhausted`, `manual`,
    `outside`), or `running`; `waits` has the ids of the calls that a person has to decide on."""

    code = "ERR_RUN_UNFINISHED"

    def __init__(self, message: str, *, reason: str, waits: tuple[str, ...], thread_id: str, run_id: str) -> None:
        self.reason = reason
        self.waits = waits
        self.thread_id = thread_id
        self.run_id = run_id
        super().__init__(message)


CANNOT_START = "the server cannot start on its machine; those who run it find the reason in its log"
"""What callers read of an `Unavailable` that names a folder of that machine."""


class Unavailable(AgencyError):
    code = "ERR_UNAVAILABLE"


class Poisoned(AgencyError):
    code = "ERR_POISON"


class Interrupted(AgencyError):
    code = "ERR_INTERRUPTED"


class ModelError(AgencyError):
    """What a model provider raises. `model_code` is one of the run's error codes (ERR_API, ERR_AUTH, …); `status` is
    the provider's HTTP status, `usage` what the call had used before it failed, if they are known."""

    code = "ERR_MODEL"

    def __init__(
        self,
        message: str,
        *,
        model_code: str = "ERR_API",
        retryable: bool = False,
        retry_after_ms: int | None = None,
        request_id: str | None = None,
        usage: Usage | None = None,
        status: int | None = None,
    ) -> None:
        self.model_code = model_code
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.request_id = request_id
        self.usage = usage
        self.status = status
        super().__init__(message)


class ToolError(AgencyError):
    """Raise this in a tool when the model should read the message; `retry` asks for the tool's retry policy."""

    code = "ERR_TOOL"

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "execution",
        retry: bool = False,
        retry_after_ms: int | None = None,
    ) -> None:
        self.kind = kind
        self.retry = retry or retry_after_ms is not None
        self.retry_after_ms = retry_after_ms
        super().__init__(message)


def revive(code: str, message: str) -> AgencyError:
    """The error that another process has said by its code and message."""
    kind = _kinds(AgencyError).get(code, AgencyError)
    error = kind.__new__(kind)
    Exception.__init__(error, message)  # some have constructors of their own
    return error


def _kinds(kind: type[AgencyError]) -> dict[str, type[AgencyError]]:
    below = [_kinds(each) for each in kind.__subclasses__() if each.__module__ == __name__]
    return {kind.code: kind} | {code: each for found in below for code, each in found.items()}
