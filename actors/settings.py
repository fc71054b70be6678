"""What an installation is configured with: by keyword, or by environment variables that begin with AGENCY_."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator
from pydantic_core import from_json
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agency.define.file_limits import FILE_LIMITS, FileLimits
from agency.define.system import AgentSystem
from agency.define.system import load_system as load
from agency.errors import DefinitionError
from agency.guarded.addresses import PrivateHostText
from agency.key_rules import KeyName, KeyRule, OutgoingRules
from agency.messages import MESSAGE_CHARS
from agency.models.providers.entry import Provider, ProviderName
from agency.shelves.local import TOTAL_BYTES
from agency.store.sqlite import Storage
from agency.wire import explain

Count = Annotated[int, Field(ge=1)]


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="AGENCY_", frozen=True, extra="forbid", hide_input_in_errors=True)

    system: Annotated[str, StringConstraints(pattern=r"\A[\w.]+:\w+\z")]
    """The agents, as `package.module:name`. Every host imports it."""
    data_dir: Path = Path("data")
    """Everything that lasts is below this folder."""
    python_path: tuple[str, ...] = ()
    """Where hosts look for the system's module, besides what is installed; this process's folder unless given."""
    ship_code: bool = True
    """On a Ray that you have started, send the folder with the system's module to its nodes; see `actors.shipping`."""
    namespace: str = "agency"
    """The Ray namespace. It tells installations in one cluster apart."""
    ray_address: str | None = None
    """The cluster to join; else one that this user has started here, else a local one is started."""
    ray_dashboard: bool = False
    """Start Ray's own dashboard with a local Ray; `ray list actors` needs it, and it takes a gigabyte."""
    storage: Literal["local", "shared"] = "local"
    """`shared`: `data_dir` is on a file system that all nodes mount, and threads may live on any of them."""
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    """SQLite's: NORMAL survives the death of any process, FULL also that of the power supply."""
    actors_per_node: Annotated[int, Field(ge=1)] | None = None
    """Hosts on one node, beyond which threads share; two for each core unless given."""
    warm_hosts: Annotated[int, Field(ge=0)] = 2
    """Empty hosts kept ready on each node."""
    agency_hosts: Count = 2
    """Processes for agencies, in all; an agency's id tells which one it lives in."""
    hibernate_after: Annotated[float, Field(gt=0)] = 30.0
    """Seconds without anything to do and without a watcher, after which a thread leaves memory."""
    silent_after: Annotated[float, Field(gt=0)] = 6.0
    """Seconds after which a host that does not answer gets nothing new."""
    replace_after: Annotated[float, Field(gt=0)] = 30.0
    """Seconds after which a host that does not answer is ended, and its threads go on elsewhere."""
    blocked_after: Annotated[float, Field(gt=0)] = 2.0
    """Seconds for which a tool, hook or provider may hold up its host's event loop, before it is warned of."""
    message_chars: Annotated[int, Field(ge=1, le=MESSAGE_CHARS)] = MESSAGE_CHARS
    """The longest message that is accepted."""
    poison_after: Annotated[int, Field(ge=2)] = 5
    """How often a host may die with a thread, without the thread getting any further, before its run is given up."""
    shelf_bytes: Annotated[int, Field(ge=1)] = TOTAL_BYTES
    """What all entries of an agency's shelves together may take."""
    prompt_chars: Count = 262_144
    """The longest prompt of an agency's own blueprint."""
    blueprint_bytes: Count = 524_288
    """A whole blueprint of an agency, as JSON: its prompt, configuration, tools, schema, and so on."""
    blueprint_names: Count = 500
    """The tags of one blueprint, the tools and the middleware that it names, the agents in it: so many of each."""
    blueprint_values: Count = 50_000
    """The values in one blueprint: texts, numbers, lists and so on, in its configuration and everywhere."""
    blueprint_depth: Count = 50
    """How deep values of a blueprint stand inside of each other: agents that agents define, and all else."""
    blueprints_most: Count = 1_000
    """An agency's own blueprints."""
    catalogue_bytes: Count = 33_554_432
    """What all of an agency's own blueprints together may take. Hosts read them when a thread wakes."""
    providers_most: Count = 100
    """An agency's own providers."""
    provider_bytes: Count = 32_768
    """One provider entry of an agency, as JSON."""
    policy_bytes: Count = 262_144
    """An agency's policy, as JSON."""
    keys_most: Count = 1_000
    """The keys of an agency."""
    schedules_most: Count = 1_000
    """The schedules of an agency."""
    schedule_bytes: Count = 262_144
    """One schedule with its message, as JSON."""
    starts_per_second: Annotated[float, Field(gt=0)] = 50.0
    """Threads that an agency's schedules and threads start, on average over ten seconds; more wait."""
    children_most: Count = 1_000
    """The subagents of one thread that are at work at a time, whatever blueprints say."""
    generations_most: Count = 20
    """How deep subagents start subagents, whatever blueprints say."""
    creation_bytes: Count = 16_777_216
    """What a new thread begins with: messages, images, files and options, as JSON."""
    file_bytes: Count = FILE_LIMITS.each
    """One file of a thread."""
    files_most: Count = FILE_LIMITS.most
    """The files of a thread."""
    files_bytes: Count = FILE_LIMITS.together
    """What all files of a thread together may take."""
    page_bytes: Count = 1_048_576
    """A page of a list ends when it has so much, and always has at least one thing."""
    calls_most: Count = 1_000
    """Calls of one agency that are in progress or wait for their turn."""
    calls_bytes: Count = 67_108_864
    """What these calls together may carry."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """How much is logged, by hosts and gateways."""
    providers: Annotated[dict[ProviderName, Provider], NoDecode] = {}
    """Where models are, by the word before the colon in their names, over what the code says. As a variable it is
    JSON: `{"ollama": {"api": "openai", "baseUrl": "http://localhost:11434/v1"}}`."""
    keys: Annotated[dict[KeyName, KeyRule], NoDecode] = {}
    """Which agencies may use which of the variables that begin with AGENCY_KEY_, and where; none unless it is said
    here. As a variable it is JSON: `{"AGENCY_KEY_X": {"agencies": ["agc_1f2e"], "hosts": ["api.openai.com"]}}`."""
    private_hosts: tuple[PrivateHostText, ...] = ()
    """Private addresses that providers of agencies may be at, as `["10.1.2.0/24", "localhost:11434"]`."""
    build: str = ""
    """A name for the code that hosts run and the keys that they use; see `actors.build`."""
    environment: Annotated[str, Field(repr=False)] = ""
    """The variables that the models' SDKs, providers, tools and middleware need in every host; see `actors.sealing`."""

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()

    @field_validator("python_path")
    @classmethod
    def _or_here(cls, path: tuple[str, ...]) -> tuple[str, ...]:
        return path or (os.getcwd(),)  # noqa: PTH109  # entries of sys.path are strings

    @field_validator("providers", "keys", mode="before")
    @classmethod
    def _from_text(cls, given: object) -> object:
        return from_json(given or "{}") if isinstance(given, str) else given

    model_config["validate_default"] = True

    @property
    def file_limits(self) -> FileLimits:
        return FileLimits(each=self.file_bytes, most=self.files_most, together=self.files_bytes)

    @property
    def outgoing(self) -> OutgoingRules:
        """What agencies may reach, and with which keys."""
        return OutgoingRules(keys=self.keys, private_hosts=self.private_hosts)

    @property
    def files(self) -> Storage:
        return Storage(self.synchronous, shared=self.storage == "shared")


def load_system(configured: Settings) -> AgentSystem:
    """Import the agents, and check them whole."""
    return load(configured.system, configured.python_path, configured.providers)


def settings(**given: object) -> Settings:
    """Settings from keywords and the environment. `DefinitionError` says in one line what is wrong with them."""
    try:
        return Settings(**given)  # type: ignore[arg-type]  # that is what it checks
    except ValidationError as error:
        raise DefinitionError(f"settings: {explain(error)}") from error
