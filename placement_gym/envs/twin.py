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

    Latencies are computed from the environment's cost table, as HETERO runs: one device after
    another. All else, including ``graph_id`` and features, is the environment's: a model that is
    trained in the twin continues in the environment after ``set_env``, and equal actions mean equal
    placements. The machine is profiled if it keeps no profile of the problem.

    Args:
        env: A measured environment. Its wrappers are left out.

    Raises:
        UserError: It is simulated itself, it decides more than the placement, or the problem cannot
            be profiled.
    """
    base = placement_env(env)
    if isinstance(base, SimulatedEnv):
        raise UserError("a simulated environment needs no twin: learn in it")
    semantics = parse_schedule("serial", base.objective)
    twin = copy(base)
    twin.backend = SimulatedBackend(base.problem, base.cost_table(), semantics)
    twin.spec, twin.starts, twin.on_repair = None, {}, None
    # Single devices are those of the new backend. Repairs stay as they are there, where their
    # prices need no measurement: else the same action would be another placement.
    twin.__dict__.pop("singles", None)
    twin.repair_prices = base.repair_prices
    twin.reset()
    return twin
