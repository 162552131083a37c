"""An environment whose every episode is another generated problem, to train across problems."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike
from stable_baselines3.common.vec_env import DummyVecEnv

from placement_gym.base.arguments import check_integer
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.observation import Observation
from placement_gym.envs.rewards import get_reward
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.graph.families.problems import (
    LARGEST_SET,
    MAX_EDGES,
    MAX_UNITS,
    SampledProblem,
    sample_problem,
)
from placement_gym.solvers.heuristics import propose_simple, propose_single_devices

Draw = Callable[[np.random.Generator, str], SampledProblem]
"""Draws a problem of a split, as ``sample_problem``."""
SIZES = {"max_nodes": MAX_UNITS, "max_edges": MAX_EDGES, "max_devices": LARGEST_SET}


class SampledProblemEnv(gym.Env[Observation, Any]):
    """``DevicePlacementSim-v0`` on a problem that ``reset`` draws; an episode is one placement.

    Spaces are padded, so that many of them make a vector environment. The reward is the logarithm
    of the floor's latency over the placement's; info has ``floor_ms`` and ``problem_seed`` in
    addition to the keys of ``DevicePlacementEnv``.

    ``REINFORCE`` learns nothing from a graph's only placement where its baseline is the average of
    that graph: use ``baseline="none"``, as the reward has a baseline already, or more
    ``episodes``.

    Args:
        split: ``"train"``, ``"validation"`` or ``"test"``.
        episodes: Episodes of a problem before the next one is drawn.
        draw: Draws the problems.
        env_kwargs: Further arguments of ``SimulatedEnv``, as ``repair``; ``max_nodes``,
            ``max_edges`` and ``max_devices`` are those of ``sample_problem`` without them.

    Attributes:
        env: The environment of the current problem.
        sampled: The current problem.
    """

    metadata = DevicePlacementEnv.metadata

    def __init__(
        self,
        split: str = "train",
        episodes: int = 1,
        draw: Draw = sample_problem,
        **env_kwargs: Any,
    ) -> None:
        check_integer("episodes", episodes, 1)
        self.draw = draw
        self.split, self.episodes, self.env_kwargs = split, episodes, env_kwargs
        self.left = 0
        self.sampled, self.env = self.sample(np.random.default_rng(0))
        self.floor_ms = floor_ms(self.env)
        self.observation_space = self.env.observation_space
        self.action_space = self.env.action_space
        self.render_mode = self.env.render_mode

    def sample(self, rng: np.random.Generator) -> tuple[SampledProblem, SimulatedEnv]:
        """Draw a problem and make its environment."""
        sampled = self.draw(rng, self.split)
        kwargs = {**sampled.env_kwargs(), **SIZES, "observe_devices": True, **self.env_kwargs}
        return sampled, SimulatedEnv(**kwargs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw the next problem if it is time, or a seed is given; see ``DevicePlacementEnv``."""
        super().reset(seed=seed)
        if seed is not None or not self.left:
            self.sampled, self.env = self.sample(self.np_random)
            self.floor_ms = floor_ms(self.env)
            self.left = self.episodes
        self.left -= 1
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self.extend(info)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place every unit and evaluate the placement; see ``DevicePlacementEnv.step``."""
        observation, _, _, _, info = self.env.step(action)
        now = self.env.last_measurement
        speedup = float(get_reward("speedup", self.env.penalty)(now, now))
        reward = float(np.log(speedup * self.floor_ms / info["reference_ms"]))
        return observation, reward, True, False, self.extend(info)

    def extend(self, info: dict[str, Any]) -> dict[str, Any]:
        """Add the floor and the problem's seed."""
        return {**info, "floor_ms": self.floor_ms, "problem_seed": self.sampled.seed}

    def action_masks(self) -> Any:
        """See ``DevicePlacementEnv.action_masks``."""
        return self.env.action_masks()

    def render(self) -> Any:
        """See ``DevicePlacementEnv.render``."""
        return self.env.render()


def floor_ms(env: DevicePlacementEnv) -> float:
    """Latency of the best of HEFT, filling in order, and single devices, in ms.

    The reference device's, memory ignored, if none of them is feasible.
    """
    problem, costs = env.problem, env.cost_table()
    simple = propose_simple(problem, costs, "heft", "fill-in-order")
    named = [*simple, *propose_single_devices(problem)]
    _, (speedup, feasible) = env.evaluate_batch(np.stack([placement for _, placement in named]))
    reference_ms = env.reference.reference_ms
    return float(reference_ms / speedup[feasible].max()) if feasible.any() else reference_ms


def make_training_envs(problems: int, episodes: int, **kwargs: Any) -> DummyVecEnv:
    """Make environments to train in across problems of the split ``train``, with repair.

    A rollout of ``n_steps=episodes`` then has so many placements of each problem.

    Args:
        problems: Of a rollout.
        episodes: Placements of each, at least two.
        kwargs: Further arguments of ``SampledProblemEnv``.

    Raises:
        UserError: There are fewer episodes: a placement would have no other to be compared with.
    """
    check_integer("episodes", episodes, 2)
    make: Callable[[], gym.Env[Any, Any]] = partial(
        SampledProblemEnv, "train", episodes, repair=True, **kwargs
    )
    return DummyVecEnv([make] * problems)
