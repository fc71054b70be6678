"""Settings of the gateway: its address, its secret and its limits, from options or AGENCY_… variables."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from agency.errors import DefinitionError
from agency.wire import explain
from dashboard.gateway.proxies import Trusted

Origin = Annotated[str, StringConstraints(pattern=r"\Ahttps?://[^/\s]+\z")]


class GatewaySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="AGENCY_", frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """0 takes any free port."""
    secret: Annotated[SecretStr, Field(min_length=1)] | None = None
    """Clients must send it. Without one, every client that reaches the address may do everything."""
    insecure: bool = False
    """Listen on other addresses than loopback without a secret."""
    cors_origins: tuple[Origin, ...] = ()
    """Web pages of these origins may use the API from a browser; no others but the dashboard itself."""
    trusted_proxies: str = ""
    """Addresses or networks of proxies, separated by commas, that are believed about where a request came from
    (X-Forwarded-For, X-Forwarded-Proto, CF-Connecting-IP, CF-IPCountry and so on); `*` is every address."""
    body_bytes: Annotated[int, Field(ge=1_024)] = 16 * 1024 * 1024
    """The largest request that is accepted."""
    bodies_bytes: Annotated[int, Field(ge=1_024)] | None = None
    """What the bodies of all requests under way may take of memory; sixteen of the largest unless given."""
    rate: Annotated[float, Field(gt=0)] = 1_000.0
    """Requests a second that one client's address may make, over some time."""
    burst: Annotated[int, Field(ge=1)] = 5_000
    """Requests that one client's address may make at once."""
    rate_of_key: Annotated[float, Field(gt=0)] = 200.0
    """Requests a second with one key, over some time; ten times as many at once."""
    rate_of_agency: Annotated[float, Field(gt=0)] = 500.0
    """Requests a second with all keys of one agency, over some time; ten times as many at once."""
    heavy_of_key: Annotated[float, Field(gt=0)] = 50.0
    """Requests a second with one key that create something or search, over some time; ten times as many at once."""
    heavy_of_agency: Annotated[float, Field(gt=0)] = 300.0
    """The same in one agency, with any key or the secret: more than two cores do, unless it is set."""
    connections: Annotated[int, Field(ge=1)] | None = None
    """Connections that are served at once, live ones among them; as many as the limit of open files allows unless
    given."""
    sockets: Annotated[int, Field(ge=1)] = 10_000
    """Live connections that are served at once."""
    beat: Annotated[float, Field(gt=0)] = 15.0
    """Seconds without events after which a live client gets a sign of life; its key is checked again as often."""
    slow: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that a client may take before it is disconnected: for one live event, for a request's first bytes and its
    head, and for each part of a body or of an answer."""

    @field_validator("secret", mode="before")
    @classmethod
    def _no_empty_secret(cls, given: object) -> object:
        return None if given == "" else given  # an empty variable is how people unset one

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def for_this_machine(self) -> bool:
        """Whether it serves clients on its own machine and no others."""
        return self.is_loopback and not (self.secret or self.insecure)

    def check(self) -> None:
        """Refuse to be open to the network by accident, and proxies that are none."""
        Trusted(self.trusted_proxies)
        if self.bodies_bytes is not None and self.bodies_bytes < self.body_bytes:
            raise DefinitionError(
                f"settings: all bodies together may take {self.bodies_bytes} bytes, and one alone {self.body_bytes}: "
                "raise AGENCY_BODIES_BYTES, or lower AGENCY_BODY_BYTES"
            )
        if not (self.is_loopback or self.secret or self.insecure):
            raise DefinitionError(
                f"every client that reaches {self.host} could run your agents: set AGENCY_SECRET, which clients must "
                "send, or pass --insecure if something else guards this address"
            )


def gateway_settings(**given: object) -> GatewaySettings:
    """Settings from options and the environment; `DefinitionError` tells in one line what is wrong with them."""
    try:
        made = GatewaySettings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]  # that is what it checks
    except ValidationError as error:
        raise DefinitionError(f"settings: {explain(error)}") from error
    made.check()
    return made
