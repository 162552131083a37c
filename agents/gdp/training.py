"""Training across generated problems, for zero-shot placement and short fine-tuning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common.sampled_env import SampledProblemEnv
from agents.gdp.policy import GOPolicy
from agents.gdp.ppo import UnitPPO
from placement_gym.base.arguments import check_integer
from placement_gym.graph.families.problems import DRAWN

SETTINGS: dict[str, Any] = {"learning_rate": 3e-4, "ent_coef": 0.003, "max_grad_norm": 1.0}
"""Arguments of ``UnitPPO``."""


def make_trainer(
    seed: int = 0,
    problems: int = 8,
    episodes: int = 8,
    policy: dict[str, Any] | None = None,
    families: Sequence[str] = DRAWN,
    **settings: Any,
) -> UnitPPO:
    """Make PPO on problems of the split ``train``; ``learn`` then draws them.

    Every update sees ``episodes`` placements of each of ``problems`` problems, and compares each
    placement with the others of its problem. Placements beyond a limit are repaired, and the
    network sees limits, times and links, so that what it learns fits other devices.

    Args:
        seed: Of weights and problems.
        problems: Of an update.
        episodes: Placements of each, at least two.
        policy: Arguments of ``GOPolicy``.
        families: Of generated graphs, see ``SampledProblemEnv``.
        settings: Arguments of ``UnitPPO`` that override ``SETTINGS``.

    Raises:
        UserError: There are fewer episodes: a placement would have no other to be compared with.
    """
    check_integer("episodes", episodes, 2)
    make: Callable[[], SampledProblemEnv] = partial(
        SampledProblemEnv, "train", episodes, families, repair=True
    )
    return UnitPPO(
        GOPolicy,
        DummyVecEnv([make] * problems),
        n_steps=episodes,
        seed=seed,
        device="cpu",
        policy_kwargs=policy or {},
        **SETTINGS | settings,
    )
