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
from learned import hsdag, two_threads, vectorize_toy, weights
from learners import rollout
from named_agents import make, tight_env
from stable_baselines3.common.callbacks import ConvertCallback
from stable_baselines3.common.utils import obs_as_tensor

from agents.common import REINFORCE
from agents.common.evaluated import Evaluated
from agents.common.learner import SETTINGS_OF_THE_USER, SMALL_GRAPH, limit_threads
from placement_gym import DevicePlacementEnv, play_episode
from placement_gym.base.errors import PlacementGymWarning

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
    model = hsdag(vectorize_toy(), verbose=1)
    model.learn(40, log_interval=1)
    assert "torch_threads" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    model.tensorboard_log = str(tmp_path / "logs")
    model.learn(60)
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
    with pytest.warns(PlacementGymWarning, match="GPU.* holds.*make .* with repair=True") as seen:
        model.learn(100)
    assert len(seen) == 1
    assert torch.equal(weights(model), before)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlacementGymWarning)
        repaired = make(name, tight_env(repair=True), policy=GREEDY).learn(20)
    assert repaired.evaluated.feasible.all()


def test_without_a_baseline_equal_rewards_teach_nothing_either() -> None:
    model = reward_equally(make("logits", tight_env(), policy=GREEDY, baseline="none"))
    with pytest.warns(PlacementGymWarning):
        model.learn(60)
    assert not model.rollout_buffer.advantages.any()


def evaluate(env: DevicePlacementEnv, policy: Any) -> Any:
    action, _ = policy.predict(env.reset()[0], deterministic=True)
    return env.backend.evaluate(env.layout.parse(action))


@pytest.mark.filterwarnings("ignore::placement_gym.base.errors.PlacementGymWarning")
def test_the_answer_is_the_best_evaluated_or_the_greedy_placement(tmp_path: Path) -> None:
    env = tight_env()
    model = make("logits", env).learn(40)
    ((best, _),) = model.evaluated.best.values()
    greedy, answer = evaluate(env, model.greedy), evaluate(env, model)
    assert answer.feasible
    assert answer.speedup == max(best, greedy.speedup) > greedy.speedup
    model.save(tmp_path / "model")
    loaded = REINFORCE.load(tmp_path / "model", env=env)
    assert evaluate(env, loaded).speedup == answer.speedup
    loaded.set_env(env)  # whose latencies may be others
    assert evaluate(env, loaded).speedup == greedy.speedup


@pytest.mark.filterwarnings("ignore::placement_gym.base.errors.PlacementGymWarning")
def test_a_greedy_placement_that_is_better_stays_the_answer() -> None:
    env = tight_env()
    model = make("logits", env).learn(20)
    (graph,) = model.evaluated.best
    model.evaluated.best[graph] = 1e-6, model.evaluated.best[graph][1]
    model.policy.logits.data[:, 0] = 100.0  # everything on the CPU
    model.answers = {graph: model.evaluated.best[graph][1]}
    model.compare_greedy()
    assert evaluate(env, model).speedup == evaluate(env, model.greedy).speedup == 1.0


def test_a_policy_of_whole_placements_plays_unit_by_unit_where_masks_are_of_one_unit() -> None:
    env = gym.make("placement_gym:DevicePlacementPerUnitSim-v0", model="tiny")
    assert play_episode(env, make("hsdag", env).policy)["feasible"]


@pytest.mark.parametrize("name", ["hsdag", "graph-groups", "rnn", "gdp", "logits"])
def test_proposals_replace_the_next_samples_where_masks_permit_them(name: str) -> None:
    model = rollout(REINFORCE, name)
    policy, n_units = model.policy, 7
    seen = obs_as_tensor(model.get_env().reset(), torch.device("cpu"))
    policy.proposals = [np.eye(2, n_units, dtype=np.int64)[0], np.zeros(n_units, np.int64)]
    actions, _, log_prob = policy(seen)
    assert actions[0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    torch.testing.assert_close(policy.evaluate_actions(seen, actions)[1], log_prob)
    actions, _, _ = policy(seen, action_masks=np.tile([False, True], n_units)[None])
    assert actions[0].tolist() == [1] * n_units
    assert not policy.proposals


def test_the_best_placement_of_each_graph_is_kept() -> None:
    evaluated, (poor, good) = Evaluated(), np.eye(2, 7)
    for graph, row, speedup in ((1, poor, 1.0), (1, good, 2.0), (1, poor, 1.5), (2, poor, 0.5)):
        evaluated.remember(graph, row, speedup)
    assert {graph: best for graph, (best, _) in evaluated.best.items()} == {1: 2.0, 2: 0.5}
    assert evaluated.best[1][1].tolist() == good.tolist()
