"""Whole models on devices: the best of all assignments, for throughput."""

from __future__ import annotations

from itertools import product

import numpy as np

from placement_gym.base import FloatArray, IntArray, UserError
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

MAX_ASSIGNMENTS = 2**16
"""Assignments of models to devices that are tried, at most. Hand-tuned."""


def model_per_device(problem: Problem, costs: CostTable) -> IntArray:
    """Give each model of a union a device such that the largest load is as small as it can be.

    No tensor moves, so a device's load is the sum of what its models take in a round. Of
    equal loads the first one in the order of devices is taken; a single model gets its best device.

    Returns:
        (n_units,) devices.

    Raises:
        UserError: There are too many assignments, or none respects support and memory.
    """
    ms, model = time_models(problem, costs)
    n_models, n_devices = ms.shape
    if n_devices**n_models > MAX_ASSIGNMENTS:
        raise UserError(
            f"{n_models} models on {n_devices} devices have more than {MAX_ASSIGNMENTS} "
            "assignments: use the agent search, which moves parts of models"
        )
    options = np.array([*product(range(n_devices), repeat=n_models)], dtype=np.int64)
    loads = np.zeros((len(options), n_devices))
    for number, devices in enumerate(options.T):
        loads[np.arange(len(options)), devices] += ms[number, devices]
    for option in np.argsort(loads.max(axis=1), kind="stable").tolist():
        assignment = options[option][model]
        if not problem.infeasibility(assignment):
            return assignment
    raise UserError(
        "whole models do not all fit on the devices: use an agent that splits models, as search, "
        "or raise the limits"
    )


def time_models(problem: Problem, costs: CostTable) -> tuple[FloatArray, IntArray]:
    """(n_models, n_devices) ms of each model in a round; and (n_units,) the model of each unit."""
    units = problem.units
    model = np.empty(len(units), dtype=np.int64)
    model[units.of_operator] = units.graph.model_of
    rates = units.graph.rates
    unit_ms = costs.unit_ms(units)
    ms = np.stack([unit_ms[model == number].sum(axis=0) for number in range(len(rates))])
    return ms + rates[:, None] * costs.submodel_ms, model
