"""The gateway: REST, WebSockets and server-sent events in front of an installation. It keeps nothing of its own, so any
number of them can run, and be restarted at will."""
