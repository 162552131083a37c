# White-box tests of solvers
"""Parts by METIS: balanced by the speed of devices, cut where transfers are cheap."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from by_hand import chain, cost_table, grouped, ints, made_graph, problem_of
from pipelines import draw_backend

from placement_gym.base import UserError
from placement_gym.solvers import Tasks, metis_partition
from placement_gym.solvers.partition import integers, undirected_links


def test_links_share_the_cost_of_a_tensor_and_are_symmetric() -> None:
    graph = made_graph(3, [(0, [1, 2])])
    costs = cost_table(graph, np.ones((3, 2)), [6])
    tasks = Tasks.from_units(grouped(graph), costs)
    first, other, ms = undirected_links(tasks)
    assert (first.tolist(), other.tolist(), ms.tolist()) == ([0, 2, 3, 4], [1, 2, 0, 0], [3.0] * 4)


def test_weights_are_whole_and_in_proportion() -> None:
    weights = integers(np.array([0.0, 1.0, 3.0]))
    assert weights.tolist() == [0, 2**22, 3 * 2**22]
    assert integers(np.zeros(2)).tolist() == [0, 0]


def test_a_row_is_cut_at_its_cheapest_tensor_by_hand() -> None:
    pytest.importorskip("pymetis", reason="needs the extra 'metis'")
    costs = cost_table(chain(8), np.ones((8, 2)), [9, 9, 9, 1, 9, 9, 9])
    placed = metis_partition(problem_of(grouped(chain(8)), costs), costs)
    assert np.flatnonzero(np.diff(placed)).tolist() == [3]


def test_a_device_of_thrice_the_speed_gets_three_quarters() -> None:
    pytest.importorskip("pymetis", reason="needs the extra 'metis'")
    costs = cost_table(chain(40), np.tile([3.0, 1.0], (40, 1)), [1.0] * 39)
    placed = metis_partition(problem_of(grouped(chain(40)), costs), costs)
    assert 28 <= (placed == 1).sum() <= 32


@pytest.mark.parametrize("seed", range(6))
def test_limits_and_support_are_kept_and_seeds_repeat(seed: int) -> None:
    pytest.importorskip("pymetis", reason="needs the extra 'metis'")
    backend = draw_backend(seed, n=12, limited=True, refused=0.3)
    placed = metis_partition(backend.problem, backend.costs)
    assert backend.problem.infeasibility(placed) == ""
    assert (placed == metis_partition(backend.problem, backend.costs)).all()


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    costs = cost_table(chain(2), np.ones((2, 2)), [1.0])
    with pytest.raises(UserError, match="pip install pymetis"):
        metis_partition(problem_of(grouped(chain(2)), costs, ints([0, 0])), costs)
