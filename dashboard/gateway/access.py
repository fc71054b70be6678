"""Access: which credential a request carries, and what that allows.

There are two kinds of credentials. The installation's secret allows everything. A key belongs to one agency and has a
role there; for its holder, other agencies do not exist. Both come as `Authorization: Bearer …` or `X-SECRET`; of two
that differ, the one that is right counts. Browsers cannot send headers with a WebSocket, so a client can exchange its
credential for a ticket, which opens one live feed within seconds and nothing else: only what says that it is a feed
(`Follower`, `follower_of`) looks for one. Without a secret the gateway is open: every client that reaches it may do
everything.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Literal, get_args

import structlog
from fastapi import Depends, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import SecretStr
from starlette.requests import HTTPConnection

from actors import Cluster, agency_of_key
from agency.api.bodies import Ticket
from agency.api.tenancy import Layer
from agency.clock import now_ms
from agency.errors import Forbidden, NotFound, Unauthorized, Unavailable, no_agency
from agency.events import timestamp
from agency.wire import Wire
from dashboard.gateway.live import STREAM
from dashboard.gateway.parameters import AgencyId
from dashboard.gateway.problems import without_paths
from dashboard.gateway.rates import GatewayRates
from dashboard.gateway.shares import Shares
from dashboard.gateway.visit import visit_of

TICKET_SECONDS = 30.0

VOUCHED = "agency.principal"
"""In the scope of a request that this process makes to itself for a principal. No client can put it there."""

CALLER = "agency.caller"
"""In the scope of a request whose credential was found right. It counts once, however often it is asked for."""

Role = Literal["viewer", "operator", "admin"]
RANKS: dict[Role, int] = {"viewer": 0, "operator": 1, "admin": 2}

Access = Literal["none", "any", "viewer", "operator", "admin", "owner"]
"""What a route asks of its caller, from the least to the most: no credential; any that is right; a role in the agency
of the path; the installation's secret."""


class Principal(Wire):
    """The holder of a credential. Without an agency, it is the installation's owner."""

    agency: str | None = None
    role: Role = "admin"
    key: str | None = None
    name: str | None = None
    """The key's."""

    @property
    def is_owner(self) -> bool:
        return self.agency is None

    @property
    def layer(self) -> Layer:
        """Whose settings it sets."""
        return "owner" if self.is_owner else "agency"

    def has(self, agency: str, role: Role) -> bool:
        """Whether it has this role in an agency, or a higher one."""
        return self.is_owner or (self.agency == agency and RANKS[self.role] >= RANKS[role])

    def check(self, agency: str, needed: Role) -> None:
        if self.is_owner:
            return
        if self.agency != agency:
            raise no_agency(agency)
        if RANKS[self.role] < RANKS[needed]:
            raise Forbidden(f"this needs a key with the role {needed!r}; the role of this key is {self.role!r}")


class Doorkeeper:
    def __init__(self, secret: SecretStr | None) -> None:
        self._secret = None if secret is None else secret.get_secret_value().encode()

    async def who(self, cluster: Cluster, credentials: Sequence[str]) -> Principal:
        """The holder of the first credential that is right. A key limits its holder even if the gateway needs no
        secret."""
        refusals: list[Unauthorized] = []
        for credential in credentials:
            try:
                return await self._holder(cluster, credential)
            except Unauthorized as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]
        if self._secret is None:
            return Principal()
        raise Unauthorized("this needs the secret or a key, as `Authorization: Bearer …` or `X-SECRET`")

    async def _holder(self, cluster: Cluster, credential: str) -> Principal:
        if (agency := agency_of_key(credential)) is not None:
            return await _key_holder(cluster, agency, credential)
        if self._secret is None:
            return Principal()
        if not hmac.compare_digest(credential.encode("latin-1", "replace"), self._secret):  # the header's own bytes
            raise Unauthorized("that is not the secret")
        return Principal()

    async def issue(self, cluster: Cluster, principal: Principal, client: str) -> Ticket:
        """A ticket of a key or, for the owner, of a client: one holder's tickets never push out another's. Whatever its
        holder may do, it is a viewer's: feeds need no more."""
        grant = principal if principal.is_owner else principal.model_copy(update={"role": "viewer"})
        holder = (principal.agency or "", principal.key or client)
        ticket = await cluster.issue_ticket(grant.model_dump_json(), TICKET_SECONDS, holder)
        return Ticket(ticket=ticket, expires_at=timestamp(now_ms() + int(1000 * TICKET_SECONDS)))

    async def redeem(self, cluster: Cluster, ticket: str) -> Principal:
        """Who a ticket was issued to, once."""
        grant = await cluster.redeem_ticket(ticket)
        principal = None if grant is None else Principal.model_validate_json(grant)
        if principal is None or not await self.still_valid(cluster, principal):
            raise Unauthorized("the ticket is unknown, used or too old: get a new one from POST /tickets")
        return principal

    async def still_valid(self, cluster: Cluster, principal: Principal) -> bool:
        """Whether a principal's key still exists. Open connections ask this often, so it looks at that key only."""
        if principal.agency is None or principal.key is None:
            return True
        try:
            await cluster.agency(principal.agency).key(principal.key)
        except NotFound:
            return False
        except Unavailable:  # a restart of the directory must not disconnect every client with a key
            return True
        return True


async def _key_holder(cluster: Cluster, agency: str, text: str) -> Principal:
    try:
        key = await cluster.agency(agency).check_key(text)
    except NotFound:
        key = None
    if key is None:
        raise Unauthorized("the key is not known, or was revoked")
    return Principal(agency=agency, role=key.role, key=key.id, name=key.name)


# Dependencies of routes.

_bearer = HTTPBearer(auto_error=False, description="The secret, or a key of an agency.")
_header = APIKeyHeader(name="X-SECRET", auto_error=False, description="The secret, or a key of an agency.")


def credentials(connection: HTTPConnection) -> list[str]:
    """The credentials of a request. FastAPI's security classes do not work for sockets, so this reads the headers."""
    scheme, _, bearer = connection.headers.get("authorization", "").partition(" ")
    given = [bearer.strip()] if scheme.lower() == "bearer" and bearer.strip() else []
    return [*given, *connection.headers.getlist("x-secret")[:1]]


def is_live(connection: HTTPConnection) -> bool:
    """Whether a request to a feed wants live events. Browsers cannot send headers with those, so they may carry a
    ticket."""
    return connection.scope["type"] == "websocket" or STREAM in connection.headers.get("accept", "")


def cluster_of(connection: HTTPConnection) -> Cluster:
    joined: Cluster | None = connection.app.state.cluster
    if joined is None:
        waits_for = connection.app.state.waits_for
        told = f" ({without_paths(waits_for)})" if waits_for else ""
        raise Unavailable(f"the installation is being started{told}; try again in some seconds")
    return joined


async def joined_cluster(connection: HTTPConnection) -> Cluster:
    """The same as a dependency. FastAPI calls those that are no coroutines in a thread, for each request."""
    return cluster_of(connection)


async def principal_of(connection: HTTPConnection) -> Principal:
    """Who is asking, by a credential in a header; a ticket is none."""
    known: Principal | None = connection.scope.get(VOUCHED) or connection.scope.get(CALLER)
    if known is not None:
        return known
    doorkeeper: Doorkeeper = connection.app.state.doorkeeper
    found = await doorkeeper.who(cluster_of(connection), credentials(connection))
    connection.scope[CALLER] = _let_in(connection, found)
    return found


async def follower_of(connection: HTTPConnection) -> Principal:
    """Who wants to follow a live feed, by a ticket or by a credential in a header. For the routes of feeds only."""
    ticket = connection.query_params.get("ticket") if is_live(connection) else None
    if ticket is None:
        return await principal_of(connection)
    doorkeeper: Doorkeeper = connection.app.state.doorkeeper
    return _let_in(connection, await doorkeeper.redeem(cluster_of(connection), ticket))


def _let_in(connection: HTTPConnection, principal: Principal) -> Principal:
    """Count a request for the key and the agency of its caller, who is known now."""
    visit_of(connection.scope).whose = principal.agency
    if principal.agency is None or principal.key is None:
        return principal
    structlog.contextvars.bind_contextvars(key=principal.key)
    rates: GatewayRates = connection.app.state.rates
    rates.key(connection, principal.agency, principal.key)
    shares: Shares = connection.app.state.shares
    shares.take(principal.agency)
    visit_of(connection.scope).ends.append(partial(shares.give_back, principal.agency))
    return principal


async def owner_only(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    if not principal.is_owner:
        raise Forbidden("this needs the installation's secret; a key of one agency is not enough")
    return principal


def may(needed: Role) -> Callable[..., Awaitable[Principal]]:
    """A dependency that requires this role, or a higher one, in the agency of the path."""

    async def check(agency_id: AgencyId, principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
        principal.check(agency_id, needed)
        return principal

    _ASKED[check] = needed
    return check


async def following(agency_id: AgencyId, principal: Annotated[Principal, Depends(follower_of)]) -> Principal:
    """A dependency of the two routes of live feeds, the only ones that take tickets, besides sockets."""
    principal.check(agency_id, "viewer")
    return principal


async def check_caller_of(needed: Access, connection: HTTPConnection) -> None:
    """Refuse a caller of a route that asks for this, before anything of the request but its head was read."""
    if needed == "none":
        return
    principal = await principal_of(connection)
    if needed == "owner":
        await owner_only(principal)
    elif needed != "any":
        principal.check(connection.path_params["agency_id"], needed)


async def _count_heavy(connection: HTTPConnection, principal: Annotated[Principal, Depends(principal_of)]) -> None:
    rates: GatewayRates = connection.app.state.rates
    rates.heavy(connection, connection.path_params.get("agency_id", ""), principal.key)


_ASKED: dict[Callable[..., object], Access] = {principal_of: "any", following: "viewer", owner_only: "owner"}
"""What each dependency of this module asks for, so that the API's description says of a route what is checked there."""


def access_of(route: Dependant) -> Access:
    """What a route asks of its caller: the most that any of its dependencies asks for."""
    levels = get_args(Access)
    return max((_ASKED.get(call, "none") for call in _calls(route)), key=levels.index, default="none")


def _calls(dependant: Dependant) -> Iterator[Callable[..., object]]:
    for each in dependant.dependencies:
        if each.call is not None:
            yield each.call
        yield from _calls(each)


SCHEMES = (Security(_bearer), Security(_header))
"""For the OpenAPI document: either of them. Live feeds also accept a ticket as `?ticket=`."""

TheCluster = Annotated[Cluster, Depends(joined_cluster)]
Viewer = Depends(may("viewer"))
Operator = Depends(may("operator"))
Admin = Depends(may("admin"))
Heavy = Depends(_count_heavy)
"""For routes that create something or search, after the role: such requests have rates of their own."""

AnyPrincipal = Annotated[Principal, Depends(principal_of)]
Owner = Annotated[Principal, Depends(owner_only)]
OwnerOnly = Depends(owner_only)
Follower = Annotated[Principal, Depends(following)]
