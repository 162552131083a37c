"""Devices that can be exchanged: equal costs, and for overlapping schedules equal links."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, every_placement, made_graph, problem_of

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.graph import group
from placement_gym.problem.costs import Semantics
from placement_gym.solvers import Tasks, interchangeable_devices, lower_bound

OVERLAPPING = [Semantics("list", contention="none"), Semantics("event")]


def unequal_links(semantics: Semantics) -> SimulatedBackend:
    """Four branches that meet, on a slow device and three equal ones, two of them linked well."""
    graph = made_graph(6, [(0, [1, 2, 3, 4]), *((i, [5]) for i in range(1, 5))])
    link_ms = np.full((4, 4), 10.0)
    link_ms[1, 3] = link_ms[3, 1] = 0.1
    ms = np.tile([50.0, 3.0, 3.0, 3.0], (6, 1))
    costs = cost_table(graph, ms, np.zeros(5), link_ms, 0.0, host=[True, False, False, False])
    return SimulatedBackend(problem_of(group(graph, "op"), costs), costs, semantics)


def test_equal_devices_with_unequal_links_are_not_exchanged() -> None:
    backend = unequal_links(OVERLAPPING[0])
    problem, costs = backend.problem, backend.costs
    links = Tasks.from_operators(problem.units, costs).transfer_ms
    assert interchangeable_devices(problem, costs) == [[0], [1, 2, 3]]
    assert interchangeable_devices(problem, costs, links) == [[0], [1, 3], [2]]


@pytest.mark.parametrize("semantics", OVERLAPPING, ids=["list", "event"])
def test_no_placement_is_below_the_bound_where_links_are_unequal(semantics: Semantics) -> None:
    backend = unequal_links(semantics)
    latency_ms, _ = backend.evaluate_batch_exactly(every_placement(backend.problem))
    bound = lower_bound(backend.problem, backend.costs, semantics, 20.0)
    assert bound.bound_ms <= latency_ms.min() * (1 + 1e-6)
