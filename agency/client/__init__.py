"""The HTTP API from Python: `Client` blocks until its answers are there, `AsyncClient` is awaited.

operations/, operation.py   what can be asked: one method an operation, for both clients
request.py                  a request as data
exchange.py                 one request and its tries
following.py, sse.py        live events, across connections that break
sync.py, asynchronous.py    the two clients: their transports and handles
connection.py               httpx
"""

from agency.client.asynchronous import AsyncAgency, AsyncClient, AsyncThread
from agency.client.sync import Agency, Client, Thread

__all__ = ["Agency", "AsyncAgency", "AsyncClient", "AsyncThread", "Client", "Thread"]
