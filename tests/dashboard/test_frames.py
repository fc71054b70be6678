"""Frames that the gateway encodes itself are those that WebSocket libraries read, and questions are shared."""

from __future__ import annotations

import asyncio

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from agency.errors import NotFound
from dashboard.gateway.frames import frame
from dashboard.gateway.questions import Questions


def read(sent: bytes) -> list[Frame]:
    client = ClientProtocol(parse_uri("ws://localhost/"), state=OPEN, max_size=None)
    client.receive_data(sent)
    return [each for each in client.events_received() if isinstance(each, Frame)]


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65_535, 65_536, 300_000])
def test_a_frame_of_any_length_is_read_as_it_was_written(length: int) -> None:
    text = "é" * (length // 2) + "x" * (length % 2)
    found = read(frame(text) + frame("next"))
    assert [(each.opcode, bytes(each.data).decode(), each.fin) for each in found] == [
        (Opcode.TEXT, text, True),
        (Opcode.TEXT, "next", True),
    ]


async def test_a_question_of_many_at_one_moment_is_asked_once_and_never_answered_by_an_older_answer() -> None:
    asked: list[int] = []
    questions: Questions[int] = Questions()

    async def question() -> int:
        asked.append(len(asked))
        await asyncio.sleep(0.01)
        return asked[-1]

    first = [asyncio.create_task(questions.ask("a", question)) for _ in range(10)]
    other = asyncio.create_task(questions.ask("b", question))
    await asyncio.sleep(0.005)
    later = asyncio.create_task(questions.ask("a", question))
    await asyncio.gather(*first, other, later)
    assert len(asked) == 3


async def test_a_question_goes_on_for_the_others_if_one_leaves_and_all_hear_its_error() -> None:
    questions: Questions[int] = Questions()

    async def question() -> int:
        await asyncio.sleep(0.01)
        raise NotFound("it is gone")

    asking = [asyncio.create_task(questions.ask("a", question)) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()
    heard = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in heard] == [asyncio.CancelledError, NotFound, NotFound]
