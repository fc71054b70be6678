"""A host is killed while a real SDK streams a reply: it comes whole and once, and is paid for once."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from actors import Cluster, ThreadHandle
from agency import Event, EventType
from agency.models.providers.entry import ApiName, Price, Provider
from tests.support.clusters import Install, follow
from tests.support.model_script import Counts, Reply
from tests.support.model_server import ModelServer
from tests.support.waiting import PATIENCE

WORDS = tuple(f"word{n} " for n in range(40))


async def kill_home(cluster: Cluster, thread: ThreadHandle) -> None:
    """`kill -9` the host in which a thread lives."""
    (name,) = (await cluster.where([thread.address])).values()
    (pid,) = (host.pid for host in (await cluster.status()).hosts if host.name == name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.mark.kills
@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_reply_that_was_streamed_when_its_host_was_killed_comes_whole(api: ApiName, install: Install) -> None:
    reply = Reply(text=WORDS, delay=0.1, usage=Counts(input=100, output=40))
    async with ModelServer([reply, reply.model_copy(update={"delay": 0.0})]) as server:
        address = f"{server.url}/v1" if api == "openai" else server.url
        prices = {"m": Price(input=1, output=2)}
        cluster = await install(providers={"mine": Provider(api=api, base_url=address, prices=prices)})
        agency = await cluster.create_agency("bakery")
        await agency.put_blueprint({"name": "clerk", "model": "mine:m"})
        thread = await agency.create_thread("clerk", "Count.")
        seen: list[Event] = []
        async with asyncio.timeout(3 * PATIENCE):
            async for event in (feed := follow(thread)):
                if event.type is EventType.MODEL_DELTA and not any(e.type is EventType.MODEL_DELTA for e in seen):
                    await kill_home(cluster, thread)
                seen.append(event)
                if event.type is EventType.AGENT_COMPLETED:
                    break
            await feed.aclose()
        run = await thread.wait(PATIENCE)

    first, second = server.requests
    assert first.body == second.body
    assert (run.data, run.meta.turns, run.meta.attempts) == ("".join(WORDS), 1, ())
    assert run.meta.tokens_used.total == 140
    assert run.meta.cost_usd == pytest.approx(180 / 1_000_000)
    stored = [event.seq for event in seen if event.seq is not None]
    assert stored == list(range(1, len(stored) + 1))
    assert [event.type for event in seen].count(EventType.MODEL_COMPLETED) == 1
    text: dict[int, str] = {}
    for event in seen:
        if event.type is EventType.MODEL_DELTA:
            text[int(str(event.data["offset"]))] = str(event.data["delta"])
    assert all("".join(WORDS).startswith(delta, offset) for offset, delta in text.items())
