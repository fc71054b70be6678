"""The model of all servers: OpenAI's Chat Completions on loopback, whole or streamed, as cheap as can be.

    python -m benchmarks.peers.model_server      prints its port

A user's message has two numbers: how often the tool is to be called, and how many milliseconds each reply takes. The
server keeps nothing, so a request that comes again after a crash gets the same reply.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

Json = dict[str, Any]
FRAME = {"id": "chatcmpl-1", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def asked(messages: list[Json]) -> tuple[int, float]:
    """How often the tool is to be called, and the seconds of a reply."""
    content = next(message["content"] for message in messages if message["role"] == "user")
    text = content if isinstance(content, str) else content[0]["text"]
    trips, delay = text.split()
    return int(trips), int(delay) / 1_000


def message_of(turn: int, trips: int) -> tuple[Json, str]:
    """The reply of a turn, and why it ends."""
    if turn >= trips:
        return {"role": "assistant", "content": "All orders are on their way."}, "stop"
    function = {"name": "look_up", "arguments": json.dumps({"order": f"ORD-{turn:05}"})}
    call = {"index": 0, "id": f"call_{turn}", "type": "function", "function": function}
    return {"role": "assistant", "content": f"Looking at order {turn}.", "tool_calls": [call]}, "tool_calls"


def whole(message: Json, stop: str) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": stop}
    body = json.dumps({**FRAME, "object": "chat.completion", "choices": [choice], "usage": USAGE}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def streamed(message: Json, stop: str) -> bytes:
    choices: list[Json] = [{"index": 0, "delta": message, "finish_reason": None}]
    pieces: list[Json] = [{"choices": choices}, {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}]
    frame = {**FRAME, "object": "chat.completion.chunk"}
    events = [json.dumps({**frame, **piece}) for piece in (*pieces, {"choices": [], "usage": USAGE})]
    body = "".join(f"data: {event}\n\n" for event in (*events, "[DONE]")).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            request = json.loads(await reader.readexactly(length))
            trips, delay = asked(request["messages"])
            if delay:
                await asyncio.sleep(delay)
            turn = sum(message["role"] == "tool" for message in request["messages"])
            writer.write((streamed if request.get("stream") else whole)(*message_of(turn, trips)))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
