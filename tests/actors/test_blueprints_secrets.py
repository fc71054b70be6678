"""What blueprints of agencies may refer to, in hosts: also those that are older than the rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel, ConfigDict, JsonValue

from actors import Settings
from actors.address import Address, Files
from actors.agency.store import AgencyStore
from actors.host.terms import TermsCache
from actors.host.thread_runtime import HostServices, ThreadRuntime
from agency import AgentSystem, Blueprint, Middleware, Secret, secret
from agency.api.tenancy import AgencyInfo
from agency.key_rules import KeyRule, sections_in
from agency.secrets import NoSecret, default_references, named_in
from agency.store.sqlite import LOCAL
from agency.thread.lookups import Lookups

AT = "2025-01-01T00:00:00.000Z"


class Inner(BaseModel):
    name: str
    key: Secret = secret("env:INNER_KEY")


class Config(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    key: Secret = secret("env:SHOP_KEY")
    other: Secret | None = None
    inner: list[Inner] = []


class Shop(Middleware[Config]):
    name = "shop"
    tags = ("default",)
    config_model = Config
    secrets = {"own": secret("env:SHOP_OWN")}  # as the guides write it


class World:
    """An agency in a host, with a blueprint of its own."""

    def __init__(self, path: Path) -> None:
        keys = {"AGENCY_KEY_SHOP": KeyRule(agencies=("*",), middleware=("shop",))}
        self.settings = Settings(system="shop:system", data_dir=path, keys=keys)
        self.system = AgentSystem("demo:instant").use(Shop())
        self.system.add_agent(
            name="clerk", description="d", prompt="p", config={"shop": {"key": "file:/run/secrets/shop"}}
        )
        info = AgencyInfo(id="bakery", name="Bakery", created_at=AT)
        self.store = AgencyStore.open(Files(path).of(Address("bakery")), LOCAL, info)

    def value(self, section: Mapping[str, JsonValue] | None, wanted: str, vouched: bool = False) -> str:
        """What a thread of a blueprint with this section gets."""
        config: dict[str, JsonValue] = {} if section is None else {"shop": dict(section)}
        blueprint = Blueprint(name="baker", prompt="p", config=config, unattended=False)
        self.store.put_blueprint(blueprint, AT, list(sections_in(config)) if vouched else [])
        host = SimpleNamespace(settings=self.settings, system=self.system, terms=TermsCache(self.settings))
        runtime = ThreadRuntime(Address("bakery", "t"), cast(HostServices, host))
        shop = Shop()
        lookups = Lookups(blueprint, {"shop": cast(Any, shop)}, runtime.check_secret)
        declared = lookups.of_middleware(cast(Any, shop), Config.model_validate(section or {}))
        return declared.value(Secret(wanted))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in ("SHOP_KEY", "SHOP_OWN", "INNER_KEY", "AGENCY_KEY_SHOP", "DATABASE_PASSWORD"):
        monkeypatch.setenv(name, f"value of {name}")
    return World(tmp_path)


@pytest.mark.parametrize("reference", ["env:DATABASE_PASSWORD", "file:/etc/hostname", "env:AGENCY_KEY_OTHER"])
@pytest.mark.parametrize("blank", ["", " "])
def test_a_stored_section_gets_nothing_that_is_not_for_agencies(world: World, reference: str, blank: str) -> None:
    with pytest.raises(NoSecret, match="may not"):
        world.value({"key": f"{blank}{reference}"}, reference)


def test_what_the_operator_lets_it_use_it_gets(world: World) -> None:
    assert world.value({"key": "env:AGENCY_KEY_SHOP"}, "env:AGENCY_KEY_SHOP") == "value of AGENCY_KEY_SHOP"


@pytest.mark.parametrize("section", [None, {"other": "env:AGENCY_KEY_SHOP"}, {"inner": [{"name": "x"}]}])
def test_what_the_code_falls_back_on_is_the_codes(world: World, section: Any) -> None:
    assert world.value(section, "env:SHOP_KEY") == "value of SHOP_KEY"
    assert world.value(section, "env:SHOP_OWN") == "value of SHOP_OWN" if section is None else True
    if section is not None and "inner" in section:
        assert world.value(section, "env:INNER_KEY") == "value of INNER_KEY"


def test_what_the_owner_has_set_may_be_anywhere(world: World) -> None:
    section = {"key": "env:DATABASE_PASSWORD"}
    assert world.value(section, "env:DATABASE_PASSWORD", vouched=True) == "value of DATABASE_PASSWORD"


def test_blanks_around_a_reference_do_not_hide_it() -> None:
    assert list(named_in({"a": [" env:X\n", "file:/x y "]})) == ["env:X", "file:/x y"]
    assert [name for name, _ in sections_in({"shop": {"key": "\tenv:X"}})] == ["shop"]


def test_defaults_of_a_configuration_are_found_at_whatever_depth() -> None:
    assert default_references(Config) == {"env:SHOP_KEY", "env:INNER_KEY"}
