"""Named hosts of models need their key and nothing else; addresses of one's own come from the usual variables."""

from __future__ import annotations

import re

import pytest

from actors import build
from agency import AgentSystem, ModelError, Usage
from agency.models.providers import STOCK, STOCK_KEYS
from agency.models.providers.hosts import HOSTS, entry_of
from tests.support.model_requests import ask
from tests.support.model_script import Reply
from tests.support.model_server import KEY, ModelServer
from tests.support.paths import ROOT


@pytest.mark.parametrize("name", HOSTS)
def test_each_has_an_address_and_says_where_its_key_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://bakery.openai.azure.com/")
    host = HOSTS[name]
    entry = entry_of(host)
    assert entry is not None and entry.base_url is not None
    assert re.search(r"/v1(beta/openai)?$", entry.base_url)
    assert entry.key == (f"env:{host.key}" if host.needs_key and host.key else None)
    assert entry.is_private == (name in ("ollama", "vllm")), "what runs here costs nothing"
    assert name in AgentSystem(f"{name}:m").provider_names


@pytest.mark.parametrize(
    ("name", "variables", "address"),
    [
        ("azure", {"AZURE_OPENAI_ENDPOINT": "https://b.openai.azure.com/"}, "https://b.openai.azure.com/openai/v1"),
        (
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://b.openai.azure.com/openai/v1/"},
            "https://b.openai.azure.com/openai/v1",
        ),
        ("bedrock", {"AWS_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"),
        ("ollama", {}, "http://localhost:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://localhost:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "gpu:9000"}, "http://gpu:9000/v1"),
        ("ollama", {"OLLAMA_HOST": "https://models.example"}, "https://models.example/v1"),
        ("vllm", {"VLLM_BASE_URL": "http://gpu:9000/v1"}, "http://gpu:9000/v1"),
    ],
)
def test_addresses_of_ones_own(
    name: str, variables: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    entry = entry_of(HOSTS[name])
    assert entry is not None and entry.base_url == address
    assert variables.items() <= build.environment([]).items(), "threads' hosts have them, too"


async def test_a_host_is_asked_with_its_key_and_again_where_it_has_moved_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for _ in range(2):
        async with ModelServer([Reply(text=("Hello!",))]) as server:
            monkeypatch.setenv("VLLM_BASE_URL", f"{server.url}/v1")
            reply = await ask("vllm", "Hi?", model="m")
            assert reply.text == "Hello!"
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(ModelError, match="set AZURE_OPENAI_ENDPOINT"):
        await ask("azure", "Hi?", model="m")
    with pytest.raises(ModelError, match="GROQ_API_KEY"):
        await ask("groq", "Hi?", model="m")


def test_prices_are_those_of_the_host() -> None:
    used = Usage(input=1_000_000, output=0)
    assert STOCK["groq"].cost("openai/gpt-oss-120b", used)  # type: ignore[attr-defined]  # these have prices
    assert STOCK["ollama"].cost("qwen3", used) == 0  # type: ignore[attr-defined]


def test_the_guide_lists_them_with_their_keys() -> None:
    guide = (ROOT / "docs" / "models.md").read_text()
    for name, host in HOSTS.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", guide, re.MULTILINE)
        assert all(f"`{variable}`" in row for variable in (host.key, host.variable) if variable), row
    assert {name for name in STOCK_KEYS if name in HOSTS} == {name for name, host in HOSTS.items() if host.key}
