"""Environments that repair placements, and those that do not."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import FakeBackend, diamond_problem, placed

from placement_gym.envs import (
    DevicePlacementEnv,
    PlacementVectorEnv,
    SimulatedVectorEnv,
    placement_env,
    read_current_unit,
)
from placement_gym.hardware import DeviceSpec

LIMITED = ["CPU", {"name": "GPU", "weight_share": 0.3}]
ENV = {"model": "resnet", "devices": LIMITED}
SOFT = {"preset": "placeto"}


def make(env_id: str = "DevicePlacementSim-v0", **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(f"placement_gym:{env_id}", **{**ENV, **kwargs})


def all_on(device: int) -> np.ndarray:
    return np.full(37, device)


def test_the_repaired_placement_is_evaluated_and_observed() -> None:
    env = make(repair=True)
    env.reset(seed=0)
    observation, _, _, _, info = env.step(all_on(1))
    base = placement_env(env)
    assert (info["feasible"], info["repaired"]) == (True, True)
    assert set(placed(observation).tolist()) == {0, 1}
    assert info["latency_ms"] == base.backend.evaluate(placed(observation)).latency_ms
    assert (base.assignment == placed(observation)).all()
    _, info = env.reset()
    assert not info["repaired"]


@pytest.mark.parametrize(
    ("device", "options", "feasible"),
    [
        pytest.param(1, {}, False, id="by default"),
        pytest.param(0, {"repair": True}, True, id="what fits"),
        pytest.param(1, {"repair": True, "schedule": SOFT}, True, id="soft limits"),
        pytest.param(1, {"repair": True, "schedule": {"memory": "off"}}, True, id="no limits"),
    ],
)
def test_a_placement_that_needs_no_repair_stays(
    device: int, options: dict[str, Any], feasible: bool
) -> None:
    env = make(**options)
    env.reset(seed=0)
    observation, *_, info = env.step(all_on(device))
    assert (info["feasible"], info["repaired"]) == (feasible, False)
    assert placed(observation).tolist() == [device] * 37


def test_unsupported_units_move_without_limits_too() -> None:
    problem = diamond_problem(refused=[(2, 1)])
    env = DevicePlacementEnv(FakeBackend(problem=problem), repair=True)
    env.reset()
    observation, *_, info = env.step(np.array([1, 1, 1, 1]))
    assert placed(observation).tolist() == [1, 1, 0, 1]
    assert info["repaired"]


def test_without_a_cost_table_the_fewest_bytes_change_device() -> None:
    problem = diamond_problem((DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=600)))
    env = DevicePlacementEnv(FakeBackend(problem=problem), repair=True)
    env.reset()
    observation, *_ = env.step(np.array([1, 1, 1, 1]))  # 100, 200, 300 and 400 bytes
    assert placed(observation).tolist() == [0, 0, 0, 1]


def test_an_invalid_flag_is_refused() -> None:
    with pytest.raises(ValueError, match="repair must be True or False"):
        make(repair="yes")


@pytest.mark.parametrize("native", [True, False])
def test_vector_environments_repair_as_single_ones_do(native: bool) -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (5, 37))
    actions[0] = 1
    single = make(repair=True)
    if native:
        many: PlacementVectorEnv = SimulatedVectorEnv(5, repair=True, **ENV)
    else:
        many = PlacementVectorEnv(placement_env(make(repair=True)), 5)
    many.reset(seed=0)
    _, rewards, *_, info = many.step(actions)
    final = info["final_info"]
    for i, action in enumerate(actions):
        single.reset(seed=0)
        observation, reward, *_, alone = single.step(action)
        assert rewards[i] == pytest.approx(reward)
        assert (final["feasible"][i], final["repaired"][i]) == (True, alone["repaired"])
        assert (info["final_obs"][i]["placement"] == observation["placement"]).all()
    assert final["repaired"].any()


def test_units_placed_one_by_one_make_others_leave() -> None:
    env = make("DevicePlacementPerUnitSim-v0", repair=True)
    observation, _ = env.reset(seed=0)
    done, repaired = False, 0
    while not done:
        unit = int(read_current_unit(observation)[0])
        observation, _, done, _, info = env.step(1)
        assert info["feasible"]
        assert placed(observation)[unit] == 1
        assert (placed(observation) == placement_env(env).assignment).all()
        repaired += info["repaired"]
    assert repaired > 0


def test_a_measured_environment_repairs_by_analytic_costs() -> None:
    env = placement_env(
        gym.make(
            "placement_gym:DevicePlacement-v0",
            model="tiny",
            devices="cpu-testbed-limited",
            granularity="op",
            repair=True,
        )
    )
    fast = env.problem.device_names.index("CPU_FAST")
    alone = env.problem.single(fast)[None]
    assert env.backend.infeasibility(alone[0])
    repaired = env.repair_placements(alone)[0]
    assert env.backend.infeasibility(repaired) == ""
    assert (repaired == fast).any()
    assert env.repair_prices.unit_ms.any()
    env.close()
