"""What a middleware brings is served, guarded and offered like the gateway's own, which does not know it by name."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from agency import NotFound
from agency.client import Agency, Client
from dashboard.command import app
from tests.support.gateway_fixtures import SIGNING
from tests.support.gateway_requests import assert_problem, create, finished
from tests.support.gateways import Server
from tests.support.guest_book import SIGNATURE
from tests.support.scripted_system import calls, say


def new_agency(owner: httpx.Client) -> str:
    return str(owner.post("/agencies", json={"name": "inn"}).json()["id"])


def test_routes_answer_with_the_rights_of_their_caller(http: httpx.Client, agency: str) -> None:
    entries = f"/agency/{agency}/x/guests/entries"
    made = http.post(entries, json={"guest": "Ada", "says": "Good bread."}).json()["entry"]
    (found,) = http.get(entries).json()
    assert found == {"entry": made, "guest": "Ada", "says": "Good bread.", "mood": "glad", "stars": 5, "again": False}
    told = http.get(
        f"/agency/{agency}/x/guests/told/a%20b/and/c?x=1",
        headers={"X-SECRET": "s", "Proxy-Authorization": "p", "X-Own": "1"},
    ).json()
    assert (told["names"], told["query"]) == ({"one": "a b", "two": "c"}, {"x": "1"})
    assert "x-own" in told["headers"] and not {"x-secret", "proxy-authorization"} & set(told["headers"])
    assert http.delete(f"{entries}/{made}").status_code == 204
    assert http.get(entries).json() == []
    assert_problem(http.delete(f"{entries}/{made}"), 404, "ERR_NOT_FOUND")
    assert "stay outside" in assert_problem(http.post(entries, json={"guest": "Mallory"}), 400, "ERR_INVALID_INPUT")
    assert "guest" in assert_problem(http.post(entries, json={"guest": ""}), 400, "ERR_INVALID_INPUT")
    assert_problem(http.post(entries, json={"guest": "A", "what": 1}), 400, "ERR_INVALID_INPUT")
    assert http.put(entries).headers["allow"] == "GET, POST"
    assert_problem(http.get(f"/agency/{agency}/x/guests/none"), 404, "ERR_NOT_FOUND")
    assert_problem(http.get("/agency/agc_none/x/guests/entries"), 404, "ERR_NOT_FOUND")
    assert "/agency/{agency_id}/x/guests/entries" in http.get("/openapi.json").json()["paths"]


def test_a_webhook_verifies_each_request_and_acts_in_its_agency_only(guarded: Server, owner: httpx.Client) -> None:
    agency, other = new_agency(owner), new_agency(owner)
    content = b'{"guest": "Ada", "says": "by post"}'
    signature = hmac.new(SIGNING.encode(), content, "sha256").hexdigest()
    signed = {SIGNATURE: signature, "Content-Type": "application/json"}
    with guarded.client() as post:
        letter = f"/agency/{agency}/x/guests/letter"
        assert post.post(letter, content=content, headers=signed).status_code == 200
        assert_problem(post.post(letter, content=content + b" ", headers=signed), 401, "ERR_UNAUTHORIZED")
        assert_problem(post.post(letter, content=content), 401, "ERR_UNAUTHORIZED")
        assert_problem(post.post("/agency/agc_none/x/guests/letter", content=content), 401, "ERR_UNAUTHORIZED")
        assert_problem(post.post(letter, content=b"{"), 401, "ERR_UNAUTHORIZED")
        for wrong in (b"{", b'{"guest": ""}'):
            proof = {SIGNATURE: hmac.new(SIGNING.encode(), wrong, "sha256").hexdigest()}
            assert_problem(post.post(letter, content=wrong, headers=proof), 400, "ERR_INVALID_INPUT")
        missing = post.post("/agency/agc_none/x/guests/letter", content=content, headers=signed)
        assert_problem(missing, 404, "ERR_NOT_FOUND")
    assert [each["says"] for each in owner.get(f"/agency/{agency}/x/guests/entries").json()] == ["by post"]
    assert owner.get(f"/agency/{other}/x/guests/entries").json() == []


def test_what_a_route_says_has_no_secret(guarded: Server, owner: httpx.Client) -> None:
    blurted = f"/agency/{new_agency(owner)}/x/guests/blurted"
    assert owner.post(blurted, json={"a": [1]}).json() == {"body": {"a": [1]}, "key": "[redacted]"}
    refused = assert_problem(owner.post(blurted, json="refuse"), 400, "ERR_INVALID_INPUT")
    assert "not with [redacted]" in refused
    assert "not valid JSON" in assert_problem(owner.post(blurted, content=b"{"), 400, "ERR_INVALID_INPUT")


def test_agents_and_people_have_the_same_book(http: httpx.Client, agency: str) -> None:
    http.post(f"/agency/{agency}/blueprints", json={"name": "host", "prompt": "…", "tags": ["guests"]})
    thread = create(http, agency, calls(("sign_book", {"guest": "Grace"})), say("done"), agent="host")
    assert finished(http, agency, thread)["data"] == "done"
    assert [each["guest"] for each in http.get(f"/agency/{agency}/x/guests/entries").json()] == ["Grace"]


# The clients and the command.


@pytest.fixture
def inn(gateway: Server) -> Iterator[Agency]:
    with Client(gateway.url) as client:
        yield client.create_agency("inn")


@pytest.fixture
def run(gateway: Server, inn: Agency, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AGENCY_URL", gateway.url)

    def run(*arguments: str, fails: int = 0) -> str:
        done = CliRunner().invoke(app, arguments)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == fails, done.output
        return done.output

    return run


def test_commands_that_middleware_bring_are_commands_of_agency(run: Any, inn: Agency, tmp_path: Any) -> None:
    here = ("--agency", inn.id)
    assert "guests\tlist add remove summary\tGuest book, Guests in words" in run("extensions")
    assert "Write into the book." in run("guests", "--help")
    assert "--again" in run("guests", "add", "--help")
    (tmp_path / "said").write_text("from a file")
    said = run("guests", "add", "--guest", "Ada", "--says", f"@{tmp_path / 'said'}", "--stars", "3", "--again", *here)
    entry = said.split("\t")[1].strip()
    assert run("guests", "list", *here) == f"{entry}\tAda\tfrom a file\tglad\t3\ttrue\n"
    assert '"again": true' in run("guests", "list", "--json", *here)
    assert run("guests", "summary", *here) == "**1** guests came.\n"
    run("guests", "remove", entry, *here)
    assert inn.extension("guests", "GET", "entries") == []
    with pytest.raises(NotFound):
        run("guests", "remove", entry, *here)
    assert "Missing option '--guest'" in run("guests", "add", *here, fails=2)
    assert "No such command 'ghosts'" in run("ghosts", "list", fails=2)


def test_without_a_server_an_unknown_command_says_where_it_could_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENCY_URL", "http://127.0.0.1:9")
    done = CliRunner().invoke(app, ["guests", "list"])
    assert isinstance(done.exception, NotFound)
    assert "no command 'guests' here, and no server that could bring it" in str(done.exception)
    assert "No such command 'theads'" in CliRunner().invoke(app, ["theads"]).output  # a slip of the finger asks nobody
