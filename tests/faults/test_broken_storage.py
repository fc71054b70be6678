"""Files are damaged and a disk is full, for real: callers are told so, the rest goes on, and nothing is lost."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx
import pytest

from actors import Settings
from actors.address import Address, Files, discard
from actors.cluster import local_ray
from agency import Damaged, StorageFull
from agency.client import Client
from tests.support.damage import DAMAGES, empty, fill, overwrite, remove, scramble, small_disk
from tests.support.gateway_requests import assert_problem, create, finished, message, socket_events, stored
from tests.support.gateways import Server
from tests.support.processes import kill, session_of, titled
from tests.support.refusals import INTERNALS, assert_tells_nothing, refused
from tests.support.scripted_system import calls, charging, noting, say
from tests.support.terminals import agency as typed_command
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway with a Ray of its own, whose data folder is a small disk if this user may mount one; whatever is not
    used is closed soon, so that its file can be damaged."""
    folder = tmp_path_factory.mktemp("broken")
    with small_disk(folder / "data", 48) as mounted:
        settings = Settings(system="tests.support.scripted_system:system", data_dir=folder / "data", namespace="broken")
        environment = {"AGENCY_HIBERNATE_AFTER": "0.5", "AGENCY_WARM_HOSTS": "1", "AGENCY_ACTORS_PER_NODE": "2"}
        made = Server(settings, folder / "log", **environment)
        made.environment["MOUNTED"] = "yes" if mounted else ""
        yield made
        made.stop()
        local_ray.stop(settings.data_dir)


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def an_agency(http: httpx.Client, name: str = "bakery") -> str:
    return str(http.post("/agencies", json={"name": name}).json()["id"])


def closed(http: httpx.Client, server: Server, address: Address) -> Path:
    """The file of a thread, or of an agency with all its threads, once no process has it open."""

    def is_closed() -> bool:
        status = http.get("/status").json()
        awake = [each for host in status["hosts"] for each in host["threads"]]
        if address.thread:
            return str(address) not in awake
        return address.agency not in status["agencies"] and not any(each.startswith(address.agency) for each in awake)

    eventually_sync(is_closed, 60)
    return Files(server.settings.data_dir).of(address)


def command(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    return typed_command(*arguments, "--url", server.url, folder=server.settings.data_dir.parent)


@pytest.mark.parametrize("damage", [*DAMAGES, remove], ids=lambda each: each.__name__)
def test_a_damaged_thread_is_told_as_damaged_and_can_be_deleted(
    server: Server, http: httpx.Client, damage: Callable[[Path], None]
) -> None:
    agency = an_agency(http)
    thread, other = (create(http, agency, say("done")) for _ in range(2))
    for each in (thread, other):
        assert finished(http, agency, each)["status"] == "completed"
    damage(closed(http, server, Address(agency, thread)))
    path = f"/agency/{agency}/agent/{thread}"
    for answer in (
        http.get(f"{path}/run"),
        http.get(f"{path}/run", params={"wait": 0.5}),
        http.get(f"{path}/state"),
        http.post(f"{path}/invoke", json={"messages": [{"content": "hello"}]}),
        http.post(f"{path}/fork", json={}),
    ):
        told = refused(answer, 503, answer.json()["code"])
        assert answer.json()["code"] in ("ERR_DAMAGED", "ERR_NOT_A_THREAD_STORE")
        assert "damaged" in told and "agency doctor" in told
    with http.stream("GET", f"{path}/events", headers={"Accept": "text/event-stream"}) as stream:
        assert "retry: 60000" in stream.read().decode(), "no client comes back each second"
    with Client(server.url) as client, pytest.raises(Damaged, match="backup"):
        client.agency(agency).thread(thread).run()

    typed = command(server, "invoke", f"{agency}/{thread}", "hello")
    assert typed.returncode and ("ERR_DAMAGED" in typed.stderr or "ERR_NOT_A_THREAD_STORE" in typed.stderr)
    assert "Traceback" not in typed.stderr

    assert finished(http, agency, other)["data"] == "done"
    assert len(http.get(f"/agency/{agency}/agents").json()["agents"]) == 2
    assert http.delete(path).status_code == 204
    assert_problem(http.get(f"{path}/run"), 404, "ERR_NOT_FOUND")
    assert [each["id"] for each in http.get(f"/agency/{agency}/agents").json()["agents"]] == [other]


@pytest.mark.parametrize("damage", [*DAMAGES, remove], ids=lambda each: each.__name__)
async def test_a_damaged_thread_keeps_nothing_back_that_others_of_its_agency_have(
    server: Server, http: httpx.Client, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Neither their events, in pages and over a socket, nor what of them waits for a person."""
    agency = an_agency(http)
    asking = calls(charging(tmp_path / "ledger", "loaf"))
    broken, whole = (create(http, agency, asking, say("done"), agent="careful") for _ in range(2))
    for each in (broken, whole):
        assert finished(http, agency, each)["meta"]["pauseReason"] == "hitl"
    damage(closed(http, server, Address(agency, broken)))

    path = f"/agency/{agency}/events"
    for page in (http.get(path), http.get(path, params={"limit": 1_000})):
        assert page.status_code == 200, page.text
        assert {each["threadId"] for each in page.json()["events"]} == {whole}
    inbox = http.get(f"/agency/{agency}/approvals")
    assert inbox.status_code == 200, inbox.text
    assert [each["threadId"] for each in inbox.json()["approvals"]] == [whole]

    later = create(http, agency, say("later"))
    seen: set[str] = set()
    async with asyncio.timeout(30):
        async for event in socket_events(server, f"/agency/{agency}/ws?after=0"):
            seen.add(event["threadId"])
            if (event["threadId"], event["type"]) == (later, "agent.completed"):
                break
    assert seen == {whole, later}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_a_damaged_agency_is_listed_as_such_and_its_owner_can_delete_it(
    server: Server, http: httpx.Client, damage: Callable[[Path], None]
) -> None:
    agency, other = an_agency(http), an_agency(http, "mill")
    thread = create(http, agency, say("done"))
    assert finished(http, agency, thread)["status"] == "completed"
    key = http.post(f"/agency/{agency}/keys", json={"name": "k", "role": "admin"}).json()["key"]
    damage(closed(http, server, Address(agency)))

    for answer in (
        http.get(f"/agency/{agency}"),
        http.get(f"/agency/{agency}/agents"),
        http.get(f"/agency/{agency}", headers={"Authorization": f"Bearer {key}"}),
    ):
        refused(answer, 503, "ERR_DAMAGED")
    listed = {each["id"]: each for each in http.get("/agencies").json()["agencies"]}
    assert listed[agency]["damaged"] and not listed[other]["damaged"]
    assert "damaged" in next(line for line in command(server, "agencies").stdout.splitlines() if agency in line)
    assert command(server, "threads").returncode == 0
    examined = typed_command("doctor", "--data-dir", server.settings.data_dir, folder=server.settings.data_dir.parent)
    assert f"damaged: agencies/{agency}/agency.db" in examined.stdout
    assert finished(http, other, create(http, other, say("goes on")))["data"] == "goes on"

    assert http.delete(f"/agency/{agency}").status_code == 204
    assert not Files(server.settings.data_dir).folder(agency).exists()
    assert agency not in {each["id"] for each in http.get("/agencies").json()["agencies"]}
    assert_problem(http.get(f"/agency/{agency}"), 404, "ERR_NOT_FOUND")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_nothing_runs_beside_a_damaged_agency_that_its_policy_asks_about(
    server: Server, http: httpx.Client, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """The policy is in the damaged file: a thread that wakes must not take that for a policy without rules."""
    ledger = tmp_path / "ledger"
    agency = an_agency(http)
    http.put(f"/agency/{agency}/policy", json={"rules": [{"tool": "note", "risk": "high"}]}).raise_for_status()
    thread = create(http, agency, say("done"))
    finished(http, agency, thread)
    path = f"/agency/{agency}/agent/{thread}"
    body = {"messages": message(calls(noting(ledger, "risky")), say("never")), "idempotencyKey": "k"}
    file = closed(http, server, Address(agency))
    whole = file.read_bytes()
    damage(file)
    refused(http.post(f"{path}/invoke", json=body), 503, "ERR_DAMAGED")
    discard(file)
    file.write_bytes(whole)
    assert http.post(f"{path}/invoke", json=body).status_code == 202
    run = finished(http, agency, thread)
    assert (run["status"], run["meta"]["pauseReason"]) == ("paused", "hitl")
    assert not ledger.exists()


@pytest.mark.parametrize("damage", [overwrite, scramble, empty], ids=lambda each: each.__name__)
def test_a_damaged_overview_is_made_anew(server: Server, http: httpx.Client, damage: Callable[[Path], None]) -> None:
    agency = an_agency(http)
    finished(http, agency, create(http, agency, say("a loaf of rye")))
    search = {"q": "rye"}
    assert len(http.get(f"/agency/{agency}/search", params=search).json()["hits"]) == 1
    closed(http, server, Address(agency))
    damage(Files(server.settings.data_dir).overview(agency))
    assert len(http.get(f"/agency/{agency}/search", params=search).json()["hits"]) == 1
    assert http.get(f"/agency/{agency}/statistics").json()["total"]["runs"] == 1


def test_damaged_shelves_are_told_as_such_and_go_with_their_agency(server: Server, http: httpx.Client) -> None:
    agency = an_agency(http)
    entry = f"/agency/{agency}/shelf/notes/today.md"
    assert http.put(entry, content=b"rye " * 10_000).is_success
    overwrite(Files(server.settings.data_dir).shelves(agency) / "shelves.db")
    refused(http.get(entry), 503, "ERR_DAMAGED")
    refused(http.put(entry, content=b"more"), 503, "ERR_DAMAGED")
    thread = create(http, agency, calls(("shelve", {"shelf": "notes", "path": "a.md", "text": "rye"})), say("done"))
    assert finished(http, agency, thread)["status"] == "completed"
    (failed,) = (each for each in stored(http, agency, thread) if each["type"] == "tool.error")
    assert "damaged" in json.dumps(failed)
    for told in ("events", "state", "run", "model-calls"):
        answer = http.get(f"/agency/{agency}/agent/{thread}/{told}")
        assert answer.is_success and str(server.settings.data_dir) not in answer.text
    assert str(server.settings.data_dir) in http.get(f"/agency/{agency}/agent/{thread}/traces").text
    assert http.get(f"/agency/{agency}").status_code == 200
    assert http.delete(f"/agency/{agency}").status_code == 204


def test_a_full_disk_is_told_as_such_and_nothing_is_lost(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    if not server.environment["MOUNTED"]:
        pytest.skip("this user may not mount a file system")
    ledger = tmp_path / "ledger"
    ledger.touch()
    agency = an_agency(http)
    steps = [calls(noting(ledger, f"{n}", 0.4)) for n in range(6)]
    at_work = create(http, agency, *steps, say("done"))
    asleep = create(http, agency)
    eventually_sync(lambda: "end:1 " in ledger.read_text(), 60)
    filler = fill(server.settings.data_dir)
    try:
        answer = eventually_sync(lambda: _refusal(http, f"/agency/{agency}/agent/{asleep}/invoke"), 60)
        assert answer is not None
        told = refused(answer, 507, "ERR_STORAGE_FULL")
        assert "disk" in told and "nothing" in told.lower()
        refused(http.put(f"/agency/{agency}/shelf/notes/big", content=bytes(100_000)), 507, "ERR_STORAGE_FULL")
        refused(http.post("/agencies", json={"name": "mill"}), 507, "ERR_STORAGE_FULL")
        with Client(server.url) as client, pytest.raises(StorageFull):
            client.agency(agency).write_shelf("notes", "big", bytes(100_000))
        listed = http.get(f"/agency/{agency}/agents")  # SQLite needs some room to open a file
        assert listed.status_code == 200 or refused(listed, 507, "ERR_STORAGE_FULL")
    finally:
        filler.unlink()
    run = finished(http, agency, at_work, wait=60)
    assert (run["status"], run["data"]) == ("completed", "done")
    events = stored(http, agency, at_work)
    assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
    assert sum(each["type"] == "tool.output" for each in events) == len(steps)
    assert finished(http, agency, create(http, agency, say("goes on")))["data"] == "goes on"


def _refusal(http: httpx.Client, path: str) -> httpx.Response | None:
    """Messages are taken in until the room that the file has left is used up."""
    answer = http.post(path, json={"messages": [{"content": "x" * 50_000}], "when": "next_run"})
    return answer if answer.status_code >= 400 else None


# Hosts die, time after time.


def test_calls_wait_within_their_own_time_while_hosts_die(server: Server, http: httpx.Client) -> None:
    agency = an_agency(http)
    thread = create(http, agency, say("done"))
    finished(http, agency, thread)
    closed(http, server, Address(agency, thread))
    path = f"/agency/{agency}/agent/{thread}"
    storm = threading.Event()
    hosts = functools.partial(titled, "ray::Host", session_of(server.settings))

    def rage() -> None:
        while not storm.is_set():
            kill(*hosts())
            storm.wait(0.02)

    raging = threading.Thread(target=rage)
    raging.start()
    try:
        eventually_sync(lambda: any(node["problem"] for node in http.get("/status").json()["nodes"]), 60)
        asked = time.monotonic()
        run = http.get(f"{path}/run", params={"wait": 3})
        took = time.monotonic() - asked
        assert (run.status_code, run.json()["status"], run.json()["data"]) == (200, "completed", "done"), run.text
        assert 2.5 < took < 20
        unready = eventually_sync(lambda: _not_ready(http), 60)
        assert unready is not None
        refused(unready, 503, "ERR_UNAVAILABLE")
        with ThreadPoolExecutor() as side_by_side:
            body = {"messages": message(say("again"))}
            invoked = side_by_side.submit(http.post, f"{path}/invoke", json=body)
            state = side_by_side.submit(http.get, f"{path}/state")
            wait([invoked, state], timeout=3)
            storm.set()
            assert invoked.result(60).status_code == 202, invoked.result().text
            assert state.result(60).status_code == 200, state.result().text
        assert finished(http, agency, thread, wait=60)["data"] == "again"
    finally:
        storm.set()
        raging.join()


def _not_ready(http: httpx.Client) -> httpx.Response | None:
    answer = http.get("/healthz")
    return answer if answer.status_code == 503 and "starting again" in answer.text else None


# No answer tells of the machine, whatever is broken: every route of the document, with everything damaged.

FOR_THOSE_WHO_RUN_IT = ("/status", "/logs")
"""What only the installation's secret opens, and what tells of the machine."""


def test_no_refusal_of_any_route_tells_of_the_machine(server: Server, http: httpx.Client) -> None:
    agency = an_agency(http)
    thread = create(http, agency, say("done"))
    finished(http, agency, thread)
    http.put(f"/agency/{agency}/shelf/notes/today.md", content=b"rye")
    files = Files(server.settings.data_dir)
    scramble(closed(http, server, Address(agency, thread)))
    overwrite(files.shelves(agency) / "shelves.db")
    broken_thread = list(_every_route(http, agency, thread))
    damaged = an_agency(http)
    overwrite(closed(http, server, Address(damaged)))
    broken_agency = list(_every_route(http, damaged, thread))
    answers = broken_thread + broken_agency
    assert sum(answer.status_code >= 400 for answer in answers) > 60
    place = str(server.settings.data_dir)
    for answer in answers:
        if answer.status_code >= 400:
            assert_tells_nothing(answer)
        if answer.request.url.path not in FOR_THOSE_WHO_RUN_IT:
            assert place not in answer.text, (answer.request.url, answer.text)
    (decided,) = (each for each in broken_thread if each.request.method == "POST" and _is_inbox(each.request.url.path))
    assert [each["code"] for each in decided.json()["refused"]] == ["ERR_NOT_A_THREAD_STORE"]
    assert not INTERNALS.search(decided.text), decided.text


def _is_inbox(path: str) -> bool:
    return path.endswith("/approvals")


def _every_route(http: httpx.Client, agency: str, thread: str) -> Iterator[httpx.Response]:
    """What every route of the document answers; what deletes, last."""
    paths: dict[str, dict[str, Any]] = http.get("/openapi.json").json()["paths"]
    wanted = [(method, path, each) for path, methods in paths.items() for method, each in methods.items()]
    values = {"agency_id": agency, "thread_id": thread, "shelf": "notes", "path": "today.md", "seq": "1"}
    until = time.monotonic() + 120
    for method, path, described in sorted(wanted, key=lambda each: (each[0] == "delete", -len(each[1]))):
        assert time.monotonic() < until
        address = re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], "x"), path)
        query = {each["name"]: "notes" for each in described.get("parameters", ()) if each["in"] == "query"}
        required = {each["name"] for each in described.get("parameters", ()) if each.get("required")}
        kinds = described.get("requestBody", {}).get("content", {})
        body: dict[str, Any] = {"json": _example(kinds)} if "application/json" in kinds else {}
        if method == "post" and _is_inbox(path):
            body = {"json": {"decisions": {f"{thread}:9a2c": {"decision": "approve"}}}}
        if not body and kinds:
            body = {"content": b"x", "headers": {"Content-Type": next(iter(kinds))}}
        params = {name: value for name, value in query.items() if name in required}
        yield http.request(method.upper(), address, params=params, **body)


def _example(kinds: dict[str, Any]) -> Any:
    found = kinds["application/json"]
    return found.get("example") or next((each["value"] for each in found.get("examples", {}).values()), {})
