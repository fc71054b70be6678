"""Events, calls and results as lines of text for a terminal.

Agents and tools produce untrusted text. Everything here shows it as plain text: it must never reach the terminal with
control characters in it.
"""

from __future__ import annotations

import json
import math

from pydantic import JsonValue
from rich.text import Text

from agency.approvals.pending import PendingToolCall
from agency.events import Event, EventType

STYLES = {
    "tool": "cyan",
    "model": "blue",
    "hitl": "bold yellow",
    "subagent": "magenta",
    "agent": "green",
    "runtime": "yellow",
    "thread": "bold",
    "request": "bold",
    "state": "bold",
}
"""By the first word of an event's name; all others are dim."""

BAD = (EventType.TOOL_ERROR, EventType.AGENT_ERROR, EventType.RUN_CANCELED)
MARKS = {"pending": "☐", "in_progress": "▶", "completed": "☑"}

_JOINERS = "\n\t\u200c\u200d"


def clean(text: str) -> str:
    """The text without characters that move the cursor, change colours or reverse the direction of writing."""
    return "".join(each if each.isprintable() or each in _JOINERS else "�" for each in text)


def one_line(text: str) -> str:
    return " ".join(clean(text).split())


def moment(ts: str) -> str:
    """A timestamp to the second, in UTC."""
    return ts[:19].replace("T", " ")


def dollars(cost: float | None) -> str:
    """An amount in US dollars with the places that matter: small amounts have more. None is an unknown cost."""
    if cost is None:
        return "unknown"
    if cost >= 1 or not cost:
        return f"${cost:,.2f}"
    places = 4 if cost >= 0.01 else 1 - math.floor(math.log10(cost))  # two digits that say something, never an exponent
    return f"${cost:.{places}f}".rstrip("0")


def compact(value: JsonValue) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def as_call(name: str, args: JsonValue, longest: int | None = None) -> str:
    """A call in the notation of Python; `longest` cuts each argument."""
    if not isinstance(args, dict):
        return one_line(f"{name}({_cut(compact(args), longest)})")
    given = ", ".join(f"{key}={_cut(json.dumps(value, ensure_ascii=False), longest)}" for key, value in args.items())
    return one_line(f"{name}({given})")


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def event_line(event: Event) -> Text:
    """An event in a line: its seq, its time, its name and its data."""
    kind = event.type.partition(".")[0]
    style = "red" if event.type in BAD else STYLES.get(kind, "dim")
    number = "" if event.seq is None else str(event.seq)
    return Text.assemble(
        (f"{number:>5}  {clean(event.ts[11:23])}  ", "dim"), (f"{event.type:<23} ", style), _details(event)
    )


def _details(event: Event) -> str:
    match event.type, event.data:
        case EventType.TOOL_STARTED, {"toolName": str(name), "args": args}:
            return as_call(name, args)
        case EventType.TOOL_OUTPUT, {"toolName": str(name), "output": output}:
            return f"{one_line(name)}: {compact(output)}"
        case EventType.TOOL_ERROR, {"toolName": str(name), "error": str(error)}:
            return f"{one_line(name)}: {one_line(error)}"
        case EventType.HITL_INTERRUPT, {"proposedToolCalls": list(calls)}:
            return "; ".join(_proposed(call) for call in calls)
        case EventType.AGENT_COMPLETED, {"result": result}:
            return compact(result)
        case EventType.AGENT_ERROR, {"code": str(code), "error": str(error)}:
            return f"{code} {one_line(error)}"
        case EventType.RUNTIME_WARNING, {"kind": str(kind), "message": str(message)}:
            return f"{one_line(kind)}: {one_line(message)}"
        case EventType.RUN_CANCELED, {"by": {"kind": str(kind), **more}}:
            return f"by {canceler(kind, str(more.get('name') or ''))}"
        case EventType.SUBAGENT_SPAWNED, {"agentType": str(agent), "childThreadId": str(child)}:
            return f"{agent} {child}"
        case EventType.SUBAGENT_COMPLETED, {"childThreadId": str(child), "status": str(status), "result": str(result)}:
            return f"{child} {status}: {one_line(result)}"
        case _, data:
            return " ".join(f"{name}={compact(value)}" for name, value in data.items() if name != "runId")


def canceler(kind: str, name: str) -> str:
    """Who canceled a run: `person (Ann's key)`."""
    return one_line(f"{kind} ({name})" if name else kind)


def _proposed(call: JsonValue) -> str:
    match call:
        case {"toolName": str(name), "callId": str(call_id), "args": args}:
            return f"{as_call(name, args)} [{call_id}]"
        case _:
            return compact(call)


def call_line(call: PendingToolCall) -> Text:
    """A call that waits for approval."""
    risk = (f"  risk: {call.risk}", "red" if call.risk == "high" else "dim")
    doubt = ("  in doubt" if call.kind == "in_doubt" else "", "red")
    note = (f"  {one_line(call.note)}" if call.note else "", "dim")
    return Text.assemble((as_call(call.name, call.args), "bold"), risk, doubt, note)


def left_in_doubt(call: PendingToolCall, command: str) -> Text:
    """What to do about a call that approving leaves waiting, because it may have happened."""
    what = f"{one_line(call.name)} [{one_line(call.id)}] is in doubt, it may have happened, and goes on waiting: "
    return Text.assemble(("✋ ", "yellow"), what, f"{command} --rerun, or --happened RESULT")


def todo_lines(todos: JsonValue) -> list[Text]:
    """The todo list of a `write_todos` call."""
    lines = []
    for todo in todos if isinstance(todos, list) else []:
        match todo:
            case {"content": str(content), "status": str(status)}:
                style = {"in_progress": "bold", "completed": "dim"}.get(status, "")
                lines.append(Text(f"  {MARKS.get(status, '☐')} {one_line(content)}", style))
            case _:
                pass
    return lines
