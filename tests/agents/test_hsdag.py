"""HSDAG under SB3's algorithms."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from learned import SIMULATED, mean_return, optimal_speedup, several, simulated, vectorize_toy
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

import agents
from agents.common import REINFORCE
from agents.common.graph_data import MissingGraphError
from agents.common.graphs import MIN_COST
from agents.common.vec_env import vectorize as vectorized
from agents.hsdag import HSDAGOptions, HSDAGPolicy, rollout
from agents.hsdag.agent import make
from agents.hsdag.networks import Groups, Networks
from agents.hsdag.presets import PRESETS
from agents.hsdag.published import CodeNetworks
from agents.hsdag.sampled_groups import SampledGroups
from placement_gym.envs.episode import play_episode
from placement_gym.envs.placement_env import placement_env
from placement_gym.envs.rewards import REWARDS

CPU = torch.device("cpu")
PAPER = {"preset": "paper"}


def learner(
    algorithm: type[BaseAlgorithm],
    env: VecEnv | None = None,
    learning_rate: float = 5e-4,
    ent_coef: float = 0.1,
    **policy: Any,
) -> Any:
    """A learner that the toy suffices for."""
    env = vectorize_toy(100) if env is None else env
    proximal = {"n_steps": 2, "batch_size": 100, "n_epochs": 4, "gamma": 0.0}
    options: dict[type[BaseAlgorithm], dict[str, Any]] = {
        PPO: proximal,
        MaskablePPO: proximal,
        A2C: {"n_steps": 1, "gamma": 0.0, "normalize_advantage": True},
        REINFORCE: {"n_steps": 1},
    }
    graphs = env.get_attr("graph_table")[0]()
    return algorithm(
        HSDAGPolicy,
        env,
        learning_rate=learning_rate,
        ent_coef=ent_coef,
        policy_kwargs={"graphs": graphs, "hidden": 32, **policy},
        seed=0,
        device="cpu",
        **options[algorithm],
    )


@pytest.mark.parametrize(
    "algorithm",
    [PPO, REINFORCE, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (A2C, MaskablePPO))],
)
def test_rough_costs_lead_near_the_toys_optimum(algorithm: type[BaseAlgorithm]) -> None:
    model = learner(algorithm)
    model.learn(2_000)
    assert play_episode(simulated(), model)["speedup"] > 0.95 * optimal_speedup()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [PPO, REINFORCE])
def test_learning_without_rough_costs_leads_near_the_optimum(
    algorithm: type[BaseAlgorithm],
) -> None:
    model = learner(algorithm, cost_weight=0.0, learning_rate=1e-3, ent_coef=0.2, hidden=16)
    assert play_episode(simulated(), model)["speedup"] < 0.95 * optimal_speedup()
    model.learn(8_000 if algorithm is PPO else 16_000)
    assert play_episode(simulated(), model)["speedup"] > 0.95 * optimal_speedup()


@pytest.mark.parametrize(
    "algorithm",
    [PPO, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (A2C, REINFORCE, MaskablePPO))],
)
@pytest.mark.parametrize(
    "options",
    [
        {"preset": "paper"},
        pytest.param({"cost_weight": 0.0}, marks=pytest.mark.slow),
    ],
)
def test_the_reward_rises_without_rough_costs(
    algorithm: type[BaseAlgorithm], options: dict[str, Any]
) -> None:
    model = learner(algorithm, learning_rate=2e-3, **options)
    model.learn(200)
    before = mean_return(model)
    model.learn(2_800, reset_num_timesteps=False)
    assert mean_return(model) > before + 0.5


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algorithm", [PPO, A2C, REINFORCE])
def test_every_parameter_receives_a_gradient(algorithm: type[BaseAlgorithm], preset: str) -> None:
    model = learner(algorithm, preset=preset, hidden=8)
    silent = {name for name, _ in model.policy.named_parameters()}
    for name, parameter in model.policy.named_parameters():
        parameter.register_hook(lambda g, name=name: silent.discard(name) if g.any() else None)
    model.learn(300)
    assert not silent


@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("graphs", ["observed", "given"])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_likelihood_of_a_rollout_can_be_recomputed(
    horizon: int, graphs: str, preset: str
) -> None:
    env = simulated(horizon=horizon, observe_graph=graphs == "observed")
    envs = DummyVecEnv([lambda: env])
    table = env.graph_table() if graphs == "given" else None
    kwargs = {"graphs": table, "preset": preset}
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=kwargs, seed=0, device="cpu").policy
    observation = envs.reset()
    for _ in range(horizon):
        tensors = obs_as_tensor(observation, CPU)
        actions, values, log_prob = policy(tensors)
        again, log_prob_again, entropy = policy.evaluate_actions(tensors, actions)
        torch.testing.assert_close(log_prob, log_prob_again)
        torch.testing.assert_close(values, again)
        assert (entropy > 0).all()
        observation, *_ = envs.step(actions.numpy())


def test_groups_stay_in_a_rollout_and_are_drawn_for_the_next() -> None:
    envs = several("resnet")
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=PAPER, seed=0, device="cpu").policy
    policy.set_training_mode(False)
    tensors = obs_as_tensor(envs.reset(), CPU)
    leaders = [policy.decide(tensors).distribution.leader for _ in range(2)]
    assert torch.equal(*leaders)
    drawn = set()
    for _ in range(5):
        with torch.no_grad():
            next(policy.parameters()).add_(1e-4)
        kept = policy.decide(tensors).distribution.leader
        assert torch.equal(kept, leaders[-1])
        policy.clear_stale_caches()
        leaders.append(policy.decide(tensors).distribution.leader)
        drawn.add(leaders[-1].numpy().tobytes())
    assert len(drawn) > 2


def test_a_group_goes_to_one_device() -> None:
    envs = several("resnet")
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=PAPER, seed=0, device="cpu").policy
    tensors = obs_as_tensor(envs.reset(), CPU)
    for _ in range(5):
        actions, *_ = policy(tensors)
        leader = policy.decide(tensors).distribution.leader
        assert torch.equal(actions, actions.gather(1, leader))


def test_prediction_parses_groups_and_not_into_one() -> None:
    envs = several("inception")
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=PAPER, seed=0, device="cpu").policy
    distribution = policy.decide(obs_as_tensor(envs.reset(), CPU), greedy=True).distribution
    assert 3 < distribution.weight.sum() < 0.6 * envs.get_attr("problem")[0].n_units


def test_a_policy_forgets_graphs_that_others_replace() -> None:
    envs = [gym.make(SIMULATED, model=name, max_nodes=80, max_edges=200, observe_graph=False)
            for name in ("resnet", "inception")]  # fmt: skip
    agent = make(envs[0], 0, policy={"hidden": 8})
    agent.policy.set_graphs(placement_env(envs[1]).graph_table())
    agent.predict(envs[1].reset()[0])
    with pytest.raises(MissingGraphError):
        agent.predict(envs[0].reset()[0])


def test_the_state_moves_within_an_episode() -> None:
    env = simulated("resnet", horizon=3)
    envs = DummyVecEnv([lambda: env])
    kwargs = {"preset": "paper", "dropout": 0.0}
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=kwargs, seed=0, device="cpu").policy
    seen = obs_as_tensor(envs.reset(), CPU)
    first = policy.decide(seen).distribution.log_probs
    later = policy.decide({**seen, "step": seen["step"] + 1}).distribution.log_probs
    assert not torch.allclose(first, later)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_agent_of_the_benchmark_learns_within_its_budget(preset: str) -> None:
    env = gym.make(SIMULATED, model="tiny")
    agent = make(env, 0, preset=preset)
    agent.learn(100)
    assert agent.num_timesteps == agent.policy.drawn == 100
    assert placement_env(env).observation_space.contains(env.reset()[0])
    assert play_episode(env, agent)["feasible"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"preset": "best"}, ValueError),
        ({"policy": {"colour": 3}}, ValueError),
        ({"policy": {"conv": "cnn"}}, ValueError),
        ({"baseline": "luck"}, ValueError),
        ({"returns": "all"}, ValueError),
    ],
)
def test_unknown_settings_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make(gym.make(SIMULATED, model="tiny"), 0, **options)


STEPS = ("encode", "score_edges", "parse", "pool_groups", "place_groups")
"""The five steps but for the update: 2.3, 2.4."""


def count_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of each step from now on."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(rollout, "parse", counted("parse", rollout.parse))
    for name in set(STEPS) - {"parse"}:
        for form in (Networks, CodeNetworks):
            if name in vars(form):
                monkeypatch.setattr(form, name, counted(name, getattr(form, name)))
    return counts


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algorithm", [PPO, A2C, REINFORCE])
def test_all_steps_run_in_learning_and_in_predicting(
    algorithm: type[BaseAlgorithm], preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = learner(algorithm, vectorize_toy(5), preset=preset, hidden=8)
    counts = count_calls(monkeypatch)
    model.learn(20)
    assert min(counts[name] for name in STEPS) > 0
    before, observation = model.policy.state_dict(), simulated().reset()[0]
    for deterministic in (True, False):
        counts.clear()
        with torch.no_grad():
            next(model.policy.parameters()).add_(1e-4)
        model.predict(observation, deterministic=deterministic)
        assert min(counts[name] for name in STEPS) > 0
    # the fifth step is the algorithm's update
    fresh = learner(algorithm, vectorize_toy(5), preset=preset, hidden=8).policy.state_dict()
    assert any((fresh[name] != one).any() for name, one in before.items() if name != "drawn")


def test_default_is_a_preset_with_all_steps() -> None:
    env = gym.make(SIMULATED, model="resnet")
    for model in (make(env, 0), PPO(HSDAGPolicy, env, n_steps=20, batch_size=20, device="cpu")):
        assert model.policy.options == PRESETS["rl"].policy
        seen = obs_as_tensor(model.env.reset(), CPU)
        assert isinstance(model.policy.decide(seen).distribution, SampledGroups)


def flatten(preset: str) -> dict[str, str]:
    """All values of a preset, as the README's table has them."""
    known = PRESETS[preset]
    parts = {"policy": asdict(known.policy), "reinforce": known.algorithm, "envs": known.envs,
             "optimizer": known.optimizer}  # fmt: skip
    return {f"{part}.{name}": str(value) for part, found in parts.items()
            for name, value in found.items()}  # fmt: skip


def read_table() -> list[dict[str, str]]:
    """The rows of the README's table of numbers and switches."""
    text = (Path(agents.__file__).parent / "hsdag" / "README.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    names = ("name", "paper", "code", "rl", "source")
    cells = [[cell.strip().strip("`") for cell in line.strip("| ").split(" | ")] for line in lines]
    return [dict(zip(names, row, strict=True)) for row in cells if row[0].count(".") == 1]


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_the_values_of_the_table(preset: str) -> None:
    rows = read_table()
    written = {row["name"]: row[preset] for row in rows if row[preset] != "-"}
    assert written == flatten(preset)
    assert all(len(row["source"]) > 2 for row in rows)


@pytest.mark.parametrize("preset", PRESETS)
def test_agents_and_policies_take_what_their_preset_says(preset: str) -> None:
    model, known = make(gym.make(SIMULATED, model="tiny"), 0, preset=preset), PRESETS[preset]
    assert model.policy.options == known.policy
    assert {name: getattr(model, name) for name in known.algorithm} == known.algorithm
    assert model.env.num_envs == known.envs["num_envs"]
    (group,) = model.policy.optimizer.param_groups
    assert group["betas"] == ((0.5, 0.999) if preset == "rl" else (0.9, 0.999))
    assert group["weight_decay"] == 0
    assert model.policy.optimizer.__class__ is torch.optim.Adam
    assert model.env.envs.reward is REWARDS[known.envs["reward"]]
    assert model.observation_space["step"].high[0] == known.envs["horizon"]


def test_the_codes_parsing_ends_in_one_group() -> None:
    env = simulated("resnet")
    model = make(env, 0, preset="code")
    model.predict(env.reset()[0], deterministic=True)
    (step,) = model.policy.greedy.steps.values()
    assert not step.group.any()


def draws(policy: dict[str, Any] | None = None) -> tuple[HSDAGPolicy, Any, SampledGroups]:
    """A policy, what it sees, and its distribution of groups and devices."""
    model = make(gym.make(SIMULATED, model="tiny"), 0, policy={"groups": 3, **(policy or {})})
    seen = obs_as_tensor(model.env.reset(), CPU)
    seen = {key: value[:1] for key, value in seen.items()}
    return model.policy, seen, model.policy.decide(seen).distribution


@torch.no_grad()
def test_likelihoods_of_groups_and_devices_sum_to_one() -> None:
    _, _, devices = draws()
    n_edges, total = int(devices.valid.sum()), 0.0
    for keep in product((False, True), repeat=n_edges):
        padding = [False] * (devices.valid.shape[1] - n_edges)
        given = devices.given(torch.tensor([[*keep, *padding]]))
        (deciding,) = given.weight[0].nonzero(as_tuple=True)
        shares = given.log_probs[0, deciding].exp().sum(dim=1)
        torch.testing.assert_close(shares, torch.ones_like(shares))
        total += float(given.log_keep.exp())
    assert total == pytest.approx(1.0, abs=1e-4)


def test_edges_are_kept_as_often_as_their_scores_say() -> None:
    _, _, devices = draws()
    devices.row = devices.row.repeat(2_000)
    devices.keys = devices.keys.repeat(2_000)
    kept: list[torch.Tensor] = []
    devices.memory.keep = lambda *args: kept.append(args[2])  # type: ignore[method-assign]
    devices.get_actions()
    shares, wanted = kept[0].float().mean(dim=0), devices.logits[0].sigmoid()
    assert (shares - wanted)[devices.valid[0]].abs().max() < 0.05


@torch.no_grad()
def test_groups_become_single_units_as_placements_are_drawn() -> None:
    env = gym.make(SIMULATED, model="inception")
    policy = make(env, 0, policy={"groups": 5, "refine": 100}).policy
    seen = obs_as_tensor(vectorized(env).reset(), CPU)
    sizes = []
    for drawn in (0, 200, 2_000):
        policy.drawn.fill_(drawn)
        policy.clear_caches()
        devices = policy.decide(seen).distribution
        actions = devices.get_actions()
        sizes.append(float(devices.conditioned_on(actions).weight.float().sum(dim=1).mean()))
    assert 3 < sizes[0] < 15
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] > 68


@torch.no_grad()
def test_a_group_is_its_mean_gated_by_the_scores_within_it() -> None:
    torch.manual_seed(0)
    networks = Networks(HSDAGOptions(features=("type",), hidden=6), 2, critic=False)
    z, group = torch.randn(5, 6), torch.tensor([0, 0, 0, 1, 2])
    inner = torch.tensor([[0, 1, 0], [1, 2, 2]])
    score = [networks.scorer(z[u] * z[v]).sigmoid() for u, v in inner.T.tolist()]
    pooled = networks.pool_groups(z, group, inner)
    torch.testing.assert_close(pooled[0], z[:3].mean(dim=0) * torch.stack(score).mean())
    torch.testing.assert_close(pooled[1:], z[3:])


@torch.no_grad()
def test_a_group_prefers_devices_by_the_sum_of_its_times() -> None:
    networks = Networks(HSDAGOptions(features=("type",), hidden=6, cost_weight=2.0), 2, False)
    for parameter in networks.placer[-1].parameters():
        parameter.zero_()
    unit, none = torch.arange(3), torch.empty(2, 0, dtype=torch.long)
    leader, decides = torch.tensor([[0, 0, 2]]), torch.tensor([[True, False, True]])
    group = torch.tensor([0, 0, 1])
    groups = Groups(unit, group, none, torch.zeros_like(unit), unit, leader, decides, None)
    costs = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    logits = networks(torch.randn(3, 6), costs, groups)[0]
    times = torch.tensor([[4.0, 6.0], [4.0, 6.0], [5.0, 6.0]])
    torch.testing.assert_close(logits, -2.0 * (times + MIN_COST).log())


@torch.no_grad()
def test_the_code_pools_sums_by_scores_times_links() -> None:
    torch.manual_seed(0)
    networks = CodeNetworks(HSDAGOptions(features=("type",), hidden=6, form="code"), 2, False)
    z, group, inner = torch.randn(3, 12), torch.tensor([0, 0, 1]), torch.tensor([[0], [1]])
    score = networks.scorer(z[0, :6] * z[1, :6]).sigmoid()
    before = networks.deepsets_pre(z[:, 6:])
    after = networks.deepsets_post(torch.stack([before[:2].sum(dim=0), before[2]]))
    expected = torch.stack([after[0] * 2 * score, after[1]])  # an edge counts in both directions
    torch.testing.assert_close(networks.pool_groups(z, group, inner), expected)


@torch.no_grad()
def test_the_code_pools_another_convolution_than_it_scores() -> None:
    policy = make(env := gym.make(SIMULATED, model="tiny"), 0, preset="code").policy
    seen = obs_as_tensor(vectorized(env).reset(), CPU)
    graphs, _ = policy.graphs.batch(seen)
    scored, pooled = policy.networks.encode(graphs).chunk(2, dim=1)
    assert len(policy.networks.encoder.gnn1.layers) == 2
    assert len(policy.networks.encoder.gnn2.layers) == 1
    assert not torch.allclose(scored, pooled)


@torch.no_grad()
def test_the_state_gains_the_embedding_of_its_group() -> None:
    policy = make(env := gym.make(SIMULATED, model="tiny"), 0, preset="paper").policy
    graphs, _ = policy.graphs.batch(obs_as_tensor(vectorized(env).reset(), CPU))
    (graph_id,) = graphs.ids
    first, second = (policy.greedy.find_step(graphs, graph_id, step) for step in (0, 1))
    z = policy.greedy.embed(graphs)
    state = torch.nn.functional.layer_norm(z, z.shape[1:])
    inner = first.edges[:, first.group[first.edges[0]] == first.group[first.edges[1]]]
    pooled = policy.networks.pool_groups(state, first.group, inner)
    torch.testing.assert_close(z + second.shift, state + pooled[first.group])


def test_groups_of_several_graphs_are_recalled() -> None:
    envs = several("resnet", "tiny")
    graphs = {key: one for env in envs.envs for key, one in env.graph_table().items()}
    kwargs = {"graphs": graphs, "hidden": 8}
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=kwargs, seed=0, device="cpu").policy
    seen = obs_as_tensor(envs.reset(), CPU)
    actions, _, log_prob = policy(seen)
    for row in (0, 1):
        one = {key: value[row : row + 1] for key, value in seen.items()}
        again = policy.evaluate_actions(one, actions[row : row + 1])[1]
        torch.testing.assert_close(again, log_prob[row : row + 1])
