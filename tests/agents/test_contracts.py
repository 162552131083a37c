# White-box tests of agents, agents.common
"""Contracts of agents: what each of them does in any environment, and what it refuses."""

from __future__ import annotations

import re
import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import SIMULATED, TWO_MODELS, optimal_speedup, simulated, two_threads, weights
from learners import (
    MISS,
    NETWORKS,
    PER_UNIT,
    POLICIES,
    STEPS,
    cases,
    env_of,
    is_long,
    learner,
    rollout,
    toy,
    trained,
)
from named_agents import (
    BUDGET,
    GOALS,
    OPTIONS,
    POOL,
    SHARED,
    bench_env,
    check_refusal,
    goal_of,
    make,
    optimum,
    place,
    record_evaluations,
    tight_env,
)
from sb3_contrib import TRPO, MaskablePPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import ConvertCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import DummyVecEnv

import agents
from agents import AGENTS
from agents.about import ABOUT, LEARNED, SEARCH, SOLVER
from agents.common import REINFORCE, encoder
from agents.gdp import GCNPolicy, UnitPPO
from agents.options import list_options
from agents.post import Post
from placement_gym.base import UserError
from placement_gym.bench import compare
from placement_gym.bench.run import AgentSpec, BenchEnv, load_agent
from placement_gym.envs import placement_env, play_episode
from placement_gym.problem.costs import PRESETS

ALGORITHMS: tuple[type[Any], ...] = (PPO, A2C, MaskablePPO, REINFORCE, UnitPPO, Post)
REFUSED = {
    *((UnitPPO, name) for name in ("hsdag", "graph-groups", "hdp", "placeto")),
    *((Post, name) for name in NETWORKS),
}
"""Pairs of an algorithm and a policy that do not work."""
PAGE = Path(__file__).parents[2] / "docs/how_to/other_libraries.md"
LEARNERS = [*product(NETWORKS, (REINFORCE, PPO)), ("logits", Post)]
OF_A_POLICY = cases(LEARNERS, lambda _, algorithm: algorithm is PPO)
"""Each policy under one algorithm, under the other in the slow tests."""

FEW = ("serial", "throughput")
"""Where agents that only read latencies are tried in the quick suite; solvers have models."""
SLOW = ("hdp", "doppler", "placeto", "placeto-transfer", "rnn")
PLACING = [name for name in AGENTS if name not in ("saved", "openvino-hetero", "openvino-auto")]
"""Agents that need neither a file nor measurements."""
SEARCHES = [name for name in AGENTS if ABOUT[name].kind == SEARCH]
LEARNED_NAMES = [name for name in AGENTS if ABOUT[name].kind == LEARNED]
TRYING = [name for name in (*SEARCHES, *LEARNED_NAMES) if name != "placeto-transfer"]
"""Agents with ``learn``; a transfer is trained when it is made."""
SEEDED = [name for name in TRYING if name not in ("prefix", "window")]
"""Agents whose placements depend on the seed."""
FIT = {"logits": 100, "post": 300, "hsdag": 200, "rnn": 30, "placeto": 30, "doppler": 30}
"""Placements from which a learner finds one that fits into devices of a fifth of the model."""
IN_TURN = ("rnn", "placeto", "doppler")
"""Learners that place one unit after another, and keep to what is left."""
OUT_OF_RANGE: list[tuple[str, dict[str, Any], str]] = [
    ("hsdag", {"layers": -1}, "layers must be an integer of at least 0, not -1"),
    ("hsdag", {"groups": -1}, "groups must be a number of at least 0, not -1"),
    ("hsdag", {"depth": 1.5}, "depth must be an integer of at least 0, not 1.5"),
    ("hsdag", {"dropout": 2.0}, "dropout must be a number of at most 1"),
    ("hsdag", {"table": True}, "an option of HSDAGPolicy"),
    ("graph-groups", {"groups": 0}, "groups must be an integer of at least 1, not 0"),
    ("graph-groups", {"devices": 1}, "devices must be True or False"),
    ("hsdag", {"hidden": 0}, "hidden must be an integer of at least 1, not 0"),
    ("hsdag", {"conv": "gat", "hidden": 30}, "hidden must be a multiple of 4"),
    ("gdp", {"hidden": "64"}, "hidden must be an integer of at least 1, not '64'"),
    ("placeto", {"devices": 1}, "devices must be True or False"),
    ("rnn", {"cost_weight": -1.0}, "cost_weight must be a number of at least 0"),
]


@pytest.mark.parametrize(("name", "algorithm"), cases(STEPS, is_long))
def test_the_toys_optimum_is_reached_and_rewards_rise(name: str, algorithm: type[Any]) -> None:
    model, first_return, last_return, _ = trained(name, algorithm, wholly=True)
    assert last_return > first_return + 0.1
    reached, miss = play_episode(env_of(name), model)["speedup"], MISS.get((name, algorithm), 0.0)
    assert reached >= optimal_speedup() * (1.0 - miss - 1e-6)


@pytest.mark.parametrize(("name", "algorithm"), OF_A_POLICY)
def test_every_parameter_gets_a_gradient(name: str, algorithm: type[Any]) -> None:
    assert not trained(name, algorithm).silent


@pytest.mark.parametrize(
    ("name", "algorithm"), cases(LEARNERS, lambda *one: is_long(*one) or one[1] is PPO)
)
def test_equal_seeds_make_equal_weights(name: str, algorithm: type[Any]) -> None:
    results = []
    for _ in range(2):
        model = learner(name, algorithm)
        before = weights(model)
        model.learn(500 if algorithm is Post else 100)
        results.append(weights(model))
        assert not torch.equal(results[-1], before)
    assert torch.equal(*results)


@pytest.mark.parametrize("name", PLACING)
def test_equal_seeds_evaluate_and_answer_alike(name: str) -> None:
    found = []
    for seed in (0, 0, 1):
        env = simulated("tiny" if name in LEARNED_NAMES else "resnet", **goal_of(name))
        counted, agent = record_evaluations(env), make(name, env, seed)
        if name in TRYING:
            agent.learn(BUDGET)
        tried = [one.assignment.tolist() for one in counted.history]
        found.append([*tried, agent.predict(env.reset()[0], deterministic=True)[0].tolist()])
    assert found[0] == found[1]
    assert (found[0] != found[2]) == (name in SEEDED)


@pytest.mark.parametrize("env_id", [SIMULATED, PER_UNIT])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_answers_with_the_fastest_placement_it_tried(name: str, env_id: str) -> None:
    env = gym.make(env_id, model="tiny")
    base = placement_env(env)
    counted, agent = record_evaluations(base), make(name, env, 3)
    agent.learn(20)
    if env_id == SIMULATED:  # the other one evaluates after each unit
        assert len(counted.history) <= 20
        assert agent.best_speedup == max(one.speedup for one in counted.history)
    assert base.backend.evaluate(agent.assignment).speedup == pytest.approx(agent.best_speedup)


@pytest.mark.parametrize("name", [name for name in PLACING if name != "min-cut"])
def test_a_device_that_lacks_a_unit_never_gets_it(name: str) -> None:
    env = simulated(max_nodes=12, max_edges=20, **goal_of(name))
    env.problem.supported[[1, 4], 1] = False
    counted, agent = record_evaluations(env), make(name, env)
    if name in TRYING:
        agent.learn(20)
    assert not any(env.problem.support_error(one.assignment) for one in counted.history)
    for deterministic in (True, False, False, False):
        action, _ = agent.predict(env.reset()[0], deterministic=deterministic)
        assert env.action_space.contains(action)
        assert not env.backend.infeasibility(env.layout.parse(action))


@pytest.mark.parametrize(
    ("name", "algorithm"), [*OF_A_POLICY, *product(["gcn"], (A2C, MaskablePPO, UnitPPO))]
)
def test_saving_keeps_weights_and_answers(name: str, algorithm: Any, tmp_path: Path) -> None:
    model = trained(name, algorithm).model
    model.save(tmp_path / "model.zip")
    loaded = algorithm.load(tmp_path / "model.zip", env=toy(name))
    model.policy.save(tmp_path / "policy.pt")
    alone = type(model.policy).load(tmp_path / "policy.pt")
    observation, _ = env_of(name).reset()
    for other, own in ((loaded, model), (alone, model)):
        expected, _ = own.predict(observation, deterministic=True)
        np.testing.assert_array_equal(other.predict(observation, deterministic=True)[0], expected)
    assert torch.equal(weights(loaded), weights(model))
    loaded.learn(280 if algorithm is Post else 60)
    assert not torch.equal(weights(loaded), weights(model))


@pytest.mark.parametrize(
    "name", cases(product([*NETWORKS, "post"]), lambda name: name in ("rnn", "hdp", "gdp"))
)
def test_a_loaded_agent_goes_on_in_a_plain_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    model = make(name, simulated(), seed=1).learn(60)
    assert not list((tmp_path / "temporary").iterdir())
    model.save(tmp_path / "model.zip")
    load = partial(type(model).load, tmp_path / "model.zip")
    loaded, (observation, _) = load(), simulated().reset()
    expected = model.predict(observation, deterministic=True)[0]
    np.testing.assert_array_equal(loaded.predict(observation, deterministic=True)[0], expected)
    assert play_episode(simulated(), loaded)["feasible"]
    loaded = agents.load(tmp_path / "model.zip", simulated())
    assert (type(loaded), loaded.n_envs) == (type(model), model.n_envs)
    loaded.learn(60)
    assert loaded.num_timesteps >= 60
    assert torch.isfinite(weights(loaded)).all()
    model.set_env(simulated())
    model.learn(60)
    with pytest.raises(ValueError, match=r"max_nodes=7.*make this environment with"):
        load(env=simulated("resnet"))


@pytest.mark.parametrize("name", POLICIES)
def test_the_likelihood_of_what_was_sampled_can_be_recomputed(name: str) -> None:
    model = learner(name, Post if name == "logits" else PPO)
    seen = obs_as_tensor(model.get_env().reset(), torch.device("cpu"))
    actions, values, log_prob = model.policy(seen)
    again, log_prob_again, entropy = model.policy.evaluate_actions(seen, actions)
    torch.testing.assert_close(log_prob, log_prob_again)
    torch.testing.assert_close(values, again)
    assert (entropy > 0).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_do_not_depend_on_the_size_of_the_graph(name: str) -> None:
    small, large = (rollout(PPO, name, env_of(name, model)).policy for model in ("tiny", "resnet"))
    large.load_state_dict(small.state_dict())


@pytest.mark.parametrize("name", NETWORKS)
def test_one_policy_learns_on_models_of_different_sizes(name: str) -> None:
    makers = [partial(env_of, name, model, **TWO_MODELS) for model in ("tiny", "resnet")]
    model = rollout(REINFORCE, name, envs := DummyVecEnv(makers))
    before = weights(model)
    model.learn(80)
    assert torch.isfinite(weights(model)).all()
    assert not torch.equal(weights(model), before)
    for row, action in enumerate(model.predict(envs.reset(), deterministic=True)[0]):
        assert envs.envs[row].action_space.contains(action)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_trains_a_policy_or_names_another(algorithm: type[Any], name: str) -> None:
    if (algorithm, name) in REFUSED:
        with pytest.raises(UserError, match=f"REINFORCE or PPO for {POLICIES[name][0].__name__}"):
            rollout(algorithm, name).learn(50)
        return
    model = rollout(algorithm, name)
    before = weights(model)
    model.learn(50 if algorithm is Post else 8)
    assert torch.isfinite(weights(model)).all()
    assert not torch.equal(weights(model), before)


def test_the_page_says_which_algorithms_train_which_policies() -> None:
    page = PAGE.read_text()
    trained = {
        algorithm: re.findall(r"\w+Policy", re.search(sentence, page, re.DOTALL)[1])  # type: ignore[index]
        for algorithm, sentence in {
            UnitPPO: r"`UnitPPO` trains (.*?);",
            Post: r"`Post` only (.*?)\.",
        }.items()
    }
    for name, (policy, _) in POLICIES.items():
        for algorithm in ALGORITHMS:
            said = policy.__name__ in trained.get(algorithm, [policy.__name__])
            assert said == ((algorithm, name) not in REFUSED)


def test_algorithms_outside_the_table_are_refused_with_what_trains_the_policy() -> None:
    model = TRPO(GCNPolicy, env_of("gcn"), n_steps=8, device="cpu")
    with pytest.raises(UserError, match="use PPO, A2C, MaskablePPO or REINFORCE"):
        model.learn(8)
    with pytest.raises(UserError, match="use REINFORCE or PPO"):
        UnitPPO("MultiInputPolicy", simulated())


@pytest.mark.parametrize("name", POLICIES)
def test_masks_of_the_environment_hold_under_maskable_ppo(name: str) -> None:
    model, env = rollout(MaskablePPO, name), env_of(name)
    seen, _ = env.reset()
    masks = np.ones(env.get_wrapper_attr("action_masks")().shape, dtype=bool)
    masks.reshape(-1, 2)[:, 0] = False
    for deterministic in (True, False, False):
        action, _ = model.predict(seen, deterministic=deterministic, action_masks=masks)
        assert (np.asarray(action) == 1).all()
    tensors = model.policy.obs_to_tensor(seen)[0]
    actions, _, log_prob = model.policy(tensors, action_masks=masks)
    assert (actions == 1).all()
    _, again, _ = model.policy.evaluate_actions(tensors, actions, action_masks=masks)
    torch.testing.assert_close(again, log_prob)
    if name not in ("hdp", "hsdag"):  # groups count there, too
        torch.testing.assert_close(log_prob, torch.zeros(1))


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_refuses_unknown_options_with_the_known_and_the_nearest(name: str) -> None:
    policy, options = POLICIES[name]
    for option in ("net_arch", "features_extractor_class", "activation_fn"):
        with pytest.raises(UserError, match=rf"{policy.__name__} has no option {option}") as error:
            rollout(PPO, name, **{option: [64]})
        assert all(known in str(error.value) for known in options)
        assert f"'MultiInputPolicy', which has {option}" in str(error.value)
    with pytest.raises(UserError, match=rf"an option of {policy.__name__} .*'optimizer_clas'"):
        rollout(PPO, name, optimizer_clas=torch.optim.SGD)


@pytest.mark.parametrize("name", NETWORKS)
def test_another_kind_of_step_is_refused_with_the_environment_to_use(name: str) -> None:
    other, used = (SIMULATED, PER_UNIT) if name == "placeto" else (PER_UNIT, SIMULATED)
    with pytest.raises(ValueError, match=used.partition(":")[2]):
        PPO(POLICIES[name][0], gym.make(other, model="tiny"))


@pytest.mark.parametrize("name", POLICIES)
def test_trained_without_graphs_it_predicts_with_them(name: str, tmp_path: Path) -> None:
    env = env_of(name, observe_graph=False)
    model = rollout(A2C, name, env, graphs=placement_env(env).graph_table()).learn(8)
    model.save(tmp_path / "model.zip")
    loaded = A2C.load(tmp_path / "model.zip")
    infos = [play_episode(*one) for one in ((env, model), (env_of(name), loaded))]
    assert infos[0]["placement_hash"] == infos[1]["placement_hash"]


@pytest.mark.parametrize("name", NETWORKS)
def test_an_observation_without_graph_is_refused_with_the_remedy(name: str) -> None:
    env = env_of(name, observe_graph=False)
    with pytest.raises(UserError, match="graph_table"):
        rollout(PPO, name, env).predict(env.reset()[0])


@pytest.mark.parametrize("name", POLICIES)
def test_more_than_a_policy_was_made_for_changes_nothing_and_less_is_refused(name: str) -> None:
    small, large = (rollout(PPO, name, env) for env in (None, env_of(name, observe_devices=True)))
    less, more = (env_of(name, observe_devices=one).reset()[0] for one in (False, True))
    answers = [small.predict(one, deterministic=True)[0].tolist() for one in (less, more)]
    assert answers[0] == answers[1]
    large.predict(more)
    with pytest.raises(UserError, match="observe_devices=True"):
        large.predict(less)


@pytest.mark.parametrize("name", ["hsdag", "graph-groups", "gcn"])
def test_a_saved_model_of_other_features_is_refused(name: str, tmp_path: Path) -> None:
    known = encoder.select_columns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "select_columns", lambda features: known(features)[1:])
        learner(name, REINFORCE).save(tmp_path / "model.zip")
    with pytest.raises(UserError, match="train it again"):
        REINFORCE.load(tmp_path / "model.zip")


@pytest.mark.parametrize("name", ["hsdag", "post", "gdp", "placeto"])
def test_learning_uses_one_thread_and_logs_it(name: str, tmp_path: Path) -> None:
    model, threads = make(name, simulated()), set()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    see = ConvertCallback(lambda *_: threads.add(torch.get_num_threads()) or True)
    with two_threads():
        model.learn(60, see, log_interval=1)
        assert (threads, torch.get_num_threads()) == ({1}, 2)
    rows = np.genfromtxt(tmp_path / "progress.csv", delimiter=",", names=True)
    assert set(rows["timetorch_threads"][1:]) == {1}


@pytest.mark.filterwarnings("ignore:.*factor of.*n_steps")
@pytest.mark.parametrize(
    ("name", "goal"),
    cases(
        product(AGENTS, GOALS),
        lambda name, goal: name in SLOW or (ABOUT[name].kind != SOLVER and goal not in FEW),
    ),
)
def test_an_agent_places_for_the_goal_or_names_one(name: str, goal: str, tmp_path: Path) -> None:
    env, about, options = bench_env(goal), ABOUT[name], {}
    if name == "saved":
        env.base.reset()
        env.base.placement().save(tmp_path / "plan.json")
        options = {"file": str(tmp_path / "plan.json")}
    env.clear_caches()
    row = place(name, env, **options)
    if name.startswith("openvino") or env.base.objective not in about.objectives:
        assert row.error.startswith("UserError: ")
        check_refusal(row.error, env.env)
        return
    assert row.error == ""
    assert row.speedup >= 1.0 - 1e-9  # the reference device, for heuristics and fixed choices
    reached = row.speedup_vs_best_single
    assert name not in TRYING or reached >= 0.99
    schedule = "load" if goal == "throughput" else PRESETS[goal].schedule
    if about.optimum and schedule in about.model:
        assert reached == pytest.approx(optimum(goal, contiguous=name == "dp"))


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in SLOW])
def test_joint_decisions_are_made_or_refused(name: str) -> None:
    joint = {"schedule": "event", "decisions": ("placement", "priority", "fusion")}
    env = gym.make(SIMULATED, **SHARED, **joint)
    try:
        agent = make(name, env, **({"file": "none.json"} if name == "saved" else {}))
    except UserError as error:
        if name != "saved":
            check_refusal(str(error), env)
        return
    action, _ = agent.predict(env.reset(seed=0)[0])
    assert env.action_space.contains(action)


@pytest.mark.parametrize("name", ["milp", "heft", "dp", "max-load", "annealing"])
@pytest.mark.parametrize("goal", FEW)
def test_one_unit_a_step_is_for_the_same_goal(name: str, goal: str) -> None:
    env = bench_env(goal, "DevicePlacementPerUnitSim-v0")
    row = place(name, env)
    assert bool(row.error) == (env.base.objective not in ABOUT[name].objectives)
    if row.error:
        check_refusal(row.error, env.env)


@pytest.mark.parametrize("name", cases(product(PLACING), lambda name: name in LEARNED_NAMES))
@pytest.mark.filterwarnings("ignore:.*factor of.*n_steps")
def test_an_agent_keeps_the_limit_of_a_pool_or_names_one_that_does(name: str) -> None:
    env = BenchEnv.make("DevicePlacementSim-v0", POOL | goal_of(name))
    row, problem = place(name, env), env.base.problem
    if not ABOUT[name].pools:
        assert "memory that devices share, and pool 'host'" in row.error
        check_refusal(row.error, env.env)
        return
    assert row.error == ""
    placed = [problem.device_names.index(device) for device in row.placement.values()]
    used = problem.memory_bytes(np.array(placed))
    assert used[0] + used[1] <= 0.7 * problem.unit_bytes.sum()


@pytest.mark.parametrize("env_id", cases([[SIMULATED], [PER_UNIT]], lambda one: one == PER_UNIT))
def test_every_learner_has_a_row_in_a_comparison(env_id: str, tmp_path: Path) -> None:
    names = ["hsdag", "graph-groups", "placeto", "rnn", "hdp", "gdp", "post"]
    given = [{"name": name, "kwargs": OPTIONS.get(name, {})} for name in names]
    env_id = env_id.removeprefix("placement_gym:")
    document = compare("tiny", given, env_id, budget=40, out=tmp_path, quiet=True)
    rows = [row for row in document["rows"] if row["agent"] != "single-device"]
    assert [row["agent"] for row in rows] == names
    for row in rows:
        assert (row["error"], row["evaluations"]) == ("", 40)
        assert row["greedy_latency_ms"] >= row["latency_ms"] >= document["optimum_ms"]


@pytest.mark.filterwarnings("ignore::placement_gym.base.errors.PlacementGymWarning")
@pytest.mark.parametrize("name", FIT)
def test_a_learner_finds_what_fits_where_little_does(name: str) -> None:
    env = tight_env()
    counted, model = record_evaluations(env), make(name, env).learn(FIT[name])
    assert env.backend.evaluate(model.best.placement.assignment(env.problem)).feasible
    if name in IN_TURN:
        assert not any(one.error for one in counted.history)
        action, _ = model.predict(env.reset()[0], deterministic=True)
        assert not env.backend.infeasibility(env.layout.parse(action))


@pytest.mark.parametrize("name", ["hsdag", "placeto", "rnn", "hdp", "post", "gdp", "doppler"])
def test_published_agents_have_two_presets(name: str) -> None:
    for preset in ("rl", "paper"):
        make(name, simulated(), preset=preset)
    with pytest.raises(UserError, match=r"preset.*'papr'|did you mean 'paper'"):
        make(name, simulated(), preset="papr")


@pytest.mark.parametrize("name", AGENTS)
def test_an_unknown_option_is_refused_and_the_known_are_listed(name: str) -> None:
    known = list_options(load_agent(name)).keys()
    assert not known & {"env", "seed", "self", "kwargs", "settings", "policy_kwargs"}
    with pytest.raises(UserError, match=f"'{name}' has no option 'nonsense'") as error:
        agents.make(name, None, nonsense=1)
    assert all(option in str(error.value) for option in known)
    if "learning_rate" in known:
        message = rf"'{name}' has no option 'lr'; did you mean 'learning_rate'\? it has .*policy"
        with pytest.raises(UserError, match=message):
            agents.make(name, simulated(), lr=1e-3)
        with pytest.raises(UserError, match=message):
            AgentSpec(name, {"lr": 1e-3, "repair": True}).check()


@pytest.mark.parametrize(("name", "policy", "message"), OUT_OF_RANGE)
def test_options_of_policies_are_checked(name: str, policy: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        agents.make(name, simulated(), policy=policy)


@pytest.mark.parametrize("name", TRYING)
def test_steps_are_whole_numbers_as_in_1e5_too(name: str) -> None:
    model = make(name, simulated())
    with pytest.raises(UserError, match=r"total_timesteps must be an integer .* not 10\.5"):
        model.learn(10.5)
    model.learn(0.0)
