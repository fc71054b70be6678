"""Logs: one event a line, with the agency, thread and run it is about; JSON unless a person is watching. No line has
the value of a secret that its process has looked up.

Gateways write them to their standard error. Hosts do, too, and Ray keeps that in its own log folder.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor

from agency.secrets import without_secrets


def _without_theirs(logger: object, method: str, event: EventDict) -> EventDict:
    """Ray adds a time of its own to every record in its processes, and uvicorn its message in colours."""
    event.pop("_ray_timestamp_ns", None)
    event.pop("color_message", None)
    return event


def _without_secrets(logger: object, method: str, line: EventDict | str) -> EventDict | str:
    """The last step: libraries and other people's code log what they like, tracebacks included."""
    return without_secrets(line) if isinstance(line, str) else line


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    _without_theirs,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def _is_true(record: logging.LogRecord) -> bool:
    """uvicorn logs a WebSocket that was refused with an HTTP response as if it had not been answered at all."""
    return "without completing handshake" not in record.getMessage()


def set_up(level: str = "INFO", stream: TextIO = sys.stderr) -> None:
    """Send everything, ours and that of libraries, one way."""
    last: list[Processor]
    if stream.isatty():
        last = [structlog.dev.ConsoleRenderer()]
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
