"""The guarded client connects to public addresses and to what the operator lists, however an address is written."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any

import httpcore2
import httpx2
import pytest

from agency.guarded.addresses import AddressGuard, PrivateHost, Refused, is_public
from agency.guarded.client import guarded_client
from tests.support.scripted_http import answer, scripted


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "192.88.99.1",
        "::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "fec0::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
        "2002:7f00:1::", "2002:a00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)  # fmt: skip
def test_what_is_no_address_of_the_internet_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_what_is_one_is(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:11434/v1", "http://LOCALHOST./v1", "http://a.localhost", "http://ollama:11434",
        "http://models.internal", "http://printer.local", "http://127.0.0.1:80", "http://[::1]:80",
        "http://[::ffff:127.0.0.1]/v1", "http://169.254.169.254/latest", "ftp://example.org", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_what_can_be_told_by_the_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(Refused):
        AddressGuard().check_url(url)


def test_a_refusal_says_what_the_operator_can_set() -> None:
    with pytest.raises(Refused, match=r"""AGENCY_PRIVATE_HOSTS='\["localhost:11434"\]'"""):
        AddressGuard().check_url("http://localhost:11434/v1")
    AddressGuard(["localhost:11434"]).check_url("http://localhost:11434/v1")
    with pytest.raises(Refused, match=r"\[::1\]:80"):
        AddressGuard(["localhost:11434"]).check_url("http://[::1]/v1")


@pytest.mark.parametrize(
    ("listed", "url", "allowed"),
    [
        ("10.1.2.0/24", "http://10.1.2.9:99", True),
        ("10.1.2.0/24", "http://10.1.3.9", False),
        ("10.1.2.3:8080", "http://10.1.2.3:8080", True),
        ("10.1.2.3:8080", "http://10.1.2.3", False),
        ("[fd00::7]:8080", "http://[fd00::7]:8080", True),
        ("fd00::/8", "http://[fd00::7]", True),
        ("models.internal", "https://models.internal", True),
        ("models.internal", "https://other.internal", False),
    ],
)
def test_what_the_operator_lists_is_allowed_and_nothing_beside_it(listed: str, url: str, allowed: bool) -> None:
    if allowed:
        AddressGuard([listed]).check_url(url)
    else:
        with pytest.raises(Refused):
            AddressGuard([listed]).check_url(url)


@pytest.mark.parametrize("wrong", ["", "10.1.2.3/8", "localhost:0", "localhost:99999", "http://x", "a b", "1.2.3", "*"])
def test_what_is_no_private_host_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"private host|no port"):
        PrivateHost.read(wrong)


# Connections.


async def test_no_way_of_writing_loopback_reaches_it() -> None:
    with scripted(answer(200)) as server:
        port = server.url.rpartition(":")[2]
        for host in (
            "127.0.0.1",
            "localhost",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "[::ffff:127.0.0.1]",
            "0",
        ):
            async with guarded_client(AddressGuard()) as client:
                with pytest.raises((Refused, httpx2.ConnectError, httpx2.InvalidURL)):
                    await client.get(f"http://{host}:{port}/")
        assert server.asked == []
        async with guarded_client(AddressGuard([f"127.0.0.1:{port}"])) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 200


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public when it is asked for, and private a moment later."""
    found, connected = iter(("93.184.215.14", "127.0.0.1")), []

    async def changing(host: str, port: int, **more: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(found), port))]

    async def connect(self: object, host: str, *args: object, **more: object) -> Any:
        connected.append(host)
        raise httpcore2.ConnectError("nowhere")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", changing)
    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)
    async with guarded_client(AddressGuard()) as client:
        with pytest.raises(httpx2.ConnectError, match="nowhere"):
            await client.get("http://rebind.example/")
        assert connected == ["93.184.215.14"], "not the name, which may mean something else by now"
        with pytest.raises(Refused, match=r"rebind\.example is a private address"):
            await client.get("http://rebind.example/")
    assert connected == ["93.184.215.14"]


async def test_a_name_of_which_one_address_is_private_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(host: str, port: int, **more: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
    with pytest.raises(Refused) as raised:
        await AddressGuard().addresses("both.example", 443)
    assert "10.0.0.1" not in str(raised.value), "what an internal name resolves to is not told"


async def test_it_follows_no_redirection_keeps_no_cookie_and_knows_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(answer(200)) as other, scripted(answer(302, location=other.url, set_cookie="a=b")) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, other.url)
        async with guarded_client(AddressGuard(["127.0.0.1"])) as client:
            assert [(await client.get(server.url)).status_code for _ in range(2)] == [302, 302]
        assert (len(server.asked), other.asked) == (2, [])
        assert "cookie" not in server.asked[-1].headers


async def test_an_answer_is_not_read_beyond_its_bound_nor_if_it_is_compressed() -> None:
    long, packed = answer(200, bytes(100_000)), answer(200, b"\x1f\x8b", content_encoding="gzip")
    with scripted(long, packed) as server:
        async with guarded_client(AddressGuard(["127.0.0.1"]), answer_bytes=99_999) as client:
            with pytest.raises(Refused, match="more than 99999 bytes"):
                await client.get(server.url)
            with pytest.raises(Refused, match="compresses"):
                await client.get(server.url)
        assert server.asked[-1].headers["accept-encoding"] == "identity"
