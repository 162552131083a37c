"""Episodes begin with the placement that ``reset`` is given; other options are errors."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import CPU_GPU, FakeBackend, diamond_env, diamond_problem, placed

from placement_gym.base import UserError
from placement_gym.envs import DevicePlacementEnv, PerUnitEnv, placement_env
from placement_gym.problem import Placement

SIMULATED: dict[str, tuple[str, dict[str, Any]]] = {
    "all at once": ("DevicePlacementSim-v0", {}),
    "one by one": ("DevicePlacementPerUnitSim-v0", {}),
    "random start": ("DevicePlacementPerUnitSim-v0", {"start": "random"}),
    "final reward": ("DevicePlacementPerUnitSim-v0", {"reward": "final", "start": "best"}),
    "decisions": (
        "DevicePlacementSim-v0",
        {"schedule": "event", "decisions": ("placement", "priority", "fusion")},
    ),
}


def make(name: str) -> gym.Env[Any, Any]:
    env_id, kwargs = SIMULATED[name]
    return gym.make(env_id, model="tiny", **kwargs)


def mixed(env: gym.Env[Any, Any]) -> Any:
    return np.arange(placement_env(env, joint=True).problem.n_units) % 2


@pytest.mark.parametrize("form", ["indices", "names", "placement"])
@pytest.mark.parametrize("name", SIMULATED)
def test_an_episode_begins_with_the_placement(name: str, form: str) -> None:
    env = make(name)
    base, devices = placement_env(env, joint=True), mixed(env)
    plan = Placement.from_assignment(base.problem, devices)
    given = {"indices": devices.tolist(), "names": dict(plan.units), "placement": plan}[form]
    observation, info = env.reset(seed=0, options={"placement": given})
    assert placed(observation).tolist() == devices.tolist()
    assert info["latency_ms"] == base.backend.evaluate(devices).latency_ms
    assert observation["step"].tolist() == [0]
    if name in ("all at once", "one by one", "decisions"):
        assert not env.reset()[0]["placement"].any()


def test_an_improvement_is_over_the_placement_given() -> None:
    env = diamond_env(horizon=2, reward="improvement")
    _, info = env.reset(options={"placement": [0, 0, 1, 0]})
    _, reward, *_, after = env.step(np.array([1, 1, 0, 0]))
    saved = (info["latency_ms"] - after["latency_ms"]) / info["reference_ms"]
    assert reward == pytest.approx(saved)


def test_a_measured_start_is_measured() -> None:
    backend = FakeBackend()
    env = PerUnitEnv(DevicePlacementEnv(backend))
    _, info = env.reset(options={"placement": [1, 1, 1, 0]})
    assert ("evaluate", (1, 1, 1, 0)) in backend.calls
    assert info["latency_ms"] == 13.0


@pytest.mark.parametrize("decisions", [("placement",), ("placement", "priority")])
@pytest.mark.parametrize("several", [False, True])
def test_a_vector_begins_with_it_too(decisions: tuple[str, ...], several: bool) -> None:
    kwargs: dict[str, Any] = {"model": "tiny", "schedule": "event", "decisions": decisions}
    single = gym.make("DevicePlacementSim-v0", **kwargs)
    envs = gym.make_vec("DevicePlacementSim-v0", 2, **kwargs)
    rows = np.stack([mixed(single), 1 - mixed(single)]) if several else mixed(single)
    observation, info = envs.reset(options={"placement": rows})
    for i, row in enumerate(np.broadcast_to(rows, (2, rows.shape[-1]))):
        assert placed(observation)[i].tolist() == row.tolist()
        alone = single.reset(options={"placement": row})[1]
        assert info["latency_ms"][i] == pytest.approx(alone["latency_ms"], rel=1e-12)
    after, *_ = envs.step(envs.action_space.sample())
    assert not after["placement"].any()  # the next episode has begun on the reference device


@pytest.mark.parametrize("name", SIMULATED)
def test_unknown_options_are_refused(name: str) -> None:
    env = make(name)
    with pytest.raises(UserError, match="did you mean 'placement'"):
        env.reset(options={"placment": [0] * 7})
    with pytest.raises(UserError, match="must be one of placement, not 'start'"):
        env.reset(options={"start": "random"})
    env.reset(options={})
    env.reset(options=None)


@pytest.mark.parametrize("wrong", [[0, 1], [0, 0, 0, 2], [0.0] * 4, "CPU", {"a": "CPU"}, [[0] * 4]])
def test_wrong_placements_are_refused(wrong: Any) -> None:
    with pytest.raises(UserError):
        diamond_env().reset(options={"placement": wrong})


def test_a_placement_of_another_model_is_refused() -> None:
    env = make("all at once")
    other = Placement.from_assignment(diamond_problem(CPU_GPU), np.zeros(4, dtype=np.int64))
    with pytest.raises(UserError, match="made for model 'diamond'"):
        env.reset(options={"placement": other})


def test_a_row_for_each_environment_is_needed() -> None:
    envs = gym.make_vec("DevicePlacementSim-v0", 3, model="tiny")
    with pytest.raises(UserError, match="2 rows for 3 environments"):
        envs.reset(options={"placement": np.zeros((2, 7), dtype=np.int64)})
    with pytest.raises(UserError, match="an option of reset"):
        envs.reset(options={"start": "best"})
