"""Rules and trained policies that choose plans, on the same traces of requests.

    python benchmarks/online.py --rows requests.jsonl --rates 0.6,0.8,1,1.4 --seeds 5
    python benchmarks/online.py --rows requests.jsonl --rates 0.8 --agents ppo --hidden

Trainings are those of ``online_trainings.py``, at a rate of their own, and each seed is one; rules
are played once. Static rules are searched on validation traces. A run that has a row is not
repeated. ``train_s`` of a row is processor time, and so is ``decision_ms``, of ``predict``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from common import Row, make_parser, run_missing
from online_trainings import LEARNERS, train

from placement_gym.envs.online import OnlineEnv
from placement_gym.envs.online.observation import Seen
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.proposals import propose_plans
from placement_gym.envs.online.rules import RULES, make_rule

ENV_ID = "DevicePlacementOnline-v0"
MODELS, DEVICES = "resnet,inception,vit,mobilenet", "docs/results/online/devices.json"
AGENTS = (*RULES, "ppo", "clone-ppo", "clone")
TRACES = 50
SEARCHED = ("static", "resident")
"""Rules that are searched on traces, which must not be those that are played."""
MEANS = ("log_slowdown", "slowdown", "late", "loaded_mb", "other", "spared")
"""Means over the requests of a trace. ``other``: not the plan of the shortest completion;
``spared``: such a one that loads less."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="rows, added to and read")
    parser.add_argument("--rates", default="0.6,0.8,1,1.4", help="of what is played (%(default)s)")
    parser.add_argument("--agents", default=",".join(AGENTS), help="%(default)s")
    parser.add_argument("--seeds", type=int, default=5, help="of trainings (%(default)s)")
    parser.add_argument("--budget", type=int, default=200_704, help="requests of a training")
    parser.add_argument("--hidden", action="store_true", help="other programs are not seen")
    run(parser.parse_args())


def run(options: argparse.Namespace) -> list[Row]:
    """Play what has no row; returns all rows."""
    torch.set_num_threads(1)
    plans = propose_plans(MODELS.split(","), DEVICES)
    return run_missing(options.rows, list_jobs(options), partial(play, plans))


def list_jobs(options: argparse.Namespace) -> Iterator[Row]:
    """The fields of every run; rules have one seed, and no budget that could matter."""
    hidden = {"observe_load": False} if options.hidden else {}
    for rate in map(float, options.rates.split(",")):
        for agent in options.agents.split(","):
            seeds = range(1 if agent in RULES else options.seeds)
            for seed in seeds:
                yield {
                    "agent": agent,
                    "env": ENV_ID,
                    "env_kwargs": {"trace": "test", "rate": rate, **hidden},
                    "model": MODELS,
                    "devices": DEVICES,
                    "seed": seed,
                    "budget": 1 if agent in RULES else options.budget,
                }


def play(plans: PlanTable, **job: Any) -> Row:
    """Make or train a policy, and play the traces."""
    env, began_s = OnlineEnv(plans=plans, **job["env_kwargs"]), process_time()
    policy = make_policy(job["agent"], job["seed"], job["budget"], env)
    train_s = round(process_time() - began_s, 1)
    *means, decision_ms = np.transpose([play_trace(env, policy, one) for one in range(TRACES)])
    values = dict(zip(MEANS, np.round(means, 5).tolist(), strict=True))
    return {"train_s": train_s, **values, "decision_ms": round(float(decision_ms.mean()), 4)}


def make_policy(name: str, seed: int, budget: int, env: OnlineEnv) -> Any:
    """Make a rule for the environment, or train a policy on its plans."""
    if name in LEARNERS:
        return train(name, seed, budget, plans=env.plans, observe_load=env.observe_load)
    if name in SEARCHED:
        env = OnlineEnv(
            plans=env.plans, rate=env.rate, trace="validation", observe_load=env.observe_load
        )
    return make_rule(name, env)


def play_trace(env: OnlineEnv, policy: Any, number: int) -> list[float]:
    """``MEANS`` over the requests of a trace, and the processor time of a decision in ms."""
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
    """What ``MEANS`` are of, for a request."""
    shortest, loading = seen[env.parts["latency"]].argmin(), seen[env.parts["loading"]]
    other = plan != shortest
    spared = other and loading[plan] < loading[shortest]
    loaded_mb = info["loaded_bytes"] / 1e6
    return [-reward, info["slowdown"], info["late"], loaded_mb, other, spared]


if __name__ == "__main__":
    main()
