"""A thread's events as they happen, for any number of readers, each at its own pace.

Readers pull. Stored events are read from the store, after whatever seq the reader has; the text that a model is
streaming is kept once, and a reader gets what it has not seen of it. So a slow reader delays no other reader,
misses no event, and gets fewer and longer deltas. Text always comes before the event that ends its model call.

Models stream a word at a time, and every delta that leaves is a message to every reader. So readers are told of new
text at once if none came lately, and then at most once in 30 ms: faster than a person reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from agency.clock import now_ms
from agency.events import Event, model_delta
from agency.store.store import ThreadStore, run_id

PAGE = 500
DELTA_SECONDS = 0.03


@dataclass(slots=True, eq=False)
class Stream:
    """The text of one model call; `ends_at` is the seq of the first event after it."""

    run: int
    ends_at: int | None = None
    _text: str = ""
    _pieces: list[str] = field(default_factory=list)

    def add(self, delta: str) -> None:
        self._pieces.append(delta)

    @property
    def text(self) -> str:
        if self._pieces:
            self._text += "".join(self._pieces)
            self._pieces.clear()
        return self._text


ReadPosition = tuple[int, Stream | None, int]
"""After which seq, in which text, and how much of it has been seen."""


class Reader:
    """One reader's position in a feed: what it has seen. Reading never waits and keeps nothing."""

    def __init__(self, feed: Feed, after: int) -> None:
        self._feed = feed
        self._stream: Stream | None = None
        self._seen = 0
        self.after = after

    @property
    def position(self) -> ReadPosition:
        """Readers at the same position get the same events."""
        return self.after, self._stream, self._seen if self._stream is not None else 0

    def move(self, position: ReadPosition) -> None:
        """Go where another reader of this feed is, which has taken what this one would."""
        self.after, self._stream, self._seen = position

    def take(self, limit: int = PAGE) -> list[Event]:
        """What is new to this reader, oldest first, at most `limit` stored events; empty if it has seen everything."""
        taken: list[Event] = []
        for event in self._feed.stored(self.after, limit):
            assert event.seq is not None
            if self._stream is not None and self._stream.ends_at is not None and self._stream.ends_at <= event.seq:
                taken += self._text()
                self._stream = None
            self.after = event.seq
            taken.append(event)
        if not self._feed.stored(self.after, 1):  # text is what comes after the last stored event
            if self._stream is None and (stream := self._feed.streaming_beyond(self.after)) is not None:
                self._stream, self._seen = stream, 0
            taken += self._text()
        return taken

    def _text(self) -> list[Event]:
        """What it has not seen of the text that is being streamed."""
        stream, seen = self._stream, self._seen
        if stream is None or len(stream.text) <= seen:
            return []
        self._seen = len(stream.text)
        return [self._feed.delta(stream, seen)]


class Feed:
    def __init__(self, store: ThreadStore) -> None:
        self._store = store
        self._stream: Stream | None = None
        self._listeners: set[Callable[[], None]] = set()
        self._quiet: asyncio.TimerHandle | None = None
        self._untold = False
        self.closed = False
        self.last_text_at = 0
        """When readers were last told of text, in milliseconds."""

    def notify(self) -> None:
        """Something is new."""
        for listener in tuple(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever something is new, and when the thread is closed. Returns what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def begin_text(self, run: int) -> Stream:
        self._stream = Stream(run)
        return self._stream

    def add_text(self, stream: Stream, delta: str) -> None:
        if stream.ends_at is not None:
            return
        stream.add(delta)
        if self._quiet is None:
            self._tell_of_text()
        else:
            self._untold = True

    def _tell_of_text(self) -> None:
        """Tell now, and then not for a moment."""
        self._untold = False
        self.last_text_at = now_ms()
        self._quiet = asyncio.get_running_loop().call_later(DELTA_SECONDS, self._quiet_is_over)
        self.notify()

    def _quiet_is_over(self) -> None:
        self._quiet = None
        if self._untold and not self.closed:
            self._tell_of_text()

    def end_text(self, stream: Stream) -> None:
        """Whatever is committed next comes after this text."""
        if stream.ends_at is None:
            stream.ends_at = self._store.last_seq + 1

    def close(self) -> None:
        self.closed = True
        self.notify()

    async def wait(self) -> bool:
        """Return when something has changed; False once the thread is closed."""
        if not self.closed:
            changed = asyncio.Event()
            ignore = self.listen(changed.set)
            try:
                await changed.wait()
            finally:
                ignore()
        return not self.closed

    async def read(self, after: int, *, follow: bool) -> AsyncGenerator[Event, None]:
        """Every event after a seq and, if asked to follow, those to come, until the thread is closed."""
        reader = Reader(self, after)
        while not self.closed:
            taken = reader.take()
            for event in taken:
                yield event
            if not taken:
                if not follow:
                    return
                await self.wait()

    def stored(self, after: int, limit: int) -> list[Event]:
        return self._store.events(after, limit) if after < self._store.durable_seq else []

    def streaming_beyond(self, after: int) -> Stream | None:
        """The latest text, if it is not wholly before what a reader has seen."""
        stream = self._stream
        return stream if stream is not None and (stream.ends_at is None or stream.ends_at > after) else None

    def delta(self, stream: Stream, seen: int) -> Event:
        run = run_id(self._store.thread_id, stream.run)
        return model_delta(self._store.thread_id, run, stream.text[seen:], seen, now_ms())
