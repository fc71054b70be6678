"""The HTTP API from Python: `Client` waits for its answers, `AsyncClient` is awaited. Otherwise they are the same.

sync.py, asynchronous.py   what is called: clients, agencies, threads
requests.py, request.py    what can be asked, as data
exchange.py                one request and its tries
following.py, sse.py       live events, across connections that break
connection.py              httpx
"""

from agency.client.asynchronous import AsyncAgency, AsyncClient, AsyncThread
from agency.client.sync import Agency, Client, Thread

__all__ = ["Agency", "AsyncAgency", "AsyncClient", "AsyncThread", "Client", "Thread"]
