"""The callback that keeps the best placement of a training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes import placed
from learned import PER_UNIT, hsdag, simulated, vectorize_toy
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

from agents.common import REINFORCE
from agents.common.callbacks import Best, BestPlacementCallback
from placement_gym.problem.placement import Placement


def test_the_best_placement_is_kept_saved_and_logged(tmp_path: Path) -> None:
    model = hsdag(vectorize_toy(20))
    model.set_logger(configure(str(tmp_path), ["csv"]))
    best = BestPlacementCallback(tmp_path / "best.json")
    model.learn(200, best, log_interval=1)
    assert best.best is not None
    env = simulated()
    placement = Placement.load(tmp_path / "best.json").assignment(env.problem)
    assert env.backend.evaluate(placement).latency_ms == pytest.approx(best.best.latency_ms)
    logged = (tmp_path / "progress.csv").read_text()
    for name in ("placement/best_latency_ms", "placement/mean_speedup", "placement/feasible"):
        assert name in logged


@pytest.mark.parametrize("own", [True, False])
def test_the_best_placement_of_another_problem_is_forgotten(own: bool) -> None:
    model = hsdag(vectorize_toy())
    problem = simulated().problem.fingerprint() if own else "another"
    model.best_placement = Best(np.zeros(7, dtype=np.int64), 1e9, 1e-9, problem)
    callback = BestPlacementCallback()
    model.learn(8, callback)
    assert callback.best is not None
    assert (callback.best.speedup == 1e9) == own
    assert callback.best.problem == simulated().problem.fingerprint()


def test_infeasible_placements_are_never_the_best() -> None:
    best = BestPlacementCallback()
    best.init_callback(hsdag(vectorize_toy()))
    fast = {"feasible": False, "speedup": 9.0, "latency_ms": 1.0}
    best.locals = {"new_obs": {"placement": np.zeros((1, 7))}, "infos": [fast]}
    assert best._on_step()
    assert best.best is None


def test_at_the_end_of_an_episode_the_best_is_its_last_placement() -> None:
    env = make_vec_env(PER_UNIT, env_kwargs={"model": "tiny"})
    model = REINFORCE("MultiInputPolicy", env, n_steps=7, baseline="per_step", device="cpu")
    best = BestPlacementCallback()
    best.init_callback(model)
    last = {"placement": np.array([1, 1, 1, 1, 0, 0, 0]) / 2}
    info = {"feasible": True, "speedup": 9.0, "latency_ms": 1.0, "terminal_observation": last}
    best.locals = {"new_obs": {"placement": np.zeros((1, 7))}, "infos": [info]}
    assert best._on_step()
    np.testing.assert_array_equal(best.best.assignment, placed(last))
