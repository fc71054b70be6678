"""`agency call`: what a thread asked models and tools, whole: what was sent, what came back, what was raised and
printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.syntax import Syntax
from rich.text import Text

from agency.api import bodies as api
from agency.errors import InvalidInput, NotFound
from agency.events import Event, EventType
from dashboard.command.terminal.console import AsJson, DataDir, app, err, out, print_json, print_table
from dashboard.command.terminal.rendering import as_call, clean, compact, dollars
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, server, the_thread

if TYPE_CHECKING:
    from agency.client import Thread
    from agency.messages import Message
    from agency.thread.call_records import CallRecord
    from agency.thread.model_records import ModelCallRecord, ModelCallSummary

_MODEL = (EventType.MODEL_STARTED, EventType.MODEL_COMPLETED, EventType.MODEL_RETRIED, EventType.MODEL_ASKED)


@app.command()
def call(
    thread: ThreadName,
    which: Annotated[
        str | None,
        typer.Argument(
            help="The number of an event, or a tool call's id. [dim]Default: list the model calls[/]",
            show_default=False,
        ),
    ] = None,
    run: Annotated[int | None, typer.Option(min=1, help="List those of this run. [dim]Default: the latest[/]")] = None,
    curl: Annotated[bool, typer.Option("--curl", help="Print a model call as a command that makes it again.")] = False,
    python: Annotated[bool, typer.Option("--python", help="Print it as a Python program.")] = False,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show a model call or a tool call, whole: what was sent, what came back, what was raised and printed.

    Needs a key with the role operator.
    """
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        if which is None:
            listed = found.model_calls(run)
            print_json(api.ModelCallList(model_calls=listed)) if as_json else _list(listed)
            return
        event = _event(found, int(which)) if which.isdecimal() else None
        if event is not None and event.type in _MODEL:
            asked = found.model_call(event.seq or 0)
            if curl or python:
                _print_text(asked.curl if curl else asked.python)
            else:
                print_json(asked) if as_json else _show_model_call(asked)
            return
        if curl or python:
            raise InvalidInput("--curl and --python are for model calls: name one by the number of its event")
        if event is None:
            made = found.tool_call(which)
        elif isinstance(call_id := event.data.get("callId"), str):
            made = found.tool_call(call_id, seq=event.seq)
        else:
            raise InvalidInput(f"event {which} is {event.type}, and tells of no call; `agency logs` lists the events")
        print_json(made) if as_json else _show_tool_call(made)


def _event(thread: Thread, seq: int) -> Event:
    found = thread.stored_events(max(0, seq - 1), 1)
    if not found or found[0].seq != seq:
        raise NotFound(f"thread {thread.id} has no event {seq}")
    return found[0]


def _list(calls: tuple[ModelCallSummary, ...]) -> None:
    if not calls:
        err.print("the run has made no model calls")
    rows = [
        (
            str(each.seq),
            str(each.turn),
            clean(each.model),
            clean(each.by or ""),
            Text(each.status, "red" if each.status == "failure" else ""),
            "" if each.usage is None else f"{each.usage.input} in, {each.usage.output} out",
            "" if each.usage is None else dollars(each.cost_usd),
            "" if each.first_token_ms is None else f"{each.first_token_ms} ms",
            "" if each.took_ms is None else f"{each.took_ms} ms",
        )
        for each in calls
    ]
    print_table(("event", "turn", "model", "for", "status", "tokens", "cost", "first text", "took"), rows)


def _print_text(text: str | None) -> None:
    if text is None:
        raise NotFound("this provider does not say what it sends over HTTP")
    sys.stdout.write(text)


def _show_model_call(asked: ModelCallRecord) -> None:
    figures = [
        ("model", asked.model),
        ("for", asked.by or ""),
        (
            "status",
            asked.status if asked.error is None else f"{asked.status}: {asked.error.code} {asked.error.message}",
        ),
        ("turn", str(asked.turn)),
        ("attempts", str(asked.attempts) if asked.attempts > 1 else ""),
        ("tokens", "" if asked.usage is None else f"{asked.usage.input} in, {asked.usage.output} out"),
        ("cost", "" if asked.usage is None else dollars(asked.cost_usd)),
        ("first text", "" if asked.first_token_ms is None else f"{asked.first_token_ms} ms"),
        ("took", "" if asked.took_ms is None else f"{asked.took_ms} ms"),
        ("request id", asked.request_id or ""),
    ]
    for name, said in figures:
        if said:
            out.print(Text.assemble((f"{name:<11} ", "dim"), clean(said)), soft_wrap=True)
    if (request := asked.request) is None:
        _title("Request")
        out.print(Text(asked.missing, "dim"), soft_wrap=True)
    else:
        for part in request.prompt:
            _title(f"Prompt, by {part.by}" if part.by else "Prompt")
            _text(part.text)
        for message in request.messages:
            _show_message(message)
        _title("Tools")
        _text(", ".join(tool.name for tool in request.tools) or "none")
        _title("Parameters")
        _text(request.params.model_dump_json(exclude_defaults=True))
    if asked.reply is not None:
        _show_message(asked.reply, "Reply")
    _show_traces(asked.traceback, "")


def _show_message(message: Message, title: str | None = None) -> None:
    _title(title or f"{message.role.capitalize()}{f', by {message.origin}' if message.origin else ''}")
    if message.content:
        _text(message.content)
    for made in message.tool_calls:
        _text(f"→ {as_call(made.name, made.args)}")
    if message.images:
        out.print(Text(f"({len(message.images)} images)", "dim"))


def _show_tool_call(made: CallRecord) -> None:
    out.print(Text.assemble((as_call(made.tool_name, made.args), "cyan"), f"  {made.status}"), soft_wrap=True)
    if made.error is not None:
        _title("Error")
        _text(made.error)
    elif made.output not in (None, ""):
        _title("Result")
        _text(made.output if isinstance(made.output, str) else compact(made.output))
    for trace in made.traces or ():
        _show_traces(trace.traceback, trace.output, f", attempt {trace.attempt}" if trace.attempt > 1 else "")


def _show_traces(traceback: str, output: str, which: str = "") -> None:
    if output:
        _title(f"Output{which}")
        _text(output)
    if traceback:
        _title(f"Traceback{which}")
        show_stack(traceback)


def show_stack(traceback: str) -> None:
    """Print a traceback, in colour if this is a terminal."""
    text = clean(traceback).rstrip()
    if out.is_terminal:
        out.print(Syntax(text, "pytb", theme="ansi_dark", background_color="default"))
    else:
        sys.stdout.write(text + "\n")


def _title(text: str) -> None:
    out.print(Text(f"\n{clean(text)}", "bold"), soft_wrap=True)


def _text(text: str) -> None:
    out.print(Text(clean(text)), soft_wrap=True)
