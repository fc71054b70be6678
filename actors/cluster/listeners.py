"""Who listens where on this machine: whose process answers at an address, and which ports others can reach."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from actors.cluster.private import user_name

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Listener:
    ip: Ip
    port: int
    uid: int


def listeners_at(address: str) -> list[Listener]:
    """What listens at an address, `host:port`; empty if nothing does, or if the address is another machine's."""
    host, port = _parts(address)
    here = _of_this_machine(host)
    answering = (each for each in _listeners() if each.port == port)
    return [each for each in answering if here and (each.ip in here or each.ip.is_unspecified)]


def owner_of(address: str) -> str:
    """The user whose process listens at an address of this machine; empty if it is another machine's."""
    return ", ".join(sorted({user_name(each.uid) for each in listeners_at(address)}))


def is_here(address: str) -> bool:
    """Whether an address is one of this machine's."""
    return bool(_of_this_machine(_parts(address)[0]))


def listens_on_loopback(address: str) -> bool:
    """Whether what listens at an address listens on loopback and nowhere else."""
    found = listeners_at(address)
    return bool(found) and all(each.ip.is_loopback for each in found)


def open_ports(pids: Iterable[int]) -> tuple[str, ...]:
    """Where processes listen beyond loopback."""
    found = {(str(ip), port) for pid in pids for ip, port in _ports_of(pid) if not ip.is_loopback}
    return tuple(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip, port in sorted(found))


def _ports_of(pid: int) -> Iterator[tuple[Ip, int]]:
    with suppress(psutil.Error):  # it has ended, or is another user's
        for each in psutil.Process(pid).net_connections("inet"):
            if each.status == psutil.CONN_LISTEN:
                yield _plain(each.laddr.ip), each.laddr.port


def _parts(address: str) -> tuple[set[Ip], int]:
    """What the host of an address stands for, and its port."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, OverflowError, ValueError):  # it cannot be looked up, or is none
        return set(), 0
    return {_plain(each[4][0]) for each in found}, int(port)


def _of_this_machine(ips: set[Ip]) -> set[Ip]:
    interfaces = (each for addresses in psutil.net_if_addrs().values() for each in addresses)
    ours = {_plain(each.address) for each in interfaces if each.family in (socket.AF_INET, socket.AF_INET6)}
    return {ip for ip in ips if ip.is_loopback or ip in ours}


def _plain(ip: str | int) -> Ip:
    found = ipaddress.ip_address(str(ip).partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _listeners() -> Iterator[Listener]:
    if not _TABLES[0].exists():
        yield from _our_listeners()
    for table in (each for each in _TABLES if each.exists()):
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS:
                ip, _, port = fields[1].partition(":")
                yield Listener(_decoded(ip), int(port, 16), int(fields[7]))


def _decoded(hexadecimal: str) -> Ip:
    """An address as the kernel prints it: words of four bytes, each as a number of this machine."""
    words = (hexadecimal[at : at + 8] for at in range(0, len(hexadecimal), 8))
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    return _plain(str(ipaddress.ip_address(packed)))


def _our_listeners() -> Iterator[Listener]:
    """Where the kernel has no such tables, only our own processes can be looked at."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().effective == os.geteuid():
                for ip, port in _ports_of(process.pid):
                    yield Listener(ip, port, os.geteuid())
