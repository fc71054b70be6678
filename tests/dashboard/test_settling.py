"""Calls that wait for the outside, over HTTP: by a key, by the token alone, by the clients and by the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from agency.client import Client, Thread
from dashboard.command import app
from dashboard.gateway.routes.settling import BODY_BYTES
from tests.support.gateway_requests import assert_problem
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say, script


@pytest.fixture
def client(gateway: Server) -> Iterator[Client]:
    with Client(gateway.url) as client:
        yield client


def waiting(client: Client, ledger: Path, **more: int) -> tuple[Thread, str]:
    """A thread whose call waits, and its token."""
    asked = script(calls(("await_payment", {"ledger": str(ledger), **more})), say("done"))
    thread = client.create_agency("bank").create_thread("clerk", asked)
    eventually_waits(thread)
    return thread, ledger.read_text().split()[-1]


def eventually_waits(thread: Thread) -> None:
    for event in thread.events():
        if event.type == "run.paused":
            assert event.data["reason"] == "outside"
            return


def result(thread: Thread) -> str:
    assert thread.wait(timeout=20).data == "done"
    return next(message.content for message in thread.state().state.messages if message.role == "tool")


def test_a_client_settles_a_call_once(client: Client, tmp_path: Path) -> None:
    thread, token = waiting(client, tmp_path / "tokens")
    run = thread.run()
    assert run.meta.pause_reason == "outside" and run.meta.waiting_calls[0].waits_for == "the payment"
    first = thread.settle(token, {"paid": 5})
    assert (first.settled, first.status) == (True, "settled")
    again = thread.settle(token, "twice")
    assert (again.settled, again.status) == (False, "settled")
    assert result(thread) == '{"paid":5}'


def test_the_token_is_credential_enough_for_a_webhook(client: Client, guarded: Server, tmp_path: Path) -> None:
    thread, token = waiting(client, tmp_path / "tokens")
    with guarded.client() as stranger:
        assert_problem(stranger.get(f"/agency/{thread.agency_id}/agent/{thread.id}/run"), 401, "ERR_UNAUTHORIZED")
        assert stranger.get(f"/settle/{token}").status_code == 405
        settled = stranger.post(f"/settle/{token}", json={"event": "paid", "error": None})
        assert settled.status_code == 200
        assert settled.json() == {"settled": True, "status": "settled", "callId": settled.json()["callId"]}
        assert stranger.post(f"/settle/{token}", content="again").json()["settled"] is False
    assert result(thread) == '{"event":"paid","error":null}'
    secret = token.rpartition(".")[2]
    assert secret not in guarded.log.read_text()


@pytest.mark.parametrize(
    ("query", "body", "told"),
    [("", "all is paid", "all is paid"), ("", "", ""), ("?outcome=error", "refused", "refused")],
)
def test_a_webhook_says_text_nothing_or_an_error(
    query: str, body: str, told: str, client: Client, http: httpx.Client, tmp_path: Path
) -> None:
    thread, token = waiting(client, tmp_path / "tokens")
    assert http.post(f"/settle/{token}{query}", content=body).json()["settled"] is True
    assert result(thread).endswith(told)


def test_tokens_that_settle_nothing_look_alike(client: Client, http: httpx.Client, tmp_path: Path) -> None:
    thread, token = waiting(client, tmp_path / "tokens")
    agency, thread_id, secret = token.split(".")
    wrong = [
        "x",
        "a.b.c",
        f"{agency}.{thread_id}.{secret[:-1]}",
        f"{agency}.nowhere.{secret}",
        f"no.{thread_id}.{secret}",
    ]
    details = {assert_problem(http.post(f"/settle/{each}"), 404, "ERR_NOT_FOUND") for each in wrong}
    assert len(details) == 1 and not any(secret in each for each in details)
    other = client.create_agency("other").create_thread("clerk")
    path = f"/agency/{other.agency_id}/agent/{other.id}/settle"
    assert_problem(http.post(path, json={"token": token, "result": 1}), 404, "ERR_NOT_FOUND")
    assert thread.run().meta.pause_reason == "outside"


def test_a_body_that_is_too_large_or_wrong_changes_nothing(client: Client, http: httpx.Client, tmp_path: Path) -> None:
    thread, token = waiting(client, tmp_path / "tokens")
    assert_problem(http.post(f"/settle/{token}", content=b"x" * (BODY_BYTES + 1)), 413, "ERR_TOO_LARGE")
    path = f"/agency/{thread.agency_id}/agent/{thread.id}/settle"
    for body in ({}, {"token": token, "result": 1, "error": "both"}, {"token": 5}):
        assert_problem(http.post(path, json=body), 400, "ERR_INVALID_INPUT")
    assert thread.run().meta.pause_reason == "outside"


def test_a_deadline_ends_the_wait(client: Client, tmp_path: Path) -> None:
    thread, token = waiting(client, tmp_path / "tokens", timeout_ms=1_000)
    assert "did not come within 1 s" in result(thread)
    assert thread.settle(token, "late").status == "timed_out"


def test_the_command_reads_the_token_from_its_input(
    client: Client, gateway: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENCY_URL", gateway.url)
    thread, token = waiting(client, tmp_path / "tokens")
    done = CliRunner().invoke(app, ["settle", '{"paid": 7}'], input=f"{token}\n")
    assert done.exit_code == 0 and "is settled" in done.stderr
    assert "nothing changed" in CliRunner().invoke(app, ["settle", "--error", "no"], input=f"{token}\n").stderr
    assert result(thread) == '{"paid":7}'


# On Ray.


def test_a_tool_asks_a_model_aside_in_a_host(client: Client) -> None:
    asked = script(calls(("consult", {"question": script(say("blue"))})), say("done"))
    thread = client.create_agency("bank").create_thread("clerk", asked)
    assert result(thread) == "blue"


@pytest.mark.parametrize(("name", "args"), [("consult_in_a_task", {"question": "x"}), ("await_payment_in_a_task", {})])
def test_a_tool_in_a_ray_task_is_told_that_it_cannot(name: str, args: dict[str, str], client: Client) -> None:
    thread = client.create_agency("bank").create_thread("clerk", script(calls((name, args)), say("done")))
    assert "runs outside of its thread" in result(thread)
