"""What goes back from one process to another: a value, a refusal, or that the thread is not there.

Errors do not cross as exceptions: Ray would wrap them with their stack, and not all of them can be rebuilt.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from ray.exceptions import RayError

from agency.errors import AgencyError, revive
from agency.store.sqlite import as_store_error

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)\b.*:")


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    message: str
    told: str = ""
    """What callers of a server read in the place of the message; see `AgencyError.told`."""


@dataclass(frozen=True, slots=True)
class NotHere:
    """The thread is not awake in this host: ask the directory."""


async def answer(work: Awaitable[Value]) -> Value | Refusal:
    """Await it. Returns its result, or the error of the library that it raised as a refusal."""
    try:
        return await work
    except AgencyError as error:
        return Refusal(error.code, str(error), error.told)
    except (sqlite3.Error, OSError) as error:
        if (known := as_store_error(error)) is None:
            return _unexpected(error)
        log.warning("a file cannot be used", exc_info=error)
        return Refusal(known.code, str(known), known.told)
    except Exception as error:
        return _unexpected(error)


def _unexpected(error: Exception) -> Refusal:
    log.error("unexpected error in a call from another process", exc_info=error)
    return Refusal(AgencyError.code, f"{type(error).__name__}: {error}")


def reason_of(error: RayError) -> str:
    """Why an actor or a task could not begin, in a line. Ray tells it with stacks of its own around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION.match(line) and not line.startswith("ray.")]
    return named[-1] if named else (lines[0] if lines else type(error).__name__)


def unwrap(answered: Value | Refusal) -> Value:
    """The value; a refusal is raised as the error that it was."""
    if isinstance(answered, Refusal):
        raise revive(answered.code, answered.message).telling(answered.told)
    return answered
