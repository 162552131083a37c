"""Learners on OpenVINO: from scratch, and after training in a simulation of its profile.

    python benchmarks/twin.py --out results/twin
    python benchmarks/twin.py --out results/twin --models resnet --seeds 1

After the simulation a learner's answer is measured, which is all at a budget of one; then it
continues to learn. A second call continues where the first was stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
from common import Row, make_parser
from stable_baselines3 import A2C
from summaries import Describe, Tables, first, interval, pivot, tabulate

import agents
from agents.stock import ppo
from placement_gym.bench.study import Study, run_study
from placement_gym.envs import PerUnitEnv, make_twin, placement_env, play_episode

BED = "cpu-testbed-limited"
MODELS = ("resnet", "bert-8")
JOINT, BY_UNIT = "DevicePlacement-v0", "DevicePlacementPerUnit-v0"
LEARNERS = {JOINT: ("hsdag", "post", "graph-groups", "ppo"), BY_UNIT: ("a2c",)}
OPTIONS: dict[str, dict[str, Any]] = {"post": {"policy": {"cost_weight": 8}}}
"""Chosen on validation problems, as in the study ``measured``."""
IN_TWIN = 2_000
"""Simulated placements of a training."""
BUDGETS = (1, 20, 100)
"""Measured placements."""
SCRATCH, TWIN = "from scratch", "twin first"
ARMS = (SCRATCH, TWIN)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/twin"), help="%(default)s")
    parser.add_argument("--models", nargs="+", default=MODELS, help="of " + ", ".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3, help="%(default)s")
    options = parser.parse_args()
    for budget in BUDGETS:
        for env in LEARNERS:
            study = plan_study(env, budget, options.models, options.seeds)
            run_study(study, options.out / f"{env}-{budget}")


def plan_study(env: str, budget: int, models: Sequence[str], seeds: int) -> Study:
    """The study of an environment's learners; a budget of one has no training from scratch."""
    arms = ARMS if budget > 1 else (TWIN,)
    return Study(
        env=env,
        env_kwargs={"costs": "profiled"} | ({"observe": "flat"} if env == BY_UNIT else {}),
        models=list(models),
        devices=[BED],
        seeds=seeds,
        budget=budget,
        agents=[
            {"name": "twin:Learner", "kwargs": {"agent": agent, "arm": arm}}
            for agent in LEARNERS[env]
            for arm in arms
        ],
    )


class Learner:
    """One of ``LEARNERS`` in one of ``ARMS``, as an agent."""

    def __init__(self, env: gym.Env[Any, Any], seed: int, agent: str, arm: str) -> None:
        self.env, self.arm = env, arm
        self.steps_per_placement = placement_env(env).problem.n_units if agent == "a2c" else 1
        self.model = make_learner(agent, env if arm == SCRATCH else simulate(env), seed)
        if arm != SCRATCH:
            self.model.learn(self.steps_per_placement * IN_TWIN)

    def learn(self, total_timesteps: int) -> None:
        """Learn from measured placements, the first of which is the answer of the simulation."""
        if self.arm != SCRATCH:
            play_episode(self.env, self.model)
            total_timesteps -= 1
            self.model.set_env(self.env)
        self.model.learn(self.steps_per_placement * total_timesteps)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return self.model.predict(*args, **kwargs)


def simulate(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Make the twin of an environment, unit by unit if that one is."""
    if not isinstance(env.unwrapped, PerUnitEnv):
        return make_twin(env)
    assert env.spec is not None
    same = {name: env.spec.kwargs[name] for name in ("model", "devices", "costs", "observe")}
    return gym.make("DevicePlacementPerUnitSim-v0", repair=True, **same)


def make_learner(agent: str, env: gym.Env[Any, Any], seed: int) -> Any:
    if agent == "ppo":
        return ppo(env, seed)
    if agent == "a2c":
        return A2C("MlpPolicy", env, n_steps=40, gamma=1.0, seed=seed, device="cpu")
    return agents.make(agent, env, seed, **OPTIONS.get(agent, {}))


def list_arms(rows: Sequence[Row]) -> list[Row]:
    """Finalists' speed-ups of each learner, x the best single device, with 95 % intervals."""
    runs = [
        row | row["kwargs"] | {"run": f"{row['budget']} measured, {row['kwargs']['arm']}"}
        for row in rows
        if not row["error"] and row["kwargs"]["arm"] in ARMS
    ]
    runs.sort(key=lambda run: (run["budget"], ARMS.index(run["arm"])))
    columns: dict[str, Describe] = {
        "model": first("model"),
        "learner": first("agent", "`{}`"),
        **pivot(runs, "run", interval("speedup_vs_best_single", 2)),
    }
    return tabulate(runs, ["model", "agent"], columns)


TABLES: Tables = {"arms": list_arms}


if __name__ == "__main__":
    main()
