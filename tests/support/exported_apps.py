"""Programs that serve a system themselves: alone, and inside of an app of their own."""

from __future__ import annotations

from fastapi import FastAPI

from tests.support.scripted_system import system

exported = system.export()

alone = exported.handler

host = FastAPI(lifespan=exported.lifespan)
host.mount("/agents", exported.handler)

forgetful = FastAPI()  # without the lifespan
forgetful.mount("/deep/down", system.export(secret="s3cret").handler)


@host.get("/")
async def own() -> str:
    return "the host's own"
