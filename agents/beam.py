"""A beam of partial placements of a list schedule as a placer, improved by hill climbing."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

from agents.about import check_objective, check_pools
from agents.search.annealing import Annealing, start_from
from agents.search.starts import propose_heuristics
from placement_gym.costs.semantics import Semantics
from placement_gym.env import placement_env
from placement_gym.solvers.beams.beam import MERGED, Beam


def make(
    env: gym.Env[Any, Any],
    seed: int,
    width: int = 3_000,
    order: str = "priority",
    time_limit_s: float = 60.0,
    heat: tuple[float, float] = (0.0, 0.0),
    **kwargs: Any,
) -> Annealing:
    """Make a search that starts from the beam's placement, and predicts it until it has learned.

    Heuristics are evaluated after it. If the beam finds nothing, they come first.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of the search.
        width: Number of partial placements that are kept; unlike a time limit, it is reproducible.
        order: Order in which operators are placed, as in a schedule.
        time_limit_s: Wall-clock limit of the beam.
        heat: First and last temperature of the search; the default is hill climbing.
        kwargs: Arguments of ``Annealing``.
    """
    base = placement_env(env)
    check_objective("beam", base.objective)
    check_pools("beam", base.problem, base.objective)
    end = perf_counter() + time_limit_s
    schedule = Semantics("list", contention="none", order=order)
    beam = Beam(base.problem, base.cost_table(), schedule, end, MERGED)
    found = beam.search(width, np.inf, end).assignment if beam.potentials is not None else None
    heuristics = propose_heuristics(base)
    return start_from(env, seed, found, heuristics, heat=heat, **kwargs)
