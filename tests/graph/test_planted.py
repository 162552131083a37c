"""Planted graphs: the proven optimum is what brute force finds, and the proof's conditions hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from placement_gym import DevicePlacementEnv, UserError, placement_env
from placement_gym.graph.planted import SLACK, PlantedPlan, build_planted
from placement_gym.problem.costs.planted_optimum import planted_ms


def planted(name: str, **kwargs: Any) -> DevicePlacementEnv:
    devices = [{"name": f"GPU.{i}"} for i in range(PlantedPlan.parse(name).devices)]
    kwargs = {"devices": devices, "granularity": "op", "schedule": "list", **kwargs}
    return placement_env(gym.make("placement_gym:DevicePlacementSim-v0", model=name, **kwargs))


@pytest.mark.parametrize("size", ["2x5", "3x3", "4x2"])
@pytest.mark.parametrize("seed", range(3))
def test_no_placement_is_faster_than_the_planted_one(size: str, seed: int) -> None:
    name = f"planted-{size}-seed{seed}"
    env, plan = planted(name), PlantedPlan.parse(name)
    every = np.array(list(product(range(plan.devices), repeat=env.problem.n_units)))
    best_ms = env.reference.reference_ms / env.evaluate_batch(every)[1].speedup.max()
    own_ms = env.evaluate(plan.assignment).latency_ms
    assert best_ms == pytest.approx(planted_ms(name, env.cost_table()), rel=1e-12)
    assert own_ms == pytest.approx(best_ms, rel=1e-12)


@pytest.mark.parametrize("name", ["planted-2x1000-seed0", "planted-5x300-seed1"])
def test_the_plan_attains_its_latency_at_any_size(name: str) -> None:
    env = planted(name, observe_graph=False)
    expected = planted_ms(name, env.cost_table())
    assert env.evaluate(PlantedPlan.parse(name).assignment).latency_ms == pytest.approx(expected)
    assert expected == pytest.approx(
        env.cost_table().operator_ms.sum() / len(env.problem.devices) ** 2
    )


def test_readers_on_other_devices_come_late_enough() -> None:
    plan = PlantedPlan.parse("planted-3x200-seed5")
    source, reader = build_planted("planted-3x200-seed5").edge_index
    apart = plan.assignment[source] != plan.assignment[reader]
    slots = reader // plan.devices - source // plan.devices
    assert 0.2 < apart.mean() < 0.6
    assert slots[apart].min() == SLACK + 1
    assert slots[~apart].min() == 1


def test_the_numbers_of_operators_do_not_tell_their_devices() -> None:
    counts = np.zeros((3, 3))
    for position, device in enumerate(PlantedPlan.parse("planted-3x300-seed0").assignment):
        counts[position % 3, device] += 1
    assert counts.min() > 70


def test_where_the_optimum_is_not_known_it_is_not_stated() -> None:
    for devices, message in ((["CPU", "GPU"], "equal devices"), (["GPU.0"], "2 equal devices")):
        env = planted("planted-2x10-seed0", devices=devices)
        with pytest.raises(UserError, match=message):
            planted_ms("planted-2x10-seed0", env.cost_table())
    slow = planted("planted-2x10-seed0").cost_table()
    slow.link_ms[:] = 1.0 - np.eye(2)
    slow.__dict__.pop("transfer_ms", None)
    with pytest.raises(UserError, match="at most 2 times"):
        planted_ms("planted-2x10-seed0", slow)


@pytest.mark.parametrize(
    "name", ["planted-1x9-seed0", "planted-2x0-seed0", "planted-2x9", "planted-"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="a planted model is"):
        build_planted(name)
