# White-box tests of solvers.search
"""A list schedule that moves keep up to date is the one computed from the beginning."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.envs import placement_env
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers.search.chains import Chains

LIMITED = ["CPU", {"name": "GPU.0", "weight_share": 0.3}, {"name": "GPU.1", "weight_share": 0.3}]


@pytest.mark.parametrize("model", ["synthetic-layered-200", "resnet"])
def test_updated_schedules_equal_those_from_the_beginning(model: str) -> None:
    env = placement_env(
        gym.make("DevicePlacementSim-v0", model=model, devices=LIMITED, schedule="list")
    )
    semantics = env.backend.semantics  # type: ignore[attr-defined]
    simulator = Simulator(env.problem.units, env.cost_table(), semantics)
    unlimited = Simulator(env.problem.units, env.cost_table(), replace(semantics, memory="off"))
    chains = Chains(env.problem, simulator, np.random.default_rng(0))
    state = chains.build(env.problem.single(0).astype(np.uint8))
    start = state.place.copy()
    for _ in range(100):
        chains.anneal(state, 1, (0.02, 0.02))
        assert state.scalars.now_ms == pytest.approx(cost_ms(env.problem, unlimited, state.place))
        fresh = chains.start(state.place)
        for name in ("kept", "kept_free", "tail", "after"):
            np.testing.assert_allclose(getattr(state, name), getattr(fresh, name), rtol=1e-9)
        assert (state.finish == state.kept).all()
    assert (state.place != start).any()
