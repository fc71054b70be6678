"""Tracebacks and output of other people's code: logged, kept with the call, and nowhere else."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors import logs
from actors.logs import line_of
from agency import (
    AgentSystem,
    EventType,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelRequest,
    Thread,
    ToolContext,
    ToolError,
    captured,
    secret,
    tool,
)
from agency.captured import HEAD_CHARS, TAIL_CHARS, Recording
from agency.models.interface import OnDelta
from agency.secrets import remember
from agency.testing import ScriptedModel, call
from agency.tracebacks import TRACEBACK_CHARS, bounded, log_failure, stack_of
from agency.turn.effects import ModelReply

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
PATIENCE = 10.0


@contextmanager
def capturing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Capture as a host does, and undo it; yields the lines that reached the log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    before = list(root.handlers)
    monkeypatch.setattr(captured, "_capturing", False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    captured.log.addHandler(handler)
    captured.log.setLevel("INFO")
    try:
        captured.capture(lines=True)
        yield lines
    finally:
        captured.log.removeHandler(handler)
        root.handlers[:] = before


async def ran(runtime: LocalRuntime, status: str = "completed") -> Thread:
    thread = await runtime.create_thread("clerk")
    await thread.invoke("go")
    assert (await thread.wait(PATIENCE)).status == status
    return thread


def deeper(order: str) -> str:
    raise KeyError(order)


@tool
def refund(order: str) -> str:
    """Refund an order."""
    return deeper(order)


@tool
async def refund_later(order: str) -> str:
    """Refund an order."""
    return deeper(order)


@pytest.mark.parametrize("failing", [refund, refund_later])
async def test_what_a_tool_raises_is_logged_and_kept_with_its_stack(
    build: Build, caplog: pytest.LogCaptureFixture, failing: object
) -> None:
    runtime, model = build([call(failing.name, order="A7", call_id="c1"), "done"], failing)  # type: ignore[attr-defined]
    async with runtime:
        thread = await ran(runtime)
        whole = await thread.tool_call("c1")
        assert whole.traces is not None
        (trace,) = whole.traces
        assert trace.traceback.startswith("Traceback (most recent call last):\n")
        assert "in deeper" in trace.traceback and trace.traceback.endswith("KeyError: 'A7'\n")
        assert "/agency/thread/" not in trace.traceback, "our own frames at the outer end are left out"
        (error,) = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert error.exc_info is not None and error.exc_info[0] is KeyError
        assert thread.id in error.getMessage() and "c1" in error.getMessage()
        assert "in deeper" in caplog.text
        (listed,) = await thread.traces()
        ended = [event async for event in thread.events(follow=False) if event.type == EventType.TOOL_ERROR]
        assert (listed.seq, listed.kind, listed.call_id) == (ended[0].seq, "tool", "c1")
        assert await thread.traces(after=listed.seq) == ()
        # Neither the model nor the events have it.
        assert "Traceback" not in str(model.requests[-1].messages)
        assert "deeper" not in str([event async for event in thread.events(follow=False)])
        assert (await thread.tool_call("c1", traces=False)).traces is None


async def test_an_error_that_a_tool_raises_on_purpose_has_no_stack_unless_another_caused_it(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def look(order: str) -> str:
        """Look."""
        if order == "none":
            raise ToolError("there is no such order")
        try:
            return deeper(order)
        except KeyError as error:
            raise ToolError("the shop is closed") from error

    calls = [call("look", order="none", call_id="c1"), call("look", order="A7", call_id="c2")]
    runtime, _ = build([calls, "done"], look)
    async with runtime:
        thread = await ran(runtime)
        assert (await thread.tool_call("c1")).traces == ()
        (trace,) = (await thread.tool_call("c2")).traces or ()
        assert "in deeper" in trace.traceback and "the shop is closed" in trace.traceback
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


class Broken(Middleware):
    name = "broken"
    tags = ("broken",)

    async def before_model(self, ctx: HookContext, plan: object) -> None:
        deeper("hook")


class BrokenModel:
    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        deeper("model")
        raise AssertionError


async def test_what_a_hook_or_a_model_raises_is_logged_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    system = (
        AgentSystem("own:any", providers={"own": BrokenModel()})
        .use(Broken())
        .add_agent(name="clerk", description="", prompt="You work.")
        .add_agent(name="hooked", description="", prompt="You work.", tags=["broken"])
    )
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await ran(runtime, "error")
        (told,) = await thread.traces()
        assert told.kind == "model" and "KeyError: 'model'" in told.traceback
        failed = await thread.model_call(told.seq)
        assert failed.status == "failure" and failed.error is not None and failed.error.code == "ERR_MODEL"
        assert failed.traceback == told.traceback and failed.request is not None and failed.reply is None
        hooked = await runtime.create_thread("hooked")
        await hooked.invoke("go")
        assert (await hooked.wait(PATIENCE)).status == "error"
        (told,) = await hooked.traces()
        last = [event async for event in hooked.events(follow=False)][-1]
        assert (told.kind, told.seq, last.type) == ("run", last.seq, EventType.AGENT_ERROR)
        assert "KeyError: 'hook'" in told.traceback and "in deeper" in told.traceback
    logged = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert logged == [
        f"model own:any failed in thread {thread.id}",
        f"middleware broken failed in before_model of thread {hooked.id}",
    ]


async def test_what_is_printed_and_logged_is_kept_with_its_call(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    @tool(safe=True)
    def count(name: str) -> str:
        """Count, in a thread of its own."""
        for n in range(3):
            both.wait(PATIENCE)
            print(name, n)  # noqa: T201
        logging.getLogger("shop").warning("counted %s", name)
        print("no newline", end="")  # noqa: T201
        return name

    @tool
    async def quiet() -> str:
        """Say nothing."""
        return ""

    with capturing(monkeypatch) as lines:
        calls = [call("count", name=name, call_id=name) for name in ("left", "right")]
        runtime, _ = build([calls, call("quiet", call_id="q"), "done"], count, quiet)
        async with runtime:
            thread = await ran(runtime)
            for name in ("left", "right"):
                (trace,) = (await thread.tool_call(name)).traces or ()
                counted = "".join(f"{name} {n}\n" for n in range(3))
                assert trace.output == f"{counted}WARNING shop: counted {name}\nno newline"
                assert trace.traceback == ""
            assert (await thread.tool_call("q")).traces == ()
        assert sorted(lines) == sorted(
            [*(f"{name} {n}" for name in ("left", "right") for n in range(3)), "no newline", "no newline"]
        )
        print("beside")  # noqa: T201
        assert lines[-1] == "beside"


async def test_a_call_that_is_stopped_keeps_what_it_had_printed(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        print("about to hang")  # noqa: T201
        begun.set()
        await asyncio.sleep(PATIENCE)
        return ""

    with capturing(monkeypatch):
        runtime, _ = build([call("hang", call_id="c1")], hang)
        async with runtime:
            thread = await runtime.create_thread("clerk")
            await thread.invoke("go")
            await asyncio.wait_for(begun.wait(), PATIENCE)
            await thread.cancel()
            (trace,) = (await thread.tool_call("c1")).traces or ()
            assert trace.output == "about to hang\n"


async def test_secrets_are_taken_out_of_tracebacks_and_output(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    value = "sesame-open-7781"
    monkeypatch.setenv("SHOP_KEY", value)

    @tool(secrets={"key": secret("env:SHOP_KEY")})
    async def leak(ctx: ToolContext) -> str:
        """Leak."""
        key = ctx.secret("key")
        print("the key is", key)  # noqa: T201
        raise RuntimeError(f"bad key {key}")

    with capturing(monkeypatch):
        runtime, _ = build([call("leak", call_id="c1"), "done"], leak)
        async with runtime:
            thread = await ran(runtime)
            (trace,) = (await thread.tool_call("c1")).traces or ()
            assert trace.output == "the key is [redacted]\n"
            assert "bad key [redacted]" in trace.traceback
    assert "bad key [redacted]" in caplog.text and value not in caplog.text
    assert not [each for each in caplog.records if each.exc_info], "no handler gets the error itself"
    for file in tmp_path.rglob("*.db*"):
        assert value.encode() not in file.read_bytes()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "coloured"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_traceback_is_in_colour_at_a_terminal_and_whole_elsewhere(stream: io.StringIO, coloured: bool) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.set_up("INFO", stream)
        try:
            deeper("A7")
        except KeyError as error:
            log_failure(logging.getLogger("shop"), "it failed", error)
    finally:
        root.handlers[:], root.level = handlers, level
    written = stream.getvalue()
    assert "it failed" in written and "deeper" in written and written.count("Traceback (most recent") == 1
    if coloured:
        assert re.search(r"\x1b\[[0-9;]*mKeyError", written)
    else:
        assert json.loads(written)["exception"].endswith("KeyError: 'A7'")


def test_a_line_of_the_log_holds_nothing_that_moves_a_cursor() -> None:
    record = logging.LogRecord("shop", logging.INFO, "", 0, "red \x1b[31m and %s", ("\x9b2J",), None)
    assert line_of(record, "Host-1").event == "red \ufffd[31m and \ufffd2J"


def test_output_and_tracebacks_have_a_bound() -> None:
    kept = Recording("t", "c", "tool")
    for n in range(20_000):
        kept.add(f"line {n}\n")
    said = kept.text()
    assert said.startswith("line 0\n") and said.endswith("line 19999\n")
    assert HEAD_CHARS + TAIL_CHARS < len(said) < HEAD_CHARS + TAIL_CHARS + 100 and "left out here" in said
    kept = Recording("t", "c", "tool")
    kept.add("x" * 1_000_000)
    assert len(kept.text()) < HEAD_CHARS + TAIL_CHARS + 100
    assert bounded("abcdefgh", 8) == "abcdefgh" and bounded("abcdefghi" * 10, 8).endswith("fghi"[-3:])

    def fall(n: int) -> None:
        try:
            raise ValueError("y" * 2_000)
        except ValueError as error:
            if n == 0:
                raise RuntimeError("at last") from error
            fall(n - 1)

    try:
        fall(30)
    except RuntimeError as error:
        text = stack_of(error)
    assert len(text) < TRACEBACK_CHARS + 100 and text.endswith("RuntimeError: at last\n")


def test_what_is_logged_can_be_written_and_has_no_secret() -> None:
    remember("sk-till-123456")
    written = io.BytesIO()
    log = logging.Logger("theirs")
    log.addHandler(logging.StreamHandler(io.TextIOWrapper(written, encoding="utf-8", write_through=True)))
    try:
        raise ValueError("half a face \ud83d, and sk-till-123456")
    except ValueError as error:
        log_failure(log, "it failed", error)
    text = written.getvalue().decode()
    assert text.startswith("it failed\nTraceback") and "half a face ?" in text and "sk-till" not in text
