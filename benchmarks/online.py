"""Rules and trained policies that choose plans, on the same traces of requests.

    python benchmarks/online.py --rows requests.jsonl
    python benchmarks/online.py --rows requests.jsonl --only agent=ppo seed=0

Each seed is a training of ``online_trainings.py``; rules are played once. Static rules are searched
on validation traces. ``train_s`` and ``decision_ms``, of ``predict``, are CPU time. A gain is how
much lower the mean log slow-down is than that of the shortest completion on the same traces, with
the 95 % interval over traces of the mean of all trainings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from time import process_time
from typing import Any

import numpy as np
from common import Row, run_benchmark
from online_trainings import LEARNERS, train
from summaries import Tables, find_interval, group_by

from placement_gym.base import FloatArray
from placement_gym.envs.online import OnlineEnv
from placement_gym.envs.online.observation import Seen
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.proposals import propose_plans
from placement_gym.envs.online.rules import RULES, make_rule

ENV_ID = "DevicePlacementOnline-v0"
MODELS, DEVICES = "resnet,inception,vit,mobilenet", "docs/results/online/devices.json"
TRACES = 50
SEARCHED = ("static", "resident")
"""Rules that are searched on traces other than those played."""
MEANS = ("log_slowdown", "slowdown", "late", "loaded_mb", "other", "spared")
"""Means over the requests of a trace. ``other``: not the plan of the shortest completion;
``spared``: such a plan that loads less."""
FLOOR = "shortest-completion"
NAMES = {
    "static": "best static plan",
    "resident": "resident partition",
    "by-load": "fastest device by load",
    FLOOR: "shortest completion",
    "lookahead": "look-ahead",
    "rollouts": "rollouts",
    "clone": "clone of look-ahead",
    "ppo": "PPO",
    "clone-ppo": "PPO from the clone",
    "a2c": "A2C",
    "dqn": "DQN",
    "recurrent-ppo": "RecurrentPPO",
}
"""Agent -> its name on the page."""


def list_jobs() -> Iterator[Row]:
    yield from plan((*RULES, "ppo", "clone-ppo", "clone"), rates=(0.6, 0.8, 1.0, 1.4))
    yield from plan(["a2c"])
    yield from plan(["ppo", "clone-ppo"], seeds=3, observe_load=False)
    yield from plan(["recurrent-ppo"], seeds=3)
    yield from plan(["dqn"], budget=200_064)


def plan(
    agents: Iterable[str],
    rates: Iterable[float] = (0.8,),
    seeds: int = 5,
    budget: int = 200_704,
    **hidden: bool,
) -> Iterator[Row]:
    """The fields of runs; rules have one seed and no budget."""
    for rate in rates:
        for agent in agents:
            for seed in range(1 if agent in RULES else seeds):
                yield {
                    "agent": agent,
                    "env": ENV_ID,
                    "env_kwargs": {"trace": "test", "rate": rate, **hidden},
                    "model": MODELS,
                    "devices": DEVICES,
                    "seed": seed,
                    "budget": 1 if agent in RULES else budget,
                }


@cache
def load_plans() -> PlanTable:
    return propose_plans(MODELS.split(","), DEVICES)


def play(**job: Any) -> Row:
    env, began_s = OnlineEnv(plans=load_plans(), **job["env_kwargs"]), process_time()
    policy = make_policy(job["agent"], job["seed"], job["budget"], env)
    train_s = round(process_time() - began_s, 1)
    *means, decision_ms = np.transpose([play_trace(env, policy, one) for one in range(TRACES)])
    values = dict(zip(MEANS, np.round(means, 5).tolist(), strict=True))
    return {"train_s": train_s, **values, "decision_ms": round(float(decision_ms.mean()), 4)}


def make_policy(name: str, seed: int, budget: int, env: OnlineEnv) -> Any:
    if name in LEARNERS:
        return train(name, seed, budget, plans=env.plans, observe_load=env.observe_load)
    if name in SEARCHED:
        env = OnlineEnv(
            plans=env.plans, rate=env.rate, trace="validation", observe_load=env.observe_load
        )
    return make_rule(name, env)


def play_trace(env: OnlineEnv, policy: Any, number: int) -> list[float]:
    """``MEANS`` over the requests of a trace, and the CPU time of a decision in ms."""
    (seen, _), over, steps = env.reset(options={"trace": number}), False, []
    state, begins, decisions_s = None, np.ones(1, np.bool_), 0.0
    while not over:
        began_s = process_time()
        action, state = policy.predict(seen, state, begins, deterministic=True)
        decisions_s, begins = decisions_s + process_time() - began_s, np.zeros(1, np.bool_)
        before, plan = seen, int(action)
        seen, reward, _, over, info = env.step(plan)
        steps.append(list_values(env, before, plan, reward, info))
    return [*np.mean(steps, axis=0).tolist(), 1e3 * decisions_s / len(steps)]


def list_values(env: OnlineEnv, seen: Seen, plan: int, reward: float, info: Row) -> list[float]:
    shortest, loading = seen[env.parts["latency"]].argmin(), seen[env.parts["loading"]]
    other = plan != shortest
    spared = other and loading[plan] < loading[shortest]
    loaded_mb = info["loaded_bytes"] / 1e6
    return [-reward, info["slowdown"], info["late"], loaded_mb, other, spared]


def read_simulated(rows: Sequence[Row]) -> list[Row]:
    """The rows of the four models, with their rates and observations."""
    return [
        row | {"rate": row["env_kwargs"]["rate"], "sees": row["env_kwargs"].get("observe_load", 1)}
        for row in rows
        if row["model"] == MODELS
    ]


def list_rivals(rows: Sequence[Row]) -> list[Row]:
    """The gains of learned policies over rules that look ahead, a line for each rate."""
    runs = group_by([row for row in read_simulated(rows) if row["sees"]], "rate", "agent")
    return [
        {"rate": f"{rate:g}"}
        | {
            f"{NAMES[agent]} over {NAMES[rival]}": describe_gain(
                runs[rate, rival][0], runs[rate, agent]
            )
            for rival in ("lookahead", "rollouts")
            for agent in ("ppo", "clone-ppo")
        }
        for rate in sorted({rate for rate, _ in runs})
    ]


def measure_gains(floor: Row, runs: Sequence[Row]) -> FloatArray:
    """(n_runs, n_traces) how much lower the log slow-down of each run is."""
    gains: FloatArray = np.array(floor["log_slowdown"]) - [run["log_slowdown"] for run in runs]
    return gains


def describe_gain(floor: Row, runs: Sequence[Row]) -> str:
    gains = measure_gains(floor, runs)
    low, high = find_interval(gains.mean(axis=0))
    return f"{gains.mean():+.3f} ({low:+.3f}, {high:+.3f})"


TABLES: Tables = {"rivals": list_rivals}


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (list_jobs, play)})
