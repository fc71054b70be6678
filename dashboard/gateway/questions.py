"""Questions that many clients ask at the same moment, asked once.

A client that asks before a question is sent shares its answer, and one that asks later does not: so no answer is older
than the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Questions(Generic[Answer]):
    def __init__(self) -> None:
        self._unsent: dict[Hashable, asyncio.Task[Answer]] = {}

    async def ask(self, about: Hashable, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """`about` tells which questions are the same."""
        asking = self._unsent.get(about)
        if asking is None:
            asking = self._unsent[about] = asyncio.create_task(self._ask(about, question))
            asking.add_done_callback(_is_heard)
        return await asyncio.shield(asking)

    async def _ask(self, about: Hashable, question: Callable[[], Awaitable[Answer]]) -> Answer:
        await asyncio.sleep(0)  # those who ask in the same turn of the loop
        del self._unsent[about]
        return await question()


def _is_heard(asked: asyncio.Task[Answer]) -> None:
    """An error is not reported as lost if all that asked have left meanwhile."""
    if not asked.cancelled():
        asked.exception()
