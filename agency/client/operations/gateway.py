"""Operations of a gateway: its agencies, and whether it is ready."""

from __future__ import annotations

from agency.api import bodies as api
from agency.api.extensions import ExtensionList
from agency.api.tenancy import AgencyInfo
from agency.client.operation import Resource, asks, lists_agencies, makes_agency
from agency.client.request import Listing, ListPage, Request, body, get, key, listing, post


class GatewayOperations(Resource):
    def _health(self) -> Request[api.Health]:
        return get(api.Health, f"{self._path}/healthz", repeat="never", seconds=10.0)

    @asks
    def extensions(self) -> Request[ExtensionList]:
        """What the middleware of the server's system bring: routes, commands, panels."""
        return get(ExtensionList, f"{self._path}/extensions")

    @asks
    def server_log(self, after: int = 0) -> Request[api.ServerLog]:
        """The latest lines of the server's log, after one of them: what agents' code prints and raises, and warnings.
        It needs the secret."""
        return get(api.ServerLog, f"{self._path}/logs", {"after": after})

    @lists_agencies
    def agencies(self) -> Listing[AgencyInfo]:
        """The agencies that your secret or key gives access to, each with its `summary`."""
        return listing(
            api.AgencyPage, f"{self._path}/agencies", lambda found: ListPage(found.agencies, found.next), begin=""
        )

    @makes_agency
    def create_agency(self, name: str, *, idempotency_key: str | None = None) -> Request[AgencyInfo]:
        """Create an agency. With the `idempotency_key` of an earlier request, return the agency that it created."""
        return post(
            AgencyInfo,
            f"{self._path}/agencies",
            body(api.NewAgency, name=name, idempotency_key=idempotency_key or key()),
        )
