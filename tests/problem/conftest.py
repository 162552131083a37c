from __future__ import annotations

import pytest
from graphs import GraphOf, alternating, problem_on

from placement_gym.problem import Placement, Problem


@pytest.fixture(scope="module")
def tiny(graph_of: GraphOf) -> Problem:
    return problem_on(graph_of("tiny", "folded"), granularity="colocated")


@pytest.fixture(scope="module")
def mixed(tiny: Problem) -> Placement:
    return Placement.from_assignment(tiny, alternating(tiny))
