"""Where the app is mounted: at the root of its server, or below a path, inside of another app or behind a proxy."""

from __future__ import annotations

from starlette.types import Scope


def mount_path(scope: Scope) -> str:
    """The path below which the app is, without a slash at the end; "" at the root."""
    return str(scope.get("root_path", "")).rstrip("/")


def path_in_app(scope: Scope) -> str:
    """A request's path without that at which the app is mounted."""
    path, mounted = str(scope["path"]), mount_path(scope)
    return path.removeprefix(mounted) if path.startswith(f"{mounted}/") else path
