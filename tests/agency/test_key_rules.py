"""Which agencies may use which key, and where; what a rule that is none is told."""

from __future__ import annotations

import pytest
from pydantic import JsonValue, ValidationError

from actors.settings import settings
from agency import DefinitionError
from agency.key_rules import KeyRule, OutgoingRules, sections_in

KEY = "env:AGENCY_KEY_X"


def outgoing(*hosts: str, agencies: tuple[str, ...] = ("agc_1",), middleware: tuple[str, ...] = ()) -> OutgoingRules:
    return OutgoingRules(keys={"AGENCY_KEY_X": KeyRule(agencies=agencies, hosts=hosts, middleware=middleware)})


@pytest.mark.parametrize(
    ("host", "address", "may"),
    [
        ("api.openai.com", "https://api.openai.com/v1", True),
        ("api.openai.com", "https://API.OPENAI.COM.:443/v1", True),
        ("api.openai.com", "https://api.openai.com:8443/v1", False),
        ("api.openai.com", "http://api.openai.com/v1", False),
        ("api.openai.com", "https://evil.com/api.openai.com", False),
        ("api.openai.com", "https://api.openai.com.evil.com", False),
        ("api.openai.com", "https://xapi.openai.com", False),
        ("api.openai.com", "https://evil.com\\.openai.com", False),
        ("*.openai.azure.com", "https://bakery.openai.azure.com/openai/v1", True),
        ("*.openai.azure.com", "https://a.b.openai.azure.com", True),
        ("*.openai.azure.com", "https://openai.azure.com", False),
        ("*.openai.azure.com", "https://evilopenai.azure.com", False),
        ("*.openai.azure.com", "https://evil.com\\.openai.azure.com", False),
        ("*.openai.azure.com", "https://evil.com%2f.openai.azure.com", False),
        ("models.example.com:8443", "https://models.example.com:8443", True),
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000/v1", True),
        ("http://10.0.0.5:8000", "https://10.0.0.5:8000/v1", False),
        ("[fd00::7]:8443", "https://[fd00::7]:8443", True),
    ],
)
def test_a_key_is_for_a_host_a_port_and_a_scheme(host: str, address: str, may: bool) -> None:
    assert (outgoing(host).refuses_at("agc_1", KEY, address) is None) is may


def test_a_key_is_for_agencies() -> None:
    at = "https://api.openai.com/v1"
    assert outgoing("api.openai.com", agencies=("*",)).refuses_at("agc_2", KEY, at) is None
    told = outgoing("api.openai.com").refuses_at("agc_2", KEY, at)
    assert told == OutgoingRules().refuses_at("agc_2", KEY, at)
    assert told is not None and '{"AGENCY_KEY_X":{"agencies":["agc_2"],"hosts":["api.openai.com"]}}' in told
    assert outgoing("api.openai.com").refuses_in("agc_1", KEY, "crm") is not None
    assert outgoing(middleware=("crm",)).refuses_in("agc_1", KEY, "crm") is None
    assert outgoing(middleware=("crm",)).refuses_in("agc_1", KEY, "mail") is not None
    assert outgoing(middleware=("crm",)).refuses_in("agc_2", KEY, "crm") is not None


@pytest.mark.parametrize("host", ["*", "*.", "https://", "api.openai.com/v1", "a b", "user@host", "*.*.com", ""])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ValidationError, match="no host of a key"):
        KeyRule(agencies=("*",), hosts=(host,))


def test_the_setting_is_json_and_its_mistakes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENCY_KEYS", '{"AGENCY_KEY_X": {"agencies": ["agc_1"], "hosts": ["api.openai.com"]}}')
    assert settings(system="a:b").outgoing == outgoing("api.openai.com")
    monkeypatch.setenv("AGENCY_KEYS", "")
    assert settings(system="a:b").outgoing == OutgoingRules()
    for wrong in (
        '{"OPENAI_API_KEY": {"agencies": ["*"]}}',
        '{"AGENCY_KEY_X": {"agencies": []}}',
        '{"AGENCY_KEY_X": {"agencies": ["The Bakery"]}}',
        '{"AGENCY_KEY_X": {"hosts": ["api.openai.com"]}}',
    ):
        monkeypatch.setenv("AGENCY_KEYS", wrong)
        with pytest.raises(DefinitionError, match="keys"):
            settings(system="a:b")
    monkeypatch.delenv("AGENCY_KEYS")
    monkeypatch.setenv("AGENCY_PRIVATE_HOSTS", '["localhost:0"]')
    with pytest.raises(DefinitionError, match="private_hosts"):
        settings(system="a:b")


def test_sections_are_those_of_whoever_gets_the_value() -> None:
    """An agent that a section defines has sections of its own."""
    inner: dict[str, JsonValue] = {"crm": {"key": KEY}, "quiet": {"n": 1}}
    agents: list[JsonValue] = [{"name": "a", "config": inner}]
    config: dict[str, JsonValue] = {"mail": {"to": [{"key": KEY}]}, "subagents": {"agents": agents}, "plain": {}}
    assert list(sections_in(config)) == [("mail", config["mail"]), ("crm", inner["crm"])]
