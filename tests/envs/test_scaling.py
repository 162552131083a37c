"""Numbers that networks see are of order one, and indices are restored exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import scales
import torch

import placement_gym
from placement_gym.envs import FEATURES, IndexBox, PerUnitEnv, SimulatedEnv, read_graph_id
from placement_gym.graph import FAMILIES
from placement_gym.graph.families import make_problem

MEAN, LARGEST = 2.5, 10.0
"""Bounds of the mean and of the largest absolute value of a key, or of a block of ``x``."""
ROOFLINES = ("iGPU", "GPU", "GPU-PCIe5", "GPU-NVLink", "NPU")
SIXTEEN = [{"name": "CPU", "memory_pool": "host", "weight_share": 0.2}] + [
    {"name": f"GPU.{i}", "roofline": ROOFLINES[i % 5], "weight_share": 0.1} for i in range(15)
]
JOINT = {"schedule": "event", "decisions": ("placement", "priority", "fusion")}
PADDED = {"max_nodes": 100, "max_edges": 200, "max_devices": 4}
SIMULATED, BY_UNIT = "DevicePlacementSim-v0", "DevicePlacementPerUnitSim-v0"


def check_order(env: gym.Env[Any, Any], steps: int = 4) -> None:
    """Play at random, and check each observation."""
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        assert env.observation_space.contains(observation)
        for name, values in list_parts(observation):
            assert np.abs(values).mean() <= MEAN, name
            assert np.abs(values).max() <= LARGEST, name
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            return


def list_parts(observation: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of an observation by name, and ``x`` by block."""
    if not isinstance(observation, dict):
        yield "box", observation
        return
    for key, values in observation.items():
        if key != "x":
            yield key, values
    for block, columns in FEATURES.items() if "x" in observation else ():
        yield block, observation["x"][:, columns]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("env_id", [SIMULATED, BY_UNIT])
def test_generated_graphs_on_sixteen_devices(env_id: str, family: str) -> None:
    model = f"family-{family}-60-seed3"
    kwargs = {"devices": SIXTEEN, "granularity": "op", "observe_devices": True}
    check_order(gym.make(env_id, model=model, **kwargs))


@pytest.mark.parametrize("seed", range(20_000, 20_010))
@pytest.mark.parametrize("options", [{}, {"observe_graph": False}, {"observe": "flat"}])
def test_problems_with_limits(seed: int, options: dict[str, Any]) -> None:
    kwargs = make_problem(seed).env_kwargs()
    check_order(gym.make(BY_UNIT, observe_devices=True, **kwargs, **options))


@pytest.mark.parametrize("exponent", [-9, 9])
def test_tiny_and_huge_times(exponent: int) -> None:
    for seed in range(5):
        backend = scales.draw(seed, "uniform", scales.EVENT, exponent)
        options = {"observe_devices": True}
        for observe in ("graph", "flat"):
            base = placement_gym.DevicePlacementEnv(backend, **options)
            check_order(PerUnitEnv(base, observe=observe))


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        (SIMULATED, {"model": "tiny", "devices": "cpu+2dgpu", **JOINT}),
        (SIMULATED, {"model": "tiny", "horizon": 50, **PADDED}),
        (BY_UNIT, {"model": "tiny", **PADDED}),
        (BY_UNIT, {"model": "tiny", "observe": "flat"}),
        ("DevicePlacementStream-v0", {}),
        ("DevicePlacementStream-v0", {"observation": "graph"}),
        ("DevicePlacementOnline-v0", {"models": ["tiny", "cnn:2"]}),
    ],
)
def test_other_ids_and_options(env_id: str, kwargs: dict[str, Any]) -> None:
    check_order(gym.make(env_id, **kwargs), steps=20)


@pytest.mark.parametrize("count", [1, 7, 99_999, 1_000_000, 1 << 24])
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_indices_are_restored_exactly(count: int, kind: Any) -> None:
    space = IndexBox(count, (1000,))
    indices = np.linspace(0, count, 1000).astype(np.int64)
    restored = space.read(kind(space.scale(indices)))
    assert np.asarray(restored).tolist() == indices.tolist()
    assert "int64" in str(restored.dtype)


def test_spaces_of_other_numbers_differ() -> None:
    assert IndexBox(3, (2,)) == IndexBox(3, (2,))
    assert IndexBox(3, (2,)) != IndexBox(4, (2,))
    assert IndexBox(3, (2,)) != gym.spaces.Box(0.0, 1.0, (2,), np.float32)


def test_a_batch_has_the_edges_of_each_graph() -> None:
    envs = gym.vector.SyncVectorEnv(
        [lambda model=model: gym.make(BY_UNIT, model=model, **PADDED) for model in ("tiny", "cnn")]
    )
    observation, _ = envs.reset()
    edges = placement_gym.edge_index(observation)
    for i, env in enumerate(envs.envs):
        table = env.unwrapped.graph_table()
        graph = int(read_graph_id(observation)[i, 0])
        np.testing.assert_array_equal(edges[i], table[graph]["edge_index"])


def test_all_keys_are_documented() -> None:
    table = "\n".join(
        str(env.__doc__) for env in (placement_gym.DevicePlacementEnv, PerUnitEnv, SimulatedEnv)
    )
    documented = set(re.findall(r"^    \| `(\w+)`.* \|", table, re.MULTILINE))
    options = [{"observe_devices": True}, {"devices": "cpu+2dgpu", **JOINT}]
    spaces = [gym.make(SIMULATED, model="tiny", **kwargs).observation_space for kwargs in options]
    spaces.append(gym.make(BY_UNIT, model="tiny").observation_space)
    assert {key for space in spaces for key in space.spaces} <= documented
