"""Logs: one event a line, with the agency, thread and run it is about; JSON unless a person is watching. No line has
the value of a secret that its process has looked up.

Gateways write them to their standard error. Hosts do, too, and Ray keeps that in its own log folder.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor

from agency.api.bodies import ServerLogLine
from agency.captured import current
from agency.events import timestamp
from agency.secrets import without_secrets
from agency.tracebacks import TRACEBACK_CHARS, bounded
from agency.wire import sayable_text

EVENT_CHARS = 4_000


def _without_theirs(logger: object, method: str, event: EventDict) -> EventDict:
    """Ray adds a time of its own to every record in its processes, and uvicorn its message in colours."""
    event.pop("_ray_timestamp_ns", None)
    event.pop("color_message", None)
    return event


def _about_call(logger: object, method: str, event: EventDict) -> EventDict:
    """What is logged while a call runs is about that call."""
    if (kept := current()) is not None:
        event.setdefault("thread", kept.thread)
        event.setdefault("call", kept.call)
        event.setdefault("tool", kept.tool)
    return event


def _without_secrets(logger: object, method: str, line: EventDict | str) -> EventDict | str:
    """The last step: libraries and other people's code log what they like, tracebacks included."""
    return without_secrets(line) if isinstance(line, str) else line


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    _about_call,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    _without_theirs,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def line_of(record: logging.LogRecord, host: str) -> ServerLogLine:
    """A record as gateways show it, with the call that it is about."""
    about = structlog.contextvars.get_contextvars()
    kept = current()
    exception: str | None = getattr(record, "exception", None)
    if record.exc_info and record.exc_info[1] is not None:
        exception = "".join(traceback.format_exception(*record.exc_info))
    return ServerLogLine(
        ts=timestamp(int(1000 * record.created)),
        level=record.levelname.lower(),
        logger=record.name,
        event=_shown(record.getMessage(), EVENT_CHARS),
        host=host,
        agency=about.get("agency"),
        thread=about.get("thread") if kept is None else kept.thread,
        call=None if kept is None else kept.call,
        tool=None if kept is None else kept.tool,
        exception=None if exception is None else _shown(exception, TRACEBACK_CHARS),
    )


def _shown(text: str, most: int) -> str:
    """As it may be written to a terminal: tools print what models say, and that may move the cursor."""
    plain = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in sayable_text(text))
    return bounded(without_secrets(plain), most)


def _in_colour(logger: object, method: str, event: EventDict) -> EventDict:
    """For a person at a terminal."""
    if isinstance(stack := event.get("exception"), str):
        from rich.console import Console
        from rich.syntax import Syntax

        console = Console(force_terminal=True, color_system="standard", width=200, soft_wrap=True)
        with console.capture() as drawn:
            console.print(Syntax(without_secrets(stack), "pytb", theme="ansi_dark", background_color="default"))
        event["exception"] = "\n".join(line.rstrip() for line in drawn.get().splitlines())
    return event


def _is_true(record: logging.LogRecord) -> bool:
    """uvicorn logs a WebSocket that was refused with an HTTP response as if it had not been answered at all."""
    return "without completing handshake" not in record.getMessage()


def set_up(level: str = "INFO", stream: TextIO = sys.stderr) -> None:
    """Send everything, ours and that of libraries, one way."""
    last: list[Processor]
    if stream.isatty():
        plain = structlog.dev.plain_traceback  # `_in_colour` has drawn it
        last = [
            structlog.processors.format_exc_info,
            _in_colour,
            structlog.dev.ConsoleRenderer(exception_formatter=plain),
        ]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last, _without_secrets],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("uvicorn.error", "httpx", "httpcore"):  # uvicorn's has the tickets of sockets
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_true)
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
