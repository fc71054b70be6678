"""Backoff: delays double, stop growing, and can be spread."""

from __future__ import annotations

from itertools import islice

from agency.backoff import Backoff


def test_delays_double_up_to_the_longest() -> None:
    assert list(islice(Backoff(0.5, 3.0).delays(), 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_first_delay_is_never_over_the_longest() -> None:
    assert Backoff(5.0, 3.0).delay(1) == 3.0


def test_a_stored_attempt_has_the_delay_that_a_loop_would_have_reached() -> None:
    backoff = Backoff(0.02, 1.0)
    assert [backoff.delay(attempt) for attempt in range(1, 9)] == list(islice(backoff.delays(), 8))
    assert [backoff.delay_ms(attempt) for attempt in (1, 2, 7)] == [20, 40, 1000]


def test_any_number_of_attempts_is_fine() -> None:
    assert Backoff(0.5, 30.0).delay(1_000_000) == 30.0


def test_jitter_spreads_a_delay_between_half_of_it_and_all_of_it() -> None:
    backoff = Backoff(1.0, 8.0)
    assert list(islice(backoff.delays(lambda: 0.0), 4)) == [0.5, 1.0, 2.0, 4.0]
    assert list(islice(backoff.delays(lambda: 1.0), 4)) == [1.0, 2.0, 4.0, 8.0]
