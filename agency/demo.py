from agency.models import ModelRequest, OnDelta
from agency.turn.effects import ModelReply


class DemoModel:
    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        raise NotImplementedError
