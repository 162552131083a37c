"""Fine-tuning by measured steps after training in a simulated twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from agents.common import read_decisions
from placement_gym.base import IntArray, check_not_negative
from placement_gym.envs import DevicePlacementEnv

N_INTERPOLATIONS, MIN_SAMPLES = 10, 20
"""Steps from the trained weights to the initial ones, and placements sampled after each.
Hand-tuned: 200 evaluations of the twin at most."""


def soften(model: Any, untrained: Mapping[str, Tensor], distinct: float = 0.25) -> None:
    """Move weights back towards those before training, until the policy explores again.

    Where evaluations are free a policy learns until it samples a handful of placements. Measuring
    the same few again yields no new information. Weights that are moved back like this also learn
    better from new data (Ash and Adams 2020, "On Warm-Starting Neural Network Training").

    Args:
        model: An algorithm of SB3, in the environment that it has learned in, which it steps.
        untrained: ``copy.deepcopy(model.policy.state_dict())`` from before the training.
        distinct: Smallest share of distinct placements among the sampled ones.

    Raises:
        UserError: The share is out of range.
    """
    check_not_negative("distinct", distinct, 1.0)
    trained_weights = {
        name: weight.detach().clone() for name, weight in model.policy.named_parameters()
    }
    # The smallest step back that explores again: further ones forget more of the twin.
    for share in np.linspace(0.0, 1.0, N_INTERPOLATIONS + 1).tolist():
        with torch.no_grad():
            for name, weight in model.policy.named_parameters():
                weight.copy_(trained_weights[name].lerp(untrained[name], share))
        if compute_distinct_share(model) >= distinct:
            return


def compute_distinct_share(model: Any) -> float:
    """Sample and evaluate placements, and return the share of those that are different ones."""
    env = model.get_env()
    observation, placements = env.reset(), list[NDArray[Any]]()
    while len(placements) < MIN_SAMPLES:
        actions, _ = model.predict(observation, deterministic=False)
        observation, _, _, infos = env.step(actions)
        placements += [read_decisions(env, observation, infos, i) for i in range(env.num_envs)]
    return len(np.unique(placements, axis=0)) / len(placements)


class TwinAgreement(BaseCallback):
    """Compares the speed-ups of each rollout with those that a twin predicts.

    Logs ``twin/ratio``, the median of measured over predicted speed-ups, ``twin/rank_correlation``
    (Spearman's) and ``twin/distinct``, the number of different placements. A correlation near zero
    means that the twin cannot rank what the policy samples; few distinct placements mean that the
    policy has stopped exploring, see ``soften``.

    Args:
        twin: The twin, see ``placement_gym.make_twin``.
        verbose: 1 prints a line for each rollout.

    Attributes:
        found: Ratio, correlation and number of each rollout.
    """

    def __init__(self, twin: DevicePlacementEnv, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.twin = twin
        self.found: list[tuple[float, float, int]] = []
        self.placements: list[IntArray] = []
        self.measured: list[float] = []

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        for i, info in enumerate(infos):
            if info["feasible"]:
                row = read_decisions(self.training_env, self.locals["new_obs"], infos, i)
                self.placements.append(row[: self.twin.problem.n_units])
                self.measured.append(float(info["speedup"]))
        return True

    def _on_rollout_end(self) -> None:
        if not self.placements:
            return
        placements, measured = np.stack(self.placements), np.array(self.measured)
        self.placements, self.measured = [], []
        predictions = self.twin.backend.evaluate_batch(placements).speedup
        ratio = float(np.median(measured / predictions))
        # A rank correlation of constants is undefined.
        varies = np.ptp(measured) > 0.0 and np.ptp(predictions) > 0.0
        correlation = float(spearmanr(measured, predictions).statistic) if varies else 0.0
        n_distinct = len(np.unique(placements, axis=0))
        self.found.append((ratio, correlation, n_distinct))
        self.logger.record("twin/ratio", ratio)
        self.logger.record("twin/rank_correlation", correlation)
        self.logger.record("twin/distinct", n_distinct)
        if self.verbose:
            print(
                f"{self.num_timesteps}: {n_distinct} placements, {ratio:.3f} x the twin's "
                f"speed-up, rank correlation {correlation:.2f}"
            )
