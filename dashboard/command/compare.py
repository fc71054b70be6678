"""`agency compare`: two threads side by side, as a fork and its original: where they part, what each said, called and
used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from agency.api.tenancy import ThreadSummary
from agency.messages import Message
from agency.thread.views import RunEnvelope
from agency.wire import Wire
from dashboard.command.terminal.console import AsJson, DataDir, app, out, print_json
from dashboard.command.terminal.rendering import as_call, dollars, one_line
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, server, the_thread

if TYPE_CHECKING:
    from agency.client import Thread

LINE_CHARS = 2_000


class ComparedThread(Wire):
    """One of the two: what it is, what it has used, what it has called, and what it says that the other does not."""

    thread: ThreadSummary
    run: RunEnvelope | None
    messages: int
    calls: dict[str, int]
    """How often it has called each tool, since they part."""
    failed_calls: int
    own: tuple[Message, ...]
    """Its messages from where they part on."""


class Comparison(Wire):
    common: int
    """How many messages both begin with."""
    threads: tuple[ComparedThread, ComparedThread]


def parting(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages both begin with. Ids and what only machines read do not count."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if _said(a) != _said(b)),
        min(len(one), len(other)),
    )


def _said(message: Message) -> tuple[object, ...]:
    calls = tuple((call.name, str(call.args)) for call in message.tool_calls)
    return message.role, message.content, calls, len(message.images)


@app.command()
def compare(
    one: ThreadName,
    other: ThreadName,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare two threads, such as a fork and its original: where they part, what they said, called and used."""
    with server(url, data_dir) as client:
        found = comparison(the_thread(client, one, agency), the_thread(client, other, agency))
    if as_json:
        print_json(found)
    else:
        _show(found)


def comparison(one: Thread, other: Thread) -> Comparison:
    states = [thread.state().state for thread in (one, other)]
    common = parting(states[0].messages, states[1].messages)
    first, second = (
        _compared(thread, state.messages, common) for thread, state in zip((one, other), states, strict=True)
    )
    return Comparison(common=common, threads=(first, second))


def _compared(thread: Thread, messages: tuple[Message, ...], common: int) -> ComparedThread:
    summary, own = thread.info(), messages[common:]
    failed = sum(isinstance(each.meta, dict) and "status" in each.meta for each in own if each.role == "tool")
    return ComparedThread(
        thread=summary,
        run=None if summary.status == "registered" else thread.run(),
        messages=len(messages),
        calls=dict(Counter(call.name for each in own for call in each.tool_calls)),
        failed_calls=failed,
        own=own,
    )


def _show(found: Comparison) -> None:
    one, other = found.threads
    figures = Table("", one.thread.id, other.thread.id, box=None, pad_edge=False)
    for name, told in _FIGURES.items():
        figures.add_row(Text(name, "dim"), told(one), told(other))
    out.print(figures)
    ids = {one.thread.id: one, other.thread.id: other}
    for each in (one, other):
        origin = each.thread.forked_from
        if origin is not None and origin.thread_id in ids:
            out.print(f"{each.thread.id} was forked from {origin.thread_id} after event {origin.seq}", highlight=False)
    if not (one.own or other.own):
        out.print(f"both have the same {found.common} messages", highlight=False)
        return
    out.print(f"the first {found.common} messages are the same; then:", highlight=False)
    said = Table(one.thread.id, other.thread.id, show_lines=True, expand=True)
    for left, right in zip_longest(one.own, other.own):
        said.add_row(_shown(left), _shown(right))
    out.print(said)


def _shown(message: Message | None) -> Text:
    if message is None:
        return Text("")
    lines = Text.assemble((f"{message.role}  ", "dim"), one_line(message.content[:LINE_CHARS]))
    for call in message.tool_calls:
        lines.append(f"\n{as_call(call.name, call.args, 200)}", "cyan")
    return lines


def _counted(calls: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count}" for name, count in calls) or "none"


_FIGURES: dict[str, Callable[[ComparedThread], str]] = {
    "agent": lambda each: each.thread.agent_type,
    "status": lambda each: each.thread.status,
    "messages": lambda each: str(each.messages),
    "calls since they part": lambda each: _counted(each.calls.items()),
    "failed of these": lambda each: str(each.failed_calls),
    "turns": lambda each: "" if each.run is None else str(each.run.meta.turns),
    "tokens": lambda each: f"{each.thread.tokens_used.total:,}",
    "cost": lambda each: dollars(each.thread.cost_usd),
    "time": lambda each: "" if each.run is None else f"{each.run.meta.duration_ms / 1000:.1f} s",
}
"""Calls are those since the two part; turns and time are of the latest run, tokens and cost of all that is its own."""
