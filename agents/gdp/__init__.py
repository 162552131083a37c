"""GO: one network for many graphs, of any size (GDP, Zhou et al. 2019; GO, 2020)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common import SB3_ADAM, LearnedAgent, Preset
from agents.gdp.networks import PAPER_FEATURES, GOOptions
from agents.gdp.policy import GCNOptions, GCNPolicy, GOPolicy
from agents.gdp.ppo import UnitPPO
from placement_gym.base import check_integer
from placement_gym.envs import GRAPH, UNITS, StreamEnv

__all__ = [
    "GCNOptions",
    "GCNPolicy",
    "GOOptions",
    "GOPolicy",
    "UnitPPO",
    "make",
    "make_gcn",
    "make_reinforce",
    "make_trainer",
]

COMMON: dict[str, Any] = {"n_steps": 1, "max_grad_norm": 1.0}
PPO: dict[str, Any] = {"n_epochs": 4, "clip_range": 0.2}
PRESETS = {
    "rl": Preset(
        GOOptions(segment=256, memory=256),
        {**COMMON, **PPO, "learning_rate": 1e-3, "ent_coef": 0.003},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        SB3_ADAM,
    ),
    "paper": Preset(
        GOOptions(features=PAPER_FEATURES, devices=False),
        {**COMMON, **PPO, "learning_rate": 1e-4, "ent_coef": 0.01},
        # equals GO's -sqrt(latency / reference), as advantages are scaled
        {"num_envs": 20, "horizon": 1, "reward": "neg_sqrt_latency"},
        SB3_ADAM,
    ),
}
"""``numbers.csv`` has the sources of the numbers. ``"paper"`` reads neither costs nor devices."""
make = LearnedAgent(GOPolicy, PRESETS, UnitPPO)
"""Makes ``UnitPPO`` with ``GOPolicy``; actions may also decide priority and fusion."""

CONVOLUTIONS = replace(
    PRESETS["rl"],
    policy=GCNOptions(),
    algorithm={**PRESETS["rl"].algorithm, "learning_rate": 3e-3},
)
make_gcn = LearnedAgent(GCNPolicy, {"rl": CONVOLUTIONS}, UnitPPO)
"""Two graph convolutions with GO's PPO."""

PLAIN = replace(PRESETS["rl"], algorithm={**COMMON, "learning_rate": 1e-3, "ent_coef": 0.003})
make_reinforce = LearnedAgent(GOPolicy, {"rl": PLAIN})
"""GO with REINFORCE."""


def make_trainer(
    seed: int = 0,
    problems: int = 8,
    episodes: int = 8,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> UnitPPO:
    """Make GO's PPO across problems of the split ``train``, which ``learn`` draws.

    The network reads limits, times and links, and fits other devices. Placements beyond a limit are
    repaired. The baseline of a placement is the mean of the others of its problem.

    Args:
        seed: Seed of weights and problems.
        problems: Problems of an update.
        episodes: Placements of each problem, at least two.
        policy: Options of ``GOPolicy``.
        envs: Arguments of ``StreamEnv``, such as ``make_problem``.
        settings: Arguments of ``UnitPPO`` that override the defaults.

    Raises:
        UserError: There are fewer than two episodes.
    """
    check_integer("episodes", episodes, 2)
    stream: dict[str, Any] = {"n_problems": None, "action": UNITS, "observation": GRAPH}
    env: Any = partial(StreamEnv, **{**stream, "episodes": episodes, **(envs or {})})
    defaults = {"learning_rate": 3e-4, "n_steps": episodes, "ent_coef": 0.003, "max_grad_norm": 1.0}
    return UnitPPO(
        GOPolicy,
        DummyVecEnv([env] * problems),
        policy_kwargs=policy,
        seed=seed,
        **{"device": "cpu", **defaults, **settings},
    )
