"""Tracebacks of other people's code: as they are logged, and as they are stored for those who may see them.

A traceback begins with the first frame that is not ours, so that what a person wrote comes first to the eye. The values
of secrets are taken out of it, and it has a bound. It must never reach a model or an event.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, TracebackType

from agency.errors import AgencyError
from agency.secrets import has_secrets, without_secrets
from agency.wire import sayable_text

TRACEBACK_CHARS = 20_000

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

_LIBRARY = Path(__file__).parent
_PYTHON = f"{Path(asyncio.__file__).parent.parent}/"
_OURS = tuple(f"{folder}/" for folder in (_LIBRARY, _LIBRARY.parent / "actors", Path(asyncio.__file__).parent))


def is_unexpected(error: BaseException) -> bool:
    """Whether an error is a defect that a person has to look into. Our own errors are raised on purpose, to say
    something."""
    return not isinstance(error, AgencyError)


def stack_of(error: BaseException) -> str:
    """The traceback of an error as it may be stored."""
    return bounded(without_secrets(_told(error)), TRACEBACK_CHARS)


def said_where(error: Exception, folders: Iterable[str] = ()) -> str:
    """An error in one line: what it is, unless its words say that, and the line of other people's code, in these
    `folders` if it passed there, that raised it. Only the file's name is told, not its folder."""
    clear = isinstance(error, AgencyError | ImportError | SyntaxError) or (isinstance(error, OSError) and error.errno)
    known = clear or error.__traceback__ is None or error.__traceback__.tb_next is None  # ours: the name is not there
    said = str(error) if known else f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_theirs(each.filename)]
    within = [each for each in frames if each.filename.startswith(tuple(f"{folder}/" for folder in folders))]
    at = [] if isinstance(error, SyntaxError) else (within or frames)[-1:]  # that one says where itself
    return sayable_text(said + "".join(f" ({Path(each.filename).name}, line {each.lineno})" for each in at))


def _is_theirs(file: str) -> bool:
    return not file.startswith(("<", _PYTHON, *_OURS)) and "site-packages" not in file


def log_failure(log: logging.Logger, what: str, error: BaseException) -> None:
    """Log that other people's code has failed, with its stack. Handlers get the error itself, too, unless it says a
    secret."""
    told = _told(error)
    is_free = not has_secrets() or without_secrets(told) == told
    _log(log, what, stack_of(error), (type(error), error, _theirs(error.__traceback__)) if is_free else None)


def log_stack(log: logging.Logger, what: str, stack: str, level: int = logging.ERROR) -> None:
    """The same for an error of another process, of which only the traceback is known, and for code that hangs."""
    _log(log, what, stack, None, level)


def stack_at(frame: FrameType | None) -> str:
    """Where code is that runs in another OS thread, as it may be logged. It has no values."""
    told = traceback.extract_stack(frame) if frame is not None else traceback.StackSummary()
    del told[: _after_loop(told)]
    del told[: next((i for i, each in enumerate(told) if not each.filename.startswith(_OURS)), 0)]
    return bounded(without_secrets(sayable_text("".join(told.format()))), TRACEBACK_CHARS)


def _after_loop(told: traceback.StackSummary) -> int:
    """Where the frames of the event loop end that runs the code."""
    return next((i for i, each in reversed([*enumerate(told, 1)]) if each.filename == asyncio.events.__file__), 0)


def _log(log: logging.Logger, what: str, stack: str, error: _ExcInfo | None, level: int = logging.ERROR) -> None:
    if log.isEnabledFor(level):
        file, line, function, _ = log.findCaller(stacklevel=3)
        more = {"exception": stack}  # for handlers that know of no `exc_text`: those of structlog
        record = log.makeRecord(log.name, level, file, line, "%s", (what,), error, function, more)
        record.exc_text = stack.rstrip()
        log.handle(record)


def _told(error: BaseException) -> str:
    told = traceback.TracebackException.from_exception(error, compact=True)
    _trim(told)
    return sayable_text("".join(told.format()))


def bounded(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long; the end says more."""
    left_out = len(text) - most
    if left_out <= 0:
        return text
    head = most // 4
    return f"{text[:head]}\n… ({left_out} characters are left out here) …\n{text[head + left_out :]}"


def _trim(told: traceback.TracebackException) -> None:
    first = next((i for i, frame in enumerate(told.stack) if not frame.filename.startswith(_OURS)), 0)
    del told.stack[:first]
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            _trim(other)


def _theirs(frames: TracebackType | None) -> TracebackType | None:
    """The frames from the first on that is not ours; all of them, if all are."""
    each = frames
    while each is not None and each.tb_frame.f_code.co_filename.startswith(_OURS):
        each = each.tb_next
    return each or frames
