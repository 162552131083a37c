"""An environment whose evaluations are counted, and whose profile is not quite right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from learned import simulated

from placement_gym.backends import BackendWrapper, Batch, Measurement
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray
from placement_gym.envs import DevicePlacementEnv
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

SUBMODEL = 0.05
"""Cost of a submodel that the profile lacks, in latencies of the reference device."""


class DearBackend(BackendWrapper):
    """Counts evaluations; the profile lacks what each submodel costs."""

    def __init__(self, problem: Problem, profile: CostTable) -> None:
        reference_ms = SimulatedBackend(problem, profile).reference_ms
        submodel_ms = np.full(len(problem.devices), SUBMODEL * reference_ms)
        super().__init__(SimulatedBackend(problem, replace(profile, submodel_ms=submodel_ms)))
        self.profile = profile
        self.evaluations = 0
        self.closed = False

    @property
    def rough_costs(self) -> None:
        return None

    def cost_table(self) -> CostTable:
        return self.profile

    def evaluate(self, assignment: IntArray) -> Measurement:
        self.evaluations += 1
        return self.inner.evaluate(assignment)

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        self.evaluations += len(assignments)
        return self.inner.evaluate_batch(assignments)

    def close(self) -> None:
        self.closed = True


def dear_env(limited: bool = False, **kwargs: Any) -> DevicePlacementEnv:
    """The toy, its evaluations dear; ``limited``: the second device holds half of it."""
    env = simulated()
    problem, costs = env.problem, env.cost_table()
    if limited:
        first, second = problem.devices
        half: tuple[DeviceSpec, ...] = (first, replace(second, weight_share=0.5))
        problem = replace(problem, devices=half)
    return DevicePlacementEnv(DearBackend(problem, costs), **kwargs)
