# White-box tests of agents, envs
"""What ``agents.make`` trains in: wrappers, settings of ``gym.make``, several graphs; loading."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from learned import PER_UNIT, SIMULATED, SMALL_GO, TWO_MODELS, simulated, weights
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import agents
from agents import AGENTS, LEARNERS
from agents.about import ABOUT, SEARCH
from agents.common import PlacementVecEnv, UnitCategorical
from agents.hsdag import HSDAGPolicy
from agents.loading import read_algorithm
from agents.options import list_options
from placement_gym.base import PlacementGymWarning, UserError
from placement_gym.bench.run import AgentSpec, load_agent
from placement_gym.envs import rewards

SMALL: dict[str, dict[str, Any]] = {
    **{name: {"policy": {"hidden": 16}} for name in ("hsdag", "graph-groups", "gcn")},
    **{name: {"policy": {"hidden": 8, "decoder": 8, "attention": 4}} for name in ("rnn", "hdp")},
    "gdp": {"policy": SMALL_GO},
    "placeto": {"policy": {"rounds": 1}},
}


class Penalty(gym.Wrapper[Any, Any, Any, Any]):
    """Takes a reward away for each unit on the second device."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.steps = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        observation, reward, *rest = self.env.step(action)
        return observation, float(reward) - 10.0 * float(np.sum(action)), *rest  # type: ignore[return-value]


def toy(**kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(SIMULATED, model="tiny", **kwargs)


def learner(name: str, env: Any, **options: Any) -> Any:
    return agents.make(name, env, **{**SMALL.get(name, {}), **options})


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_steps_the_wrappers_of_its_kind_of_environment(name: str) -> None:
    env = Penalty(gym.make(PER_UNIT if name == "placeto" else SIMULATED, model="tiny"))
    n_steps = 14 if name == "placeto" else 20
    if name == "placeto":
        model = learner(name, env).learn(n_steps)
    else:
        with pytest.warns(PlacementGymWarning, match="Penalty is around the environment"):
            model = learner(name, env).learn(n_steps)
    assert env.steps == n_steps
    assert min(episode["r"] for episode in model.ep_info_buffer) <= -10.0


@pytest.mark.filterwarnings("ignore::placement_gym.base.errors.PlacementGymWarning")
def test_a_reward_of_a_wrapper_is_learned() -> None:
    model = learner("logits", Penalty(toy())).learn(400)
    assert model.predict(toy().reset()[0], deterministic=True)[0].tolist() == [0] * 7


@pytest.mark.parametrize(("name", "env_id"), [("hsdag", PER_UNIT), ("placeto", SIMULATED)])
def test_wrappers_around_the_other_kind_of_environment_are_named(name: str, env_id: str) -> None:
    with pytest.warns(PlacementGymWarning, match="Penalty is around an environment of .* wrap"):
        learner(name, Penalty(gym.make(env_id, model="tiny")))


@pytest.mark.parametrize("name", [name for name in AGENTS if ABOUT[name].kind == SEARCH])
def test_a_search_names_the_wrapper_that_changes_nothing(name: str) -> None:
    with pytest.warns(PlacementGymWarning, match="compares latencies: Penalty"):
        agents.make(name, Penalty(toy()))


def test_stepping_one_by_one_makes_the_same_update(monkeypatch: pytest.MonkeyPatch) -> None:
    placements = torch.randint(2, (20, 7), generator=torch.Generator().manual_seed(0))
    learned = []
    for env in (toy(), RecordEpisodeStatistics(toy())):
        rows = iter(placements)
        monkeypatch.setattr(
            UnitCategorical, "sample", lambda self, rows=rows: torch.stack(
                [next(rows) for _ in self.row]
            ),
        )  # fmt: skip
        if isinstance(env, RecordEpisodeStatistics):
            with pytest.warns(PlacementGymWarning, match="20 times"):
                model = learner("logits", env)
        else:
            model = learner("logits", env)
        learned.append(weights(model.learn(20)))
        assert model.n_steps * model.n_envs == 20
        assert "x" not in model.observation_space.spaces
    torch.testing.assert_close(*learned)
    assert learned[0].any()


def test_what_gym_make_was_given_goes_before_the_preset() -> None:
    with pytest.warns(PlacementGymWarning, match="given horizon=3, reward='speedup'"):
        model = learner("hsdag", toy(reward="speedup", horizon=3), preset="paper")
    assert model.env.envs.reward is rewards.speedup
    assert model.observation_space["step"].count == 3
    model = learner("hsdag", toy(), preset="paper")  # which says nothing
    assert model.env.envs.reward is rewards.inverse_latency
    chosen = {"reward": "improvement"}
    assert learner("hsdag", toy(reward="speedup"), envs=chosen).env.envs.reward is (
        rewards.improvement
    )


def test_a_limit_of_steps_is_kept_where_many_placements_are_evaluated_together() -> None:
    env = TimeLimit(toy(horizon=5, max_episode_steps=3), 4)
    model = learner("logits", env, envs={"horizon": 5}).learn(200)
    assert isinstance(model.env, PlacementVecEnv)
    assert {episode["l"] for episode in model.ep_info_buffer} == {3}
    agents.make("hill-climb", env)  # without a warning


def test_what_cannot_be_had_where_wrappers_are_is_refused_or_said() -> None:
    env = Penalty(toy())
    with (
        pytest.raises(UserError, match=r"horizon=2 needs an environment that is made with it"),
    ):
        learner("logits", env, envs={"horizon": 2})
    with pytest.warns(PlacementGymWarning) as seen:
        learner("hsdag", env, preset="paper")
    said = " ".join(str(one.message) for one in seen)
    assert "horizon=1, reward='log_speedup', which goes before horizon=20" in said
    flat = gym.make(PER_UNIT, model="tiny", observe="flat")
    for name, env in (("logits", gym.wrappers.FlattenObservation(toy())), ("placeto", flat)):
        with pytest.raises(UserError, match="cannot read these observations"):
            learner(name, env)


def test_settings_of_a_vector_of_environments_are_checked_as_those_of_one() -> None:
    venv = DummyVecEnv([toy, toy])
    with pytest.raises(UserError, match="horizon=3 needs an environment that is made with it"):
        learner("logits", venv, envs={"horizon": 3})
    with pytest.warns(PlacementGymWarning, match="has horizon=1, .* goes before horizon=20"):
        learner("hsdag", venv, preset="paper")
    vectors = gym.make_vec(SIMULATED, 2, model="tiny", reward="speedup")
    with pytest.warns(PlacementGymWarning, match="the environment has reward='speedup'"):
        learner("logits", PlacementVecEnv(vectors.unwrapped))  # type: ignore[arg-type]


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(UserError, match="the list has no environment"):
        learner("logits", [])
    with pytest.raises(TypeError, match="'tiny' is not a placement environment"):
        learner("logits", "tiny")


def test_max_episode_steps_truncates_as_a_time_limit_does() -> None:
    settings = {"model": "tiny", "horizon": 5, "max_episode_steps": 2}
    vectors = PlacementVecEnv(gym.make_vec(SIMULATED, 2, **settings).unwrapped)  # type: ignore[arg-type]
    for venv in (vectors, DummyVecEnv([lambda: gym.make(SIMULATED, **settings)] * 2)):  # type: ignore[arg-type, list-item]
        venv.reset()
        for at_limit in (False, True, False, True):
            _, _, dones, infos = venv.step(np.zeros((2, 7), dtype=np.int64))
            assert dones.tolist() == [at_limit] * 2
            assert [info.get("TimeLimit.truncated", False) for info in infos] == [at_limit] * 2
            assert all(("terminal_observation" in info) == at_limit for info in infos)


@pytest.mark.parametrize("name", ["hsdag", "rnn", "placeto", "gdp"])
def test_a_wrapper_that_leaves_keys_out_is_refused(name: str) -> None:
    env = gym.make(PER_UNIT if name == "placeto" else SIMULATED, model="tiny")
    left = gym.wrappers.FilterObservation(env, ["placement", "step"])
    with pytest.raises(UserError, match="graph_id and node_mask"):
        agents.make(name, left).learn(1)


def test_a_wrapper_that_changes_the_graph_is_refused() -> None:
    def scale(observation: dict[str, Any]) -> dict[str, Any]:
        return {**observation, "x": 0.5 * observation["x"]}

    env = toy()
    wrapped = gym.wrappers.TransformObservation(env, scale, env.observation_space)
    with pytest.warns(PlacementGymWarning):
        model = learner("logits", wrapped)
    with pytest.raises(UserError, match="a wrapper changes 'x'"):
        model.learn(20)


def test_placeto_learns_from_the_reward_that_its_environment_has() -> None:
    env = gym.make(PER_UNIT, model="tiny", reward="final")
    model = learner("placeto", env).learn(14)
    assert all(one["r"] != 0 for one in model.ep_info_buffer)
    with pytest.warns(PlacementGymWarning, match="reward='final' to learn"):
        learner("placeto", toy(reward="speedup"))


def test_several_graphs_are_learned_at_once_and_need_one_size(tmp_path: Path) -> None:
    envs = [simulated(name, **TWO_MODELS) for name in ("tiny", "resnet")]
    for given in (envs, DummyVecEnv([lambda env=env: env for env in envs])):  # type: ignore[misc]
        model = learner("hsdag", given)
        assert (model.n_envs, model.n_steps) == (2, 20)
        before = weights(model)
        model.learn(40)
        assert not torch.equal(weights(model), before)
        assert set(model.best) == {env.observer.graph_id for env in envs}
        model.save(tmp_path / "model")
        assert agents.load(tmp_path / "model", given).learn(4).n_envs == 2
    with pytest.raises(UserError, match=r"max_nodes"):
        learner("hsdag", [simulated(), simulated("resnet")])
    with pytest.raises(UserError, match="milp places in one environment"):
        agents.make("milp", envs)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_model_is_loaded_by_what_its_file_names_also_for_another_graph(
    name: str, tmp_path: Path
) -> None:
    one, other = (simulated(model, **TWO_MODELS) for model in ("tiny", "resnet"))
    model = learner(name, one)
    model.save(file := tmp_path / "model")
    loaded = agents.load(file, other, learning_rate=1e-5)
    assert type(loaded) is type(model)
    assert loaded.learning_rate == 1e-5
    loaded.learn(50 if name == "post" else 20)
    assert other.observer.graph_id in loaded.best
    assert torch.isfinite(weights(loaded)).all()
    alone, (observation, _) = agents.load(file), one.reset()
    np.testing.assert_array_equal(
        *(one.predict(observation, deterministic=True)[0] for one in (alone, model))
    )
    with pytest.raises(ValueError, match=r"max_nodes=80.*make this environment with"):
        agents.load(file, simulated())


def test_a_loaded_model_has_the_reward_of_its_training(tmp_path: Path) -> None:
    model = learner("hsdag", toy(), preset="paper")
    model.save(tmp_path / "model")
    loaded = agents.load(tmp_path / "model", toy())
    assert loaded.env.envs.reward is rewards.inverse_latency
    assert (loaded.n_envs, loaded.n_steps) == (1, 20)
    with pytest.warns(PlacementGymWarning, match="is around"):
        stepped = agents.load(tmp_path / "model", RecordEpisodeStatistics(toy(horizon=20)))
    assert stepped.n_steps == 20


def test_a_file_of_another_algorithm_is_refused_by_name(tmp_path: Path) -> None:
    learner("gdp", toy()).save(tmp_path / "go")
    with pytest.raises(UserError, match=r"saved by UnitPPO: load it by agents\.load"):
        agents.REINFORCE.load(tmp_path / "go", toy())
    PPO(HSDAGPolicy, toy(), n_steps=8, batch_size=8, device="cpu").save(tmp_path / "ppo")
    with pytest.raises(UserError, match=r"as PPO\.load\(path, env\)"):
        agents.load(tmp_path / "ppo")
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(UserError, match="is not a model"):
        agents.load(tmp_path / "text")
    with ZipFile(tmp_path / "gone.zip", "w") as archive:
        archive.writestr("data", json.dumps({"algorithm": "agents.nowhere:Nothing"}))
    with pytest.raises(UserError, match=r"agents\.nowhere:Nothing, which is not here"):
        agents.load(tmp_path / "gone.zip")


def test_a_model_is_saved_to_and_loaded_from_memory() -> None:
    model = learner("logits", toy())
    model.save(file := io.BytesIO())
    file.seek(0)
    assert read_algorithm(file) == "agents.common.reinforce:REINFORCE"


def test_a_factory_has_a_short_name_in_comparisons() -> None:
    assert AgentSpec.from_value(load_agent("hsdag")).name == "HSDAGPolicy"


@pytest.mark.parametrize("name", AGENTS)
def test_every_option_that_is_listed_is_accepted(name: str) -> None:
    options = list_options(load_agent(name))
    assert not options.keys() & {"settings", "kwargs", "env", "seed"}
    if name not in LEARNERS:
        return
    given = {
        key: option.default for key, option in options.items()
        if not isinstance(option.default, str) or key in ("preset", "returns", "baseline", "device")
    }  # fmt: skip
    agents.make(name, toy(), **{**given, **SMALL.get(name, {})})


@pytest.mark.parametrize("name", LEARNERS)
def test_every_option_of_a_learner_is_explained(name: str) -> None:
    options = list_options(load_agent(name))
    assert not [key for key, option in options.items() if not option.meaning and key != "device"]


@pytest.mark.parametrize("name", ["hsdag", "graph-groups", "rnn", "post"])
def test_a_weight_of_times_may_be_an_integer(name: str) -> None:
    small = SMALL.get(name, {}).get("policy", {})
    model = agents.make(name, toy(), policy={**small, "cost_weight": 8})
    assert model.learn(40).best.speedup > 0
