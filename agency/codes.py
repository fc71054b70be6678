"""Every code that a run can end, pause or try again with: what it means, whether it is tried again, and what to do.

The codes are stable and part of the wire contract. `docs/errors.md` is the same table for people. Whether a failure of
a model is tried again, or passed on to the next model of a chain, is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Code(NamedTuple):
    """`retryable` is said of what may go away by itself: the same call is made again, or by another model."""

    retryable: bool
    meaning: str
    remedy: str


_PROVIDER: Mapping[str, Code] = {
    "ERR_RATE_LIMIT": Code(
        True,
        "The provider has had too many requests.",
        "Nothing: it is tried again when the provider says. If it lasts, ask the provider for more.",
    ),
    "ERR_OVERLOADED": Code(
        True,
        "The provider has too much to do.",
        "Nothing: it is tried again. If it lasts, give the agent a second model.",
    ),
    "ERR_API": Code(
        True,
        "The provider failed.",
        "Nothing: it is tried again. If it lasts, tell the provider the request's id.",
    ),
    "ERR_CONNECTION": Code(
        True,
        "There is no connection to the provider.",
        "Check the network, the proxy and the provider's address.",
    ),
    "ERR_TIMEOUT": Code(
        True,
        "The provider was silent for too long, before its reply or within it.",
        "Nothing: it is tried again. If its models take so long to begin, raise the entry's `timeoutMs`.",
    ),
    "ERR_STREAM_INCOMPLETE": Code(
        True,
        "The provider's reply ended before it was whole.",
        "Nothing: it is tried again. If it always does, check the address: there may be no model server behind it.",
    ),
    "ERR_STREAM_PARSE": Code(
        True,
        "The provider's reply is not what its API promises.",
        "Nothing: it is tried again. If it always is, check that the entry's `api` is the one that is spoken there.",
    ),
    "ERR_ADDRESS_REFUSED": Code(
        False,
        "The provider of an agency is at an address that agencies may not reach, or answers as no provider does.",
        "Read the message: it says what the operator can set to allow it.",
    ),
    "ERR_AUTH": Code(
        False,
        "There is no key for the provider, or it is refused, or it does not permit this.",
        "Set the key, or one that may use the model.",
    ),
    "ERR_QUOTA": Code(
        False,
        "The account at the provider has nothing left to spend.",
        "Top up the account, or raise its limit.",
    ),
    "ERR_MODEL_NOT_FOUND": Code(
        False,
        "The provider has no such model, or is not at that address.",
        "Check the model's name and the provider's address.",
    ),
    "ERR_BAD_REQUEST": Code(
        False,
        "The provider does not accept the request.",
        "Read the message: often the model does not take a parameter, a schema or an image.",
    ),
    "ERR_CONTEXT_OVERFLOW": Code(
        False,
        "The conversation is too long for the model.",
        "Give the agent a middleware that shortens it, or a model that takes more; or begin a new thread.",
    ),
    "ERR_CONTENT_FILTER": Code(
        False,
        "The provider's filter stopped the request or the reply.",
        "Say it in another way.",
    ),
}

_REPLY: Mapping[str, Code] = {
    "ERR_MAX_TOKENS": Code(
        False,
        "The model's replies were cut off at their limit, time after time.",
        "Raise `maxTokens`, or ask for less at once.",
    ),
    "ERR_MODEL": Code(
        False,
        "A provider object of your own raised something other than a `ModelError`, or returned no valid reply.",
        "Mend the provider: the message has what it raised.",
    ),
    "ERR_JSON_OUTPUT_PARSE": Code(
        False,
        "The result had to be JSON, and was not, even after the model was told.",
        "Use a model that can be held to a schema, or say in the prompt what is wanted.",
    ),
    "ERR_JSON_OUTPUT_SCHEMA": Code(
        False,
        "The result did not fit its schema, even after the model was told.",
        "Make the schema simpler, or say in the prompt what it does not.",
    ),
    "ERR_CAPABILITY": Code(
        False,
        "A model of the chain was passed over: it lacks what is required.",
        "Require less, or name a model that can do it. For a named provider, check the entry's `capabilities`.",
    ),
    "ERR_CHAIN_EXHAUSTED": Code(
        False,
        "Every model of the chain failed or was passed over.",
        "Read the run's `attempts`: each says why.",
    ),
    "ERR_CONFIG": Code(
        False,
        "The model's provider is not there.",
        "Check the model's name, and that the provider is defined where the thread runs.",
    ),
}

_LIMITS: Mapping[str, Code] = {
    "ERR_MAX_TURNS": Code(
        False,
        "The run's turns are used up.",
        "Lift the limit (`turns`), and it goes on; or ask for less.",
    ),
    "ERR_TIME_LIMIT": Code(False, "The run's time is used up.", "Lift the limit (`timeMs`), and it goes on."),
    "ERR_TOKEN_LIMIT": Code(False, "The run's tokens are used up.", "Lift the limit (`tokens`), and it goes on."),
    "ERR_COST_LIMIT": Code(False, "The run's money is used up.", "Lift the limit (`costUsd`), and it goes on."),
    "ERR_COST_UNKNOWN": Code(
        False,
        "The run has a limit of cost, and what the model costs is not known.",
        "Put the model's price into the provider's entry (`prices`), or lift the limit.",
    ),
    "ERR_AGENCY_TURNS": Code(False, "The agency's turns are used up.", "Raise the agency's budget, and it goes on."),
    "ERR_AGENCY_TIME": Code(False, "The agency's time is used up.", "Raise the agency's budget, and it goes on."),
    "ERR_AGENCY_TOKENS": Code(False, "The agency's tokens are used up.", "Raise the agency's budget, and it goes on."),
    "ERR_AGENCY_COST": Code(False, "The agency's money is used up.", "Raise the agency's budget, and it goes on."),
    "ERR_AGENCY_COST_UNKNOWN": Code(
        False,
        "The agency has a budget of money, and what some of its calls have cost is not known.",
        "Take that budget away (`costUsd`), and it goes on; limits of tokens need no price.",
    ),
}

_OTHERS: Mapping[str, Code] = {
    "ERR_CANCELED": Code(False, "The run was canceled.", "Send a message, and a new run begins."),
    "ERR_INTERRUPTED": Code(
        False,
        "A message that was sent with `when: now` stopped the model's reply.",
        "Nothing: the run goes on with it.",
    ),
    "ERR_TOOL_FAILURE": Code(False, "A tool ended the run with `Fail`.", "Read the message: it is the tool's."),
    "ERR_SUBMITTED": Code(False, "Code handed in an error (code mode).", "Read the message: it is the code's."),
    "ERR_STOPPED": Code(False, "A middleware ended the run with `Fail`.", "Read the message: it is the middleware's."),
    "ERR_HOOK": Code(
        False,
        "A middleware's hook failed.",
        "Mend the middleware that the message names, and send again.",
    ),
    "ERR_POISON": Code(
        False,
        "The run's process died with it, time after time, so it is not tried again.",
        "Look into the host's log for what killed it: a tool, most often.",
    ),
    "ERR_INTERNAL": Code(False, "An unexpected error of Agency itself.", "Report it, with the host's log."),
}

USED_UP = frozenset(_LIMITS)
"""Those of limits and budgets: a run that meets one pauses until a person lifts it."""

CODES: Mapping[str, Code] = {**_PROVIDER, **_REPLY, **_LIMITS, **_OTHERS}
