"""A support desk where people have the last word: a refund waits until a person approves, edits or denies it.

    python -m examples.support_desk          # asks you about each refund
    python -m examples.support_desk --yes    # does not ask, and goes by a rule that it states

Three customers write at once. Each thread waits for its answer as long as it takes and holds up no other; what is
denied never runs, and the agent is told why. The model is a script, so that this runs offline.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.prompt import IntPrompt, Prompt

from agency import AgentSystem, Approve, Decision, Deny, Edit, LocalRuntime, ModelRequest, ToolContext, ToolError, tool
from agency.testing import Line, ScriptedModel, call
from middleware import hitl

TICKETS = ["A cup of order 7 is broken.", "My order 8 was two hours late.", "We did not like the colour of order 9."]
PRICES = {"7": 1_250, "8": 3_900, "9": 48_000}
RULE = "Up to 20.00 is approved, up to 50.00 is cut to 20.00, and more is denied."

bank: dict[str, tuple[str, int]] = {}
"""Stands in for a payment service: one payment for one key, however often it is ordered."""


@tool(safe=True)
async def price(order_id: str) -> int:
    """Look up what an order has cost, in cents."""
    if order_id not in PRICES:
        raise ToolError(f"we know of no order {order_id}", kind="invalid_request")
    return PRICES[order_id]


@tool(risk="high", idempotent=False)
async def refund(order_id: str, cents: int, ctx: ToolContext) -> str:
    """Refund an order."""
    bank[ctx.idempotency_key] = (order_id, cents)
    return f"{cents / 100:.2f} are on their way to you."


def script(request: ModelRequest) -> Line:
    """What a model would do next: look up the price, refund all of it, and tell the customer what came of it."""
    start = max(i for i, message in enumerate(request.messages) if message.role == "user")
    ticket, *results = [message.content for message in request.messages[start:] if message.role != "assistant"]
    order = re.search(r"\d+", ticket)
    if order is None:
        return "Which order is it about?"
    if not results:
        return call("price", order_id=order[0])
    if results[-1].startswith("Error"):
        return f"I am sorry, there is no refund: {results[-1].rpartition(': ')[2]}."
    if len(results) == 1:
        return call("refund", order_id=order[0], cents=int(results[0]))
    return f"I am sorry. {results[-1].splitlines()[-1]}"


system = (
    AgentSystem(default_model="script:support", providers={"script": ScriptedModel(script)})
    .use(hitl)
    .add_tool(price)
    .add_tool(refund)
    .add_agent(
        name="support",
        description="Answers customers.",
        prompt="You answer customers of a bakery, and refund orders with which something was wrong.",
        tags=["default", "hitl"],
        config={"hitl": {"tools": ["refund"]}},  # these calls wait for a person
    )
)


def by_rule(args: dict[str, Any]) -> Decision:
    if args["cents"] <= 2_000:
        return Approve()
    return Edit({**args, "cents": 2_000}) if args["cents"] <= 5_000 else Deny("that is more than we can give")


def by_person(args: dict[str, Any]) -> Decision:
    match Prompt.ask("    Your decision", choices=["approve", "edit", "deny"]):
        case "approve":
            return Approve()
        case "edit":
            return Edit({**args, "cents": IntPrompt.ask("    How many cents instead")})
        case _:
            return Deny(Prompt.ask("    Why not"))


async def serve_customers(folder: str, decide: Callable[[dict[str, Any]], Decision], console: Console) -> None:
    async with LocalRuntime(system, folder) as runtime:
        threads = [await runtime.create_thread("support") for _ in TICKETS]
        for thread, ticket in zip(threads, TICKETS, strict=True):
            await thread.invoke(ticket)
        for thread, ticket in zip(threads, TICKETS, strict=True):
            console.print(f"\nCustomer  {ticket}", style="bold")
            for wanted in (await thread.wait()).meta.pending_tool_calls:
                console.print(f"  ✋ {wanted.name} {wanted.args}, risk: {wanted.risk}", style="yellow")
                assert isinstance(wanted.args, dict)
                decision = await asyncio.to_thread(decide, wanted.args)
                console.print(f"  → {decision}", style="red" if decision.decision == "deny" else "green")
                await thread.decide({wanted.id: decision})
            console.print(f"Agent     {(await thread.wait()).data}", style="bold")
    console.print(f"\nPaid: {', '.join(f'{cents / 100:.2f} for order {order}' for order, cents in bank.values())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yes", action="store_true", help=f"do not ask: {RULE}")
    ask = sys.stdin.isatty() and not parser.parse_args().yes
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print("Every refund is yours to decide." if ask else f"No person is asked. {RULE}")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # so that Ctrl-C ends it at the prompt too
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(serve_customers(folder, by_person if ask else by_rule, console))


if __name__ == "__main__":
    main()
