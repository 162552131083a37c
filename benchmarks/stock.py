"""Stock algorithms of Stable-Baselines3 and sb3-contrib on the main environments.

    python benchmarks/stock.py --rows rows.jsonl

Settings were chosen on the problems of ``VALIDATION``. CPU seconds are of learning alone: episodes
played in between are neither timed nor counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
from common import (
    SIMULATED,
    Meter,
    Row,
    combine,
    describe_env,
    describe_kwargs,
    describe_run,
    make_env,
    run_benchmark,
    search,
)
from scipy import stats
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv
from summaries import (
    Describe,
    Tables,
    describe_mean,
    first,
    group_by,
    interval,
    number,
    only,
    tabulate,
)

import placement_gym
from placement_gym.base import MAX_INTEGER
from placement_gym.bench.run import AgentSpec
from placement_gym.envs import DevicePlacementEnv, placement_env

BY_UNIT = "DevicePlacementPerUnitSim-v0"
MAX_GIVEN = 5
"""Arguments that fit a line of a page."""


@dataclass(frozen=True)
class Training:
    """An algorithm of Stable-Baselines3 or sb3-contrib, by default with its own settings.

    Attributes:
        steps: At least; a training ends with a whole rollout.
        elsewhere: Whether it learns on other models than it plays.
    """

    algorithm: str
    steps: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    n_envs: int = 8
    env: str = BY_UNIT
    policy: str = "MlpPolicy"
    elsewhere: bool = False

    def make(self, envs: DummyVecEnv, seed: int) -> BaseAlgorithm:
        package = stable_baselines3 if hasattr(stable_baselines3, self.algorithm) else sb3_contrib
        algorithm: Callable[..., BaseAlgorithm] = getattr(package, self.algorithm)
        return algorithm(self.policy, envs, seed=seed, device="cpu", **self.settings)

    def write(self) -> str:
        settings = [f"{name}={value!r}" for name, value in self.settings.items()]
        envs = f"{'by_unit' if self.env == BY_UNIT else 'all_at_once'}({self.n_envs})"
        given = [repr(self.policy), envs, *settings]
        lines = "".join(f"\n    {one}," for one in given) + "\n" if len(given) > MAX_GIVEN else ""
        text = f"{self.algorithm}({lines or ', '.join(given)}).learn({self.steps:_})"
        return text.replace("'", '"')


PPO_SETTINGS = {"n_steps": 64, "gamma": 1.0}
TRAININGS = {
    "A2C": Training("A2C", 2_048, {"gamma": 1.0}),
    "PPO": Training("PPO", 10_240, PPO_SETTINGS),
    "MaskablePPO": Training("MaskablePPO", 10_240, PPO_SETTINGS),
    "DQN": Training("DQN", 10_000, {"gamma": 1.0, "learning_starts": 1_000}, n_envs=1),
    "PPO, all at once": Training(
        "PPO",
        4_032,
        {"n_steps": 8, "batch_size": 64, "learning_rate": 1e-3},
        env=SIMULATED,
        policy="MultiInputPolicy",
    ),
    "RecurrentPPO": Training(
        "RecurrentPPO",
        10_240,
        PPO_SETTINGS | {"batch_size": 256, "policy_kwargs": {"lstm_hidden_size": 32}},
        policy="MlpLstmPolicy",
    ),
}
ZERO_SHOT = {
    f"{name}, other models": replace(TRAININGS[name], elsewhere=True) for name in ("A2C", "PPO")
}
"""Policies that play a model that they have not seen."""
LONG_SETTINGS = {
    "n_steps": 256,
    "batch_size": 256,
    "learning_rate": 1e-3,
    "gamma": 1.0,
    "gae_lambda": 1.0,
}
"""For gains that show many units later; chosen on one graph of validation."""
LIMITED = {"MaskablePPO, limits": Training("MaskablePPO", 20_480, LONG_SETTINGS)}
PARALLEL = {
    "PPO, parallel": Training("PPO", 20_480, LONG_SETTINGS),
    "A2C, parallel": Training("A2C", 10_240, {"gamma": 1.0}),
}
LEARNED = TRAININGS | ZERO_SHOT | LIMITED | PARALLEL
PLACEMENTS = 4_032
"""Evaluations of other agents, as of the training all at once."""
MARKS = (0, 512, 1_024, 2_048, 4_096, 8_192, 16_384)
"""Steps after which a policy plays an episode, as it also does at the end."""
ROUNDED = 1 - 1e-9
"""Smallest ratio of equal latencies."""
FLOOR, PROVEN = "greedy", "min-cut"
RULES = (FLOOR, "heft")
MODELS = ("resnet", "bert-8", "inception")
VALIDATION = tuple(
    f"family-{family}-seed1"
    for family in ("layered-60", "attention-80", "branching-80", "recurrent-60")
)
"""Problems on which settings were chosen."""
LARGE = ("family-layered-700-seed1", "family-attention-1000-seed1")
SETS = {"of validation": VALIDATION, "of HSDAG": MODELS, "large": LARGE}


def limit(share: float, *gpus: str) -> list[dict[str, Any]]:
    """A CPU, and GPUs that each hold a share of the weights."""
    return [{"name": "CPU"}, *({"name": name, "weight_share": share} for name in gpus)]


UNLIMITED = "hsdag-paper"
CELLS: dict[str, Row] = {
    UNLIMITED: {"devices": "hsdag-paper"},
    "2 devices, 50 % of the weights": {"devices": limit(0.5, "GPU")},
    "3 devices, 30 % each": {"devices": limit(0.3, "GPU.0", "GPU.1")},
    "4 devices, 20 % each": {"devices": limit(0.2, "GPU.0", "GPU.1", "GPU.2")},
    "3 devices, `list`": {"devices": "cpu+2dgpu", "schedule": "list"},
    "3 devices, `event`": {"devices": "cpu+2dgpu", "schedule": "event"},
}
"""Devices and schedules."""


def list_jobs() -> list[Row]:
    """The runs of the page, seed by seed: an interrupted benchmark has run all arms."""
    base = {"cell": [UNLIMITED], "model": MODELS}
    jobs = [*combine(**base, arm=(*RULES, PROVEN), seed=[0])]
    jobs += combine(**base, arm=(*TRAININGS, "hsdag", "placeto", *ZERO_SHOT), seed=range(5))
    for models, cells in (
        ((*VALIDATION, *MODELS), [*CELLS][1:]),
        (LARGE, ["3 devices, 30 % each"]),
    ):
        jobs += combine(cell=cells, model=models, arm=RULES, seed=[0])
        for cell in cells:
            arms = PARALLEL if "schedule" in CELLS[cell] else LIMITED
            jobs += combine(cell=[cell], model=models, arm=arms, seed=range(3))
    return sorted(jobs, key=lambda job: int(job["seed"]))


def run(cell: str, model: str, arm: str, seed: int) -> Row:
    """Let an arm learn or search, and place; return the columns of its row."""
    if arm in LEARNED:
        return learn(LEARNED[arm], model, CELLS[cell], seed)
    env, agent = make_env(model, observe_graph=False, **CELLS[cell]), AgentSpec(arm)
    meter = Meter(env.backend, [PLACEMENTS])
    made = search(env, meter, agent, seed, PLACEMENTS)
    row = describe_run(describe_env(env), agent, seed, PLACEMENTS, meter)
    return row | {"single_ms": find_single_ms(env), "greedy": [(meter.n, play(env, made))]}


def learn(training: Training, model: str, about: Row, seed: int) -> Row:
    """Train, play episodes of a model in between, and return the columns of the row."""
    about = {"model": model, **about}
    about |= {"observe": "flat"} if training.env == BY_UNIT else {"observe_graph": False}
    models = [one for one in MODELS if one != model] if training.elsewhere else [model]
    makers = [partial(gym.make, training.env, **about | {"model": one}) for one in models]
    envs = DummyVecEnv(makers * (training.n_envs // len(models)))
    env = gym.make(training.env, **about)
    base, player = placement_env(env), Player(env)
    meter = Meter(base.backend, [MAX_INTEGER])
    with ExitStack() as counted:
        for each in () if training.elsewhere else envs.envs:
            counted.enter_context(meter.count_evaluations(placement_env(each)))
        algorithm, began_s = training.make(envs, seed), process_time()
        algorithm.learn(training.steps, player)
        cpu_s = process_time() - began_s - player.played_s
    if training.elsewhere:  # of this model the policy evaluates this placement alone
        with meter.count_evaluations(base):
            play(env, algorithm)
    agent = AgentSpec(training.algorithm.lower(), training.settings)
    described = describe_run(describe_kwargs(about), agent, seed, training.steps, meter)
    return described | {
        "env": training.env,
        "single_ms": find_single_ms(base),
        "greedy": player.greedy,
        "cpu_s": round(cpu_s, 3),
    }


class Player(BaseCallback):
    """Plays a deterministic episode before learning, after ``MARKS`` and at the end."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__()
        self.env, self.played_s = env, 0.0
        self.greedy: list[tuple[int, float]] = []  # steps, speed-up over the best single device

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        first = self.greedy[-1][0] + 1 if self.greedy else 0
        if any(first <= mark <= self.num_timesteps for mark in MARKS):
            self.play()

    def _on_training_end(self) -> None:
        self.play()

    def play(self) -> None:
        began_s = process_time()
        self.greedy.append((self.num_timesteps, play(self.env, self.model)))
        self.played_s += process_time() - began_s


def play(env: gym.Env[Any, Any], policy: Any) -> float:
    """The speed-up over the best single device of a deterministic episode; 0 if infeasible."""
    info = placement_gym.play_episode(env, policy)
    return float(info["speedup_vs_best_single"]) if info["feasible"] else 0.0


def find_single_ms(env: DevicePlacementEnv) -> float:
    device = env.singles.best()
    assert device is not None
    return env.singles.of_device(device).latency_ms


def read_speedups(rows: Sequence[Row]) -> list[Row]:
    """Add speed-ups of the last and the first episode, and of the fastest placement."""
    return [
        row
        | {
            "final": float(row["greedy"][-1][1]),
            "untrained": float(row["greedy"][0][1]),
            "best": float(row["single_ms"] / row["latency_ms"]),
        }
        for row in rows
    ]


def average(key: str, rows: Sequence[Row]) -> list[float]:
    """Geometric means over models, for each seed."""
    seeds = group_by(rows, "seed").values()
    return [float(stats.gmean([row[key] for row in mine])) for mine in seeds]


def list_models(rows: Sequence[Row]) -> list[Row]:
    """Speed-ups of each arm on HSDAG's models, with 95 % intervals over seeds."""

    def name_steps(mine: list[Row]) -> str:
        return f"{LEARNED[arm].steps:,}" if (arm := mine[0]["arm"]) in LEARNED else ""

    def untrained(mine: list[Row]) -> str:
        return f"{np.mean(average('untrained', mine)):.2f}" if mine[0]["arm"] in LEARNED else ""

    columns: dict[str, Describe] = {
        "arm": lambda mine: mine[0]["arm"] if mine[0]["arm"] in LEARNED else f"`{mine[0]['arm']}`",
        "steps": name_steps,
        **{model: only(interval("final", 4), "model", model) for model in MODELS},
        "mean": lambda mine: describe_mean(average("final", mine), 4),
        "best seen": lambda mine: f"{np.mean(average('best', mine)):.4f}",
        "untrained": untrained,
        "CPU s": number("cpu_s", ".1f"),
        "runs": len,
    }
    return tabulate(read_speedups(select(rows, UNLIMITED, MODELS)), ["arm"], columns)


def list_limits(rows: Sequence[Row]) -> list[Row]:
    """Speed-ups of policies and rules where devices have limits or work in parallel."""
    sets = {model: name for name, models in SETS.items() for model in models}
    ruled = {(row["cell"], row["model"], row["arm"]): row["greedy"][-1][1]
             for row in rows if row["arm"] in RULES}  # fmt: skip
    order = [(name, cell, arm) for name in SETS for cell in CELLS for arm in LIMITED | PARALLEL]
    runs = []
    for row in read_speedups([row for row in rows if row["arm"] in LIMITED | PARALLEL]):
        by_rule = {rule: ruled[row["cell"], row["model"], rule] for rule in RULES}
        share = row["final"] / by_rule[FLOOR]
        runs.append(row | by_rule | {"set": sets[row["model"]], "share": share})
    runs.sort(key=lambda run: order.index((run["set"], run["cell"], run["arm"])))
    mean = partial(number, form=".3f", of=stats.gmean)
    columns: dict[str, Describe] = {
        "devices": first("cell"),
        "problems": lambda mine: f"{len(group_by(mine, 'model'))} {mine[0]['set']}",
        **{f"`{rule}`": mean(rule) for rule in RULES},
        "policy": lambda mine: f"{LEARNED[mine[0]['arm']].algorithm} {mean('final')(mine)}",
        "best seen": mean("best"),
        "least, over `greedy`": number("share", ".3f", min),
        "at or above `greedy`": lambda mine: (
            f"{sum(run['share'] > ROUNDED for run in mine)} of {len(mine)}"
        ),
    }
    return tabulate(runs, ("set", "cell", "arm"), columns)


def select(rows: Sequence[Row], cell: str, models: Sequence[str]) -> list[Row]:
    return [row for row in rows if row["cell"] == cell and row["model"] in models]


TABLES: Tables = {"models": list_models, "limits": list_limits}


def write_programs(part: str) -> str:
    trainings = {"models": TRAININGS, "limits": LIMITED | PARALLEL}[part]
    return "\n".join(one.write() for one in trainings.values())


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (list_jobs, run)})
