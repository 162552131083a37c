# White-box tests of agents, agents.common, envs
"""Learning in a twin, then going on where evaluations are dear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cliff import CliffEngine, heavy_problem
from dear import dear_env
from learned import weights
from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure

import agents
from agents.common import REINFORCE, vectorize
from agents.common.callbacks import BestPlacementCallback
from agents.fine_tuning import TwinAgreement
from agents.hsdag import HSDAGPolicy
from agents.logits import LogitsPolicy
from placement_gym.envs import DevicePlacementEnv, make_twin, rewards
from placement_gym.hardware import DeviceSpec

SMALL: dict[str, dict[str, Any]] = {
    "hsdag": {"policy": {"hidden": 16}},
    "rnn": {"policy": {"hidden": 8, "decoder": 8, "attention": 4}},
    "gdp": {"policy": {"hidden": 16, "layers": 1}},
}


@pytest.mark.parametrize(
    "name",
    [
        *("graph-groups", "hsdag", "post", "placeto"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("rnn", "gdp")),
    ],
)
def test_an_agent_of_make_goes_on_where_steps_are_dear(name: str) -> None:
    env = dear_env()
    model = agents.make(name, make_twin(env), 0, **SMALL.get(name, {}))
    model.learn(60)
    _ = env.singles
    before, learned = env.backend.evaluations, weights(model)
    model.set_env(env)
    assert torch.equal(weights(model), learned)
    model.learn(60)
    # a rollout of Placeto is an episode of a step for each of seven units
    assert env.backend.evaluations - before == (63 if name == "placeto" else 60)
    assert not torch.equal(weights(model), learned)
    assert env.action_space.contains(model.predict(env.reset()[0], deterministic=True)[0])


@pytest.mark.parametrize(
    ("algorithm", "policy"),
    [
        (REINFORCE, LogitsPolicy),
        (REINFORCE, "MultiInputPolicy"),
        pytest.param(PPO, HSDAGPolicy, marks=pytest.mark.slow),
    ],
)
def test_an_algorithm_goes_on_where_steps_are_dear(algorithm: Any, policy: Any) -> None:
    env = dear_env()
    settings = {"batch_size": 20} if algorithm is PPO else {}
    model = algorithm(policy, make_twin(env), n_steps=20, seed=0, device="cpu", **settings)
    model.learn(40)
    _ = env.singles
    before = env.backend.evaluations
    model.set_env(env)
    model.learn(40)
    assert env.backend.evaluations - before == 40


def test_an_agent_of_make_keeps_its_reward() -> None:
    env = dear_env()
    model = agents.make("hsdag", make_twin(env), 0, preset="paper", **SMALL["hsdag"])
    model.set_env(env)
    assert model.env.envs.reward is rewards.inverse_latency
    assert model.env.envs.env is env


def test_an_environment_that_is_vectorised_keeps_its_own_reward() -> None:
    env = dear_env()
    model = agents.make("hsdag", make_twin(env), 0, **SMALL["hsdag"])
    model.set_env(vectorize(env, num_envs=20, reward="speedup"))
    assert model.env.envs.reward is rewards.speedup


@pytest.mark.parametrize("name", ["graph-groups", "hsdag", "gdp"])
def test_rollouts_may_be_smaller_where_steps_are_dear(name: str) -> None:
    env = dear_env()
    options = {"envs": {"num_envs": 50}} | SMALL.get(name, {})
    model = agents.make(name, make_twin(env), 0, **options).learn(100)
    _ = env.singles
    before, learned = env.backend.evaluations, weights(model)
    model.set_env(vectorize(env, num_envs=5, reward="log_speedup"))
    model.learn(15)
    assert env.backend.evaluations - before == 15
    assert not torch.equal(weights(model), learned)


def test_returns_of_a_twin_are_forgotten() -> None:
    env = dear_env()
    settings = {**SMALL.get("hsdag", {}), "baseline": "moving_average"}
    model = agents.make("hsdag", make_twin(env), 0, **settings)
    model.learn(60)
    assert model.averages.known
    assert model.best
    model.set_env(env)
    assert not model.averages.known
    assert not model.best


@pytest.mark.parametrize("algorithm", [REINFORCE, PPO])
def test_the_best_placement_of_a_twin_is_not_that_of_measured_steps(algorithm: Any) -> None:
    env = DevicePlacementEnv(CliffEngine(heavy_problem((DeviceSpec("CPU"), DeviceSpec("GPU")))))
    settings = {"batch_size": 20} if algorithm is PPO else {}
    model = algorithm("MultiInputPolicy", make_twin(env), n_steps=20, seed=0, **settings)
    in_twin, measured = BestPlacementCallback(), BestPlacementCallback()
    model.learn(20, in_twin)
    model.set_env(env)
    model.learn(20, measured)
    best = measured.best
    assert in_twin.best.only.source != best.only.source
    assert best.latency_ms == env.evaluate(best.only.row).latency_ms


def test_agreement_with_the_twin_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = dear_env()
    twin = make_twin(env)
    model = agents.make("logits", twin, 0)
    model.set_env(env)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    agreement = TwinAgreement(twin, verbose=1)
    model.learn(40, agreement, log_interval=1)
    assert len(agreement.found) == 2
    for ratio, correlation, distinct in agreement.found:
        assert ratio < 1.0  # submodels cost more than the profile says
        assert 0.3 < correlation < 1.0
        assert 1 < distinct <= 20
    assert "twin/rank_correlation" in (tmp_path / "progress.csv").read_text()
    assert "rank correlation" in capsys.readouterr().out


def test_a_twin_agrees_with_itself() -> None:
    twin = make_twin(dear_env())
    model, agreement = agents.make("logits", twin, 0), TwinAgreement(twin)
    model.learn(20, agreement)
    ((ratio, correlation, _),) = agreement.found
    assert ratio == pytest.approx(1.0)
    assert correlation == pytest.approx(1.0)


def test_agreement_of_failed_or_equal_placements_is_no_error() -> None:
    twin = make_twin(dear_env())
    agreement = TwinAgreement(twin)
    agreement.model = agents.make("logits", twin, 0).learn(20)
    failed = {"feasible": False, "speedup": 0.1}
    same = {"feasible": True, "speedup": 1.0}
    agreement._on_rollout_end()
    for info in (failed, same, same):
        agreement.locals = {"new_obs": {"placement": np.zeros((1, 7))}, "infos": [info]}
        agreement._on_step()
    agreement._on_rollout_end()
    assert agreement.found == [(pytest.approx(1.0), 0.0, 1)]
