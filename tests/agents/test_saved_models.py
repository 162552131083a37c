"""Saved models are loaded as SB3's are, and go on in environments of ``gym.make``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import weights
from stable_baselines3.common.base_class import BaseAlgorithm

import agents
from agents.common import REINFORCE
from agents.placeto import agent as placeto
from agents.post import Post
from placement_gym import play_episode
from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.placement_env import placement_env

SIMULATED = "placement_gym:DevicePlacementSim-v0"
PER_UNIT = "placement_gym:DevicePlacementPerUnitSim-v0"
RECURRENT = {"policy": {"hidden": 8, "decoder": 8, "attention": 4}}
LEARNERS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "hsdag": (REINFORCE, {"policy": {"hidden": 16}}),
    "placeto": (placeto.Placeto, {}),
    "rnn": (REINFORCE, RECURRENT),
    "hdp": (REINFORCE, RECURRENT),
    "post": (Post, {}),
    "gdp": (BaseAlgorithm, {"policy": {"hidden": 16, "layers": 1}}),
}
SLOW = ("rnn", "hdp", "gdp")
"""Their class is one of the others, and ``test_learners.py`` saves their policies."""


def plain(env_id: str = SIMULATED, **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(env_id, model="tiny", **kwargs)


def trained(name: str, **kwargs: Any) -> Any:
    model = agents.make(name, plain(), seed=1, **{**LEARNERS[name][1], **kwargs})
    return model.learn(60)


def load(model: Any, path: Path, **kwargs: Any) -> Any:
    return type(model).load(path, **kwargs)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in LEARNERS],
)
def test_a_loaded_model_predicts_and_goes_on_in_a_plain_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    model = trained(name)
    assert isinstance(model, LEARNERS[name][0])
    assert not list((tmp_path / "temporary").iterdir())
    model.save(tmp_path / "model.zip")
    loaded = load(model, tmp_path / "model.zip")
    observation, _ = plain().reset()
    expected = model.predict(observation, deterministic=True)[0]
    np.testing.assert_array_equal(loaded.predict(observation, deterministic=True)[0], expected)
    assert play_episode(plain(), loaded)["feasible"]
    loaded = load(model, tmp_path / "model.zip", env=plain())
    assert loaded.n_envs == model.n_envs
    loaded.learn(60)
    assert loaded.num_timesteps >= 60
    assert torch.isfinite(weights(loaded)).all()
    model.set_env(plain())
    model.learn(60)


@pytest.mark.parametrize("env_id", [SIMULATED, PER_UNIT])
def test_a_loaded_placeto_goes_on_under_either_kind_of_step(env_id: str, tmp_path: Path) -> None:
    model = trained("placeto")
    model.save(tmp_path / "model.zip")
    loaded = placeto.Placeto.load(tmp_path / "model.zip", env=plain(env_id))
    loaded.learn(14)


def test_loaded_placeto_starts_from_the_best_of_its_training(tmp_path: Path) -> None:
    model = placeto.make(plain(PER_UNIT, start="best"), 1).learn(60)
    model.save(tmp_path / "model.zip")
    best = model.env.get_attr("best")[0][1]
    np.testing.assert_array_equal(
        placeto.Placeto.load(tmp_path / "model.zip").rehearsal.start, best
    )


def test_measured_placeto_predicts_after_load_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"model": "tiny", "devices": "cpu-testbed", "isolate": False}
    env = gym.make("placement_gym:DevicePlacement-v0", **options)
    model = placeto.make(env, 0, preset="paper")
    expected = model.predict(env.reset()[0], deterministic=True)[0]
    model.save(tmp_path / "model.zip")
    observation, _ = env.reset()
    env.close()
    monkeypatch.delattr(MeasuredEnv, "__init__")
    loaded = placeto.Placeto.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(loaded.predict(observation, deterministic=True)[0], expected)


def test_logging_is_written_and_printed_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = trained("hsdag", verbose=1)
    model.learn(40, log_interval=1)
    assert "torch_threads" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    model.tensorboard_log = str(tmp_path / "logs")
    model.learn(60)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert list((tmp_path / "logs").glob("REINFORCE_1/events*"))


def test_an_environment_of_another_graph_is_refused_with_a_remedy(tmp_path: Path) -> None:
    model = trained("rnn")
    model.save(tmp_path / "model.zip")
    other = gym.make(SIMULATED, model="resnet")
    assert placement_env(other).problem.n_units != 7
    with pytest.raises(ValueError, match=r"max_nodes=7.*make this environment with"):
        load(model, tmp_path / "model.zip", env=other)
