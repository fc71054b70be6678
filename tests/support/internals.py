"""The one seam through which tests reach what the product keeps to itself.

It is for what no caller can cause (a timer that rings early) and for what no caller can see (that a buffer stays small,
that a background task has ended). Whatever shows in events, envelopes or a thread's file is tested there instead.
"""

from __future__ import annotations

from actors import Cluster
from actors.feeds.agency_watcher import AgencySubscription
from actors.feeds.watcher import Subscription
from actors.host.update_sender import UpdateSender
from agency import Thread
from agency.store.timers import timers


def ring_early(thread: Thread) -> None:
    """Have a thread's next timer ring, whatever the time is."""
    (timer, _), *_ = timers(thread._store)
    thread._driver.timers.due(timer)


def buffered(subscription: Subscription) -> int:
    """How many events wait for a reader."""
    return len(subscription._buffer)


def paused(subscription: Subscription) -> bool:
    """Whether the thread is not followed for this reader until its buffer is empty."""
    return subscription._paused


def kept_for(subscription: AgencySubscription) -> int:
    """How many events of an agency are kept in memory for its readers."""
    return len(subscription._feed._kept)


def followed_agencies(cluster: Cluster) -> int:
    """How many agencies are being followed, or still being let go."""
    watcher = cluster._agency_watcher
    return len(watcher._feeds) + len(watcher._background._tasks)


def sends(sender: UpdateSender) -> bool:
    """Whether updates are on their way just now."""
    return sender._busy
