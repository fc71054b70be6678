"""What is served and run when no system is named and a model's key is in the environment: one agent for anything, with
the default middleware.

Hosts import this module, too, with the same variables, so they come to the same model.
"""

from __future__ import annotations

import os

from agency import AgentSystem

MODELS = {"OPENAI_API_KEY": "openai:gpt-5.4-mini", "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-5"}
"""The model of a provider whose key is there; of several, the first."""

OFFLINE = "demo:default"
AGENT = "assistant"


def model_here() -> tuple[str, str] | None:
    """The variable that has a key, and the model that is used with it."""
    return next(((name, model) for name, model in MODELS.items() if os.environ.get(name)), None)


_found = model_here()

system = (
    AgentSystem(OFFLINE if _found is None else _found[1])
    .defaults()  # planning, files and subagents
    .add_agent(
        name=AGENT,
        description="Helps with anything: plans, writes files, and gives parts of the work to copies of itself.",
        prompt="You are a capable assistant. Do what you are asked, completely; plan first if it takes several steps. "
        "Say what you do not know. Answer in the language of the question, briefly and to the point.",
    )
)
