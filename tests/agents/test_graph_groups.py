# White-box tests of agents.graph_groups
"""Groups that are drawn with each placement, by a graph network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from learned import SIMULATED, first_observation, several, simulated
from stable_baselines3 import PPO
from stable_baselines3.common.utils import obs_as_tensor

from agents.common import save_weights
from agents.graph_groups import GraphGroupsPolicy, make
from agents.graph_groups.tables import Tables

CPU = torch.device("cpu")


def test_scores_decide_who_follows_and_tables_correct_one_graph() -> None:
    envs = several("resnet")
    table = envs.get_attr("graph_table")[0]()
    kwargs = {"graphs": table, "hidden": 8}
    policy = PPO(GraphGroupsPolicy, envs, policy_kwargs=kwargs, seed=0, device="cpu").policy
    seen = first_observation(envs)
    before = policy.decide(seen).distribution
    assert 5 < before.leave.exp()[before.mask].sum() < 120  # about 30 units choose
    with torch.no_grad():
        policy.scorer[-1].bias += 50.0
        (correction,) = policy.tables.values()
        correction.own.values[0, 1] += 1.0
    after = policy.decide(seen).distribution
    assert (after.stay[after.stay > -1e8].exp() > 0.99).all()
    assert not torch.allclose(before.own[0, 0], after.own[0, 0])
    # another graph has no table, and weights that hold for all graphs go to it
    policy.add_graphs(other := simulated("tiny").graph_table())
    assert set(policy.tables) == {str(graph_id) for graph_id in table}
    assert not set(policy.tables) & {str(graph_id) for graph_id in other}


def test_tables_learn_one_graph_and_weights_go_to_another_without(tmp_path: Path) -> None:
    trained = make_small("resnet")
    trained.learn(40)
    assert all(table.any() for table in read_tables(trained))
    save_weights(trained, file := tmp_path / "weights.safetensors")
    same, other = (make_small(model, weights=file) for model in ("resnet", "tiny"))
    torch.testing.assert_close(same.policy.state_dict(), trained.policy.state_dict())
    for name in ("encoder", "scorer", "placer"):
        learned = getattr(trained.policy, name).state_dict()
        torch.testing.assert_close(getattr(other.policy, name).state_dict(), learned)
    assert read_tables(other)
    assert not any(table.any() for table in read_tables(other))
    other.learn(20)
    assert any(table.any() for table in read_tables(other))


def make_small(model: str, **kwargs: Any) -> Any:
    env = gym.make(SIMULATED, model=model, max_nodes=80, max_edges=120, max_devices=5)
    return make(env, 0, policy={"hidden": 8, "devices": True}, **kwargs)


def read_tables(agent: Any) -> list[torch.Tensor]:
    return [one for name, one in agent.policy.state_dict().items() if name.startswith("tables.")]


def test_graphs_without_tables_keep_their_logits() -> None:
    tables, logits = Tables([7], n_units=5, n_devices=2), torch.randn(2, 5, 2)
    with torch.no_grad():
        tables["7"]["own"].values += 1.0
    known, other = tables.correct(logits, [7, 8])
    assert (known > logits[0]).all()
    assert (other == logits[1]).all()


@pytest.mark.parametrize("devices", [False, True])
def test_limits_are_read_where_devices_are(devices: bool) -> None:
    agents, seen = [], []
    for share in (0.3, 0.9):
        limited = ["CPU", {"name": "GPU", "weight_share": share}]
        env = gym.make(SIMULATED, model="resnet", devices=limited)
        agents.append(make(env, 0, policy={"hidden": 8, "devices": devices}))
        seen.append(obs_as_tensor(agents[-1].env.reset(), CPU))
    tight, loose = (
        agent.policy.decide(one).distribution.own for agent, one in zip(agents, seen, strict=True)
    )
    assert torch.allclose(tight, loose) is not devices
