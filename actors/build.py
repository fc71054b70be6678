"""What hosts run: the code of a system, the addresses of its models, and the secrets that are named in it. When it
changes, hosts must be new.

The code is the system's module and whatever that imports from the folders that hosts look into, found without running
any of it. What is installed beside them is taken to stay as it is.
"""

from __future__ import annotations

import ast
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agency.define.system import AgentSystem
from agency.key_rules import FOR_AGENCIES, OutgoingRules
from agency.models.providers.entry import Provider
from agency.models.providers.hosts import HOSTS
from agency.secrets import Secret

_PARSING = threading.Lock()  # Python 3.11 cannot do it in two threads at once

OF_SDKS = ("OPENAI_", "ANTHROPIC_", *(host.variable for host in HOSTS.values() if host.variable), "AWS_DEFAULT_REGION")
"""Variables that begin so configure the stock providers. Their keys are among the references of every system."""


def references(system: AgentSystem, providers: Mapping[str, Provider]) -> frozenset[Secret]:
    """Where the secrets are that hosts need: those that the code and the settings name, and those for agencies."""
    own = {Secret(f"env:{name}") for name in os.environ if name.startswith(FOR_AGENCIES)}
    return system.references.union(own, *(entry.references for entry in providers.values()))


def environment(named: Iterable[Secret]) -> dict[str, str]:
    """The variables of this process that hosts need: those that are named, and the models' SDKs' own."""
    wanted = {reference.removeprefix("env:") for reference in named}
    return {name: value for name, value in sorted(os.environ.items()) if name in wanted or name.startswith(OF_SDKS)}


def fingerprint(
    reference: str,
    folders: Sequence[str],
    providers: Mapping[str, Provider],
    variables: Mapping[str, str],
    outgoing: OutgoingRules,
) -> str:
    """A name for what hosts would run, the same as long as that is: the code, the settings' providers, the keys and
    who may use them where."""
    digest = hashlib.sha256(repr(sorted(variables.items())).encode())
    digest.update(repr(sorted(providers.items())).encode())
    if outgoing != OutgoingRules():
        digest.update(outgoing.model_dump_json().encode())
    for name, path in sorted(_sources(reference.partition(":")[0], folders).items()):
        digest.update(f"\0{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def has_module(name: str, folder: str) -> bool:
    """Whether a folder has the source of a module."""
    return _file(name, (folder,)) is not None


def _sources(module: str, folders: Sequence[str]) -> dict[str, Path]:
    """The modules that a module leads to in these folders, and their files."""
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        for each in _with_parents(name):
            if each not in found and (path := _file(each, folders)) is not None:
                found[each] = path
                waiting += _imports(each, path)
    return found


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: n + 1]) for n in range(len(parts)))


def _file(name: str, folders: Sequence[str]) -> Path | None:
    for folder in folders:
        place = Path(folder, *name.split("."))
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return path
    return None


def _imports(name: str, path: Path) -> Iterator[str]:
    """What a file may import; names that are no modules do no harm."""
    try:
        with _PARSING:
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
