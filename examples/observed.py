"""Watching agents work: an observer of one's own, figures, and traces that survive the process.

    python -m examples.observed

An agent looks up an order and asks a colleague, both at once; then it wants to write a letter, and a person has to
approve that. Three observers see every event as it is committed: one prints what happens, one counts, and one makes
OpenTelemetry spans. While the person thinks, everything is closed and opened again; the run still makes one trace. The
spans are printed here; in a program of your own, set up an exporter, and `TracingObserver()` finds it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agency import AgentSystem, EventType, LocalRuntime, MetricsObserver, ModelRequest, Observation, Snapshot, tool
from agency.telemetry import TracingObserver
from agency.testing import Line, ScriptedModel, call
from middleware import hitl, subagents


class Chronicle:
    """All that an observer needs is one method. Whatever it raises is logged, and changes nothing."""

    def observe(self, seen: Observation) -> None:
        if seen.type in (EventType.TOOL_STARTED, EventType.RUN_PAUSED):
            what = seen.data.get("toolName") or f"waits ({seen.data['reason']})"
            print(f"  {seen.thread.agent_type}: {what}")


@tool(safe=True)
async def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} has left the house"


@tool
async def write(letter: str) -> str:
    """Write to a customer."""
    return f"sent: {letter}"


def script(request: ModelRequest) -> Line:
    """What a model would do next."""
    if request.messages[0].content == "What do we say when an order is late?":
        return "We are sorry."
    match sum(message.role == "assistant" for message in request.messages):
        case 0:
            question = call("task", subagentType="colleague", description="What do we say when an order is late?")
            return [call("look_up", order=7), question]
        case 1:
            return call("write", letter="We are sorry. Your order has left the house.")
        case _:
            return "The customer knows."


metrics = MetricsObserver()
system = (
    AgentSystem(default_model="scripted:any", providers={"scripted": ScriptedModel(script)})
    .observe(Chronicle())
    .observe(metrics)
    .use(subagents)
    .use(hitl)
    .add_tool(look_up, tags=["orders"])
    .add_tool(write, tags=["orders"])
    .add_agent(
        name="support",
        description="Answers customers.",
        prompt="You answer customers.",
        tags=["orders", "subagents", "hitl"],
        config={"hitl": {"tools": ["write"]}},
    )
    .add_agent(name="colleague", description="Knows what to say.", prompt="You know what to say.", tags=["default"])
)


async def work(folder: str) -> None:
    print("Until a person is needed:")
    async with LocalRuntime(system, folder) as runtime:
        thread = await runtime.create_thread("support")
        await thread.invoke("Where is order 7?")
        await thread.wait()
    print("After everything was closed and opened again, and approved:")
    async with LocalRuntime(system, folder) as runtime:
        again = await runtime.thread(thread.id)
        await again.approve()
        print(f"  {(await again.wait()).data}")


def show_figures(figures: Snapshot) -> None:
    print(f"Figures:\n  {figures.events} events, {figures.tokens.total} tokens, {figures.turns.count} turns")
    print(f"  calls: {figures.tools.calls_by_name}")
    print(f"  approvals: {figures.approvals.granted} granted, {figures.approvals.pending} pending")


def show_traces(spans: Iterable[ReadableSpan]) -> None:
    """Each trace as a tree, the earliest first."""
    known = sorted(spans, key=lambda span: span.start_time or 0)
    roots = [span for span in known if span.parent is None]

    def show(span: ReadableSpan, depth: int) -> None:
        print(f"  {'  ' * depth}{span.name}{' → another trace' if span.links else ''}")
        for below in known:
            if below.parent is not None and below.parent.span_id == (span.context and span.context.span_id):
                show(below, depth + 1)

    print(f"{len(roots)} traces:")
    for root in roots:
        show(root, 0)


def main() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    system.observe(TracingObserver(provider))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(folder))
    show_figures(metrics.snapshot())
    show_traces(exporter.get_finished_spans())


if __name__ == "__main__":
    main()
