# White-box tests of agents, agents.common
"""The callback that keeps the best placement of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learned import PER_UNIT, SMALL_GO, hsdag, simulated, vectorize_toy
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

import agents
from agents.best import Best, BestPlacements
from agents.common import REINFORCE
from agents.common.callbacks import BestPlacementCallback
from placement_gym.problem import Placement


def test_the_best_placement_is_kept_saved_and_logged(tmp_path: Path) -> None:
    model = hsdag(vectorize_toy(20))
    model.set_logger(configure(str(tmp_path), ["csv"]))
    best = BestPlacementCallback(tmp_path / "best.json")
    model.learn(200, best, log_interval=1)
    env = simulated()
    placement = Placement.load(tmp_path / "best.json").assignment(env.problem)
    assert env.backend.evaluate(placement).latency_ms == pytest.approx(best.best.latency_ms)
    assert model.best.latency_ms == best.best.latency_ms
    logged = (tmp_path / "progress.csv").read_text()
    for name in ("placement/best_latency_ms", "placement/mean_speedup", "placement/feasible"):
        assert name in logged


@pytest.mark.parametrize("own", [True, False])
def test_the_best_placement_of_another_problem_is_forgotten(own: bool) -> None:
    model, base = hsdag(vectorize_toy()), simulated()
    source = base.problem.fingerprint() if own else "another"
    row = np.zeros(7, dtype=np.int64)
    earlier = Best(row, 1e9, 1e-9, base.problem, source=source)
    model.best = BestPlacements({base.observer.graph_id: earlier})
    callback = BestPlacementCallback()
    model.learn(8, callback)
    assert (callback.best.speedup == 1e9) == own
    assert callback.best.only.source == base.problem.fingerprint()


def seen_by(envs: Any) -> BestPlacementCallback:
    """A callback at the beginning of a training."""
    model = REINFORCE("MultiInputPolicy", envs, n_steps=7, baseline="per_step", device="cpu")
    callback = BestPlacementCallback()
    callback.init_callback(model)
    callback.on_training_start({}, {})
    return callback


def test_infeasible_placements_are_never_the_best() -> None:
    callback = seen_by(vectorize_toy(1))
    fast = {"feasible": False, "speedup": 9.0, "latency_ms": 1.0}
    callback.locals = {"new_obs": {"placement": np.zeros((1, 7))}, "infos": [fast]}
    assert callback._on_step()
    assert not callback.best


def test_the_mean_speedup_is_geometric(tmp_path: Path) -> None:
    callback = seen_by(vectorize_toy(2))
    callback.model.set_logger(configure(str(tmp_path), []))
    infos = [{"feasible": True, "speedup": speedup, "latency_ms": 1.0} for speedup in (0.5, 2.0)]
    observation = callback.training_env.reset()
    callback.locals = {"new_obs": observation, "infos": infos}
    assert callback._on_step()
    callback._on_rollout_end()
    assert callback.logger.name_to_value["placement/mean_speedup"] == pytest.approx(1.0)


def test_at_the_end_of_an_episode_the_best_is_its_last_placement() -> None:
    callback = seen_by(make_vec_env(PER_UNIT, env_kwargs={"model": "tiny"}))
    graph, last = np.array([[5 / 2**24]]), {"placement": np.array([1, 1, 1, 1, 0, 0, 0]) / 2}
    info = {"feasible": True, "speedup": 9.0, "latency_ms": 1.0, "terminal_observation": last}
    seen = {"placement": np.zeros((1, 7)), "graph_id": graph}
    callback.locals = {"new_obs": seen, "infos": [info]}
    assert callback._on_step()
    assert callback.best[5].row.tolist() == [1, 1, 1, 1, 0, 0, 0]


def test_where_problems_change_nothing_is_kept_and_learning_goes_on() -> None:
    trainer = agents.make_trainer("gdp", problems=2, episodes=2, policy=SMALL_GO).learn(4)
    assert not trainer.best
    assert len(trainer.keeper.feasible) == 2


def test_the_best_placement_is_kept_where_observations_are_flat() -> None:
    env = make_vec_env(PER_UNIT, n_envs=2, env_kwargs={"model": "tiny", "observe": "flat"})
    callback = BestPlacementCallback()
    model = A2C("MlpPolicy", env, seed=0, device="cpu").learn(140, callback)
    base = simulated()
    best = model.best[base.observer.graph_id]
    assert base.backend.evaluate(best.row).speedup == best.speedup >= 1.0
    assert len(model.best.placement.units) == 7
