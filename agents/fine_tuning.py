"""Fine-tuning on measurements after training in a simulated twin."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr
from stable_baselines3.common.callbacks import BaseCallback

from agents.common import read_decisions
from placement_gym.base import IntArray
from placement_gym.envs import DevicePlacementEnv


class TwinAgreement(BaseCallback):
    """Compares the speed-ups of each rollout with those that a twin predicts.

    Logs ``twin/ratio``, the median of measured over predicted speed-ups, ``twin/rank_correlation``
    (Spearman's) and ``twin/distinct``, the number of different placements. If the correlation is
    near zero, the twin cannot rank what the policy samples; if few placements are distinct, the
    policy has stopped exploring.

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
