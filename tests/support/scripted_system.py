"""The system that the tests of actors run. Hosts import it, so whatever a test wants is said in its message.

A message is a JSON list of lines. The model says the n-th line as the n-th reply after it: `say(…)` and `calls(…)`
write them. Tools note what they do in a ledger, a file that the test names.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from agency import (
    AgentSystem,
    HookContext,
    Middleware,
    ModelReply,
    ModelRequest,
    OnDelta,
    OutsideWait,
    RetryPolicy,
    ToolCall,
    ToolContext,
    ToolError,
    Usage,
    tool,
)
from agency.models.interface import Capability
from middleware import hitl
from tests.support.guest_book import guest_book

Line = dict[str, Any]


def say(text: str, *, delay: float = 0.0, words: int = 0) -> Line:
    """A reply of text, after so many seconds; with `words`, so many are streamed, evenly over that time."""
    return {"text": text, "delay": delay, "words": words}


def calls(*wanted: tuple[str, dict[str, Any]], delay: float = 0.0) -> Line:
    """A reply that calls tools."""
    return {"calls": [[name, args] for name, args in wanted], "delay": delay}


def script(*lines: Line) -> str:
    return json.dumps(lines)


def task(*lines: Line, to: str = "worker", **more: int) -> tuple[str, dict[str, Any]]:
    """A call that has a subagent say these lines."""
    return "task", {"description": script(*lines), "subagentType": to, **more}


def noting(ledger: Path, what: str, seconds: float = 0.0) -> tuple[str, dict[str, Any]]:
    """A call of `note`."""
    return "note", {"ledger": str(ledger), "what": what, "seconds": seconds}


def holding(ledger: Path, what: str) -> tuple[str, dict[str, Any]]:
    """A call of `hold`."""
    return "hold", {"ledger": str(ledger), "what": what}


def let_go(ledger: Path, what: str) -> None:
    """Have the call of `hold` end."""
    with ledger.open("a") as file:
        file.write(f"go:{what} - - 0\n")


def charging(ledger: Path, what: str) -> tuple[str, dict[str, Any]]:
    """A call of `charge`."""
    return "charge", {"ledger": str(ledger), "what": what}


def noted(ledger: Path) -> list[str]:
    """What tools have noted, in the order in which they did."""
    return [line.split()[0] for line in ledger.read_text().splitlines()] if ledger.exists() else []


class ScriptModel:
    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        begin = max(i for i, message in enumerate(request.messages) if message.role == "user")
        step = sum(message.role == "assistant" for message in request.messages[begin:])
        lines: list[Line] = json.loads(request.messages[begin].content)
        line = lines[step]
        words = int(line.get("words", 0))
        for i in range(words):
            await asyncio.sleep(line["delay"] / words)
            on_delta(f"word{i} ")
        if not words:
            await asyncio.sleep(line["delay"])
        usage = Usage(input=10, output=5)
        if "calls" in line:
            made = tuple(
                ToolCall(id=f"c{begin}.{step}.{i}", name=name, args=args)
                for i, (name, args) in enumerate(line["calls"])
            )
            return ModelReply(tool_calls=made, stop="tool_use", usage=usage)
        return ModelReply(text=line["text"], stop="stop", usage=usage)


class PricedModel(ScriptModel):
    """The same at a known price: a thousandth of a dollar for each token."""

    def capabilities(self, model: str) -> frozenset[Capability]:
        return frozenset({"streaming", "tools", "images"})

    def cost(self, model: str, usage: Usage) -> float | None:
        return usage.total / 1_000


class ToneOptions(BaseModel):
    word: str = "plain"


class Tone(Middleware[None, ToneOptions]):
    """Tells in the thread's state which options its run has."""

    name = "tone"
    options_model = ToneOptions

    async def state(self, ctx: HookContext[None, ToneOptions]) -> dict[str, JsonValue]:
        return {"tone": ctx.options.word}


def _note(ledger: str, what: str, ctx: ToolContext) -> None:
    with Path(ledger).open("a") as file:
        file.write(f"{what} {ctx.idempotency_key} {os.getpid()} {time.time() * 1000:.0f}\n")


@tool(safe=True)
async def note(ledger: str, what: str, ctx: ToolContext, seconds: float = 0.0) -> str:
    """Note something, and then take some time."""
    _note(ledger, f"begin:{what}", ctx)
    await asyncio.sleep(seconds)
    _note(ledger, f"end:{what}", ctx)
    return f"noted {what}"


@tool(safe=True)
async def hold(ledger: str, what: str, ctx: ToolContext) -> str:
    """Note something, and then wait until the test lets it go."""
    _note(ledger, f"begin:{what}", ctx)
    while f"go:{what} " not in Path(ledger).read_text():
        await asyncio.sleep(0.05)
    _note(ledger, f"end:{what}", ctx)
    return f"noted {what}"


@tool(idempotent=False)
async def charge(ledger: str, what: str, ctx: ToolContext, seconds: float = 0.0) -> str:
    """Note something that must not happen twice."""
    _note(ledger, f"charge:{what}", ctx)
    await asyncio.sleep(seconds)
    return f"charged {what}"


@tool(idempotent=False, in_doubt="ask")
async def pay(ledger: str, what: str, ctx: ToolContext, seconds: float = 0.0) -> str:
    """Note something that must not happen twice, and about which a person is asked if in doubt."""
    _note(ledger, f"pay:{what}", ctx)
    await asyncio.sleep(seconds)
    return f"paid {what}"


@tool(risk="high")
async def demolish(what: str) -> str:
    """Tear something down."""
    return f"{what} is gone"


@tool(retry=RetryPolicy(attempts=5))
async def flaky(ledger: str, what: str, ctx: ToolContext, after_ms: int = 300) -> str:
    """Fail at first, and work when it is tried again after a while."""
    _note(ledger, f"flaky:{what}", ctx)
    if ctx.attempt == 1:
        raise ToolError("not yet", retry_after_ms=after_ms)
    return f"worked {what}"


@tool(safe=True)
async def die(ledger: str, what: str, ctx: ToolContext) -> str:
    """Kill the process that runs this."""
    _note(ledger, f"die:{what}", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("dead")


@tool(safe=True)
async def linger(ledger: str, what: str, ctx: ToolContext) -> str:
    """The same as `hold`, in a worker thread of asyncio's."""
    _note(ledger, f"begin:{what}", ctx)

    def until_let_go() -> None:
        while f"go:{what} " not in Path(ledger).read_text():
            time.sleep(0.2)

    await asyncio.to_thread(until_let_go)
    return f"lingered {what}"


@tool(safe=True)
async def block(ledger: str, what: str, ctx: ToolContext, seconds: float) -> str:
    """Hold up the event loop for so long, unless the test lets it go."""
    _note(ledger, f"begin:{what}", ctx)
    until = time.monotonic() + seconds
    while time.monotonic() < until and f"go:{what} " not in Path(ledger).read_text():
        time.sleep(0.2)  # noqa: ASYNC251  # what an async tool must not do
    _note(ledger, f"end:{what}", ctx)
    return f"blocked {what}"


@tool(ray={"num_cpus": 1})
def crunch(ledger: str, what: str, ctx: ToolContext, seconds: float = 0.0) -> str:
    """Run as a Ray task."""
    _note(ledger, f"begin:{what}", ctx)
    time.sleep(seconds)
    ctx.store.put("crunch", "last", what)
    _note(ledger, f"end:{what}", ctx)
    return f"crunched {what} in {os.getpid()}"


@tool(ray={"num_cpus": 1})
def crunch_and_die(ledger: str, what: str, ctx: ToolContext, times: int = 1) -> str:
    """Run as a Ray task whose worker dies so many times."""
    _note(ledger, f"try:{what}", ctx)
    if Path(ledger).read_text().count(f"try:{what} ") <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"survived {what}"


@tool(ray={"num_cpus": 1}, idempotent=False)
def crunch_once(ledger: str, what: str, ctx: ToolContext) -> str:
    """Run as a Ray task that must not run twice, and whose worker dies."""
    _note(ledger, f"once:{what}", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("dead")


@tool(ray={"num_cpus": 1}, timeout=1.0)
def crunch_too_long(ledger: str, what: str, ctx: ToolContext) -> str:
    """Run as a Ray task that takes longer than it may."""
    _note(ledger, f"begin:{what}", ctx)
    time.sleep(30)
    _note(ledger, f"end:{what}", ctx)
    return "never"


@tool(ray={"num_cpus": 1})
def crunch_wrongly(how: Literal["told", "raised", "read"], ctx: ToolContext) -> str:
    """Run as a Ray task that writes to the store and then fails."""
    ctx.store.put("crunch", "last", how)
    if how == "told":
        raise ToolError("the mill is closed", kind="permission_denied")
    if how == "read":
        return str(ctx.store.get("crunch", "last"))
    raise ValueError("no grain")


def _stumble(what: str) -> str:
    print(f"printed by {what}")  # noqa: T201
    logging.getLogger("shop").warning("logged by %s", what)
    raise LookupError(f"no {what}")


@tool(safe=True)
def stumble(what: str) -> str:
    """Print, log and raise, in a worker thread."""
    return _stumble(what)


@tool(ray={"num_cpus": 1})
def stumble_in_a_task(what: str) -> str:
    """The same as a Ray task."""
    return _stumble(what)


@tool
async def consult(question: str, ctx: ToolContext) -> str:
    """Ask a model aside."""
    return (await ctx.ask_model(question)).text


@tool(ray={"num_cpus": 1})
async def consult_in_a_task(question: str, ctx: ToolContext) -> str:
    """Ask a model aside, from a Ray task."""
    return (await ctx.ask_model(question)).text


@tool
async def await_payment(ledger: str, ctx: ToolContext, timeout_ms: int = 3_600_000) -> OutsideWait:
    """Wait for the outside; the token is in the ledger."""
    wait = await ctx.wait_outside("the payment", timeout_ms=timeout_ms)
    _hand_out(ledger, wait.token)
    return wait


def _hand_out(ledger: str, token: str) -> None:
    with Path(ledger).open("a") as tokens:
        tokens.write(f"{token}\n")


@tool(ray={"num_cpus": 1})
async def await_payment_in_a_task(ctx: ToolContext) -> OutsideWait:
    """Wait for the outside, from a Ray task."""
    return await ctx.wait_outside("the payment", timeout_ms=3_600_000)


@tool
async def shelve(shelf: str, path: str, text: str, ctx: ToolContext) -> str:
    """Write to a shelf of the agency."""
    return (await ctx.shelf(shelf).write(path, text)).version


@tool(ray={"num_cpus": 1})
def shelve_in_a_task(shelf: str, path: str, text: str, ctx: ToolContext) -> str:
    """Write to a shelf of the agency, as a Ray task."""
    return ctx.shelf(shelf).blocking.write(path, text).version


@dataclass
class Mill:
    """What the system provides: it is open in one process, while a thread or a task uses it."""

    pid: int
    is_open: bool = True

    def grind(self) -> str:
        return f"ground in {self.pid}" if self.is_open and self.pid == os.getpid() else "nothing"


@asynccontextmanager
async def open_mill() -> AsyncIterator[Mill]:
    mill = Mill(os.getpid())
    yield mill
    mill.is_open = False


@tool
async def grind(ctx: ToolContext[Mill]) -> str:
    """Use what the system provides."""
    return ctx.deps.grind()


@tool(ray={"num_cpus": 1})
def grind_in_a_task(ctx: ToolContext[Mill]) -> str:
    """Use what the system provides, in a Ray task."""
    return ctx.deps.grind()


system = (
    AgentSystem("script:any", providers={"script": ScriptModel(), "priced": PricedModel()})
    .defaults()
    .use(hitl)
    .use(Tone(), tags=["default"])
    .use(guest_book)
    .add_tool(note)
    .add_tool(hold)
    .add_tool(charge)
    .add_tool(pay)
    .add_tool(demolish, tags=["demolition"])
    .add_tool(flaky)
    .add_tool(die)
    .add_tool(block)
    .add_tool(linger)
    .add_tool(crunch)
    .add_tool(crunch_and_die)
    .add_tool(crunch_once)
    .add_tool(crunch_too_long)
    .add_tool(crunch_wrongly)
    .add_tool(stumble)
    .add_tool(stumble_in_a_task)
    .add_tool(consult)
    .add_tool(consult_in_a_task)
    .add_tool(await_payment)
    .add_tool(await_payment_in_a_task)
    .add_tool(shelve)
    .add_tool(shelve_in_a_task)
    .add_tool(grind)
    .add_tool(grind_in_a_task)
    .provide(factory=open_mill)
    .add_agent(name="clerk", description="Does what it is told.", prompt="clerk")
    .add_agent(name="worker", description="Does parts of it.", prompt="worker")
    .add_agent(name="broker", description="Does it at a price.", prompt="broker", model="priced:any")
    .add_agent(name="runner", description="Does parts of it at a price.", prompt="runner", model="priced:any")
    .add_agent(name="hermit", description="Works alone.", prompt="hermit", isolation="dedicated")
    .add_agent(name="retired", description="Works no more.", prompt="retired", status="disabled")
    .add_agent(
        name="careful",
        description="Asks before it charges.",
        prompt="careful",
        tags=["default", "hitl"],
        config={"hitl": {"tools": ["charge"]}},
    )
)
