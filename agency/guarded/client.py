"""An HTTP client that connects to nothing but what its guard allows.

It makes each connection to an address that was just checked, follows no redirection, knows no proxy of the environment,
keeps no cookies, takes no compressed answers (what is small on the wire may be huge in memory) and none that are too
large. The names of certificates are checked as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpcore2
import httpx2

from agency.guarded.addresses import AddressGuard, Refused

ANSWER_BYTES = 64 * 1024 * 1024
_LIMITS = httpx2.Limits(max_connections=1_000, keepalive_expiry=30.0)

SocketOptions = Iterable[tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]]


def guarded_client(
    guard: AddressGuard, *, limits: httpx2.Limits = _LIMITS, answer_bytes: int = ANSWER_BYTES
) -> httpx2.AsyncClient:
    """A client of one event loop. An answer of more than so many bytes is not read to its end, but `Refused`."""
    return httpx2.AsyncClient(
        transport=_GuardedTransport(guard, limits, answer_bytes),
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


class _GuardedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, guard: AddressGuard, limits: httpx2.Limits, answer_bytes: int) -> None:
        super().__init__(limits=limits)
        self._answer_bytes = answer_bytes
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(),  # authorities of the machine's own count here, too
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_GuardedBackend(guard),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.scheme not in ("http", "https"):
            raise Refused("only http and https are spoken to servers of an agency")
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise Refused(f"{request.url.host} compresses its answer, which it was asked not to")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, self._answer_bytes, request.url.host)
        return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int, host: str) -> None:
        self._stream = stream
        self._left = most
        self._told = f"{host} answers with more than {most} bytes"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise Refused(self._told)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Where the client's connections are made, all of them."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._guard.addresses(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host} was not found in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} was not found") from error
        failed: Exception = httpcore2.ConnectError(f"{host} is nowhere")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: SocketOptions | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise Refused("a guarded client has no sockets of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
