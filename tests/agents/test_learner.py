# White-box tests of agents.common
"""Learners of this package: threads, logging, answers, and rollouts in which nothing fits."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from learned import TWO_MODELS, hsdag, simulated, two_threads, vectorize_toy, weights
from named_agents import make, tight_env
from stable_baselines3.common.callbacks import ConvertCallback

import agents
from agents.common import limit_threads
from agents.common.reinforce import SETTINGS_OF_THE_USER, SMALL_GRAPH
from placement_gym.base import PlacementGymWarning, UserError
from placement_gym.envs import play_episode

GREEDY = {"cost_weight": 20.0}
"""All units on the fastest device, which holds a fifth of them."""


@pytest.fixture
def threads() -> Iterator[None]:
    with two_threads():
        yield


def space(n_units: int) -> spaces.Dict:
    return spaces.Dict({"node_mask": spaces.MultiBinary(n_units)})


@pytest.mark.usefixtures("threads")
def test_the_number_of_threads_is_restored_after_an_error() -> None:
    def fail(*_: Any) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hsdag(vectorize_toy()).learn(20, ConvertCallback(fail))
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", SETTINGS_OF_THE_USER)
def test_a_number_that_the_user_has_set_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "2")
    with limit_threads(space(7)):
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("observations", "n_threads"),
    [
        (space(SMALL_GRAPH - 1), 1),
        (space(SMALL_GRAPH), 2),
        (gym.make("CartPole-v1").observation_space, 2),
    ],
)
def test_large_graphs_and_other_environments_keep_all_threads(
    observations: spaces.Space[Any], n_threads: int
) -> None:
    with limit_threads(observations):
        assert torch.get_num_threads() == n_threads
    assert torch.get_num_threads() == 2


def test_logging_is_written_and_printed_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make("hsdag", simulated(), verbose=1).learn(40, log_interval=1)
    assert "torch_threads" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    make("hsdag", simulated(), tensorboard_log=str(tmp_path / "logs")).learn(60)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert list((tmp_path / "logs").glob("REINFORCE_1/events*"))


def reward_equally(model: Any) -> Any:
    """Have all placements of a model's training the same reward."""
    model.env.envs.reward = lambda outcome, _: np.full(outcome.cost_ms.shape, -1.0)
    return model


@pytest.mark.parametrize("name", ["logits", "post"])
def test_equal_rewards_change_no_weight_and_warn_once_with_a_repair_that_helps(name: str) -> None:
    model = reward_equally(make(name, tight_env(), policy=GREEDY))
    before = weights(model)
    with pytest.warns(PlacementGymWarning, match="would hold.*make .* with repair=True") as seen:
        model.learn(100)
    assert len(seen) == 1
    assert torch.equal(weights(model), before)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlacementGymWarning)
        repaired = make(name, tight_env(repair=True), policy=GREEDY).learn(20)
    assert np.all(repaired.keeper.feasible)


def test_without_a_baseline_equal_rewards_teach_nothing_either() -> None:
    model = reward_equally(make("logits", tight_env(), policy=GREEDY, baseline="none"))
    with pytest.warns(PlacementGymWarning):
        model.learn(60)
    assert not model.rollout_buffer.advantages.any()


@pytest.mark.filterwarnings("ignore::placement_gym.base.errors.PlacementGymWarning")
def test_predictions_are_the_policys_and_the_best_placement_is_kept_with_the_model(
    tmp_path: Path,
) -> None:
    env = tight_env()
    model = make("logits", env).learn(40)
    best, (observation, _) = model.best, env.reset()
    action, _ = model.predict(observation, deterministic=True)
    assert action.tolist() == model.policy.predict(observation, deterministic=True)[0].tolist()
    assert env.backend.evaluate(env.layout.parse(action)).speedup < best.speedup
    placed = env.backend.evaluate(best.placement.assignment(env.problem))
    assert (placed.speedup, placed.latency_ms) == (best.speedup, best.latency_ms)
    model.save(tmp_path / "model")
    loaded = agents.load(tmp_path / "model", env)
    assert (loaded.best.speedup, loaded.best.placement.units) == (
        best.speedup,
        best.placement.units,
    )
    loaded.set_env(env)  # whose latencies may be others
    assert not loaded.best


def test_there_is_a_best_placement_of_each_graph() -> None:
    envs = [simulated(name, **TWO_MODELS) for name in ("tiny", "resnet")]
    model = make("gcn", envs).learn(8)
    with pytest.raises(UserError, match=r"best\[\d+\], best\[\d+\]"):
        _ = model.best.placement
    for env in envs:
        best = model.best[env.observer.graph_id]
        assert env.backend.evaluate(best.row[: env.problem.n_units]).speedup == best.speedup
        assert len(best.placement.units) == env.problem.n_units
    with pytest.raises(UserError, match="call learn"):
        _ = make("logits", simulated()).best.placement


def test_a_policy_of_whole_placements_plays_unit_by_unit_where_masks_are_of_one_unit() -> None:
    env = gym.make("placement_gym:DevicePlacementPerUnitSim-v0", model="tiny")
    assert play_episode(env, make("hsdag", env).policy)["feasible"]
