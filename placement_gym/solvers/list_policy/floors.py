"""List schedules that need no weights: floors of what a policy of weights learns.

Units are placed in the order in which the simulator runs their first operators. Both functions
respect support and memory limits; a unit that fits on no device goes where most room is left.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base import IntArray
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator
from placement_gym.solvers.list_policy.kernel import NAMES, PRICE, look_ahead
from placement_gym.solvers.list_policy.list_problem import ListProblem

GAINS = 0.5
"""Price of a byte in typical gains, the best of six on validation problems of the stream."""


def earliest_finish(problem: Problem, simulator: Simulator) -> IntArray:
    """Place each unit on the device on which it finishes first.

    Under schedules that are sums, such as ``serial``, that is the device of the least own time and
    transfers of inputs. Returns (n_units,) devices.
    """
    return list_schedule(problem, simulator, 0)


def lookahead(problem: Problem, simulator: Simulator) -> IntArray:
    """Place each unit on the device with which the whole schedule ends first.

    For each device the units that follow are placed by ``earliest_finish``, and once more at a
    price of memory where that is limited; so the time grows with the square of their number.
    Returns (n_units,) devices.
    """
    return list_schedule(problem, simulator, problem.n_units)


def list_schedule(problem: Problem, simulator: Simulator, n_ahead: int) -> IntArray:
    """(n_units,) devices by ``earliest_finish``, of which the first ``n_ahead`` look ahead."""
    view = ListProblem.from_problem(problem, simulator)
    units, first = np.unique(view.unit[view.sequence], return_index=True)
    order = units[np.argsort(first)][:n_ahead].astype(np.int64)
    weights = np.zeros((2 if len(view.limit) else 1, len(NAMES)))
    weights[1:, PRICE] = GAINS * view.gain_ms
    places = np.empty((2, problem.n_units), np.uint8)
    look_ahead(view, order, weights, places, np.empty(2))
    return places[0].astype(np.int64)
