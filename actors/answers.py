"""What goes back from one process to another: a value, a refusal, or that the thread is not there.

Errors do not cross as exceptions: Ray would wrap them with their stack, and not all of them can be rebuilt.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from ray.exceptions import RayError

from agency.errors import AgencyError, revive

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)\b.*:")


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class NotHere:
    """The thread is not awake in this host: ask the directory."""


async def answer(work: Awaitable[Value]) -> Value | Refusal:
    """Await it. Returns its result, or the error of the library that it raised as a refusal."""
    try:
        return await work
    except AgencyError as error:
        return Refusal(error.code, str(error))
    except Exception as error:
        log.exception("unexpected error in a call from another process")
        return Refusal(AgencyError.code, f"{type(error).__name__}: {error}")


def reason_of(error: RayError) -> str:
    """Why an actor or a task could not begin, in a line. Ray tells it with stacks of its own around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION.match(line) and not line.startswith("ray.")]
    return named[-1] if named else (lines[0] if lines else type(error).__name__)


def unwrap(answered: Value | Refusal) -> Value:
    """The value; a refusal is raised as the error that it was."""
    if isinstance(answered, Refusal):
        raise revive(answered.code, answered.message)
    return answered
