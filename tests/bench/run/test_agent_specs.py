"""Agents by name, mapping, module, factory or object."""

from __future__ import annotations

import pytest
from fakes import Greedy

from placement_gym.bench.run.agents import AgentSpec, load_agent

SIM = "DevicePlacementSim-v0"


def test_agents_come_from_names_modules_factories_and_objects() -> None:
    assert AgentSpec.of("random").load() is load_agent("random")
    assert AgentSpec.of({"name": "single-device", "kwargs": {"device": "CPU"}}).label == (
        "single-device CPU"
    )
    assert AgentSpec.of("agents.static:window").load() is load_agent("window")
    assert AgentSpec.of(Greedy).load() is Greedy
    built = Greedy(None, 0)  # type: ignore[arg-type]
    assert AgentSpec.of(built).make(None, 0) is built


def test_an_agent_without_predict_is_refused() -> None:
    with pytest.raises(TypeError, match="predict"):
        AgentSpec.of(lambda env, seed: object()).make(None, 0)


def test_a_mapping_with_other_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="kwargs"):
        AgentSpec.of({"name": "random", "seed": 1})
