# White-box tests of agents.common, agents.placeto
"""Placeto's network against its formulas, and the agent that answers for all units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest
import torch
from fakes import placed
from learned import PER_UNIT, SIMULATED, first_observation, simulated
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import ConvertCallback
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from agents.common import save_weights
from agents.common.callbacks import BestPlacementCallback
from agents.placeto import Placeto, PlacetoPolicy, entropy, make, make_trainer, rate
from agents.placeto.networks import Embedding, Perceptrons, find_relations
from agents.placeto.transfer import ZeroShot
from agents.placeto.transfer import make as transferred
from placement_gym.base import UserError
from placement_gym.bench.run import BudgetedBackend
from placement_gym.envs import FEATURES, MeasuredEnv, PerUnitEnv, placement_env, play_episode


def environment(model: str = "tiny", **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(PER_UNIT, model=model, **kwargs)


def policy(env: Any, **kwargs: Any) -> PlacetoPolicy:
    return PPO(PlacetoPolicy, env, policy_kwargs=kwargs, seed=0, device="cpu").policy


def test_relations_are_those_of_the_graph() -> None:
    env = simulated("inception")
    edges = env.problem.units.quotient.edge_index
    n = env.problem.n_units
    graph = nx.DiGraph(edges.T.tolist())
    ancestors, descendants, parallel = find_relations(edges, n)
    for unit in range(n):
        before, behind = nx.ancestors(graph, unit), nx.descendants(graph, unit)
        assert set(np.flatnonzero(ancestors[unit])) == before
        assert set(np.flatnonzero(descendants[unit])) == behind
        assert set(np.flatnonzero(parallel[unit])) == set(range(n)) - before - behind - {unit}


def one(perceptrons: Perceptrons, which: int, x: Tensor) -> Tensor:
    """What one of several perceptrons says of a vector."""
    hidden = (x @ perceptrons.enter[which] + perceptrons.enter_bias[which, 0]).relu()
    return hidden @ perceptrons.leave[which] + perceptrons.leave_bias[which, 0]


def by_hand(embedding: Embedding, x: Tensor, edges: list[tuple[int, int]]) -> Tensor:
    """(n, 2 * hidden): y_v = h_v + g(sum of f(y_u)), for each unit by itself."""
    n, sides = len(x), []
    h = [one(embedding.own, 0, row) for row in x]
    for way in range(2):
        ends = edges if way == 0 else [(v, u) for u, v in edges]
        y = list(h)
        for _ in range(embedding.rounds):
            sent = [one(embedding.send, way, row) for row in y]
            got = [[sent[u] for u, v in ends if v == unit] for unit in range(n)]
            y = [
                h[v] + one(embedding.receive, way, torch.stack(got[v]).sum(dim=0))
                if got[v]
                else h[v]
                for v in range(n)
            ]
        sides.append(torch.stack(y))
    return torch.cat(sides, dim=1)


def test_messages_go_up_and_down_as_in_the_paper() -> None:
    env = DummyVecEnv([environment])
    model = policy(env, hidden=4, rounds=3)
    model.decide(first_observation(env))
    (structure,) = model.structures.values()
    embedding = model.networks.embedding
    edges = simulated().problem.units.quotient.edge_index.T.tolist()
    torch.manual_seed(0)
    x = torch.randn(7, 2, embedding.own.enter.shape[1])
    with torch.no_grad():
        together = embedding(x.reshape(14, -1), structure).view(7, 2, -1)
        for state in range(2):
            expected = by_hand(embedding, x[:, state], [tuple(edge) for edge in edges])
            torch.testing.assert_close(together[:, state], expected)


def test_current_unit_reads_ancestors_descendants_and_parallels() -> None:
    env = DummyVecEnv([lambda: environment("inception")])
    model = policy(env, hidden=4, rounds=2)
    model.decide(first_observation(env))
    (structure,) = model.structures.values()
    networks, n = model.networks, len(structure.static)
    torch.manual_seed(0)
    x = torch.randn(n, 1, networks.embedding.own.enter.shape[1])
    with torch.no_grad():
        around = networks.summarize(x, structure, torch.tensor([20]))[0]
        e = networks.embedding(x[:, 0], structure)
        expected = [e[20]]
        for which, related in enumerate(structure.related[:, 20].bool()):
            summed = torch.stack([one(networks.send, which, row) for row in e[related]]).sum(dim=0)
            expected.append(one(networks.receive, which, summed))
    torch.testing.assert_close(around, torch.cat(expected), rtol=1e-4, atol=1e-4)


def test_a_unit_knows_its_costs_its_state_and_when_it_starts() -> None:
    from agents.placeto.policy import make_inputs

    env = environment()
    env.reset()
    for device in (1, 0, 1):
        observation, *_ = env.step(device)
    states = {key: torch.as_tensor(value)[None] for key, value in observation.items()}
    model = policy(DummyVecEnv([environment]))
    model.decide(states)
    states["placement"] = torch.as_tensor(placed(observation))[None]
    (structure,) = model.structures.values()
    x = make_inputs(structure, states, torch.tensor([3]), 2)[:, 0].numpy()
    cost = np.expm1(observation["x"][:, FEATURES["cost"]][:, :2])
    np.testing.assert_allclose(x[:, :2], cost / cost.max(), rtol=1e-6)
    assert x[:, 5].tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert x[:, 6].tolist() == [0, 0, 0, 1, 0, 0, 0]
    start = observation["start"] - observation["start"][3]
    np.testing.assert_allclose(x[:, 7], start / np.abs(start).max(), rtol=1e-5)
    assert x[:, 8:].tolist() == np.eye(2)[placed(observation)].tolist()


def test_predictions_do_not_depend_on_who_is_beside() -> None:
    sizes = {"max_nodes": 80, "max_edges": 120}
    models = ("resnet", "tiny")
    both = DummyVecEnv([lambda model=model: environment(model, **sizes) for model in models])
    model = policy(both)
    together, values = model.decide(first_observation(both))
    for row, name in enumerate(models):
        alone = DummyVecEnv([lambda name=name: environment(name, **sizes)])
        choice, value = model.decide(first_observation(alone))
        torch.testing.assert_close(choice.log_probs[0], together.log_probs[row])
        torch.testing.assert_close(value[0], values[row])


def test_all_units_at_once_are_where_an_episode_puts_them() -> None:
    env = simulated("inception")
    agent = make(env, 0, preset="paper")
    agent.learn(env.problem.n_units)
    action, _ = agent.predict(env.reset()[0], deterministic=True)
    played = PerUnitEnv(simulated("inception"))
    play_episode(played, agent)
    np.testing.assert_array_equal(action, played.assignment)


def test_answering_for_all_units_evaluates_nothing() -> None:
    env = simulated("inception")
    env.backend = counted = BudgetedBackend(env.backend, 10)
    agent = make(env, 0)
    agent.predict(env.reset()[0], deterministic=True)
    assert counted.evaluations == 0


def test_a_batch_of_observations_is_answered_row_by_row() -> None:
    env = simulated()
    observation, _ = env.reset()
    several = {key: np.stack([value] * 3) for key, value in observation.items()}
    action, _ = make(env, 0).predict(several, deterministic=True)
    assert action.shape == (3, 7)


def test_the_agent_leaves_its_environment_as_it_is() -> None:
    env = environment()
    base = placement_env(env)
    observer = base.observer
    make(env, 0).learn(14)
    assert base.observer is observer
    assert "x" in env.reset()[0]


def starts_after_training(start: str, n: int) -> tuple[list[list[int]], BestPlacementCallback]:
    """The placements that n episodes after a training start from."""
    env = gym.make(PER_UNIT, model="tiny", start=start)
    agent, best = make(env, 0), BestPlacementCallback()
    agent.learn(70, best)
    return [placed(agent.env.reset())[0].tolist() for _ in range(n)], best


def test_episodes_start_on_the_reference_device_by_default() -> None:
    assert starts_after_training("first", 3)[0] == [[0] * 7] * 3


def test_episodes_may_start_at_random_placements() -> None:
    starts, _ = starts_after_training("random", 5)
    assert len({tuple(start) for start in starts}) > 2


def test_episodes_may_start_at_the_best_placement_so_far() -> None:
    (start,), best = starts_after_training("best", 1)
    assert best.best.speedup > 1.0
    evaluated = simulated().backend.evaluate(np.array(start))
    assert evaluated.speedup == pytest.approx(best.best.speedup)


def test_learning_rate_and_entropy_weight_fall_linearly() -> None:
    assert [rate(remaining) for remaining in (1.0, 0.5, 0.0)] == [1e-3, 5.5e-4, 1e-4]
    assert [entropy(remaining) for remaining in (1.0, 0.5, 0.0)] == [1.0, 0.5, 0.0]
    agent, rates = make(simulated(), 0, preset="paper"), []
    optimizer = agent.policy.optimizer
    agent.learn(70, ConvertCallback(lambda *_: not rates.append(optimizer.param_groups[0]["lr"])))
    assert rates[0] == 1e-3
    assert rates[-1] < 3e-4


def test_another_graph_is_refused_with_a_remedy() -> None:
    agent = make(simulated(), 0)
    with pytest.raises(ValueError, match="DevicePlacementPerUnit"):
        agent.predict(simulated("resnet").reset()[0])


@pytest.mark.parametrize("start", ["first", "random"])
def test_the_best_placement_is_the_one_that_was_evaluated(start: str) -> None:
    env = gym.make(PER_UNIT, model="tiny", start=start)
    agent, best = make(env, 0), BestPlacementCallback()
    agent.learn(70, best)
    evaluated = simulated().backend.evaluate(best.best.only.row)
    assert evaluated.speedup == pytest.approx(best.best.speedup)


def test_a_policy_trained_on_other_graphs_answers_for_a_new_one() -> None:
    env = gym.make(SIMULATED, model="resnet", devices="cpu+igpu")
    settings = {"train_on": ["tiny", "inception"], "evaluations": 128, "max_nodes": 80}
    agent = transferred(env, 0, **settings)
    observation, _ = env.reset()
    action, _ = agent.predict(observation, deterministic=True)
    assert env.action_space.contains(action)
    again = transferred(env, 0, **settings)
    assert again.policy is agent.policy
    assert transferred(env, 1, **settings).policy is not agent.policy


@pytest.mark.slow
def test_transfer_may_see_limits() -> None:
    devices = [{"name": "CPU", "roofline": "CPU"}, {"name": "GPU", "weight_share": 0.4}]
    env = gym.make(SIMULATED, model="resnet", devices=devices)
    policy = {"devices": True}
    settings = {"train_on": ["tiny"], "evaluations": 64}
    agent = transferred(env, 0, **settings, max_nodes=80, policy=policy)
    action, _ = agent.predict(env.reset()[0], deterministic=True)
    assert action.shape == env.action_space.shape


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_on": ["inception"], "evaluations": 63}, "one rollout of 64"),
        ({"train_on": ["tiny"]}, "leave it out"),
        ({}, "needs models to train on"),
    ],
)
def test_transfer_refuses_what_it_cannot_train_on(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        transferred(gym.make(SIMULATED, model="tiny"), 0, **settings)


def test_episodes_of_a_problem_are_compared_step_by_step() -> None:
    envs = make_trainer(problems=2, episodes=3, policy={"hidden": 4}).env
    envs.seed(4)
    ids = [envs.reset()["graph_id"].ravel()]
    units = envs.get_attr("units")[0].base.problem.n_units
    for _ in range(units):
        observation, *_ = envs.step(np.zeros(6, dtype=np.int64))
    ids.append(observation["graph_id"].ravel())
    for first, *others in ids[0].reshape(2, 3).tolist() + ids[1].reshape(2, 3)[:1].tolist():
        assert others == [first, first]
    assert ids[0][0] != ids[0][3]
    assert ids[0][0] != ids[1][0]


def test_a_training_without_episodes_to_compare_is_refused() -> None:
    with pytest.raises(UserError, match="episodes"):
        make_trainer(problems=1, episodes=1)


def test_weights_of_many_problems_place_another_at_once(tmp_path: Path) -> None:
    trainer = make_trainer(problems=2, episodes=2, policy={"hidden": 4}, n_steps=8)
    before = parameters_to_vector(trainer.policy.parameters()).clone()
    trainer.learn(32)
    after = parameters_to_vector(trainer.policy.parameters())
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)
    save_weights(trainer, file := tmp_path / "weights.safetensors")
    sizes = {"max_devices": 5, "max_nodes": 80, "max_edges": 120, "observe_graph": False}
    resnet, tiny = (simulated(model, **sizes) for model in ("resnet", "tiny"))
    agent = make(resnet, 0, policy={"hidden": 4}, weights=file)
    trained = trainer.policy.networks.state_dict()
    torch.testing.assert_close(agent.policy.networks.state_dict(), trained)
    seen, _ = tiny.reset()
    many = {key: np.stack([value] * 20) for key, value in seen.items()}
    actions, _ = ZeroShot(agent.policy, tiny).predict(many)
    assert tiny.action_space.contains(actions[0])
    assert len(np.unique(actions, axis=0)) > 1
    by_unit = PerUnitEnv(tiny)
    info = play_episode(by_unit, ZeroShot(agent.policy, by_unit))
    assert info["feasible"]
    agent.learn(1)
    adapted = parameters_to_vector(agent.policy.networks.parameters())
    assert not torch.equal(adapted, parameters_to_vector(trainer.policy.networks.parameters()))


@pytest.mark.parametrize("env_id", [SIMULATED, PER_UNIT])
def test_a_loaded_model_goes_on_under_either_kind_of_step(env_id: str, tmp_path: Path) -> None:
    make(simulated(), 0).learn(60).save(tmp_path / "model.zip")
    loaded = Placeto.load(tmp_path / "model.zip", env=gym.make(env_id, model="tiny"))
    assert loaded.learn(14).num_timesteps >= 14


def test_a_loaded_model_starts_from_the_best_of_its_training(tmp_path: Path) -> None:
    model = make(environment(start="best"), 0).learn(60)
    model.save(tmp_path / "model.zip")
    best = model.env.get_attr("best")[0][1]
    np.testing.assert_array_equal(Placeto.load(tmp_path / "model.zip").dry_run.start, best)


def test_a_measured_model_predicts_after_loading_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"model": "tiny", "devices": "cpu-testbed", "isolate": False}
    env = gym.make("placement_gym:DevicePlacement-v0", **options)
    model = make(env, 0, preset="paper")
    expected = model.predict(env.reset()[0], deterministic=True)[0]
    model.save(tmp_path / "model.zip")
    observation, _ = env.reset()
    env.close()
    monkeypatch.delattr(MeasuredEnv, "__init__")
    loaded = Placeto.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(loaded.predict(observation, deterministic=True)[0], expected)


def test_one_unit_cannot_be_asked_for_a_whole_placement() -> None:
    model = PPO(PlacetoPolicy, environment(), device="cpu")
    with pytest.raises(UserError, match="one unit per step, as DevicePlacementPerUnit-v0"):
        play_episode(simulated(), model)
