"""What the owner sets of an agency, its admins can tighten and never loosen: over HTTP, by clients, in commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agency.approvals.rules import Policy, Rule
from agency.client import Client
from agency.errors import Forbidden
from tests.support.gateway_requests import assert_problem, create, finished, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, charging, holding, let_go, noted, noting, say, task
from tests.support.terminals import agency as command
from tests.support.waiting import eventually_sync

CALL = 15


def key(http: httpx.Client, agency: str, role: str = "admin") -> str:
    return str(http.post(f"/agency/{agency}/keys", json={"name": role, "role": role}).json()["key"])


@pytest.fixture
def admin(http: httpx.Client, gateway: Server, agency: str) -> Iterator[httpx.Client]:
    """Holds a key of the agency; `http` shows none, and is the owner."""
    with gateway.client(Authorization=f"Bearer {key(http, agency)}") as client:
        yield client


def layers(client: httpx.Client, agency: str) -> Any:
    return client.get(f"/agency/{agency}/layers").json()


def test_an_admin_cannot_raise_the_owners_budget_nor_take_it_away(
    http: httpx.Client, admin: httpx.Client, agency: str
) -> None:
    at = f"/agency/{agency}/budget"
    assert http.put(at, json={"tokens": CALL, "costUsd": 5}).status_code == 200
    told = assert_problem(admin.put(at, json={"tokens": 16, "costUsd": 6}), 403, "ERR_FORBIDDEN")
    assert "tokens can be at most 15, not 16; costUsd can be at most 5, not 6" in told
    assert admin.put(at, json={}).json()["budget"]["tokens"] == CALL, "its own layer is empty, the owner's is there"
    lower = admin.put(at, json={"costUsd": 1, "turns": 9}).json()["budget"]
    assert lower == {"turns": 9, "timeMs": None, "tokens": CALL, "costUsd": 1.0}
    assert http.get(f"/agency/{agency}").json()["budget"] == lower
    found = layers(admin, agency)
    assert (found["yours"], layers(http, agency)["yours"]) == ("agency", "owner")
    assert (found["budget"]["owner"]["tokens"], found["budget"]["agency"]["tokens"]) == (CALL, None)

    thread = create(http, agency, calls(("nothing_like_it", {})), say("done"), agent="broker")
    assert finished(http, agency, thread)["errors"][0]["code"] == "ERR_AGENCY_TOKENS"
    assert_problem(admin.put(at, json={"tokens": 1_000}), 403, "ERR_FORBIDDEN")
    assert admin.put(at, json={}).json()["exhausted"] == "ERR_AGENCY_TOKENS"
    assert http.put(at, json={"tokens": 10 * CALL}).json()["exhausted"] is None
    eventually_sync(lambda: finished(http, agency, thread)["status"] == "completed")
    admin.put(at, json={"tokens": 9 * CALL})
    assert http.put(at, json={"tokens": CALL}).json()["budget"]["tokens"] == CALL, "the owner's wins where it is lower"


def test_an_admin_cannot_undo_the_owners_policy(
    http: httpx.Client, admin: httpx.Client, agency: str, ledger: Path
) -> None:
    at = f"/agency/{agency}/policy"
    owners = {"rules": [{"tool": "charge", "risk": "high"}]}
    assert http.put(at, json=owners).status_code == 200
    told = assert_problem(admin.put(at, json={"rules": [{"tool": "charge", "risk": "low"}]}), 403, "ERR_FORBIDDEN")
    assert "cannot make charge low" in told
    everything_is_low: list[dict[str, Any]] = [{"rules": []}, {"rules": [{"tool": "*", "risk": "low"}]}]
    for looser in everything_is_low:
        assert admin.put(at, json=looser).status_code == 200
        thread = create(http, agency, calls(charging(ledger, "x")), say("done"))
        assert finished(http, agency, thread)["meta"]["pauseReason"] == "hitl"
    unattended = {"name": "free", "prompt": "You charge.", "unattended": True, "tags": ["default"]}
    assert admin.post(f"/agency/{agency}/blueprints", json=unattended).status_code == 201
    thread = create(http, agency, calls(charging(ledger, "x")), say("done"), agent="free")
    assert finished(http, agency, thread)["meta"]["pauseReason"] == "hitl"
    assert_problem(admin.put(at, json={"timeoutMs": 5, "onTimeout": "approve"}), 403, "ERR_FORBIDDEN")
    assert noted(ledger) == []

    tighter = {"rules": [{"tool": "note", "risk": "high"}]}
    in_effect = admin.put(at, json=tighter).json()
    assert [rule["tool"] for rule in in_effect["rules"]] == ["charge", "note"]
    for wanted in (charging(ledger, "x"), noting(ledger, "x")):
        thread = create(http, agency, calls(wanted), say("done"))
        assert finished(http, agency, thread)["meta"]["pauseReason"] == "hitl"
    found = layers(admin, agency)["policy"]
    assert [found[layer]["rules"][0]["tool"] for layer in ("owner", "agency")] == ["charge", "note"]


def test_no_run_is_above_the_ceiling_whatever_its_own_limits_are(
    http: httpx.Client, admin: httpx.Client, agency: str, ledger: Path
) -> None:
    at = f"/agency/{agency}/limits"
    nothing = {"turns": None, "timeMs": None, "tokens": None, "costUsd": None}
    assert http.get(at).json() == nothing
    assert http.put(at, json={"tokens": CALL}).json() == {**nothing, "tokens": CALL}
    told = assert_problem(admin.put(at, json={"tokens": 1_000}), 403, "ERR_FORBIDDEN")
    assert "limits of a run: tokens can be at most 15" in told
    assert admin.put(at, json={"turns": 7}).json() == {**nothing, "tokens": CALL, "turns": 7}
    lines = (calls(("nothing_like_it", {})), say("done"))
    for limits in ({}, {"limits": {"tokens": 1_000, "turns": None}}):
        run = finished(http, agency, create(http, agency, *lines, agent="broker", **limits))
        assert (run["status"], run["errors"][0]["code"]) == ("paused", "ERR_TOKEN_LIMIT")
    thread = run["meta"]["threadId"]
    lift = f"/agency/{agency}/agent/{thread}/limits"
    assert "may have more tokens than 15" in assert_problem(
        http.post(lift, json={"tokens": 1_000}), 400, "ERR_INVALID_INPUT"
    )
    assert http.put(at, json={"tokens": 100}).status_code == 200
    assert http.post(lift, json={"tokens": 100}).status_code == 200
    assert finished(http, agency, thread)["data"] == "done"
    child = task(calls(("nothing_like_it", {})), say("late"), to="runner")
    http.put(at, json={"turns": 1})
    family = create(http, agency, calls(child), say("whole"), agent="broker", limits={"turns": None})
    run = finished(http, agency, family)
    children = http.get(f"/agency/{agency}/agents", params={"parent": family}).json()["agents"]
    assert [each["status"] for each in children] != [] and run["meta"]["turns"] <= 2
    for each in children:
        assert finished(http, agency, each["id"])["meta"]["turns"] <= 2


def test_a_run_at_work_meets_a_ceiling_that_is_set_meanwhile(http: httpx.Client, agency: str, ledger: Path) -> None:
    thread = create(http, agency, calls(holding(ledger, "x")), say("done"), agent="broker")
    eventually_sync(lambda: "begin:x" in noted(ledger))
    assert http.put(f"/agency/{agency}/limits", json={"tokens": CALL}).status_code == 200
    let_go(ledger, "x")
    assert finished(http, agency, thread)["errors"][0]["code"] == "ERR_TOKEN_LIMIT"
    assert "model.started" in {event["type"] for event in stored(http, agency, thread)}


def test_who_may_see_and_set_layers(http: httpx.Client, gateway: Server, agency: str) -> None:
    for role, seen in (("viewer", 403), ("operator", 403), ("admin", 200)):
        with gateway.client(Authorization=f"Bearer {key(http, agency, role)}") as holder:
            assert holder.get(f"/agency/{agency}/layers").status_code == seen
            assert holder.put(f"/agency/{agency}/limits", json={}).status_code == seen
            assert holder.get(f"/agency/{agency}/limits").status_code == 200
    for wrong in ({"turns": 0}, {"costUsd": -1}, {"days": 1}):
        assert_problem(http.put(f"/agency/{agency}/limits", json=wrong), 400, "ERR_INVALID_INPUT")


def test_clients_and_commands_show_both(http: httpx.Client, gateway: Server, agency: str, tmp_path: Path) -> None:
    text = key(http, agency)
    with Client(gateway.url) as owner, Client(gateway.url, secret=text) as holder:
        ours, theirs = owner.agency(agency), holder.agency(agency)
        ours.set_limits(turns=50, cost_usd=2.0)
        ours.set_budget(tokens=9_000)
        assert theirs.set_limits(turns=20).turns == 20
        with pytest.raises(Forbidden, match="costUsd can be at most 2, not 3"):
            theirs.set_limits(cost_usd=3)
        ours.set_policy(Policy(rules=(Rule(tool="charge", risk="high"),)))
        found = theirs.layers()
        assert (found.yours, found.limits.owner.turns, found.limits.agency.turns) == ("agency", 50, 20)
        assert theirs.limits().cost_usd == 2.0

    def run(*words: str) -> str:
        said = command(*words, "--agency", agency, folder=tmp_path, AGENCY_URL=gateway.url, AGENCY_SECRET=text)
        assert said.returncode == 0, said.stderr
        return said.stdout

    rows = [line.split("\t") for line in run("limits", "--tokens", "500").splitlines()]
    assert rows[0] == ["turns", "20", "50", "20"] and rows[2:] == [
        ["tokens", "500", "no limit", "500"],
        ["cost", "$2.00", "$2.00", "no limit"],
    ]
    rows = [line.split("\t") for line in run("budget", "--tokens", "800").splitlines()]
    assert rows[2] == ["tokens", "0", "0", "800", "9,000", "800"]
    assert [line.split("\t") for line in run("usage").splitlines()] == rows
    assert '"charge"' in run("policy", "--layers") and '"owner"' in run("policy", "--layers")
