"""Networks of ``stream.py``: how each is trained across problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.utils import obs_as_tensor
from stream_problems import MAX_UNITS, SIZES, draw_problem

import agents
from agents import load_weights, save_weights
from placement_gym.base.arrays import IntArray
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.solvers.search import search

PROBLEMS, EPISODES = 8, 8
"""Of an update, and placements of each; Placeto's are a part of an episode."""
TEACHING, EPOCHS = 6, 4
"""Evaluations of the search that labels a problem; how often each problem is imitated."""
Lesson = tuple[dict[str, Any], IntArray]
"""Observations of some problems, and (k, N) devices."""


@dataclass(frozen=True)
class Way:
    """How a network is trained.

    Attributes:
        agent: Its name.
        policy: Options of its policy.
        updates: Of the policy gradient.
        lessons: Batches of problems that are labelled by a search and imitated before.
        after: The way whose network it begins with; none begins with a random one.
        largest: Units of the largest graph that it trains on.
        settings: Arguments of the trainer.
        adapting: Arguments of the agent where it goes on learning on one problem.
    """

    agent: str
    policy: Mapping[str, Any]
    updates: int = 0
    lessons: int = 0
    after: str = ""
    largest: int = MAX_UNITS
    settings: Mapping[str, Any] = field(default_factory=dict)
    adapting: Mapping[str, Any] = field(default_factory=dict)


GO = {"hidden": 64, "layers": 1, "segment": 256, "memory": 256, "recompute": False}
GRAPH_GROUPS = {"devices": True, "hidden": 64}
PLACETO = {"devices": True}
SLOW = {"learning_rate": 3e-4}
WAYS = {
    "graph-groups": Way("graph-groups", GRAPH_GROUPS, 250),
    "graph-groups imitating": Way("graph-groups", GRAPH_GROUPS, 0, 100),
    "graph-groups imitating first": Way(
        "graph-groups", GRAPH_GROUPS, 100, after="graph-groups imitating", settings=SLOW
    ),
    "GO": Way("gdp", GO, 150, adapting={"n_epochs": 1}),
    "GO imitating": Way(
        "gdp", GO, 0, 100, adapting={"n_epochs": 1}, settings={"learning_rate": 1e-3}
    ),
    "Placeto": Way("placeto", PLACETO, 60, largest=128),
}


def find_file(folder: Path, name: str, seed: int) -> Path:
    """The file of a network, which is trained if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}-{seed}.safetensors"
    if not path.exists():
        train(WAYS[name], folder, path, seed)
    return path


def train(way: Way, folder: Path, path: Path, seed: int) -> None:
    """Train a network on problems of the split ``train``, and write it."""
    draw, began_s = partial(draw_problem, largest=way.largest), process_time()
    trainer: Any = agents.make_trainer(
        way.agent,
        seed,
        problems=PROBLEMS,
        episodes=EPISODES,
        policy=dict(way.policy),
        envs={"draw": draw, **SIZES, "max_nodes": way.largest},
        **way.settings,
    )
    if way.after:
        load_weights(trainer, find_file(folder, way.after, seed))
    if way.lessons:
        imitate(trainer, way.lessons)
    trainer.learn(way.updates * trainer.n_steps * trainer.n_envs)
    seconds = round(process_time() - began_s)
    save_weights(trainer, path, {"way": path.stem, "seed": seed, "cpu_s": seconds})
    print(f"{path.stem}: {seconds} CPU s", flush=True)


def imitate(trainer: Any, number: int) -> None:
    """Take steps towards the placements that a search finds, every epoch in another order."""
    lessons, rng = list(label(trainer.env, number)), np.random.default_rng(0)
    policy, n_steps = trainer.policy, EPOCHS * len(lessons)
    rate, done = policy.optimizer.param_groups[0]["lr"], 0
    for _ in range(EPOCHS):
        for lesson in rng.permutation(len(lessons)).tolist():
            observations, devices = lessons[lesson]
            seen = obs_as_tensor(observations, trainer.device)
            for group in policy.optimizer.param_groups:
                group["lr"] = rate * (1.0 - done / n_steps)
            policy.optimizer.zero_grad()
            (-policy.unit_log_prob(seen, torch.as_tensor(devices)).mean()).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            policy.optimizer.step()
            done += 1


def label(envs: Any, lessons: int) -> Iterator[Lesson]:
    """Draw batches of problems, and label them by a search."""
    for _ in range(lessons):
        observations = envs.reset()
        found = np.zeros((len(envs.envs), SIZES["max_nodes"]), dtype=np.int64)
        for row, one in zip(found, envs.envs, strict=True):
            one.left = 0  # the next reset draws another problem
            devices = number_by_use(one.env, search_placement(one.env))
            row[: len(devices)] = devices
        yield {key: value.copy() for key, value in observations.items()}, found


def search_placement(env: SimulatedEnv) -> IntArray:
    """(n_units,) devices."""
    return search(
        env.problem, env.cost_table(), env.exact.semantics, evaluations=TEACHING
    ).assignment


def number_by_use(env: SimulatedEnv, devices: IntArray) -> IntArray:
    """(n_units,) devices in which equal GPUs are used in ascending order.

    Placements that differ in the names of equal devices are the same to the simulator.
    """
    used, first = np.unique(devices[devices > 0], return_index=True)
    names = np.arange(len(env.problem.devices))
    names[used[np.argsort(first)]] = 1 + np.arange(len(used))
    return names[devices]
