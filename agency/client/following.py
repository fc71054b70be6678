"""Following events over connections that break: where to begin again, what is new, and when to give up. No I/O.

Stored events have a number, so they come once each, in order, whatever happens to the connection. Text that a model
streams has none; it carries its run and its place in the reply, by which what is new is told from what was seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Generic

from pydantic import ValidationError

from agency.client.exchange import Answer, Pauses, refusal, unreachable
from agency.client.request import AnyEvent, Feed
from agency.client.sse import Parser
from agency.errors import AgencyError, RateLimited, Unavailable
from agency.events import EventType
from agency.wire import explain

STREAM = "text/event-stream"

SILENCE_SECONDS = 45.0
"""A gateway gives a sign of life every 15 s. A connection without any for so long is dead, even if nobody says so."""

FAULTS_MOST = 3
"""How often in a row a server may say what makes no sense, before its reader is told."""


class Broken(Exception):
    """This connection is of no use any more."""


class Following(Generic[AnyEvent]):
    """One reader's place, across all its connections.

    For each of them: `headers` and `query` say where to begin, `opened` is told of the answer and `feed` of what comes,
    and `broken` says how long to pause before the next one.
    """

    def __init__(self, feed: Feed[AnyEvent], url: str) -> None:
        self._feed = feed
        self._after = feed.after
        self._url = url
        self._parser = Parser()
        self._text = Text()
        self._pauses = Pauses()
        self._progress = True
        self._faults = 0
        self._lost: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        begin = {} if self._after == "now" else {"Last-Event-ID": str(self._after)}
        return {"Accept": STREAM, "Cache-Control": "no-store", **begin}

    @property
    def query(self) -> dict[str, str]:
        return {"after": "now"} if self._after == "now" else {}

    def opened(self, answer: Answer) -> None:
        """Take the beginning of an answer; it raises if there is nothing to follow, or nobody may."""
        if answer.status != 200:
            error = refusal(answer, self._url)
            if isinstance(error, RateLimited | Unavailable):
                raise Broken(str(error))
            raise error if answer.status < 500 else self._fault(error)
        if not answer.headers.get("content-type", "").startswith(STREAM):
            raise Broken("what answers there is not a gateway")
        self._parser = Parser()
        self._lost = None

    def feed(self, piece: bytes) -> Iterator[AnyEvent]:
        """The events in a piece of an answer that are new."""
        for data in self._parser.feed(piece):
            if data and (event := self._new(self._read(data))) is not None:
                self._progress = True
                yield event

    def broken(self, why: str) -> float:
        """How long to pause before the next connection; it raises when patience is at its end."""
        now = time.monotonic()
        if self._lost is None:
            self._lost = now
        if self._progress:
            self._progress = False
            self._pauses.reset()
            return 0.0
        pause = self._pauses.next()
        if now + pause - self._lost > self._feed.patience:
            raise unreachable(self._url, why)
        return pause

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
        """What to raise about nonsense: perhaps it was but an accident."""
        self._faults += 1
        return Broken(str(error)) if self._faults < FAULTS_MOST else error

    def _new(self, event: AnyEvent) -> AnyEvent | None:
        """What of it was not seen yet."""
        number = self._feed.number(event)
        if number is None:
            return self._text.new(event)
        if self._after != "now" and number <= self._after:
            return None
        self._after = number
        if event.type in (EventType.MODEL_STARTED, EventType.MODEL_COMPLETED):
            self._text = Text()
        return event


class Text:
    """The reply that is being streamed, as far as it was seen."""

    def __init__(self) -> None:
        self._run: object = None
        self._begin = 0
        self._seen = ""

    def new(self, event: AnyEvent) -> AnyEvent | None:
        """The event without what was seen already, if anything is left of it."""
        run, offset, delta = event.data.get("runId"), event.data.get("offset"), event.data.get("delta")
        if not (isinstance(offset, int) and isinstance(delta, str)):
            return event
        seen = self._from(run, offset)
        if seen is None or not delta.startswith(overlap := seen[: len(delta)]):
            # A reply that begins anew, as after a crash: what was seen of the one before counts no more.
            self._run, self._begin, self._seen = run, offset, delta
            return event
        rest = delta[len(overlap) :]
        self._seen += rest
        data = {**event.data, "offset": offset + len(overlap), "delta": rest}
        return event.model_copy(update={"data": data}) if rest else None

    def _from(self, run: object, offset: int) -> str | None:
        """What was seen of this reply from a place on; None if that place was not reached."""
        place = offset - self._begin
        return self._seen[place:] if run == self._run and 0 <= place <= len(self._seen) else None
