"""Memory limits mean what the semantics say, wherever a placement is judged."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.backends.simulated import SimulatedBackend, build_simulated_problem
from placement_gym.envs import DevicePlacementEnv, placement_env
from placement_gym.models import ModelSpec
from placement_gym.problem.costs import PRESETS

TIGHT = ["CPU", {"name": "GPU", "memory_bytes": 1000}]


def environment(**kwargs: object) -> DevicePlacementEnv:
    return placement_env(gym.make("DevicePlacementSim-v0", model="resnet", **kwargs))


def test_a_device_without_counted_memory_may_be_the_best_single() -> None:
    env = environment(devices=TIGHT, schedule="giph")
    env.reset(seed=0)
    _, _, _, _, info = env.step(env.problem.single(1))
    assert info["feasible"]
    assert info["speedup_vs_best_single"] == pytest.approx(1.0)


def test_outputs_that_do_not_fit_rule_a_single_device_out() -> None:
    twin = build_simulated_problem(ModelSpec("resnet"), "cpu+dgpu")
    weights = int(twin.problem.unit_bytes.sum())
    env = environment(
        devices=["CPU", {"name": "GPU", "memory_bytes": weights + 1000}],
        schedule={"preset": "event", "memory": "lifetime"},
    )
    assert env.singles.best() == 0
    assert env.singles.best(limited=False) == 1


def test_soft_limit_is_paid_again_when_finalists_are_measured() -> None:
    backend = environment(devices=TIGHT, schedule="placeto").backend
    assignments = [backend.problem.single(0), backend.problem.single(1)]
    searched = backend.evaluate(assignments[1])
    assert backend.remeasure(assignments)[1].latency_ms == searched.latency_ms
    assert searched.latency_ms > backend.evaluate_ignoring_limits(assignments[1]).latency_ms


@pytest.mark.parametrize(("memory", "feasible"), [("off", True), ("static", False)])
def test_a_throughput_counts_the_memory_that_its_schedule_counts(
    memory: str, feasible: bool
) -> None:
    env = environment(devices=TIGHT, schedule={"memory": memory}, objective="throughput")
    assert env.backend.evaluate(env.problem.single(1)).feasible == feasible


@pytest.mark.parametrize("wrong", [[2] * 37, [-1] * 37, [256] * 37, [0, 1]])
def test_indices_outside_of_the_problem_never_reach_a_kernel(wrong: list[int]) -> None:
    twin = build_simulated_problem(ModelSpec("resnet"), "cpu+dgpu")
    backend = SimulatedBackend(twin.problem, twin.costs, PRESETS["event"])
    with pytest.raises(ValueError, match="37 device indices from 0 to 1"):
        backend.evaluate(np.array(wrong))


@pytest.mark.parametrize(
    "axis", [{"order": "priority"}, {"contention": "both"}, {"op_gap_ms": 1.0}]
)
def test_axes_that_mean_nothing_under_a_schedule_are_refused(axis: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="schedule 'serial' does not use"):
        environment(schedule=axis)


def test_placements_on_sixteen_devices_have_pictures() -> None:
    devices = ["CPU", *(f"GPU.{i}" for i in range(15))]
    env = gym.make(
        "DevicePlacementSim-v0", model="resnet", devices=devices, render_mode="rgb_array"
    )
    env.reset(seed=0)
    env.step(np.arange(37) % 16)
    picture = env.render()
    assert picture.ndim == 3


@pytest.mark.parametrize(
    "schedule",
    [
        "serial",
        "placeto",
        {"preset": "event", "memory": "lifetime"},
        {"memory": "off"},
        {"memory_penalty_ms_per_gb": 50.0},
    ],
)
def test_limits_of_a_batch_are_those_of_its_members(schedule: object) -> None:
    env = environment(devices=["CPU", {"name": "GPU", "weight_share": 0.5}], schedule=schedule)
    env.problem.supported[3, 1] = False
    assignments = np.random.default_rng(0).integers(0, 2, (60, env.problem.n_units))
    assignments[::2, 3] = 0
    speedup, feasible, _ = env.backend.evaluate_batch(assignments)
    alone = [env.backend.evaluate(assignment) for assignment in assignments]
    assert speedup.tolist() == [one.speedup for one in alone]
    assert feasible.tolist() == [one.feasible for one in alone]
    assert len(set(feasible.tolist())) == 2
    shares = [one.excess_bytes / sum(one.memory_bytes) for one in alone]
    assert (env.backend.excess_shares(assignments) * ~feasible).tolist() == shares
    none = env.backend.evaluate_batch(assignments[:0]).feasible
    assert len(none) == 0
