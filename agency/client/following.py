"""Following events over connections that break: where to begin again, what is new, and when to give up. No I/O.

Stored events have a number, so the reader gets each once and in order, whatever happens to the connection. Streamed
text of a model has none: it carries its run and its offset in the reply, which tell new text from text that was seen.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Generic

from pydantic import ValidationError

from agency.client.exchange import RETRY_DELAYS, Answer, refusal, unreachable
from agency.client.request import AnyEvent, EventFeed
from agency.client.sse import Parser
from agency.errors import AgencyError, RateLimited, Unavailable
from agency.events import EventType
from agency.wire import explain

STREAM = "text/event-stream"

SILENCE_SECONDS = 45.0
"""A gateway sends something at least every 15 s. A connection that is silent for this long is dead, even if open."""

FAULTS_MOST = 3
"""How often in a row a server may send something invalid before the reader gets the error."""


class Broken(Exception):
    """This connection cannot be used any more; open another one."""


class Following(Generic[AnyEvent]):
    """One reader's position, across all its connections.

    For each connection: `headers` and `query` say where to begin, `opened` takes the head of the answer, `feed` takes
    what comes, and `broken` says how long to sleep before the next connection.
    """

    def __init__(self, feed: EventFeed[AnyEvent], url: str) -> None:
        self._feed = feed
        self._after = feed.after
        self._url = url
        self._parser = Parser()
        self._text = StreamedText()
        self._delays = RETRY_DELAYS.delays(random.random)
        self._progress = True
        self._faults = 0
        self._lost: float | None = None
        self._least = 0.0

    @property
    def headers(self) -> dict[str, str]:
        begin = {} if self._after == "now" else {"Last-Event-ID": str(self._after)}
        return {"Accept": STREAM, "Cache-Control": "no-store", **begin}

    @property
    def query(self) -> dict[str, str]:
        return {"after": "now"} if self._after == "now" else {}

    def opened(self, answer: Answer) -> None:
        """Take the head of an answer. It raises the gateway's error if these events cannot be followed."""
        if answer.status != 200:
            error = refusal(answer, self._url)
            self._least = answer.retry_after
            if isinstance(error, RateLimited | Unavailable):
                raise Broken(str(error))
            raise error if answer.status < 500 else self._fault(error)
        if not answer.headers.get("content-type", "").startswith(STREAM):
            raise Broken("what answers there is not a gateway")
        self._parser = Parser()
        self._lost = None

    def feed(self, piece: bytes) -> Iterator[AnyEvent]:
        """The new events in a piece of an answer."""
        for data in self._parser.feed(piece):
            if data and (event := self._new(self._read(data))) is not None:
                self._progress = True
                yield event

    def broken(self, why: str) -> float:
        """How long to sleep before the next connection; it raises `Unavailable` when patience is at its end."""
        now = time.monotonic()
        if self._lost is None:
            self._lost = now
        least, self._least = self._least, 0.0
        if self._progress:
            self._progress = False
            self._delays = RETRY_DELAYS.delays(random.random)
            return least
        delay = max(next(self._delays), least)
        if now + delay - self._lost > self._feed.patience:
            raise unreachable(self._url, why)
        return delay

    def _read(self, data: str) -> AnyEvent:
        try:
            event = self._feed.model.model_validate_json(data, extra="allow")
        except ValidationError as error:
            raise self._fault(
                AgencyError(
                    f"{self._url} sends an event after {self._after} that this client does not understand "
                    f"({explain(error):.200}): it may be of another version"
                )
            ) from error
        self._faults = 0
        return event

    def _fault(self, error: AgencyError) -> Exception:
        """What to raise about an invalid answer: it may have been an accident of one connection."""
        self._faults += 1
        return Broken(str(error)) if self._faults < FAULTS_MOST else error

    def _new(self, event: AnyEvent) -> AnyEvent | None:
        """The part of an event that is new; None if the reader has all of it."""
        number = self._feed.number(event)
        if number is None:
            return self._text.new(event)
        if self._after != "now" and number <= self._after:
            return None
        self._after = number
        if event.type in (EventType.MODEL_STARTED, EventType.MODEL_COMPLETED):
            self._text = StreamedText()
        return event


class StreamedText:
    """The reply that a model is streaming, as far as the reader has it."""

    def __init__(self) -> None:
        self._run: object = None
        self._begin = 0
        self._seen = ""

    def new(self, event: AnyEvent) -> AnyEvent | None:
        """The event without the text that the reader has; None if nothing is left."""
        run, offset, delta = event.data.get("runId"), event.data.get("offset"), event.data.get("delta")
        if not (isinstance(offset, int) and isinstance(delta, str)):
            return event
        seen = self._from(run, offset)
        if seen is None or not delta.startswith(overlap := seen[: len(delta)]):
            # The reply began again, as after a crash: the text of the one before no longer counts.
            self._run, self._begin, self._seen = run, offset, delta
            return event
        rest = delta[len(overlap) :]
        self._seen += rest
        data = {**event.data, "offset": offset + len(overlap), "delta": rest}
        return event.model_copy(update={"data": data}) if rest else None

    def _from(self, run: object, offset: int) -> str | None:
        """The known text of this reply from an offset on; None if the text did not reach that far."""
        place = offset - self._begin
        return self._seen[place:] if run == self._run and 0 <= place <= len(self._seen) else None
