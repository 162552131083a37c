"""Networks of ``stream.py``: how each is trained across problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stream_problems import SIZES, draw_problem

from agents.common.weights import save_weights
from agents.gdp.agent import make_trainer as make_go
from agents.hsdag.agent import make_trainer as make_hsdag

TRAINERS = {"gdp": make_go, "hsdag": make_hsdag}
PROBLEMS, EPISODES = 8, 8
"""Of an update, and placements of each."""


@dataclass(frozen=True)
class Way:
    """How a network is trained.

    Attributes:
        agent: Its name.
        policy: Options of its policy.
        updates: How many.
        settings: Arguments of the trainer.
    """

    agent: str
    policy: Mapping[str, Any]
    updates: int
    settings: Mapping[str, Any] = field(default_factory=dict)


GO = {"hidden": 64, "segment": 256, "memory": 256}
HSDAG = {"devices": True, "hidden": 64}
WAYS = {
    "GO": Way("gdp", GO, 20),
    "HSDAG": Way("hsdag", HSDAG, 20),
}


def find_file(folder: Path, name: str) -> Path:
    """The file of a network, which is trained if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}.safetensors"
    if not path.exists():
        train(WAYS[name], path)
    return path


def train(way: Way, path: Path, seed: int = 0) -> None:
    """Train a network on problems of the split ``train``, and write it."""
    envs = {"draw": draw_problem, **SIZES}
    trainer = TRAINERS[way.agent](
        seed, PROBLEMS, EPISODES, policy=dict(way.policy), envs=envs, **way.settings
    )
    trainer.learn(way.updates * PROBLEMS * EPISODES)
    save_weights(trainer, path, {"agent": way.agent, "seed": seed, "updates": way.updates})
