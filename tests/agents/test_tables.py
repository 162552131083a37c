"""Tables beside a network: they correct one graph, and the network goes to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from learned import SIMULATED

import agents
from agents.common.weights import save_weights
from agents.graph_groups.tables import Tables

SMALL: dict[str, dict[str, Any]] = {"graph-groups": {"hidden": 8}}


def make(name: str, model: str, **kwargs: Any) -> Any:
    env = gym.make(SIMULATED, model=model, max_nodes=80, max_edges=120)
    return agents.make(name, env, policy=SMALL[name], **kwargs)


def read_tables(agent: Any) -> list[torch.Tensor]:
    return [one for name, one in agent.policy.state_dict().items() if name.startswith("tables.")]


@pytest.mark.parametrize("name", SMALL)
def test_tables_learn_one_graph_and_weights_go_to_another_without(
    name: str, tmp_path: Path
) -> None:
    agent = make(name, "resnet")
    agent.learn(40)
    assert all(table.any() for table in read_tables(agent))
    save_weights(agent, file := tmp_path / "weights.safetensors")
    same, other = (make(name, model, weights=file) for model in ("resnet", "cnn"))
    torch.testing.assert_close(same.policy.state_dict(), agent.policy.state_dict())
    assert read_tables(other)
    assert not any(table.any() for table in read_tables(other))


def test_graphs_without_tables_keep_their_logits() -> None:
    tables, logits = Tables([7], n_units=5, n_devices=2), torch.randn(2, 5, 2)
    with torch.no_grad():
        tables["7"]["own"].values += 1.0
    known, other = tables.correct(logits, [7, 8])
    assert (known > logits[0]).all()
    assert (other == logits[1]).all()
