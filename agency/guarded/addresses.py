"""Which addresses a guarded client may connect to: public ones, and the private ones that the operator lists.

The one idea: what is checked is the address that is connected to, never the name alone. A name is resolved here, all
that it resolves to is judged, and the connection is made to exactly that. So no name that changes its mind between the
check and the connection gets past, and no way of writing an address does.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

SETTING = "AGENCY_PRIVATE_HOSTS"

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal", ".home.arpa")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
_RELAYS = ipaddress.IPv4Network("192.88.99.0/24")
DEFAULT_PORTS = {"http": 80, "https": 443}


class Refused(Exception):
    """A guarded client does not do this. The message says why, and what the operator can do about it."""


@dataclass(frozen=True, slots=True)
class PrivateHost:
    """A private place that agencies may reach: a network or a name, at one port or at any."""

    place: Network | str
    port: int | None = None

    @classmethod
    def read(cls, text: str) -> PrivateHost:
        """From `10.1.2.0/24`, `10.1.2.3:8080`, `[fd00::7]:8080`, `localhost:11434` or `models.internal`."""
        host, port = _with_port(text)
        try:
            return cls(ipaddress.ip_network(host), port)
        except ValueError:
            name = host.lower().rstrip(".")
            if not _NAME.fullmatch(name) or re.fullmatch(r"[\d.]+", name):
                raise ValueError(
                    f"{text!r:.100} is no private host: write a network, an address or a name, and a port if only that "
                    'is meant, as in ["10.1.2.0/24", "localhost:11434"]'
                ) from None
            return cls(name, port)

    def allows(self, host: str, address: IpAddress, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if isinstance(self.place, str):
            return self.place == host
        return address.version == self.place.version and address in self.place


def _with_port(text: str) -> tuple[str, int | None]:
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?", text)
    plain = re.fullmatch(r"([^:]+):(\d{1,5})", text)
    found = bracketed or plain
    if found is None:
        return text, None
    port = None if found[2] is None else int(found[2])
    if port is not None and not 0 < port < 65_536:
        raise ValueError(f"{text!r:.100} has no port that can be")
    return found[1], port


def _readable(text: str) -> str:
    PrivateHost.read(text)
    return text


PrivateHostText = Annotated[str, AfterValidator(_readable)]
"""A private place as the operator writes it."""


class AddressGuard:
    def __init__(self, private_hosts: Iterable[str] = ()) -> None:
        self._private = tuple(PrivateHost.read(text) for text in private_hosts)

    def check_url(self, url: str) -> None:
        """Refuse what can be told to be private without asking for what a name resolves to."""
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise Refused("only http and https are spoken to servers of an agency")
        host, port = _plain(parts.hostname or ""), parts.port or DEFAULT_PORTS[parts.scheme]
        if (address := _literal(host)) is not None:
            self._check(host, address, port)
        elif _sounds_private(host) and not any(
            each.place == host and each.port in (None, port) for each in self._private
        ):
            raise _refusal(host, port)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where a host is, if all of it may be reached. `OSError` if there is no such host."""
        host = _plain(host)
        if (address := _literal(host)) is not None:
            self._check(host, address, port)
            return [str(address)]
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        resolved = list(dict.fromkeys(str(where[0]) for *_, where in found))
        for each in resolved:
            self._check(host, ipaddress.ip_address(each), port)
        return resolved

    def _check(self, host: str, address: IpAddress, port: int) -> None:
        if not (is_public(address) or any(each.allows(host, address, port) for each in self._private)):
            raise _refusal(host, port)


def is_public(address: IpAddress) -> bool:
    """Whether an address is one of the internet's, and so is the one that it stands for, if it stands for another."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and address not in _RELAYS
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address in _NAT64:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(inner)
    return address in _UNICAST and address.is_global and address.teredo is None


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _literal(host: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _sounds_private(host: str) -> bool:
    return "." not in host or host.endswith(_LOCAL_NAMES)


def _refusal(host: str, port: int) -> Refused:
    shown = f"[{host}]" if ":" in host else host
    return Refused(
        f"{shown:.200} is a private address, and servers of an agency are on public ones. If agencies may use it, the "
        f"operator of this installation sets {SETTING}='[\"{shown:.200}:{port}\"]'"
    )
