"""A time limit that many waits share ends each of them that takes too long, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from dashboard.gateway.patience import Patience


async def test_a_wait_that_takes_too_long_is_ended_and_so_is_the_next() -> None:
    with closing(Patience(0.01)) as patience:
        for _ in range(3):
            with pytest.raises(TimeoutError), patience:
                await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_many_short_waits_are_none_that_takes_too_long() -> None:
    with closing(Patience(0.2)) as patience:
        for _ in range(50):
            with patience:
                await asyncio.sleep(0.01)


async def test_a_task_that_is_canceled_from_outside_is_canceled() -> None:
    async def wait() -> None:
        with closing(Patience(60.0)) as patience, patience:
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_an_error_of_what_is_awaited_is_that_error_and_what_is_not_awaited_has_no_limit() -> None:
    with closing(Patience(0.01)) as patience:
        with pytest.raises(ValueError, match="no"), patience:
            raise ValueError("no")
        await asyncio.sleep(0.05)
        with patience:
            await asyncio.sleep(0)
