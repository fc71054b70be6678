"""How much a key and an agency may ask for, what they are told about it, and that it costs others nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from threading import Thread

import httpx
import pytest

from agency.errors import RateLimited
from dashboard.gateway.rates import Rates
from dashboard.gateway.settings import GatewaySettings
from dashboard.gateway.shares import Shares
from tests.support.gateway_requests import Json, assert_problem, create
from tests.support.gateways import Serve, Server
from tests.support.scripted_system import say
from tests.support.waiting import eventually_sync

SECRET = "sesame"
DEFAULTS = GatewaySettings()
OF_KEY, OF_AGENCY, HEAVY_OF_KEY, HEAVY_OF_AGENCY = 5, 8, 2, 4
"""What may come at once here. The next one comes after seconds, so that a slow machine meets these, too."""


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


def until_refused(ask: Callable[[], httpx.Response]) -> tuple[list[httpx.Response], httpx.Response]:
    """The answers before the first that is 429, and that one."""
    answers: list[httpx.Response] = []
    while (answer := ask()).status_code != 429:
        answers.append(answer)
        assert len(answers) < 100, "it is never refused"
    return answers, answer


def new_agency(http: httpx.Client) -> str:
    return str(http.post("/agencies", json={"name": "bakery"}).json()["id"])


def test_a_key_has_a_rate_and_is_told_of_it(rated: Server, http: httpx.Client, agency: str) -> None:
    with rated.client(**key(http, agency)) as holder, rated.client(**key(http, agency)) as other:
        (first, *_), late = until_refused(lambda: holder.get(f"/agency/{agency}"))
        assert first.status_code == 200
        assert first.headers["ratelimit-policy"] == f'"key";q={OF_KEY};w=10, "agency";q={OF_AGENCY};w=10'
        assert first.headers["ratelimit"].startswith(f'"key";r={OF_KEY - 1};t=2, "agency";r=')
        assert "this key" in assert_problem(late, 429, "ERR_RATE_LIMITED")
        assert 1 <= int(late.headers["retry-after"]) <= 2
        assert re.fullmatch(r'"key";r=0;t=\d+', late.headers["ratelimit"])
        assert late.headers["ratelimit-policy"] == f'"key";q={OF_KEY};w=10'
        assert other.get(f"/agency/{agency}").status_code == 200


def test_all_keys_of_an_agency_have_a_rate_together_and_other_agencies_theirs(
    rated: Server, http: httpx.Client, agency: str
) -> None:
    neighbour = new_agency(http)
    with ExitStack() as clients:
        holders = cycle([clients.enter_context(rated.client(**key(http, agency))) for _ in range(6)])
        other = clients.enter_context(rated.client(**key(http, neighbour)))
        _, late = until_refused(lambda: next(holders).get(f"/agency/{agency}"))
        assert '"agency";r=0' in late.headers["ratelimit"]
        assert other.get(f"/agency/{neighbour}").status_code == 200


def test_wrong_keys_use_up_nothing_of_the_agency_that_they_name(rated: Server, http: httpx.Client, agency: str) -> None:
    right = key(http, agency)
    wrong = {"Authorization": right["Authorization"][:-3] + "xxx"}
    with rated.client(**wrong) as stranger, rated.client(**right) as holder:
        for _ in range(2 * OF_AGENCY):
            answer = stranger.get(f"/agency/{agency}")
            assert_problem(answer, 401, "ERR_UNAUTHORIZED")
            assert "ratelimit" not in answer.headers
        told = holder.get(f"/agency/{agency}").headers["ratelimit"]
        assert told.startswith(f'"key";r={OF_KEY - 1};t=2, "agency";r={OF_AGENCY - 1};')


def test_creations_have_a_rate_of_their_own_for_a_key_and_for_an_agency(
    rated: Server, http: httpx.Client, agency: str
) -> None:
    at = f"/agency/{agency}"
    with rated.client(**key(http, agency)) as holder, rated.client(Authorization=f"Bearer {SECRET}") as owner:
        made = holder.post(f"{at}/agents", json={"agentType": "clerk"})
        assert made.status_code == 201
        assert f'"heavy-key";r={HEAVY_OF_KEY - 1};' in made.headers["ratelimit"]
        _, late = until_refused(lambda: holder.get(f"{at}/search?q=hello"))
        assert '"heavy-key";r=0' in late.headers["ratelimit"]
        _, late = until_refused(lambda: owner.get(f"{at}/search?q=hello"))  # who acts for many
        assert late.headers["ratelimit"].startswith('"heavy-agency";r=0')
        assert_problem(late, 429, "ERR_RATE_LIMITED")
        assert owner.get(f"{at}/agents").status_code == 200


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
        (first, *_), late = until_refused(lambda: page.get(f"/agency/{agency}"))
    for answer in (first, late):
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


def test_a_key_that_waits_on_all_connections_leaves_some_to_others() -> None:
    shares = Shares(8, "requests at work")
    for _ in range(6):
        shares.take("bakery")
    with pytest.raises(RateLimited, match="keys of this agency have 6"):
        shares.take("bakery")
    shares.take("mill")
    shares.take(None)
    shares.give_back("bakery")
    shares.take("bakery")


def test_a_request_gives_its_place_back(gateway: Server, http: httpx.Client, agency: str, serve: Serve) -> None:
    few = serve(AGENCY_CONNECTIONS="2")
    thread = create(http, agency, say("later", delay=120))
    with few.client(**key(http, agency)) as holder, few.client(**key(http, agency)) as colleague:
        run = f"/agency/{agency}/agent/{thread}/run?wait=60"
        waiting = Thread(target=eventually_sync, args=(lambda: holder.get(run).status_code == 200, 90))
        waiting.start()  # again, if the other has the only place just then
        eventually_sync(lambda: colleague.get(f"/agency/{agency}").status_code == 429)
        assert http.post(f"/agency/{agency}/agent/{thread}/cancel").status_code == 200
        waiting.join(90)
        for _ in range(5):
            eventually_sync(lambda: colleague.get(f"/agency/{agency}").status_code == 200)
