"""The simulated twin of an environment whose evaluations are expensive."""

from __future__ import annotations

from copy import copy
from typing import Any

import gymnasium as gym

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import UserError
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.placement_env import placement_env
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.problem.costs import parse_schedule


def make_twin(env: gym.Env[Any, Any]) -> DevicePlacementEnv:
    """Make the simulated twin of a measured environment.

    The twin computes latencies from the environment's cost table, as HETERO runs: one device after
    another. Spaces, actions and ``graph_id`` are the same, so a model trained in the twin continues
    in the environment after ``set_env``. The problem is profiled unless a profile is kept.

    Args:
        env: A measured environment; the twin has none of its wrappers.

    Raises:
        UserError: The environment is simulated, its actions decide more than the placement, or the
            problem cannot be profiled.
    """
    base = placement_env(env)
    if isinstance(base, SimulatedEnv):
        raise UserError("a simulated environment needs no twin: learn in it")
    semantics = parse_schedule("serial", base.objective)
    twin = copy(base)
    twin.backend = SimulatedBackend(base.problem, base.cost_table(), semantics)
    twin.spec, twin.starts, twin.on_repair = None, {}, None
    # Single devices are evaluated by the new backend. Repairs keep their prices: equal actions must
    # be equal placements.
    twin.__dict__.pop("singles", None)
    twin.repair_prices = base.repair_prices
    twin.reset()
    return twin
