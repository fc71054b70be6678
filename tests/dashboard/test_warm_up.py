"""A gateway warms up before it says that it is ready, and nothing shows of that."""

from __future__ import annotations

import re

import httpx
from pydantic import SecretStr

from dashboard.gateway.app import create_app
from dashboard.gateway.settings import GatewaySettings
from dashboard.gateway.warm_up import NAME, rehearse
from tests.support.gateways import Serve


async def test_an_app_is_warmed_up_before_it_has_joined_and_with_every_kind_of_access() -> None:
    for settings in (
        GatewaySettings(),
        GatewaySettings(secret=SecretStr("s")),
        GatewaySettings(host="0.0.0.0", insecure=True),
    ):
        await rehearse(create_app(settings))


def test_warming_up_is_in_no_log_line_no_figure_and_no_agency(serve: Serve) -> None:
    server = serve(AGENCY_LOG_LEVEL="INFO")
    with server.client() as http:
        figures = http.get("/metrics").text
        agencies = http.get("/agencies").json()["agencies"]
    assert NAME not in server.log.read_text()
    assert not re.findall(r"^agency_http_requests_total.*", figures, re.MULTILINE)
    assert NAME not in [each["id"] for each in agencies]


def test_a_client_cannot_pass_as_one_that_warms_up(guarded: object, http: httpx.Client) -> None:
    answer = http.get("/agencies", headers={"agency.rehearsal": "1", "agency.principal": "1"})
    assert answer.status_code == 200
    assert 'route="/agencies"' in http.get("/metrics").text
