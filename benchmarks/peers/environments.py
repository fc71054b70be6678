"""Where peers are: each in an environment of its own under the user's cache, made of pinned packages at first use.

None of them is a dependency of this project. An environment is found again by a digest of what is pinned and of the
Python that made it, and one that was not finished is made anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"


def peers() -> list[str]:
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agency-benchmarks"


def folder_of(peer: str) -> Path:
    pinned = (REQUIREMENTS / f"{peer}.txt").read_text()
    digest = hashlib.sha256(f"{sys.version_info[:2]}\n{pinned}".encode()).hexdigest()[:12]
    return cache() / f"{peer}-{digest}"


def version_of(peer: str) -> str:
    """The version that is pinned of the package which gives the peer its name."""
    names = {peer.replace("_", "-"), f"{peer.replace('_', '-')}-slim"}
    pins = (line.split("==") for line in (REQUIREMENTS / f"{peer}.txt").read_text().splitlines())
    return next(version for name, version in pins if name in names)


def python_of(peer: str) -> Path:
    """The peer's Python, installed first if it is not there."""
    folder = folder_of(peer)
    python, made = folder / "bin" / "python", folder / ".made"
    if not made.exists():
        print(f"installing {peer} {version_of(peer)} into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS / f"{peer}.txt")], check=True)
        made.touch()
    return python
