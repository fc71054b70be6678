"""Every route, for every caller: what each asks of its caller holds, and agencies do not see each other.

By construction: the routes are those that the gateway has (its API's description, the routes that are not in it, the
WebSockets, those that middleware bring), the requests come from the table `tests/support/route_rules.py`, and what must
come of each follows from its line there. A route without a line fails, and so does a line without a route.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from dashboard.gateway.app import create_app
from dashboard.gateway.settings import GatewaySettings
from tests.support.gateway_fixtures import SECRET
from tests.support.gateway_requests import Json, assert_problem, create, finished, holding
from tests.support.gateways import Server
from tests.support.planted_agency import ROLES, PlantedAgency, plant
from tests.support.route_rules import OWNED, RULES, Names, Rule
from tests.support.scripted_system import say, system

NOWHERE = "agc_00000000deadbeef"
"""An agency that does not exist."""
TABLE = "tests/support/route_rules.py"
LEVELS = ("none", "any", *ROLES, "owner")
STREAM = {"Accept": "text/event-stream"}
RATES = "ratelimit"
"""The header that tells what is left: it is another one for each request."""

Route = tuple[str, str]


@pytest.fixture(scope="module")
def boss(guarded: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.url, headers={b"X-SECRET": SECRET.encode()}, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def victim(boss: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> PlantedAgency:
    """An agency whose things others know the names of. Nothing of it may change."""
    return plant(boss, tmp_path_factory.mktemp("victim") / "ledger")


@pytest.fixture(scope="module")
def neighbour(boss: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> PlantedAgency:
    """Another tenant, with keys of every role."""
    return plant(boss, tmp_path_factory.mktemp("neighbour") / "ledger")


class Attempt:
    """A request that a line of the table describes, to an agency or to another that has not what it names."""

    def __init__(self, route: Route, names: Names) -> None:
        self.method, self.template = route
        self.rule = RULES[route]
        self.path = self.rule.path(self.template, names)
        self.query = self.rule.query(names) if self.rule.query else {}
        self.body = self.rule.body(names) if self.rule.body else None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def said(self) -> str:
        """All of it, which an answer may repeat."""
        return f"{self.path} {self.query} {self.body}"

    @property
    def names_what_is_owned(self) -> bool:
        return any(name in OWNED for name in re.findall(r"\{(\w+)", self.template))

    def by(self, client: httpx.Client, *, headers: dict[str, str] | None = None, ticket: str | None = None) -> Answer:
        query = {**self.query, **({} if ticket is None else {"ticket": ticket})}
        if self.method == "WS":
            return self._socket(client, query, headers or {})
        sent = {"json": self.body} if self.rule.content is None else {"content": self.rule.content}
        given = {} if self.method in ("GET", "DELETE") else sent
        with client.stream(self.method, self.path, params=query, headers=headers, **given) as answer:
            if answer.headers.get("content-type", "").startswith(STREAM["Accept"]):
                return Answer(answer.status_code, "", {})  # which goes on for ever
            answer.read()
            told = {name: said for name, said in answer.headers.items() if name != RATES}
            return Answer(answer.status_code, answer.text, told)

    def _socket(self, client: httpx.Client, query: dict[str, str], headers: dict[str, str]) -> Answer:
        credentials = [
            (name, said) for name, said in client.headers.raw if name.lower() in (b"authorization", b"x-secret")
        ]
        given = {**headers, **{name.decode(): said.decode("latin-1") for name, said in credentials}}
        url = str(client.base_url.copy_with(scheme="ws", path=self.path, params=query))
        try:
            with connect(url, additional_headers=given, proxy=None):
                return Answer(200, "", {})
        except InvalidStatus as error:
            found = error.response
            return Answer(found.status_code, (found.body or b"").decode(), dict(found.headers))


class Answer:
    def __init__(self, status: int, text: str, headers: dict[str, str]) -> None:
        self.status = status
        self.text = text
        self.headers = {name.lower(): said for name, said in headers.items()}

    def without(self, agency: str) -> tuple[int, str, dict[str, str]]:
        """All of it but the name of an agency and the time."""
        kept = {name: said for name, said in self.headers.items() if name not in ("date", "content-length")}
        return self.status, self.text.replace(agency, "…"), kept


@contextmanager
def as_holder(server: Server, boss: httpx.Client, planted: PlantedAgency, role: str) -> Iterator[httpx.Client]:
    """The owner, or the holder of a key."""
    if role == "owner":
        yield boss
    else:
        with holding(server, planted.keys[role]) as holder:
            yield holder


def attempts(names: Names) -> Iterator[Attempt]:
    yield from (Attempt(route, names) for route in RULES)


def may(role: str, rule: Rule) -> bool:
    return LEVELS.index(role) >= LEVELS.index(rule.role)


@contextmanager
def unchanged(boss: httpx.Client, victim: PlantedAgency) -> Iterator[None]:
    """That an agency is afterwards what it was before."""
    before = looked_at(boss, victim)
    yield
    assert looked_at(boss, victim) == before


def looked_at(boss: httpx.Client, planted: PlantedAgency) -> dict[str, str]:
    """Everything in an agency that can be looked at."""
    found = {}
    for attempt in attempts(planted.names):
        if attempt.method == "GET" and planted.id in attempt.path and attempt.rule.role != "none":
            answer = attempt.by(boss)
            assert answer.status == 200, (str(attempt), answer.text)
            if not attempt.rule.moves:
                found[str(attempt)] = answer.text
    return found


# The table.


def described(boss: httpx.Client) -> dict[Route, str]:
    """The routes of the API's description, and what it says that they need."""
    paths: Json = boss.get("/openapi.json").json()["paths"]
    return {
        (method.upper(), path): operation["x-role"]
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def undescribed() -> Iterator[Route]:
    """The pages and the WebSockets, which are not in the API's description."""
    for route in iter_route_contexts(create_app(GatewaySettings(), system).routes):
        assert route.path is not None
        if route.methods is None:
            yield "WS", route.path
        elif not route.include_in_schema:
            yield from ((method, route.path) for method in route.methods)


def test_every_route_has_a_rule_and_every_rule_a_route(boss: httpx.Client) -> None:
    found = {*described(boss), *undescribed()}
    missing, stale = sorted(found - {*RULES}), sorted({*RULES} - found)
    assert not missing, f"add a line to RULES in {TABLE}, with the role that it should need, for each of {missing}"
    assert not stale, f"there are no such routes any more, take their lines out of {TABLE}: {stale}"


def test_the_description_says_what_each_route_needs(boss: httpx.Client) -> None:
    said = described(boss)
    assert said == {route: RULES[route].role for route in said}


def test_the_marks_are_where_they_were_planted(boss: httpx.Client, victim: PlantedAgency) -> None:
    """So that an answer without them means something."""
    seen = victim.told("".join([*looked_at(boss, victim).values(), boss.get("/agencies").text]))
    assert seen == victim.marks


# No credential, or none that is right.


@pytest.mark.parametrize(
    "caller", ["no credential", "a wrong secret", "a wrong bearer", "an empty secret", "a revoked key"]
)
def test_without_a_right_credential_nothing_opens_but_what_is_open(
    guarded: Server, boss: httpx.Client, victim: PlantedAgency, caller: str
) -> None:
    headers = {
        "no credential": {},
        "a wrong secret": {"X-SECRET": "wrong"},
        "a wrong bearer": {"Authorization": "Bearer wrong"},
        "an empty secret": {"X-SECRET": ""},
        "a revoked key": {"Authorization": f"Bearer {victim.keys['revoked']}"},
    }[caller]
    with unchanged(boss, victim), guarded.client(**headers) as stranger:
        for attempt in attempts(victim.names):
            for accepted in ({}, STREAM) if attempt.rule.live else ({},):
                answer = attempt.by(stranger, headers=accepted)
                assert not victim.told(answer.text) - victim.told(attempt.said), str(attempt)
                if attempt.rule.proof is not None:
                    assert answer.status == attempt.rule.proof, str(attempt)
                elif attempt.rule.role == "none":
                    assert attempt.rule.is_let_in(answer.status), str(attempt)
                else:
                    assert answer.status == 401, (str(attempt), answer.status)
                    assert '"ERR_UNAUTHORIZED"' in answer.text
                    assert answer.headers["www-authenticate"] == "Bearer"


# A key of the agency, and the owner.


@pytest.mark.parametrize("role", [*ROLES, "owner"])
def test_a_role_may_what_it_may_and_no_more(guarded: Server, boss: httpx.Client, tmp_path: Path, role: str) -> None:
    own = plant(boss, tmp_path / "ledger")
    with as_holder(guarded, boss, own, role) as holder:
        listed = {each["id"] for each in holder.get("/agencies").json()["agencies"]}
        assert own.id in listed and (role == "owner" or listed == {own.id})
        for attempt in attempts(own.names):
            for accepted in ({}, STREAM) if attempt.rule.live else ({},):
                answer = attempt.by(holder, headers=accepted)
                told = (str(attempt), answer.status, answer.text)
                if attempt.rule.proof is not None:
                    assert answer.status == attempt.rule.proof, told
                elif may(role, attempt.rule):
                    assert attempt.rule.is_let_in(answer.status), told
                else:
                    assert answer.status == 403 and '"ERR_FORBIDDEN"' in answer.text, told


def test_a_key_with_the_role_operator_pauses_a_schedule_and_changes_nothing_else_of_it(
    guarded: Server, victim: PlantedAgency
) -> None:
    schedule = f"/agency/{victim.id}/schedules/{victim.names['schedule_id']}"
    with holding(guarded, victim.keys["operator"]) as operator:
        assert_problem(operator.patch(schedule, json={"message": "mine now"}), 403, "ERR_FORBIDDEN")


# A key of another agency.


@pytest.mark.parametrize("role", ROLES)
def test_an_agency_of_others_looks_as_if_it_did_not_exist(
    guarded: Server, boss: httpx.Client, victim: PlantedAgency, neighbour: PlantedAgency, role: str
) -> None:
    with unchanged(boss, victim), holding(guarded, neighbour.keys[role]) as intruder:
        for theirs, unknown in zip(attempts(victim.names), attempts(victim.of(NOWHERE)), strict=True):
            for accepted in ({}, STREAM) if theirs.rule.live else ({},):
                answer = theirs.by(intruder, headers=accepted)
                told = (str(theirs), answer.status, answer.text)
                assert not victim.told(answer.text) - victim.told(theirs.said), told
                if theirs.rule.proof is not None:
                    assert answer.status == theirs.rule.proof, told
                elif "{agency_id}" in theirs.template:
                    assert answer.status == 404 and '"ERR_NOT_FOUND"' in answer.text, told
                    assert answer.without(victim.id) == unknown.by(intruder, headers=accepted).without(NOWHERE)
                elif may(role, theirs.rule):
                    assert theirs.rule.is_let_in(answer.status), told
                else:
                    assert answer.status == 403, told


@pytest.mark.parametrize("role", ROLES)
def test_the_names_of_what_others_have_mean_nothing_in_ones_own_agency(
    guarded: Server, boss: httpx.Client, victim: PlantedAgency, tmp_path: Path, role: str
) -> None:
    own = plant(boss, tmp_path / "ledger")
    with unchanged(boss, victim), holding(guarded, own.keys[role]) as intruder:
        for attempt in attempts(victim.of(own.id)):
            if own.id not in attempt.path or attempt.rule.proof is not None:
                continue
            answer = attempt.by(intruder)
            told = (str(attempt), answer.status, answer.text)
            assert not victim.told(answer.text) - victim.told(attempt.said), told
            if not may(role, attempt.rule):
                assert answer.status == 403, told
            elif attempt.names_what_is_owned:
                assert answer.status == 404 and '"ERR_NOT_FOUND"' in answer.text, told
            else:
                assert answer.status < 500, told


def test_a_feed_has_events_of_its_own_agency_only(
    guarded: Server, boss: httpx.Client, victim: PlantedAgency, neighbour: PlantedAgency
) -> None:
    """What both do while the neighbour listens: its own thread comes, and nothing before it is the victim's."""
    url = f"{guarded.ws}/agency/{neighbour.id}/ws?after=0"
    with connect(url, additional_headers={"X-SECRET": neighbour.keys["admin"]}, proxy=None) as socket:
        theirs = create(boss, victim.id, say(victim.mark("spoken")))
        finished(boss, victim.id, theirs)
        mine = create(boss, neighbour.id, say("mine"))
        seen = ""
        while not (mine in seen and "agent.completed" in seen.rpartition(mine)[0]):
            frame = socket.recv(timeout=60)
            seen += str(frame)
    assert not victim.told(seen) and victim.id not in seen and theirs not in seen


# Tickets.


def ticket_of(client: httpx.Client) -> str:
    return str(client.post("/tickets").json()["ticket"])


@pytest.mark.parametrize("role", [*ROLES, "owner"])
def test_a_ticket_opens_sockets_and_streams_of_events_and_nothing_else(
    guarded: Server, boss: httpx.Client, victim: PlantedAgency, role: str
) -> None:
    """Whatever its holder may do, and whatever the request says that it accepts."""
    with (
        unchanged(boss, victim),
        as_holder(guarded, boss, victim, role) as holder,
        guarded.client() as bare,
    ):
        for attempt in attempts(victim.names):
            if attempt.rule.role == "none":
                continue
            if attempt.rule.live:
                once = ticket_of(holder)
                assert attempt.by(bare, headers=STREAM, ticket=once).status == 200, str(attempt)
                assert attempt.by(bare, headers=STREAM, ticket=once).status == 401, f"{attempt}, a second time"
            if attempt.method != "WS":
                for accepted in ({},) if attempt.rule.live else ({}, STREAM):
                    answer = attempt.by(bare, headers=accepted, ticket=ticket_of(holder))
                    assert answer.status == 401, (f"{attempt} with {accepted}", answer.status)


def test_a_ticket_of_another_agency_opens_nothing(
    guarded: Server, victim: PlantedAgency, neighbour: PlantedAgency
) -> None:
    with holding(guarded, neighbour.keys["admin"]) as intruder, guarded.client() as bare:
        for attempt in attempts(victim.names):
            if attempt.rule.live:
                answer = attempt.by(bare, headers=STREAM, ticket=ticket_of(intruder))
                assert answer.status == 404 and not victim.told(answer.text), str(attempt)


def test_a_ticket_of_a_key_that_was_revoked_opens_nothing(
    guarded: Server, boss: httpx.Client, victim: PlantedAgency
) -> None:
    made = boss.post(f"/agency/{victim.id}/keys", json={"name": "brief", "role": "admin"}).json()
    live = [attempt for attempt in attempts(victim.names) if attempt.rule.live]
    with holding(guarded, made["key"]) as holder, guarded.client() as bare:
        tickets = [ticket_of(holder) for _ in live]
        boss.delete(f"/agency/{victim.id}/keys/{made['id']}")
        for attempt, ticket in zip(live, tickets, strict=True):
            assert attempt.by(bare, headers=STREAM, ticket=ticket).status == 401, str(attempt)
