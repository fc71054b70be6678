"""What people are shown of a model call is what went over the wire, for both APIs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.model_clerk import clerk, run
from tests.support.model_script import Call, Reply
from tests.support.model_server import KEY, ModelServer

ID = {"openai": "x-request-id", "anthropic": "request-id"}


async def test_a_call_made_again_by_hand_is_the_call_that_was_made(
    server: ModelServer, provider: str, tmp_path: Path
) -> None:
    looked = Call(name="weather", args={"city": "Oslo"}, id="c_1")
    server.add(
        Reply(text=("Let me ", "look."), calls=(looked,), headers={ID[provider]: "req_1"}),
        Reply(text=("It's 'sunny'.",), headers={ID[provider]: f"req-{KEY}"}),
    )
    async with clerk(provider, tmp_path) as thread:
        await run(thread, "Weather in Oslo?\nJSON")
        found = [await thread.model_call(each.seq) for each in await thread.model_calls()]
    assert len(found) == len(server.requests) == 2
    for shown, sent in zip(found, server.requests, strict=True):
        assert shown.curl is not None and shown.python is not None
        head, _, rest = shown.curl.partition("<<'JSON'\n")
        assert json.loads(rest.removesuffix("JSON\n")) == sent.body
        assert sent.path in head and f"${provider.upper()}_API_KEY" in head
        made: dict[str, object] = {}
        program = shown.python.partition("answer = ")[0].replace("import httpx\n", "").partition("body = ")[2]
        exec(f"body = {program}", made)
        assert made["body"] == sent.body
        assert KEY not in shown.model_dump_json()
    assert [each.request_id for each in found] == ["req_1", "req-[redacted]"]
    assert all(each.first_token_ms is not None for each in found)
