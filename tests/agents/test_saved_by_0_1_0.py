"""Models that version 0.1.0 has saved load here and predict what they predicted there.

A saved model names classes and functions by their import path: policies, ``Elites``,
``MovingAverages``, ``Best``, Placeto's ``rate`` and ``entropy``. None of these may move.
"""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from learned import load_trusted, simulated
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm

from agents.common import REINFORCE
from agents.common.callbacks import Best, BestPlacementCallback
from agents.common.checkpoint import Checkpoint, resume
from agents.hsdag.agent import make
from agents.placeto.agent import Placeto
from agents.post import Post

FOLDER = Path(__file__).parents[1] / "data" / "0.1.0" / "checkpoints"
ACTIONS: dict[str, list[Any]] = json.loads((FOLDER / "actions.json").read_text())["actions"]
ALL_UNITS = "placement_gym:DevicePlacementSim-v0"
PER_UNIT = "placement_gym:DevicePlacementPerUnitSim-v0"
SAVED: dict[str, tuple[type[BaseAlgorithm], str]] = {
    "hsdag": (REINFORCE, ALL_UNITS),
    "hsdag_agent": (REINFORCE, ALL_UNITS),
    "placeto": (PPO, PER_UNIT),
    "placeto_agent": (Placeto, PER_UNIT),
    "rnn": (REINFORCE, ALL_UNITS),
    "hdp": (REINFORCE, ALL_UNITS),
    "post": (Post, ALL_UNITS),
    "checkpoint": (REINFORCE, ALL_UNITS),
}


def test_every_saved_model_is_tried() -> None:
    assert {path.stem for path in FOLDER.glob("*.zip")} == set(SAVED) == set(ACTIONS)


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_model_predicts_what_it_predicted(name: str) -> None:
    algorithm, env_id = SAVED[name]
    env = gym.make(env_id, model="tiny")
    model = load_trusted(algorithm, FOLDER / f"{name}.zip", device="cpu")
    observation, _ = env.reset(seed=0)
    for expected in ACTIONS[name]:
        action, _ = model.predict(observation, deterministic=True)
        np.testing.assert_array_equal(action, expected)
        observation, *_ = env.step(action)


@pytest.mark.parametrize("name", ["hsdag", "placeto", "placeto_agent"])
def test_a_saved_model_learns_on(name: str) -> None:
    algorithm, env_id = SAVED[name]
    env = gym.make(env_id, model="tiny", observe_graph=name != "placeto_agent")
    model = load_trusted(algorithm, FOLDER / f"{name}.zip", env=env, device="cpu")
    steps = model.num_timesteps
    model.learn(70, reset_num_timesteps=False)
    assert model.num_timesteps == steps + 70


def test_training_goes_on_from_a_checkpoint_and_keeps_the_best_placement(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "checkpoint.zip", tmp_path / "model.zip")
    model = resume(make(simulated(), 0, preset="search"), tmp_path / "model.zip", trust=True)
    best: Best = model.best_placement
    assert model.num_timesteps == 60
    assert best.assignment.tolist() == [1, 1, 1, 1, 0, 0, 0]
    callback = BestPlacementCallback()
    checkpoint = Checkpoint(tmp_path / "model.zip", every=10)
    model.learn(20, [callback, checkpoint], reset_num_timesteps=False)
    assert callback.best is not None
    assert callback.best.speedup >= best.speedup
    again = resume(make(simulated(), 0, preset="search"), FOLDER / "checkpoint.zip", trust=True)
    assert resume(again, tmp_path / "model.zip").num_timesteps == 80


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("agents.common", "REINFORCE"),
        ("agents.hsdag", "HSDAGPolicy"),
        ("agents.hsdag.maskable", "MaskableHSDAGPolicy"),
        ("agents.placeto", "PlacetoPolicy"),
        ("agents.rnn", "RNNPolicy"),
        ("agents.rnn", "HDPPolicy"),
        ("agents.post", "Post"),
    ],
)
def test_public_import_paths_stay(module: str, name: str) -> None:
    assert getattr(import_module(module), name).__name__ == name
