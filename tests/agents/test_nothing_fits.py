"""Learning where placements that fit are rare, and nothing repairs the others."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from learned import weights

import agents
from agents.common import REINFORCE
from placement_gym import DevicePlacementEnv, placement_env
from placement_gym.base.errors import PlacementGymWarning

TIGHT = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.2} for i in range(3))]
GREEDY = {"cost_weight": 20.0}
"""All units on the fastest devices, which hold a fifth of them each."""


def tight_env(devices: Any = TIGHT, **kwargs: Any) -> DevicePlacementEnv:
    model = "family-attention-40-seed7"
    return placement_env(
        gym.make("placement_gym:DevicePlacementSim-v0", model=model, devices=devices, **kwargs)
    )


def learn(env: DevicePlacementEnv, name: str = "logits", steps: int = 60, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlacementGymWarning)
        return agents.make(name, env, **options).learn(steps)


def evaluate(env: DevicePlacementEnv, policy: Any) -> Any:
    action, _ = policy.predict(env.reset()[0], deterministic=True)
    return env.backend.evaluate(env.layout.parse(action))


@pytest.mark.parametrize(("name", "steps"), [("logits", 100), ("post", 300), ("hsdag", 200)])
def test_a_learner_finds_what_fits_by_the_penalty(name: str, steps: int) -> None:
    env = tight_env()
    model = learn(env, name, steps)
    assert model.evaluated.best
    assert evaluate(env, model).feasible


@pytest.mark.parametrize("name", ["rnn", "placeto", "doppler"])
def test_policies_that_place_in_turn_keep_to_free_memory(name: str) -> None:
    env = tight_env()
    model = learn(env, name, 30, **({"imitation": 2, "simulation": 1} if name == "doppler" else {}))
    fits = [model.best_speedup > 0.0] if name == "doppler" else model.evaluated.feasible
    assert np.all(fits)
    assert evaluate(env, model).feasible


@pytest.mark.parametrize("name", ["rnn", "placeto"])
def test_masks_are_left_to_a_repair_and_to_papers(name: str) -> None:
    for env, preset in ((tight_env(repair=True), "rl"), (tight_env(), "paper")):
        assert not agents.make(name, env, preset=preset).policy.options.respect_memory


@pytest.mark.parametrize(("repair", "weight", "rate"), [(False, 0.5, 3e-3), (True, 2.0, 1e-3)])
def test_hsdag_has_a_weak_prior_where_nothing_repairs(
    repair: bool, weight: float, rate: float
) -> None:
    model = agents.make("hsdag", tight_env(repair=repair))
    assert (model.policy.options.cost_weight, model.learning_rate) == (weight, rate)


@pytest.mark.parametrize("name", ["logits", "post"])
def test_equal_rewards_change_no_weight_and_warn_once(name: str) -> None:
    model = agents.make(name, tight_env(TIGHT[:2]), policy=GREEDY)
    before = weights(model)
    with pytest.warns(PlacementGymWarning, match="GPU.* holds.*make .* with repair=True") as seen:
        model.learn(100)
    assert len(seen) == 1
    assert (weights(model) == before).all()


def test_the_repair_that_the_warning_names_helps() -> None:
    env = tight_env(repair=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlacementGymWarning)
        model = agents.make("logits", env, policy=GREEDY).learn(20)
    assert model.evaluated.feasible.all()


def test_without_a_baseline_equal_rewards_teach_nothing_either() -> None:
    model = learn(tight_env(TIGHT[:2]), policy=GREEDY, baseline="none")
    assert not model.rollout_buffer.advantages.any()


def test_the_answer_is_the_best_evaluated_or_the_greedy_placement(tmp_path: Path) -> None:
    env = tight_env()
    model = learn(env, steps=40)
    ((best, _),) = model.evaluated.best.values()
    greedy, answer = evaluate(env, model.greedy), evaluate(env, model)
    assert answer.feasible
    assert answer.speedup == max(best, greedy.speedup) > greedy.speedup
    model.save(tmp_path / "model")
    loaded = REINFORCE.load(tmp_path / "model", env=env)
    assert evaluate(env, loaded).speedup == answer.speedup
    loaded.set_env(env)  # whose latencies may be others
    assert evaluate(env, loaded).speedup == greedy.speedup


def test_a_greedy_placement_that_is_better_stays_the_answer() -> None:
    env = tight_env()
    model = learn(env, steps=20)
    (graph,) = model.evaluated.best
    model.evaluated.best[graph] = 1e-6, model.evaluated.best[graph][1]
    model.policy.logits.data[:, 0] = 100.0  # everything on the CPU
    model.answers = {graph: model.evaluated.best[graph][1]}
    model.compare_greedy()
    assert evaluate(env, model).speedup == evaluate(env, model.greedy).speedup == 1.0
