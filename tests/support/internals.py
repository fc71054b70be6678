"""The one seam through which tests reach what the product keeps to itself.

It is for what no caller can see: that a buffer stays small, that a background task has ended. Whatever shows in events,
envelopes or a thread's file is tested there instead.
"""

from __future__ import annotations

from actors import Cluster
from actors.feeds.agency_watcher import AgencySubscription
from actors.feeds.watcher import Subscription
from actors.host.update_sender import UpdateSender


def detached(subscription: Subscription) -> bool:
    """Whether the thread is not followed for this reader until its buffer is empty."""
    return subscription._detached


def kept_for(subscription: AgencySubscription) -> int:
    """How many events of an agency are kept in memory for its readers."""
    return len(subscription._feed._kept)


def followed_agencies(cluster: Cluster) -> int:
    """How many agencies are being followed, or still being let go."""
    watcher = cluster._connection._agency_watcher
    return len(watcher._feeds) + len(watcher._background._tasks)


def sends(sender: UpdateSender) -> bool:
    """Whether updates are on their way just now."""
    return sender._busy
