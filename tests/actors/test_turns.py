"""Whose call is next in the directory: fairly, a bounded number of each, and not at all if its caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from actors.agency_host.turns import AT_ONCE, Turns
from actors.background import to_the_end
from agency.errors import RateLimited
from tests.support.waiting import cancel_all, turns_of_the_loop

Begun = list[str]


def turns(calls: int = 1_000, size: int = 1_000_000) -> Turns:
    return Turns(calls, size)


async def call(queue: Turns, agency: str, begun: Begun, until: asyncio.Event | None = None, size: int = 0) -> None:
    async with queue.call(agency, size):
        begun.append(agency)
        if until is not None:
            await until.wait()


def start(work: Callable[[], object], count: int) -> list[asyncio.Task[None]]:
    return [asyncio.ensure_future(work()) for _ in range(count)]  # type: ignore[call-overload]  # they are coroutines


async def test_agencies_take_turns_however_many_calls_one_of_them_has() -> None:
    queue, begun = turns(), Begun()
    crowd = start(lambda: call(queue, "crowd", begun), 500)
    await turns_of_the_loop(5)
    others = [*start(lambda: call(queue, "one", begun), 2), *start(lambda: call(queue, "two", begun), 2)]
    came = len(begun)
    await asyncio.gather(*others)
    meanwhile = begun[came:]
    assert (meanwhile.count("one"), meanwhile.count("two")) == (2, 2)
    assert meanwhile.count("crowd") <= 6, "the rest of it still waits"
    await asyncio.gather(*crowd)
    assert len(begun) == 504


async def test_calls_of_one_agency_begin_in_the_order_in_which_they_came() -> None:
    queue, begun = turns(), list[int]()

    async def numbered(n: int) -> None:
        async with queue.call("bakery"):
            begun.append(n)

    await asyncio.gather(*(numbered(n) for n in range(100)))
    assert begun == list(range(100))


async def test_what_else_the_loop_has_to_do_comes_between_two_turns() -> None:
    queue, begun = turns(), Begun()
    crowd = start(lambda: call(queue, "crowd", begun), 200)
    await asyncio.sleep(0)
    seen = []
    while len(begun) < 200:
        seen.append(len(begun))
        await asyncio.sleep(0)
    assert max(later - earlier for earlier, later in zip(seen, [*seen[1:], 200], strict=True)) <= 2
    await asyncio.gather(*crowd)


async def test_only_some_calls_of_one_agency_are_at_work_at_once() -> None:
    queue, begun, over = turns(), Begun(), asyncio.Event()
    crowd = start(lambda: call(queue, "crowd", begun, over), AT_ONCE + 10)
    await turns_of_the_loop(200)
    assert len(begun) == AT_ONCE
    await call(queue, "other", begun)
    assert begun[-1] == "other"
    over.set()
    await asyncio.gather(*crowd)
    assert len(begun) == AT_ONCE + 11


async def test_urgent_calls_go_first_and_are_never_refused() -> None:
    queue, begun, over = turns(calls=AT_ONCE + 5), Begun(), asyncio.Event()
    crowd = start(lambda: call(queue, "crowd", begun, over), AT_ONCE + 5)
    await turns_of_the_loop(200)
    async with asyncio.timeout(20):
        for _ in range(50):
            await queue.again("crowd")
    over.set()
    await asyncio.gather(*crowd)


async def test_beyond_so_many_calls_an_agency_is_told_to_come_back() -> None:
    queue, begun, over = turns(calls=3), Begun(), asyncio.Event()
    three = start(lambda: call(queue, "bakery", begun, over), 3)
    await turns_of_the_loop()
    with pytest.raises(RateLimited, match="'bakery' has 3 calls in progress, and AGENCY_CALLS_MOST is 3"):
        await call(queue, "bakery", begun)
    await call(queue, "butchery", begun)
    over.set()
    await asyncio.gather(*three)
    await call(queue, "bakery", begun)
    assert begun == ["bakery"] * 3 + ["butchery", "bakery"]


async def test_the_bytes_of_an_agencys_calls_are_bounded_but_one_call_is_always_let_in() -> None:
    queue, begun, over = turns(size=100), Begun(), asyncio.Event()
    large = start(lambda: call(queue, "bakery", begun, over, size=150), 1)
    await turns_of_the_loop()
    with pytest.raises(RateLimited, match="would have 160 bytes, and AGENCY_CALLS_BYTES is 100"):
        await call(queue, "bakery", begun, size=10)
    over.set()
    await asyncio.gather(*large)
    await call(queue, "bakery", begun, size=10)
    assert begun == ["bakery"] * 2


async def test_a_call_whose_caller_has_gone_leaves_the_queue() -> None:
    queue, begun, over = turns(calls=AT_ONCE + 3), Begun(), asyncio.Event()
    working = start(lambda: call(queue, "bakery", begun, over), AT_ONCE)
    await turns_of_the_loop(200)
    gone = start(lambda: call(queue, "bakery", begun), 3)
    await turns_of_the_loop()
    await cancel_all(gone)
    left = start(lambda: call(queue, "bakery", begun), 3)  # their places are free again
    await turns_of_the_loop()
    over.set()
    await asyncio.gather(*working, *left)
    assert len(begun) == AT_ONCE + 3
    assert not queue._lines, "nothing is remembered of an agency without calls"


@pytest.mark.parametrize("steps", range(8))
async def test_wherever_a_caller_goes_no_place_is_lost(steps: int) -> None:
    queue, begun = turns(calls=60), Begun()
    for _ in range(20):
        some = start(lambda: call(queue, "bakery", begun), 50)
        await turns_of_the_loop(steps)
        for each in some[::2]:
            each.cancel()
        await asyncio.gather(*some, return_exceptions=True)
    assert not queue._lines
    over = asyncio.Event()
    full = start(lambda: call(queue, "bakery", begun, over), AT_ONCE)
    begun.clear()
    await turns_of_the_loop(200)
    assert len(begun) == AT_ONCE
    over.set()
    await asyncio.gather(*full)


async def test_a_call_that_fails_frees_its_place() -> None:
    queue = turns(calls=1)

    async def failing() -> None:
        async with queue.call("bakery"):
            raise ValueError("no flour")

    for _ in range(3):
        with pytest.raises(ValueError, match="no flour"):
            await failing()


async def test_what_has_begun_is_done_to_its_end_though_its_caller_goes() -> None:
    queue, over, done = turns(calls=1), asyncio.Event(), Begun()

    async def work() -> None:
        await over.wait()
        done.append("done")

    async def serve() -> None:
        async with queue.call("bakery"):
            await to_the_end(work())

    serving = asyncio.ensure_future(serve())
    await turns_of_the_loop()
    serving.cancel()
    await turns_of_the_loop()
    with pytest.raises(RateLimited):
        await call(queue, "bakery", done)
    over.set()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert done == ["done"]
    await call(queue, "bakery", done)
