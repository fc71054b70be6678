"""The chain of models: which one is asked, and what follows when it fails.

This module owns the checkpoint's `failures`, `attempts`, `tries` and `overflows`. A failure that may pass is first of
all a call of the next model of the chain, with the same conversation; only after the last of them the run sleeps and
begins again with the first that may be asked. A failure that will not pass ends the run under its own name, never as an
exhausted chain. The run stays with the model that answered (`TurnCheckpoint.model`).
"""

from __future__ import annotations

from dataclasses import replace

from agency import events
from agency.backoff import Backoff
from agency.events import NewEvent
from agency.turn.actions import Action, Announce, AskModel, End, RepeatTurn, SleepUntil
from agency.turn.effects import ModelCall, ModelFailure, SurfaceRef
from agency.turn.limits import exhausted_by, remaining_ms
from agency.turn.outcomes import Stopped
from agency.turn.state import Attempt, RetryModel, TurnCheckpoint

MODEL_ATTEMPTS = 5
MAX_OVERFLOWS = 3
KEPT_FAILURES = 50
RETRY = Backoff(0.5, 30.0)


def retry_delay(attempt: int, after_ms: int | None) -> int:
    """How long to wait after failed attempt number `attempt`, and at least as long as the provider asks for."""
    return max(after_ms or 0, RETRY.delay_ms(attempt))


def note_skipped(m: TurnCheckpoint, surface: SurfaceRef) -> None:
    """Record, once in a run, the models of the chain that cannot do what is required."""
    known = {failure.model for failure in m.failures if failure.code == "ERR_CAPABILITY"}
    for model in surface.skipped:
        if model not in known:
            _note(m, model, "ERR_CAPABILITY", "it cannot do what is required")


def first_call(m: TurnCheckpoint, surface: SurfaceRef) -> ModelCall:
    """The call with which a turn begins: of the model that answered last, while the chain has it."""
    choice = surface.chain.index(m.model) if m.model in surface.chain else 0
    return ModelCall(surface=surface, upto=m.position, since=m.shown, final=m.grace, choice=choice)


def forget_attempts(m: TurnCheckpoint) -> None:
    """The model has answered, or is asked something else: what fails from now on counts anew."""
    m.attempts = m.overflows = m.tries = 0


def after_failure(m: TurnCheckpoint, request: ModelCall, failure: ModelFailure) -> list[Action]:
    """What follows when a model call has failed; its usage has been counted."""
    _note(m, request.model, failure.code, failure.message, failure)
    m.tries += 1
    following = _following(m, request, request.choice + 1, m.now)
    if exhausted_by(m) is not None:
        return [Announce(failed_event(request, failure)), RepeatTurn()]  # which pauses the run
    if failure.room_made and m.overflows < MAX_OVERFLOWS:
        m.overflows += 1
        again = _retried(m, request.model, failure)
        return [Announce(failed_event(request, failure, then=request.model)), again, RepeatTurn()]
    if following is not None and (failure.retryable or failure.code == "ERR_CAPABILITY"):
        again = _retried(m, following.model, failure)
        return [Announce(failed_event(request, failure, then=following.model)), again, AskModel(following)]
    if not failure.retryable:
        stopped = Stopped(reason="provider_error", code=failure.code, message=failure.message)
        return [Announce(failed_event(request, failure)), End(stopped)]
    return _after_last(m, request, failure)


def failed_event(
    request: ModelCall, failure: ModelFailure, *, retry_at: int | None = None, then: str | None = None
) -> NewEvent:
    return events.model_failed(
        request.model, failure.code, failure.message, request_id=failure.request_id, retry_at=retry_at, then=then
    )


def _after_last(m: TurnCheckpoint, request: ModelCall, failure: ModelFailure) -> list[Action]:
    """The only model, or the last one of the chain, has failed: sleep and try again, or give up."""
    m.attempts += 1
    is_chain = len(request.surface.chain) + len(request.surface.skipped) > 1
    if m.attempts >= MODEL_ATTEMPTS:
        return [Announce(failed_event(request, failure)), End(_given_up(m, failure, is_chain=is_chain))]
    wanted = min(_not_before(m, model) for model in request.surface.chain) - m.now
    delay = retry_delay(m.attempts, wanted)
    again = _following(m, request, 0, m.now + delay) or request
    remaining = remaining_ms(m, m.now)
    until = m.now + (delay if remaining is None else min(delay, remaining))
    event = failed_event(request, failure, retry_at=until, then=again.model if is_chain else None)
    return [Announce(event), _retried(m, again.model, failure, until), SleepUntil(until, RetryModel(request=again))]


def _retried(m: TurnCheckpoint, model: str, failure: ModelFailure, until: int | None = None) -> Announce:
    return Announce(events.model_retried(model, m.tries + 1, "error", (failure.code, failure.message), until))


def _given_up(m: TurnCheckpoint, failure: ModelFailure, *, is_chain: bool) -> Stopped:
    if not is_chain:
        return Stopped(reason="provider_error", code=failure.code, message=failure.message)
    tried = [each for each in m.failures if each.turn == m.turn or each.code == "ERR_CAPABILITY"]
    message = f"every model of the chain failed: {', '.join(f'{t.model} {t.code}' for t in tried)}"
    return Stopped(reason="provider_error", code="ERR_CHAIN_EXHAUSTED", message=message)


def _following(m: TurnCheckpoint, request: ModelCall, first: int, at: int) -> ModelCall | None:
    """The call of the next model of the chain, from the place `first` on, whose provider may be asked at a time."""
    for choice, model in enumerate(request.surface.chain[first:], first):
        if _not_before(m, model) <= at:
            return replace(request, choice=choice)
    return None


def _not_before(m: TurnCheckpoint, model: str) -> int:
    """Until when the model's provider asked to be left alone."""
    return next((failure.not_before for failure in reversed(m.failures) if failure.model == model), 0)


def _note(
    m: TurnCheckpoint,
    model: str,
    code: str,
    message: str,
    failure: ModelFailure | None = None,
) -> None:
    after_ms = None if failure is None else failure.retry_after_ms
    attempt = Attempt(
        model=model,
        turn=m.turn,
        code=code,
        message=message,
        at=m.now,
        request_id=None if failure is None else failure.request_id,
        status=None if failure is None else failure.status,
        not_before=0 if after_ms is None else m.now + after_ms,
    )
    m.failures = [*m.failures, attempt][-KEPT_FAILURES:]
