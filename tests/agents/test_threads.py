"""Training on small graphs uses one torch thread and says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from learned import simulated
from stable_baselines3.common.callbacks import ConvertCallback
from stable_baselines3.common.logger import configure

from agents.common import REINFORCE
from agents.common.learner import SETTINGS_OF_THE_USER, SMALL_GRAPH, limit_threads
from agents.common.vec_env import vectorize
from agents.hsdag import HSDAGPolicy
from agents.post import Post


@pytest.fixture(autouse=True)
def several_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads by torch's own choice, not by the user's."""
    for name in SETTINGS_OF_THE_USER:
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def learner(algorithm: type[REINFORCE] | type[Post]) -> Any:
    policy: Any = "LogitsPolicy" if algorithm is Post else HSDAGPolicy
    env = vectorize(simulated(), num_envs=10)
    table = {"graphs": env.get_attr("graph_table")[0]()}
    return algorithm(policy, env, n_steps=1, policy_kwargs=table, device="cpu")


def space(n_units: int) -> spaces.Dict:
    return spaces.Dict({"node_mask": spaces.MultiBinary(n_units)})


@pytest.mark.parametrize("algorithm", [REINFORCE, Post])
def test_learning_uses_one_thread_and_logs_it(
    algorithm: type[REINFORCE] | type[Post], tmp_path: Path
) -> None:
    model, threads = learner(algorithm), set()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    see = ConvertCallback(lambda *_: threads.add(torch.get_num_threads()) or True)
    model.learn(20, see, log_interval=1)
    assert threads == {1}
    assert torch.get_num_threads() == 2
    rows = np.genfromtxt(tmp_path / "progress.csv", delimiter=",", names=True)
    assert rows["timetorch_threads"][-1] == 1


def test_the_number_of_threads_is_restored_after_an_error() -> None:
    def fail(*_: Any) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner(REINFORCE).learn(20, ConvertCallback(fail))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("name", SETTINGS_OF_THE_USER)
def test_a_number_that_the_user_has_set_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "2")
    with limit_threads(space(7)):
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("n_units", "threads"), [(SMALL_GRAPH - 1, 1), (SMALL_GRAPH, 2)])
def test_large_graphs_keep_all_threads(n_units: int, threads: int) -> None:
    with limit_threads(space(n_units)):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_other_environments_keep_all_threads() -> None:
    with limit_threads(gym.make("CartPole-v1").observation_space):
        assert torch.get_num_threads() == 2
