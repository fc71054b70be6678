"""What a model call costs beyond what the bare SDK takes for it, in CPU, with 200 threads streaming at once.

    python -m benchmarks.models [--json]

A scripted model server runs in a process of its own and streams to both: to durable threads, which call a tool after
each reply but the last, and to the SDK alone, which is sent the same conversations and reads the same replies. The SDK
is measured as it comes, and over the transport that we give it. What is compared is taken in turns in the same run, and
the best of several rounds counts. The garbage collector does not look at what was loaded before, as in a host; the SDKs
have the same of it. `--json` prints one object as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai

from agency import AgentSystem, LocalRuntime, Thread, tool

THREADS = 200
CALLS = 3
PIECES = 50
ROUNDS = 3
VARIABLES = 6
"""So many lines the server prints for those who want to find it."""

ASKED = "Where is my order?"
WORDS = "Some words of a reply. "
PROMPT = "You look up orders."
FOUND = '{"order": "ORD-1", "status": "shipped"}'

Message = dict[str, Any]
Ask = Callable[[list[Message]], Awaitable[int]]


@tool(safe=True)
async def look_up(order: str) -> dict[str, str]:
    """Look up an order."""
    return {"order": order, "status": "shipped"}


@contextmanager
def scripted(folder: Path) -> Iterator[dict[str, str]]:
    """The server; gives the variables by which the SDKs find it."""
    text = [WORDS] * PIECES
    steps = [{"text": text, "calls": [{"name": "look_up", "args": {"order": "ORD-1"}}]} for _ in range(CALLS - 1)]
    script = folder / "script.json"
    script.write_text(json.dumps({ASKED: [*steps, {"text": text}]}))
    command = [sys.executable, "-m", "tests.support.model_server", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(VARIABLES)]
            yield dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
        finally:
            process.kill()


# Ours.


def build(model: str) -> AgentSystem:
    return AgentSystem(model).add_tool(look_up).add_agent(name="clerk", description="Looks up orders.", prompt=PROMPT)


async def finish(thread: Thread) -> None:
    await thread.invoke(ASKED)
    result = await thread.wait()
    assert result.status == "completed", result


async def ours(model: str, folder: Path) -> float:
    """CPU milliseconds per model call of durable threads."""
    async with LocalRuntime(build(model), folder) as runtime:
        threads = [await runtime.create_thread("clerk") for _ in range(THREADS)]
        began = time.process_time()
        await asyncio.gather(*(finish(thread) for thread in threads))
        return (time.process_time() - began) * 1000 / THREADS / CALLS


async def load(folder: Path) -> None:
    """Use everything once, so that it is loaded."""
    for api in ("openai", "anthropic"):
        async with LocalRuntime(build(f"{api}:m"), folder / f"{api}-load") as runtime:
            await finish(await runtime.create_thread("clerk"))


# The SDKs alone.


def by_openai(client: openai.AsyncOpenAI) -> Ask:
    schema = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    function = {"name": "look_up", "description": "Look up an order.", "parameters": schema}
    tools: Any = [{"type": "function", "function": function}]

    async def ask(messages: list[Message]) -> int:
        sent: Any = [{"role": "system", "content": PROMPT}, *messages]
        stream = await client.chat.completions.create(model="m", messages=sent, tools=tools, stream=True)
        return sum([1 async for _ in stream])

    return ask


def by_anthropic(client: anthropic.AsyncAnthropic) -> Ask:
    schema = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    tools: Any = [{"name": "look_up", "description": "Look up an order.", "input_schema": schema}]

    async def ask(messages: list[Message]) -> int:
        sent: Any = messages
        stream = await client.messages.create(
            model="m", max_tokens=100, system=PROMPT, messages=sent, tools=tools, stream=True
        )
        return sum([1 async for _ in stream])

    return ask


def turn(api: str) -> list[Message]:
    """A reply and the result of its call, as they are sent back."""
    if api == "openai":
        function = {"name": "look_up", "arguments": '{"order": "ORD-1"}'}
        call = {"id": "call_0", "type": "function", "function": function}
        said = {"role": "assistant", "content": WORDS * PIECES, "tool_calls": [call]}
        return [said, {"role": "tool", "tool_call_id": "call_0", "content": FOUND}]
    use = {"type": "tool_use", "id": "call_0", "name": "look_up", "input": {"order": "ORD-1"}}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": WORDS * PIECES}, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": FOUND}]},
    ]


async def bare(api: str, *, aiohttp: bool) -> float:
    """CPU milliseconds per model call of the SDK."""
    client: openai.AsyncOpenAI | anthropic.AsyncAnthropic
    if api == "openai":
        client = openai.AsyncOpenAI(http_client=openai.DefaultAioHttpClient() if aiohttp else None)
        ask = by_openai(client)
    else:
        client = anthropic.AsyncAnthropic(http_client=anthropic.DefaultAioHttpClient() if aiohttp else None)
        ask = by_anthropic(client)

    async def converse() -> None:
        messages: list[Message] = [{"role": "user", "content": ASKED}]
        for _ in range(CALLS):
            assert await ask(messages) > PIECES
            messages += turn(api)

    async with client:
        began = time.process_time()
        await asyncio.gather(*(converse() for _ in range(THREADS)))
        return (time.process_time() - began) * 1000 / THREADS / CALLS


def measure(folder: Path) -> dict[str, float]:
    figures: dict[str, float] = {}
    asyncio.run(load(folder))
    gc.collect()
    gc.freeze()
    for api in ("openai", "anthropic"):
        taken: dict[str, list[float]] = {"call": [], "bare": [], "bare_aiohttp": []}
        for number in range(ROUNDS):
            taken["call"].append(asyncio.run(ours(f"{api}:m", folder / f"{api}{number}")))
            taken["bare"].append(asyncio.run(bare(api, aiohttp=False)))
            taken["bare_aiohttp"].append(asyncio.run(bare(api, aiohttp=True)))
        best = {name: min(times) for name, times in taken.items()}
        figures |= {f"{api}_{name}_ms": round(value, 3) for name, value in best.items()}
        figures[f"{api}_ratio"] = round(best["call"] / best["bare"], 3)
        figures[f"{api}_ratio_same_transport"] = round(best["call"] / best["bare_aiohttp"], 3)
    return figures


def report(figures: dict[str, float]) -> str:
    lines = [f"CPU of a model call that streams {PIECES} pieces, {THREADS} threads at once"]
    for api in ("openai", "anthropic"):
        call, plain, quick = (figures[f"{api}_{name}_ms"] for name in ("call", "bare", "bare_aiohttp"))
        ratio, same = figures[f"{api}_ratio"], figures[f"{api}_ratio_same_transport"]
        lines += [
            f"{api}, a durable thread's".ljust(32) + f"{call:.2f} ms",
            f"  the bare SDK's                {plain:.2f} ms (ours is {ratio:.2f} times that)",
            f"  the bare SDK's over aiohttp   {quick:.2f} ms (ours is {same:.2f} times that)",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, scripted(Path(folder)) as environment:
        os.environ.update(environment)
        figures = measure(Path(folder))
    print(report(figures))
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
