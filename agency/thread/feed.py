"""A thread's events as they happen, for any number of readers, each at its own pace.

Readers pull. Stored events are read from the store, after whatever seq the reader has; the text that a model is
streaming is kept once, and a reader gets what it has not seen of it. So a slow reader costs nobody anything, misses no
event, and gets fewer and longer deltas. Text always comes before the event that ends its model call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from agency.clock import now_ms
from agency.events import Event, model_delta
from agency.store.store import ThreadStore, run_id

PAGE = 500


@dataclass(slots=True)
class Stream:
    """The text of one model call; `ends_at` is the seq of the first event after it."""

    run: int
    text: str = ""
    ends_at: int | None = None


class Feed:
    def __init__(self, store: ThreadStore) -> None:
        self._store = store
        self._stream: Stream | None = None
        self._changed = asyncio.Event()
        self._closed = False

    def notify(self) -> None:
        """Something has been committed."""
        self._changed.set()

    def begin_text(self, run: int) -> Stream:
        self._stream = Stream(run)
        return self._stream

    def add_text(self, stream: Stream, delta: str) -> None:
        if stream.ends_at is None:
            stream.text += delta
            self._changed.set()

    def end_text(self, stream: Stream) -> None:
        """Whatever is committed next comes after this text."""
        if stream.ends_at is None:
            stream.ends_at = self._store.last_seq + 1

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def wait(self) -> bool:
        """Return when something has changed; False once the thread is closed."""
        self._changed.clear()
        if not self._closed:
            await self._changed.wait()
        return not self._closed

    async def read(self, after: int, *, follow: bool) -> AsyncIterator[Event]:
        """Every event after a seq and, if asked to follow, those to come, until the thread is closed."""
        stream, seen = None, 0
        while True:
            self._changed.clear()
            if self._closed:
                return
            page = self._stored(after)
            for event in page:
                assert event.seq is not None
                if stream is not None and stream.ends_at is not None and stream.ends_at <= event.seq:
                    if len(stream.text) > seen:
                        yield self._delta(stream, seen)
                    stream = None
                after = event.seq
                yield event
            if page:
                continue
            if stream is None and self._streams_beyond(after):
                stream, seen = self._stream, 0
            if stream is not None and len(stream.text) > seen:
                delta = self._delta(stream, seen)
                seen = len(stream.text)
                yield delta
            elif not follow:
                return
            elif self._store.last_seq == after:
                await self._changed.wait()

    def _stored(self, after: int) -> list[Event]:
        return self._store.events(after, PAGE) if after < self._store.last_seq else []

    def _streams_beyond(self, after: int) -> bool:
        stream = self._stream
        return stream is not None and (stream.ends_at is None or stream.ends_at > after)

    def _delta(self, stream: Stream, seen: int) -> Event:
        run = run_id(self._store.thread_id, stream.run)
        return model_delta(self._store.thread_id, run, stream.text[seen:], seen, now_ms())
