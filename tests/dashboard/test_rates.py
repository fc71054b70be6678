"""How much a key and an agency may ask for, what they are told about it, and that it costs others nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from dashboard.gateway.rates import Rates
from dashboard.gateway.settings import GatewaySettings
from tests.support.gateway_requests import Json, assert_problem
from tests.support.gateways import Server

SECRET = "sesame"
DEFAULTS = GatewaySettings()
OF_KEY, OF_AGENCY, HEAVY_OF_KEY, HEAVY_OF_AGENCY = 20, 30, 3, 5
"""What may come at once here."""


@pytest.fixture(scope="module")
def rated(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway with few requests for each, in front of the same installation, and with one page of another site."""
    environment = {
        "AGENCY_SECRET": SECRET,
        "AGENCY_RATE_OF_KEY": str(OF_KEY / 10),
        "AGENCY_RATE_OF_AGENCY": str(OF_AGENCY / 10),
        "AGENCY_HEAVY_OF_KEY": str(HEAVY_OF_KEY / 10),
        "AGENCY_HEAVY_OF_AGENCY": str(HEAVY_OF_AGENCY / 10),
        "AGENCY_CORS_ORIGINS": '["https://shop.example"]',
    }
    server = Server(gateway.settings, tmp_path_factory.mktemp("rated") / "log", **environment)
    yield server
    server.stop()


def key(http: httpx.Client, agency: str, role: str = "operator") -> dict[str, str]:
    """What a holder of a new key sends."""
    made: Json = http.post(f"/agency/{agency}/keys", json={"name": role, "role": role}).json()
    return {"Authorization": f"Bearer {made['key']}"}


def asked(client: httpx.Client, path: str, times: int) -> list[httpx.Response]:
    return [client.get(path) for _ in range(times)]


def refused(answers: list[httpx.Response]) -> list[httpx.Response]:
    return [each for each in answers if each.status_code == 429]


def new_agency(http: httpx.Client) -> str:
    return str(http.post("/agencies", json={"name": "bakery"}).json()["id"])


def test_a_key_has_a_rate_and_is_told_of_it(rated: Server, http: httpx.Client, agency: str) -> None:
    with rated.client(**key(http, agency)) as holder, rated.client(**key(http, agency)) as other:
        first, *more = asked(holder, f"/agency/{agency}", OF_KEY + 8)
        assert first.status_code == 200
        assert first.headers["ratelimit-policy"] == f'"key";q={OF_KEY};w=10, "agency";q={OF_AGENCY};w=10'
        assert first.headers["ratelimit"].startswith(f'"key";r={OF_KEY - 1};t=1, "agency";r=')
        for answer in (late := refused(more)):
            assert "this key" in assert_problem(answer, 429, "ERR_RATE_LIMITED")
            assert 1 <= int(answer.headers["retry-after"]) <= 10
            assert re.fullmatch(r'"key";r=0;t=\d+', answer.headers["ratelimit"])
            assert answer.headers["ratelimit-policy"] == f'"key";q={OF_KEY};w=10'
        assert late
        assert other.get(f"/agency/{agency}").status_code == 200


def test_all_keys_of_an_agency_have_a_rate_together_and_other_agencies_theirs(
    rated: Server, http: httpx.Client, agency: str
) -> None:
    neighbour = new_agency(http)
    with ExitStack() as clients:
        found = []
        for _ in range(4):
            holder = clients.enter_context(rated.client(**key(http, agency)))
            found += asked(holder, f"/agency/{agency}", OF_KEY // 2 + 4)
        assert refused(found)
        assert {"agency"} == {str(re.findall('"(.+?)"', each.headers["ratelimit"])[-1]) for each in refused(found)}
        other = clients.enter_context(rated.client(**key(http, neighbour)))
        assert not refused(asked(other, f"/agency/{neighbour}", OF_KEY // 2))


def test_wrong_keys_use_up_nothing_of_the_agency_that_they_name(rated: Server, http: httpx.Client, agency: str) -> None:
    right = key(http, agency)
    wrong = {"Authorization": right["Authorization"][:-3] + "xxx"}
    with rated.client(**wrong) as stranger, rated.client(**right) as holder:
        for answer in asked(stranger, f"/agency/{agency}", 2 * OF_AGENCY):
            assert_problem(answer, 401, "ERR_UNAUTHORIZED")
            assert "ratelimit" not in answer.headers
        assert f"r={OF_KEY - 1};" in holder.get(f"/agency/{agency}").headers["ratelimit"]


def test_creations_have_a_rate_of_their_own_for_a_key_and_for_an_agency(
    rated: Server, http: httpx.Client, agency: str
) -> None:
    body = {"agentType": "clerk"}
    threads = f"/agency/{agency}/agents"
    with rated.client(**key(http, agency)) as holder, rated.client(Authorization=f"Bearer {SECRET}") as owner:
        statuses = [holder.post(threads, json=body).status_code for _ in range(HEAVY_OF_KEY + 3)]
        assert statuses[:HEAVY_OF_KEY] == [201] * HEAVY_OF_KEY
        assert 429 in statuses
        assert holder.get(threads).status_code == 200
        answers = [owner.post(threads, json=body) for _ in range(HEAVY_OF_AGENCY + 3)]
        assert {each.status_code for each in answers} == {201, 429}  # the owner acts for many
        assert refused(answers)[0].headers["ratelimit"].startswith('"heavy-agency";r=0')


def test_by_default_two_cores_meet_no_rate_of_an_agency_and_a_flood_meets_that_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr("dashboard.gateway.rates.time.monotonic", lambda: now)
    of_agency, of_key = (Rates.filled("x", rate) for rate in (DEFAULTS.heavy_of_agency, DEFAULTS.heavy_of_key))
    created, by_key = 0, 0
    for _ in range(2_500):  # in ten seconds
        now += 1 / 250
        created += of_agency.take("a")[0]
        by_key += of_key.take("a")[0]
    assert created == 2_500
    assert 900 < by_key < 1_100


def test_pages_of_other_origins_may_read_what_they_are_told(rated: Server, http: httpx.Client, agency: str) -> None:
    with rated.client(**key(http, agency), Origin="https://shop.example") as page:
        answers = asked(page, f"/agency/{agency}", OF_KEY + 8)
    for answer in (answers[0], refused(answers)[0]):
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        shown = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
        assert {"RateLimit", "RateLimit-Policy", "Retry-After"} <= shown


def test_what_an_extension_asks_for_its_caller_counts_once(rated: Server, http: httpx.Client, agency: str) -> None:
    with rated.client(**key(http, agency)) as holder:
        answer = holder.get(f"/agency/{agency}/x/guests/entries")
        assert answer.status_code == 200
        assert f'"key";r={OF_KEY - 1};' in answer.headers["ratelimit"]


def test_asking_while_there_is_nothing_does_not_put_off_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr("dashboard.gateway.rates.time.monotonic", lambda: now)
    rates = Rates("key", 1.0, 2)
    assert [rates.take("a")[0] for _ in range(3)] == [True, True, False]
    told = []
    for _ in range(12):
        now += 0.125
        told.append(rates.take("a")[0])
    assert told.index(True) == 7
    assert rates.take("b")[0]
