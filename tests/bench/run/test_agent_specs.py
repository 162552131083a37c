# White-box tests of bench.run
"""Agents by name, mapping, module, factory or object."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fakes import Greedy

from placement_gym.bench.run import AgentSpec, load_agent
from placement_gym.bench.run.agents import UnknownAgentError

SIM = "DevicePlacementSim-v0"


def test_agents_come_from_names_modules_factories_and_objects() -> None:
    assert AgentSpec.from_value("random").load() is load_agent("random")
    assert AgentSpec.from_value({"name": "single-device", "kwargs": {"device": "CPU"}}).label == (
        "single-device CPU"
    )
    assert AgentSpec.from_value("agents.static:window").load() is load_agent("window")
    assert AgentSpec.from_value(Greedy).load() is Greedy
    built = Greedy(None, 0)  # type: ignore[arg-type]
    assert AgentSpec.from_value(built).make(None, 0) is built


def test_an_agent_without_predict_is_refused() -> None:
    with pytest.raises(TypeError, match="predict"):
        AgentSpec.from_value(lambda env, seed: object()).make(None, 0)


def test_a_mapping_with_other_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="kwargs"):
        AgentSpec.from_value({"name": "random", "seed": 1})


def test_another_package_of_the_agents_name_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("class Runner: ...")
    about = tmp_path / "openai_agents-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: openai-agents\nVersion: 1\n")
    (about / "top_level.txt").write_text("agents\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "agents"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownAgentError) as raised:
        load_agent("search")
    monkeypatch.delitem(sys.modules, "agents")
    assert f"in {tmp_path / 'agents'}" in str(raised.value)
    assert "but that of openai-agents" in str(raised.value)
    assert "separate environment" in str(raised.value)
