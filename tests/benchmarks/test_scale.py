"""The simulation of a cluster: it follows its costs, and the manual has what it says."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from benchmarks.pages import written
from benchmarks.scale import PAGE, Costs, report, simulate, stops_at

COSTS = Costs()


def test_the_manual_has_the_tables_of_these_costs() -> None:
    page = PAGE.read_text()
    assert written(page, "scale", report(COSTS)) == page, "run `python -m benchmarks.scale --write`"


def test_a_part_stops_where_its_work_takes_four_fifths_of_the_time() -> None:
    stops = stops_at(replace(COSTS, directory_ms=1.0, wakes=1.0, syncs_per_s=36_000))
    assert stops["directory"] == pytest.approx(400)
    assert stops["file_server"] == pytest.approx(800)


def test_twice_as_many_parts_go_twice_as_far() -> None:
    twice = stops_at(replace(COSTS, directories=2, file_servers=2))
    once = stops_at(COSTS)
    assert twice["directory"] == pytest.approx(2 * once["directory"])
    assert twice["file_server"] == pytest.approx(2 * once["file_server"])
    assert twice["head"] == once["head"]


def test_an_idle_cluster_makes_a_thread_in_the_time_of_its_parts() -> None:
    load = simulate(COSTS, 0.01)
    syncs = COSTS.create_commits * COSTS.syncs_per_commit * COSTS.sync_ms
    assert load.create_p50_ms == pytest.approx(COSTS.gateway_ms + COSTS.agency_ms + COSTS.directory_ms + syncs)


def test_queues_grow_with_the_load_and_without_end_once_a_part_has_more_than_it_can_do() -> None:
    rates = [share * 1_000 / COSTS.directory_ms / 2 for share in (0.1, 0.5, 0.9)]
    times = [simulate(COSTS, rate).create_p99_ms for rate in rates]
    assert times == sorted(set(times))
    assert times[-1] < inf
    assert simulate(COSTS, 1_100 / COSTS.directory_ms / 2).create_p50_ms == inf


def test_syncs_that_wait_for_a_place_make_threads_wait() -> None:
    few = simulate(replace(COSTS, syncs_per_s=4_000), 100)
    many = simulate(COSTS, 100)
    assert few.file_server == pytest.approx(5 * many.file_server)
    assert few.create_p99_ms > many.create_p99_ms
