"""`agency inbox`, `approve` and `lift`: list what waits for a person at a server, and decide on it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from agency.api import bodies as api
from agency.approvals.pending import PendingToolCall
from agency.errors import InvalidInput, WrongState
from agency.turn.outcomes import Always, Approve, Decision, Deny, Rerun, Respond
from dashboard.command.terminal.console import AsJson, DataDir, app, complain, err, print_json, print_line
from dashboard.command.terminal.prompts import Question, parse_edit, parse_happened
from dashboard.command.terminal.rendering import call_line, left_in_doubt
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, agencies, server, the_thread

if TYPE_CHECKING:
    from agency.client import Client, Thread


@app.command()
def approve(
    thread: Annotated[
        str | None,
        typer.Argument(
            metavar="[THREAD]", help="A thread's id, or [bold]agency/thread[/]. [dim]Default: all threads that wait[/]"
        ),
    ] = None,
    call: Annotated[str | None, typer.Option(help="Decide only on the call with this id.")] = None,
    deny: Annotated[str | None, typer.Option(metavar="REASON", help="Deny the call, and tell the model why.")] = None,
    edit: Annotated[str | None, typer.Option(metavar="JSON", help="Run the call with these arguments.")] = None,
    respond: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Do not run the call; use this text as its result.")
    ] = None,
    always: Annotated[
        bool, typer.Option("--always", help="Approve the call, and all later calls of this tool in the thread.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Approve without asking. Calls in doubt are left waiting.")
    ] = False,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Of a call in doubt: run it again, though it may have happened.")
    ] = False,
    happened: Annotated[
        str | None, typer.Option(metavar="JSON", help="Of a call in doubt: it did happen, with this result.")
    ] = None,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Decide on calls that wait for approval. Without options, you are asked about each call.

    [dim]--json only lists the calls, unless you also pass a decision.[/]
    """
    decision = _decision(deny, edit, respond, happened, always=always, yes=yes, rerun=rerun)
    if thread is None and (call is not None or decision not in (None, Approve())):
        raise InvalidInput("name the thread to decide on; only --yes decides for all threads")
    with server(url, data_dir) as client:
        waiting = _waiting(client, thread, agency)
        if as_json and decision is None:
            print_json(api.ApprovalPage(approvals=tuple(approval for _, approval in waiting)))
            return
        if not waiting:
            err.print("nothing waits for a person")
        for found, approval in waiting:
            if approval.calls:
                _decide(found, _chosen(approval, call), decision)
            else:
                err.print(_limit_line(found.agency_id, approval), highlight=False)
        if as_json:
            print_json(api.Ok())


@app.command()
def inbox(agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List everything that waits for a person: calls to approve, also of subagents, and limits that are used up."""
    with server(url, data_dir) as client:
        waiting = _waiting(client, None, agency)
    if as_json:
        print_json(api.ApprovalPage(approvals=tuple(approval for _, approval in waiting)))
        return
    if not waiting:
        err.print("nothing waits for a person")
    for found, approval in waiting:
        if not approval.calls:
            print_line(Text(_limit_line(found.agency_id, approval)))
        for call in approval.calls:
            print_line(Text.assemble(f"{found.agency_id}/{found.id}  ", call_line(call)))


def _limit_line(agency_id: str, approval: api.Approval) -> str:
    return f"{agency_id}/{approval.thread_id}  {approval.code}: see `agency lift` and `agency budget`"


def _decision(
    deny: str | None,
    edit: str | None,
    respond: str | None,
    happened: str | None,
    *,
    always: bool,
    yes: bool,
    rerun: bool,
) -> Decision | None:
    """The decision that the options name; None if they name none."""
    if sum(each is not None for each in (deny, edit, respond, happened)) + always + yes + rerun > 1:
        raise InvalidInput("--yes, --always, --deny, --edit, --respond, --rerun and --happened exclude each other")
    if happened is not None:
        return parse_happened(happened)
    if rerun:
        return Rerun()
    if deny is not None:
        return Deny(deny)
    if edit is not None:
        return parse_edit(edit)
    if respond is not None:
        return Respond(respond)
    if always:
        return Always()
    return Approve() if yes else None


def _waiting(client: Client, thread: str | None, agency: str | None) -> list[tuple[Thread, api.Approval]]:
    if thread is None:
        homes = [client.agency(each.id) for each in agencies(client, agency)]
        return [(home.thread(each.thread_id), each) for home in homes for each in home.approvals()]
    found = the_thread(client, thread, agency)
    run = found.run()
    if not run.meta.pending_tool_calls:
        raise WrongState(f"no call of thread {found.id} waits for a person")
    info = found.info()
    approval = api.Approval(
        thread_id=found.id,
        agent_type=info.agent_type,
        run_id=run.run_id,
        since=info.updated_at,
        calls=run.meta.pending_tool_calls,
    )
    return [(found, approval)]


def _chosen(approval: api.Approval, call_id: str | None) -> tuple[PendingToolCall, ...]:
    if call_id is None:
        return approval.calls
    chosen = tuple(call for call in approval.calls if call.id == call_id)
    if not chosen:
        known = ", ".join(call.id for call in approval.calls)
        raise InvalidInput(f"call {call_id!r} does not wait for a person; {known} do")
    return chosen


def _decide(thread: Thread, calls: tuple[PendingToolCall, ...], given: Decision | None) -> None:
    while True:
        decisions = {
            call.approval_id: given or _ask(thread, call) for call in calls if not _left_in_doubt(thread, call, given)
        }
        if not decisions:
            return
        try:
            thread.decide(decisions)
        except InvalidInput as error:
            if given is not None:
                raise
            complain(error)  # and ask again
            continue
        except WrongState as error:  # decided elsewhere in the meantime
            if given is not None:
                raise
            complain(error)
        return


def _left_in_doubt(thread: Thread, call: PendingToolCall, given: Decision | None) -> bool:
    """Whether a call is in doubt and the decision is for calls that have not begun; that is said."""
    if call.kind != "in_doubt" or given != Approve():
        return False
    err.print(left_in_doubt(call, f"agency approve {thread.agency_id}/{thread.id} --call {call.id}"), soft_wrap=True)
    return True


def _ask(thread: Thread, call: PendingToolCall) -> Decision:
    if not sys.stdin.isatty():
        raise InvalidInput(
            "without a terminal you must pass --yes, --always, --deny REASON, --edit JSON or --respond TEXT; "
            "of a call in doubt, --rerun or --happened JSON"
        )
    err.print(f"\n[yellow]✋[/] {thread.agency_id}/{thread.id}", highlight=False)
    err.print(call_line(call))
    question = Question(call)
    while question.decision is None:
        question.take(err.input(Text(question.prompt)))
    return question.decision


@app.command()
def lift(
    thread: ThreadName,
    turns: Annotated[int | None, typer.Option(min=1, help="Turns of the run.", show_default=False)] = None,
    minutes: Annotated[float | None, typer.Option(help="Minutes at work.", show_default=False)] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens, input and output.", show_default=False)] = None,
    cost_usd: Annotated[float | None, typer.Option(help="US dollars.", show_default=False)] = None,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Raise the limits of a run that has used one up, and let it continue."""
    if turns is None and minutes is None and tokens is None and cost_usd is None:
        raise InvalidInput("say how much: --turns, --minutes, --tokens or --cost-usd")
    time_ms = None if minutes is None else round(60_000 * minutes)
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        found.lift_limits(turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
    err.print(f"{found.agency_id}/{found.id} goes on", highlight=False)
