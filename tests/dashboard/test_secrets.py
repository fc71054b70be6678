"""Secrets of a served system: values are planted in the server's environment, and then looked for in all that is
written, answered and handed over."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx
import psutil
import pytest

from actors import Settings
from actors.address import Address, Files
from actors.cluster import local_ray
from actors.sealing import seal, unseal
from agency.errors import Unavailable
from tests.support.gateway_requests import create, finished, stored
from tests.support.gateways import Server
from tests.support.paths import ROOT
from tests.support.scripted_system import calls, noted, say
from tests.support.secret_system import NAMES, UNDECLARED
from tests.support.terminals import agency

VALUES = {name: f"planted-{n}/{secrets.token_hex(8)}" for n, name in enumerate(NAMES)}
UNTOLD = f"untold/{secrets.token_hex(8)}"
OWNER = f"owner-{secrets.token_hex(8)}"
SPELLED = [
    spelled
    for value in (*VALUES.values(), UNTOLD, OWNER)
    for spelled in (value, quote(value, safe=""), base64.b64encode(value.encode()).decode().rstrip("="))
]


def found_in(text: str | bytes) -> list[str]:
    said = text.encode() if isinstance(text, str) else text
    return [each for each in SPELLED if each.encode() in said]


def files_with_values(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and found_in(path.read_bytes())]


def environments(pids: list[int]) -> dict[int, list[str]]:
    """Which values stand in the environments that processes began with, but for the one that is declared nowhere."""
    found = {pid: found_in(Path(f"/proc/{pid}/environ").read_bytes()) for pid in pids if psutil.pid_exists(pid)}
    return {pid: told for pid, each in found.items() if (told := [one for one in each if one != UNTOLD])}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a Ray of its own, which begins with the values in its environment."""
    folder = tmp_path_factory.mktemp("secrets")
    settings = Settings(
        system="tests.support.secret_system:system", python_path=(str(ROOT),), data_dir=folder / "data", namespace="own"
    )
    made = Server(settings, folder / "log", **VALUES, **{UNDECLARED: UNTOLD}, AGENCY_SECRET=OWNER)
    yield made
    made.stop()
    local_ray.stop(settings.data_dir)


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client(Authorization=f"Bearer {OWNER}") as client:
        yield client


@pytest.fixture(scope="module")
def shop(http: httpx.Client) -> str:
    return str(http.post("/agencies").json()["id"])


def test_values_reach_tools_hooks_and_tasks_and_nothing_else(server: Server, http: httpx.Client, shop: str) -> None:
    wanted = [(name, {"how": how}) for name in ("leak", "leak_in_task") for how in ("said", "told", "raised")]
    lines = [calls(each) for each in [*wanted, ("dump", {}), ("environment_of_task", {})]]
    thread = create(http, shop, *lines, say("done"))
    run = finished(http, shop, thread, 60)
    assert (run["status"], run["data"]) == ("completed", "done")
    state = http.get(f"/agency/{shop}/agent/{thread}/state").json()
    results = [message["content"] for message in state["state"]["messages"] if message["role"] == "tool"]
    size = len(VALUES["LEAKED_IN_HOST"])
    assert results[0] == results[3] == f"it has {size} characters: [redacted]"
    assert all("[redacted]" in each for each in results[:6])
    assert sorted(results[6].splitlines()) == sorted(f"{name}=[redacted]" for name in NAMES)
    assert json.loads(results[7]) == {"has": [], "began": []}  # a task has what its tool declares, and this one nothing
    assert state["state"]["leaking"] == {"length": size, "value": "[redacted]"}

    answers = [json.dumps(each) for each in (run, state, stored(http, shop, thread))]
    answers += [http.get(path).text for path in ("/status", "/metrics", f"/agency/{shop}/providers")]
    answers += [http.get(path).text for path in (f"/agency/{shop}/blueprints", f"/agency/{shop}/events")]
    assert [found_in(text) for text in answers if found_in(text)] == []
    running = local_ray.find(server.settings.data_dir)
    assert running is not None
    assert files_with_values(server.settings.data_dir) == []
    assert files_with_values(Path(running.temp_dir)) == []
    assert found_in(server.log.read_bytes()) == []
    assert environments(running.processes) == {}
    titles = ["\0".join(psutil.Process(pid).cmdline()) for pid in running.processes if psutil.pid_exists(pid)]
    assert [title for title in titles if found_in(title)] == []


def test_a_key_that_nobody_has_declared_is_stored_nowhere_either(server: Server, http: httpx.Client, shop: str) -> None:
    tools = ("leak_undeclared", "leak_undeclared_in_task")
    lines = [calls((name, {"how": how})) for name in tools for how in ("said", "told", "raised")]
    thread = create(http, shop, *lines, say("done"))
    assert finished(http, shop, thread, 60)["data"] == "done"
    state = http.get(f"/agency/{shop}/agent/{thread}/state").json()
    results = [message["content"] for message in state["state"]["messages"] if message["role"] == "tool"]
    assert [each.count("[redacted]") for each in results] == [1] * 6, results
    traces = http.get(f"/agency/{shop}/agent/{thread}/traces").text
    answers = [json.dumps(state), json.dumps(stored(http, shop, thread)), traces, http.get("/logs").text]
    assert [found_in(text) for text in answers if found_in(text)] == []
    assert files_with_values(server.settings.data_dir) == []


def test_what_ray_is_given_for_hosts_is_sealed(tmp_path: Path) -> None:
    """The settings are an argument of the directory and of every host."""
    settings = Settings(system="a:b", data_dir=tmp_path, environment=seal(tmp_path, VALUES))
    assert found_in(pickle.dumps(settings)) == found_in(repr(settings)) == found_in(settings.model_dump_json()) == []
    assert files_with_values(tmp_path) == []
    assert unseal(tmp_path, settings.environment) == VALUES
    (key,) = tmp_path.iterdir()
    assert key.stat().st_mode & 0o777 == 0o600
    key.write_bytes(b"another")
    with pytest.raises(Unavailable, match="does not open what this installation was started with") as raised:
        unseal(tmp_path, settings.environment)
    assert found_in(str(raised.value)) == []
    assert (seal(tmp_path / "none", {}), unseal(tmp_path / "none", "")) == ("", {})
    assert not (tmp_path / "none").exists()


async def test_processes_that_seal_at_once_agree_on_a_key(tmp_path: Path) -> None:
    sealed = await asyncio.gather(*(asyncio.to_thread(seal, tmp_path, {"N": str(n)}) for n in range(8)))
    assert [unseal(tmp_path, each)["N"] for each in sealed] == [str(n) for n in range(8)]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("named", ["env:LEAKED_BY_HOOKS2", "env:AGENCY_SECRET", "env:PATH", "file:/etc/hostname"])
def test_an_agencys_blueprint_names_what_is_for_agencies_and_nothing_else(
    http: httpx.Client, shop: str, named: str
) -> None:
    body = {"name": "own", "description": "Own.", "prompt": "own", "config": {"leaking": {"key": named}}}
    refused = http.post(f"/agency/{shop}/blueprints", json=body)
    assert refused.status_code == 400, refused.text
    assert f"begin with AGENCY_KEY_, as in 'env:AGENCY_KEY_MINE', and to nothing else; not to {named}" in refused.text
    assert http.get(f"/agency/{shop}/blueprints").text.count('"own"') == 0


def test_an_agencys_blueprint_uses_its_own_secret_and_keeps_what_the_code_names(http: httpx.Client, shop: str) -> None:
    config = {"leaking": {"key": "env:AGENCY_KEY_LEAKED"}}
    own = {"name": "own", "description": "Own.", "prompt": "own", "config": config}
    assert http.post(f"/agency/{shop}/blueprints", json=own).status_code < 300
    thread = create(http, shop, say("done"), agent="own")
    assert finished(http, shop, thread)["data"] == "done"
    leaking = http.get(f"/agency/{shop}/agent/{thread}/state").json()["state"]["leaking"]
    assert leaking == {"length": len(VALUES["AGENCY_KEY_LEAKED"]), "value": "[redacted]"}
    changed = http.post(f"/agency/{shop}/blueprints", json={"name": "clerk", "prompt": "other"})
    assert changed.status_code < 300, changed.text


def test_an_admins_blueprint_uses_a_key_only_in_the_sections_that_the_operator_names(
    http: httpx.Client, server: Server, shop: str
) -> None:
    """The owner may, and what the owner has set may stay; an admin may only what `AGENCY_KEYS` says."""
    made = http.post(f"/agency/{shop}/keys", json={"name": "admin", "role": "admin"}).json()
    config = {"leaking": {"key": "env:AGENCY_KEY_LEAKED"}}
    body = {"name": "theirs", "description": "Theirs.", "prompt": "theirs"}
    at = f"/agency/{shop}/blueprints"
    with server.client(Authorization=f"Bearer {made['key']}") as admin:
        refused = admin.post(at, json={**body, "config": config})
        assert refused.status_code == 400 and '"middleware":["leaking"]' in refused.json()["detail"], refused.text
        hidden = {"subagents": {"agents": [{**body, "name": "inner", "config": config}]}}
        assert admin.post(at, json={**body, "config": hidden}).status_code == 400
        assert http.post(at, json={**body, "config": config}).status_code < 300
        assert admin.post(at, json={**body, "prompt": "changed"}).status_code < 300, "the owner's section stays"
        other = {"leaking": {"key": "env:AGENCY_KEY_OTHER"}}
        assert admin.post(at, json={**body, "config": other}).status_code == 400
        # What was deleted is no word of the owner's any more.
        assert admin.delete(f"{at}/theirs").status_code == 204
        assert admin.post(at, json={**body, "config": config}).status_code == 400


def test_a_blueprint_from_before_the_rule_gets_no_value(http: httpx.Client, server: Server) -> None:
    shop = str(http.post("/agencies").json()["id"])
    body = {
        "name": "old",
        "description": "Old.",
        "prompt": "old",
        "config": {"leaking": {"key": "env:AGENCY_KEY_LEAKED"}},
    }
    assert http.post(f"/agency/{shop}/blueprints", json=body).status_code < 300
    path = Files(server.settings.data_dir).of(Address(shop))
    with closing(sqlite3.connect(path)) as db:  # as an earlier release has left it
        db.execute("UPDATE blueprints SET vouched = '[]' WHERE name = 'old'")
        db.commit()
    assert http.put(f"/agency/{shop}/budget", json={}).status_code == 200  # so that hosts look again
    run = finished(http, shop, create(http, shop, say("done"), agent="old"))
    assert (run["status"], run["errors"][0]["code"]) == ("error", "ERR_HOOK")
    assert "AGENCY_KEYS" in run["errors"][0]["message"]


def test_the_doctor_tells_what_middleware_cannot_open(tmp_path: Path) -> None:
    system = ("--system", "tests.support.opening_system:system")

    def found(**variables: str) -> tuple[str, str]:
        done = agency("doctor", "--json", *system, folder=ROOT, AGENCY_DATA_DIR=str(tmp_path), **variables)
        findings = {each["what"]: each for each in json.loads(done.stdout)["findings"]}
        return findings["opening pool"]["state"], findings["opening pool"]["found"]

    state, problem = found()
    assert (state, "NoSecret: env:OPENINGS_LEDGER is not set" in problem) == ("warning", True)
    assert found(OPENINGS_LEDGER=str(tmp_path / "ledger")) == ("ok", "it opens")
    assert noted(tmp_path / "ledger") == ["process-open", "process-close"]


def test_the_doctor_names_what_is_missing_and_says_no_value(tmp_path: Path) -> None:
    some = {name: value for name, value in VALUES.items() if name != "LEAKED_IN_TASK"}
    system = ("--system", "tests.support.secret_system:system")
    done = agency("doctor", "--json", *system, folder=ROOT, AGENCY_DATA_DIR=str(tmp_path), **some)
    findings = {each["what"]: each for each in json.loads(done.stdout)["findings"]}
    missing = findings["tool 'leak_in_task'"]
    assert (missing["state"], missing["found"]) == ("warning", "env:LEAKED_IN_TASK is not set")
    assert findings["tool 'leak'"]["found"] == "env:LEAKED_IN_HOST set"
    assert findings["agent 'clerk'"]["state"] == "ok"
    assert found_in(done.stdout + done.stderr) == []
