"""Threads as actors: what a user does with them, from anywhere."""

from __future__ import annotations

from actors import AgencyHandle
from tests.actors.shop import say, script


async def test_a_message_is_answered(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("hello")))
    run = await thread.wait(30)
    assert (run.status, run.data) == ("completed", "hello")
