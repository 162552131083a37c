"""Going on with measured steps where a policy has learned in a simulated twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from placement_gym.base.arguments import check_not_negative
from placement_gym.base.arrays import IntArray
from placement_gym.envs.env import DevicePlacementEnv


@torch.no_grad()
def soften(model: Any, untrained: Mapping[str, Tensor], share: float = 0.5) -> None:
    """Move the weights of a policy a share of the way back to those before training.

    Where evaluations are free a policy learns until it samples a handful of placements. Measuring
    these again teaches nothing; softened, it tries others that are like them. Weights that are
    moved like this also learn better from new data (shrink and perturb, Ash and Adams 2020).

    Args:
        model: An algorithm of SB3.
        untrained: ``copy.deepcopy(model.policy.state_dict())`` from before the training.
        share: From 0, which changes nothing, to 1.

    Raises:
        UserError: The share is out of range.
    """
    check_not_negative("share", share, 1.0)
    for name, weight in model.policy.named_parameters():
        weight.lerp_(untrained[name], share)


class TwinAgreement(BaseCallback):
    """Compares the speed-ups of each rollout with those that a twin predicts.

    Logs ``twin/ratio``, the median of measured over predicted speed-ups, ``twin/rank_correlation``
    (Spearman's) and ``twin/distinct``, the number of different placements. A correlation near zero
    says that measured steps decide what the twin cannot; few distinct placements say that the
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
        for now, info in zip(
            self.locals["new_obs"]["placement"], self.locals["infos"], strict=True
        ):
            if info["feasible"]:
                final = info.get("terminal_observation")
                placement = now if final is None else final["placement"]
                self.placements.append(placement[: self.twin.problem.n_units].astype(np.int64))
                self.measured.append(float(info["speedup"]))
        return True

    def _on_rollout_end(self) -> None:
        if not self.placements:
            return
        placements, measured = np.stack(self.placements), np.array(self.measured)
        self.placements, self.measured = [], []
        predicted, _ = self.twin.backend.evaluate_batch(placements)
        ratio = float(np.median(measured / predicted))
        varies = np.ptp(measured) > 0.0 and np.ptp(predicted) > 0.0
        correlation = float(spearmanr(measured, predicted).statistic) if varies else 0.0
        distinct = len(np.unique(placements, axis=0))
        self.found.append((ratio, correlation, distinct))
        self.logger.record("twin/ratio", ratio)
        self.logger.record("twin/rank_correlation", correlation)
        self.logger.record("twin/distinct", distinct)
        if self.verbose:
            print(
                f"{self.num_timesteps}: {distinct} placements, {ratio:.3f} x the twin's speed-up, "
                f"rank correlation {correlation:.2f}"
            )
