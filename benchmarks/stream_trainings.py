"""Train policies on ``DevicePlacementStream-v0`` by several algorithms, for ``stream.py``.

    OMP_NUM_THREADS=1 python benchmarks/stream_trainings.py --folder policies

All learn on the same problems for about as long, but ``PPO short``, a training of seconds on the
environment's own 128. ``shuffled`` is ``best of 1`` that sees each problem with the statistics of
another. ``CMA-ES`` needs ``cma``, of the extra ``test``. A training that has a row is not repeated.
CPU seconds are of a process that has made the problems before, which takes ``problems_s`` of a row.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from common import Row, combine, make_parser, run_missing
from numpy.typing import NDArray
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from summaries import Describe, describe_groups, print_table

from agents.list_policy import BestOfK
from placement_gym.base import FloatArray
from placement_gym.bench.run.provenance import git_commit
from placement_gym.envs import StreamEnv
from placement_gym.envs.stream_problem import read_weights
from placement_gym.solvers.list_policy import MOST_SPREAD, N_STATISTICS, N_WEIGHTS, ListPolicy
from placement_gym.version import VERSION

Draw = Callable[[NDArray[Any], int, np.random.Generator], FloatArray]
"""Draws so many actions for statistics, the most likely one first."""
ENV_ID, ENVS = "DevicePlacementStream-v0", 16
PROBLEMS, SHORT_PROBLEMS = 256, 128
PPO_EPISODES, OFF_POLICY_EPISODES, SHORT_EPISODES = 16_384, 4_096, 4_096
UPDATES = 450
"""Of the policy gradient, each of 32 samples of 32 problems."""
GENERATIONS, SAMPLES = 100, 8
"""Of CMA-ES, each of whose candidates is worth the best of so many samples of 32 problems."""
FIRST_SPREAD = 0.5
"""Of CMA-ES's candidates."""
OFF_POLICY: dict[str, Any] = {
    "gamma": 0.0,
    "batch_size": 128,
    "learning_starts": 1_024,
    "gradient_steps": 4,
}
LOADERS: dict[str, type[BaseAlgorithm]] = {"PPO": PPO, "SAC": SAC, "TD3": TD3}
"""By the first three letters of an arm."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="policies, and rows.jsonl")
    parser.add_argument("--arms", nargs="+", choices=tuple(TRAININGS), default=tuple(TRAININGS))
    parser.add_argument("--seeds", type=int, default=3, help="of each (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    columns: dict[str, Describe] = {
        "seeds": len,
        "episodes": lambda mine: mine[0]["episodes"],
        "CPU s": lambda mine: ", ".join(f"{row['cpu_s']:.1f}" for row in mine),
    }
    print_table(describe_groups(run(options), ["arm"], columns))


def run(options: argparse.Namespace) -> list[Row]:
    """Train what has no row."""
    began, env = process_time(), StreamEnv(n_problems=PROBLEMS)
    for seed in env.seeds:
        env.find_problem(seed)
    made_s = process_time() - began

    def train(arm: str, seed: int) -> Row:
        began = process_time()
        episodes = TRAININGS[arm](options.folder / f"{arm}-{seed}", seed)
        about = {"version": VERSION, "commit": git_commit()}
        return {"episodes": episodes, "cpu_s": process_time() - began, "problems_s": made_s} | about

    jobs = combine(seed=range(options.seeds), arm=options.arms)
    return run_missing(options.folder / "rows.jsonl", jobs, train)


def train_sb3(
    algorithm: type[Any],
    settings: dict[str, Any],
    problems: int,
    episodes: int,
    path: Path,
    seed: int,
) -> int:
    """Train one of SB3's algorithms."""
    envs = make_vec_env(ENV_ID, ENVS, seed=seed, env_kwargs={"n_problems": problems})
    policy = {"policy": "MlpPolicy", "env": envs, "seed": seed, "device": "cpu"}
    algorithm(**policy, **settings).learn(episodes).save(path)
    return episodes


def train_td3(path: Path, seed: int) -> int:
    """Train TD3, whose actions are noisy while it learns."""
    noise = NormalActionNoise(np.zeros(N_WEIGHTS), np.full(N_WEIGHTS, 0.3))
    settings = {**OFF_POLICY, "action_noise": noise}
    return train_sb3(TD3, settings, PROBLEMS, OFF_POLICY_EPISODES, path, seed)


def train_best_of_k(k: int, shuffled: bool, path: Path, seed: int) -> int:
    """Train by the policy gradient, perhaps with each problem's statistics at another problem."""
    trainer = BestOfK(StreamEnv(n_problems=PROBLEMS), k, seed=seed)
    if shuffled:
        trainer.seen = trainer.seen[np.random.default_rng(seed).permutation(len(trainer.seen))]
    episodes = UPDATES * trainer.samples * trainer.n_problems
    trainer.learn(episodes).export().save(path.with_suffix(".json"))
    return episodes


def train_cma(path: Path, seed: int) -> int:
    """Let CMA-ES find means and spreads of weights that are the same for all problems."""
    import cma

    trainer = BestOfK(StreamEnv(n_problems=PROBLEMS), SAMPLES, seed=seed)
    strategy = cma.CMAEvolutionStrategy(
        np.zeros(2 * N_WEIGHTS), FIRST_SPREAD, {"seed": seed + 1, "verbose": -9}
    )
    for _ in range(GENERATIONS):
        chosen = trainer.rng.choice(len(trainer.problems), trainer.n_problems, replace=False)
        candidates = strategy.ask()
        losses = [
            -np.mean([sample_best(trainer, problem, one) for problem in chosen])
            for one in candidates
        ]
        strategy.tell(candidates, losses)
    hidden, output = np.zeros((N_STATISTICS + 1, 1)), np.zeros((2, 2 * N_WEIGHTS))
    output[-1] = strategy.result.xfavorite
    seen = np.zeros(N_STATISTICS).tolist(), np.ones(N_STATISTICS).tolist()
    ListPolicy(*seen, hidden.tolist(), output.tolist()).save(path.with_suffix(".json"))
    return int(strategy.result.evaluations) * trainer.n_problems * SAMPLES


def sample_best(trainer: BestOfK, problem: int, numbers: FloatArray) -> float:
    """The best reward of some samples, whose means and logarithms of spreads are numbers."""
    spreads = np.exp(np.clip(numbers[N_WEIGHTS:], -MOST_SPREAD, MOST_SPREAD))
    noise = trainer.rng.standard_normal((SAMPLES, N_WEIGHTS))
    actions = numbers[:N_WEIGHTS] + spreads * noise
    return float(trainer.reward(trainer.problems[problem], actions).max())


ON_POLICY = {"n_steps": 64, "batch_size": 128, "learning_rate": 1e-3, "gamma": 0.0}
TRAININGS: dict[str, Callable[[Path, int], int]] = {
    "PPO short": partial(train_sb3, PPO, ON_POLICY, SHORT_PROBLEMS, SHORT_EPISODES),
    "PPO": partial(train_sb3, PPO, ON_POLICY, PROBLEMS, PPO_EPISODES),
    "SAC": partial(train_sb3, SAC, OFF_POLICY, PROBLEMS, OFF_POLICY_EPISODES),
    "TD3": train_td3,
    "best of 1": partial(train_best_of_k, 1, False),
    "best of 8": partial(train_best_of_k, 8, False),
    "CMA-ES": train_cma,
    "shuffled": partial(train_best_of_k, 1, True),
}
"""Train an arm with a seed, write its policy to a path and return the number of episodes."""


def load_policies(folder: Path) -> Iterator[tuple[str, Draw, tuple[int, ...]]]:
    """Yield the name of each policy of a folder, what draws its actions, and how many."""
    for path in sorted(folder.glob("*-*.json")):
        yield path.stem, ListPolicy.load(path).draw, (1, 20)
    for path in sorted(folder.glob("*-*.zip")):
        model = LOADERS[path.stem[:3]].load(path, device="cpu")
        yield path.stem, partial(predict, model), (1,)


def predict(
    model: BaseAlgorithm, statistics: NDArray[Any], _: int, __: np.random.Generator
) -> FloatArray:
    """The most likely action of one of SB3's models."""
    return read_weights(model.predict(statistics[None], deterministic=True)[0])


if __name__ == "__main__":
    main()
