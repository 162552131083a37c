"""Requests under load: rules and learned policies on the same traces.

    python benchmarks/online.py --folder FOLDER --rows rows.jsonl    # trains what has no file yet
    python benchmarks/online.py --rows docs/results/online-rows.jsonl --tables

A budget is the requests of a training, on traces of ``train``; ``--trace validation`` chooses
settings. The folder keeps policies, and the plans: ``plans.json`` may be of other models.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from common import (
    Row,
    combine,
    find_interval,
    group_by,
    make_parser,
    print_groups,
    read_rows,
    run_missing,
)
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import unknown_name
from placement_gym.base.progress import progress_bar, show_step
from placement_gym.bench.run.provenance import git_commit, host
from placement_gym.envs.online.choosers import make_chooser
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.proposals import propose_plans
from placement_gym.envs.online.rules import RULES, Rollouts, make_rule
from placement_gym.envs.online.vector import OnlineVectorEnv
from placement_gym.version import VERSION

MODELS = ["resnet", "inception", "vit", "mobilenet"]
DEVICES = [
    {"name": "CPU"},
    {"name": "GPU", "roofline": "iGPU", "weight_share": 0.6},
    {"name": "NPU", "precision": "f16", "weight_share": 0.45},
]
TRAINED_AT = 0.6
"""Rate of the traces of trainings, whatever the rate that is played."""
N_ENVS = 128
NAMES = ("log_slowdown", "slowdown", "late", "loaded_mb", "other", "spared")
"""Means over a trace. ``other``: not by the shortest completion; ``spared``: and loads less."""
DECISIONS = 1000
"""Decisions of which the time is taken."""
PPO_SETTINGS: dict[str, Any] = {
    "n_steps": 16,
    "batch_size": 512,
    "n_epochs": 6,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "learning_rate": 5e-4,
    "ent_coef": 0.002,
}
LEARNERS: dict[str, Callable[..., Any]] = {
    "PPO": partial(PPO, "MlpPolicy", **PPO_SETTINGS),
    "A2C": partial(A2C, "MlpPolicy", n_steps=8, gamma=0.99, gae_lambda=0.95, ent_coef=0.002),
    "DQN": partial(
        DQN,
        "MlpPolicy",
        gamma=0.99,
        learning_rate=5e-4,
        buffer_size=100_000,
        batch_size=256,
        train_freq=1,
        gradient_steps=8,
        target_update_interval=2000,
        exploration_fraction=0.3,
    ),
    "RecurrentPPO": partial(
        RecurrentPPO, "MlpLstmPolicy", **PPO_SETTINGS, policy_kwargs={"lstm_hidden_size": 64}
    ),
}


class OnlineVecEnv(VecEnv):
    """``OnlineVectorEnv`` as SB3's algorithms take it."""

    def __init__(self, envs: OnlineVectorEnv) -> None:
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        """Begin all traces."""
        return self.envs.reset(seed=self._seeds[0])[0]

    def step_async(self, actions: IntArray) -> None:
        """Keep the actions for ``step_wait``."""
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Run a request of each trace."""
        seen, rewards, _, over, info = self.envs.step(self.actions)
        infos: list[dict[str, Any]] = [{} for _ in rewards]
        for own, last in zip(infos, info.get("final_obs", ()), strict=False):
            own |= {"terminal_observation": last, "TimeLimit.truncated": True}
        return seen, rewards.astype(np.float32), over, infos

    def close(self) -> None:
        """Nothing is held."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of the environment that all share."""
        return [getattr(self.envs.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not needed."""
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Not needed."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """There are no wrappers."""
        return [False for _ in self._get_indices(indices)]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="rows, added to and read")
    parser.add_argument("--folder", type=Path, default=Path(), help="of policies (%(default)s)")
    parser.add_argument("--policies", default=",".join(RULES), help="names (%(default)s)")
    parser.add_argument("--rates", default="0.6,0.8,1.0,1.4", help="rates (%(default)s)")
    parser.add_argument("--seeds", default="0", help="of trainings (%(default)s)")
    parser.add_argument("--requests", type=int, default=200_000, help="budget (%(default)s)")
    parser.add_argument("--hidden", action="store_true", help="hide other programs")
    parser.add_argument("--trace", default="test", help="test or validation (%(default)s)")
    parser.add_argument("--traces", type=int, default=50, help="how many (%(default)s)")
    parser.add_argument("--tables", action="store_true", help="print tables of the rows alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print_tables(read_rows(options.rows) if options.tables else run(options))


def run(options: argparse.Namespace) -> list[Row]:
    """Play, with every policy, what has no row yet; returns all rows."""
    file = options.folder / "plans.json"
    if not file.exists():
        propose_plans(MODELS, DEVICES).save(file)
    names, seeds = options.policies.split(","), [int(seed) for seed in options.seeds.split(",")]
    unknown = [name for name in names if name not in {**RULES, **LEARNERS}]
    if unknown:
        raise unknown_name("a policy", unknown[0], {**RULES, **LEARNERS})
    jobs = [
        job
        for name in names
        for job in combine(
            trace=[options.trace],
            rate=[float(rate) for rate in options.rates.split(",")],
            policy=[name],
            hidden=[options.hidden],
            requests=[options.requests if name in LEARNERS else 0],
            seed=seeds if name in LEARNERS else [0],
        )
    ]
    with progress_bar(None, "", quiet=False):
        return run_missing(options.rows, jobs, partial(play_one, options, PlanTable.load(file)))


def play_one(
    options: argparse.Namespace,
    plans: PlanTable,
    policy: str,
    seed: int,
    rate: float,
    hidden: bool,
    **_: Any,
) -> Row:
    """Train a policy unless it has a file, and play the traces."""
    show_step(f"{policy} with seed {seed} at {rate}")
    kwargs = {"plans": plans, "rate": rate, "observe_load": not hidden}
    if policy in LEARNERS:
        name = f"{policy}{'-hidden' * hidden}-{seed}-{options.requests}.zip"
        file = options.folder / name
        if not file.exists():
            train(policy, seed, options.requests, kwargs).save(file)
        found = LEARNERS[policy].func.load(file, device="cpu")
        spent_s = found.train_cpu_s
    else:
        # A static rule is chosen on validation traces, whatever it plays.
        found, spent_s = make_rule(policy, OnlineEnv(**kwargs, trace="validation")), 0.0
    return (
        {"train_cpu_s": spent_s}
        | evaluate(found, options.trace, options.traces, kwargs)
        | {"version": VERSION, "git": git_commit(), "host": host()}
    )


def train(policy: str, seed: int, requests: int, kwargs: dict[str, Any]) -> Any:
    """The trained policy, which keeps the CPU seconds that it took."""
    began_s = process_time()
    envs = OnlineVecEnv(OnlineVectorEnv(N_ENVS, **kwargs | {"rate": TRAINED_AT}))
    model = LEARNERS[policy](env=envs, seed=seed, device="cpu").learn(requests)
    model.train_cpu_s = round(process_time() - began_s, 1)
    return model


def evaluate(policy: Any, trace: str, n_traces: int, kwargs: dict[str, Any]) -> Row:
    """Means of each trace, and the time that a decision takes, one request at a time."""
    if isinstance(policy, Rollouts):
        return play_apart(trace, n_traces, kwargs)
    envs = OnlineVectorEnv(n_traces, **kwargs, trace=trace)
    seen, _ = envs.reset(options={"trace": 0})
    choose, steps = make_chooser(policy), []
    for _ in range(envs.env.requests):
        chosen, before = choose(seen), seen
        seen, reward, _, _, info = envs.step(chosen)
        final = info.get("final_info", info)  # of the last request of a trace
        steps.append(list_values(envs.env, before, chosen, reward, final))
    choose, began_s = make_chooser(policy), process_time()
    for number in range(DECISIONS):
        choose(seen[number % n_traces])
    return summarise(steps, (process_time() - began_s) / DECISIONS)


def play_apart(trace: str, n_traces: int, kwargs: dict[str, Any]) -> Row:
    """The same for rollouts, which read the state of one environment."""
    env = OnlineEnv(**kwargs, trace=trace)
    policy, each, spent_s = Rollouts(env), [], 0.0
    for number in range(n_traces):
        (seen, _), over, steps = env.reset(options={"trace": number}), False, []
        while not over:
            began_s = process_time()
            action, _ = policy.predict(seen)
            spent_s += process_time() - began_s
            before = seen[None]
            seen, reward, _, over, info = env.step(int(action))
            steps.append(list_values(env, before, action[None], np.array([reward]), info))
        each.append(steps)
    joined = np.concatenate(each, axis=2)
    return summarise(joined, spent_s / (n_traces * env.requests))


def list_values(env: OnlineEnv, seen: Any, chosen: Any, reward: Any, info: Row) -> Any:
    """(6, n_traces) what is known of a request of each trace; see ``NAMES``."""
    traces, shortest = np.arange(len(seen)), seen[:, env.parts["latency"]].argmin(axis=1)
    loading = seen[:, env.parts["loading"]]
    spared = loading[traces, chosen] < loading[traces, shortest]
    other = chosen != shortest
    counts = [info["slowdown"], info["late"], info["loaded_bytes"] / 1e6]
    return np.array([-reward, *map(np.atleast_1d, counts), other, other & spared], dtype=float)


def summarise(steps: Any, decision_s: float) -> Row:
    """Means of each trace from (n_requests, 6, n_traces) values."""
    means = np.mean(steps, axis=0).round(5).tolist()
    return dict(zip(NAMES, means, strict=True)) | {"decision_ms": round(1e3 * decision_s, 4)}


def print_tables(rows: list[Row]) -> None:
    """A table for each rate, and the differences to the shortest completion."""
    for (trace, rate), mine in sorted(group_by(rows, "trace", "rate").items()):
        (floor,) = [row for row in mine if row["policy"] == "shortest-completion"]
        columns = {
            "trainings": lambda group: len({row["seed"] for row in group}),
            "traces": lambda group: len(group[0]["late"]),
            "log slow-down": partial(mean_of, "log_slowdown"),
            "gain over shortest completion (95 %)": partial(describe_gain, floor),
            "each training": partial(list_gains, floor),
            "slow-down": partial(mean_of, "slowdown"),
            "late": partial(mean_of, "late"),
            "MB loaded": partial(mean_of, "loaded_mb"),
            "other": partial(mean_of, "other"),
            "spared": partial(mean_of, "spared"),
            "decision, ms": lambda group: f"{np.mean([row['decision_ms'] for row in group]):.3f}",
            "training, CPU s": lambda group: f"{max(row['train_cpu_s'] for row in group):.0f}",
        }
        keys = ("policy", "hidden", "requests")
        print_groups(mine, keys, columns, f"{trace}, rate {rate}")


def mean_of(name: str, group: Sequence[Row]) -> str:
    return f"{np.mean([row[name] for row in group]):.3f}"


def gains_of(floor: Row, group: Sequence[Row]) -> Any:
    """(n_trainings, n_traces) by how much less the log slow-down is, on traces of both."""
    played = np.array([row["log_slowdown"] for row in group])
    return np.array(floor["log_slowdown"])[: played.shape[1]] - played


def describe_gain(floor: Row, group: Sequence[Row]) -> str:
    """Mean over trainings and traces, with its interval over traces."""
    each = gains_of(floor, group).mean(axis=0)
    low, high = find_interval(each)
    return f"{each.mean():+.3f} ({low:+.3f}, {high:+.3f})"


def list_gains(floor: Row, group: Sequence[Row]) -> str:
    return ", ".join(f"{gain:+.3f}" for gain in gains_of(floor, group).mean(axis=1))


if __name__ == "__main__":
    main()
