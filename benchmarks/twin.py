"""Learners on OpenVINO itself: from scratch, and after training in the twin of its profile.

    python benchmarks/twin.py --out results/twin                    # continues where it was stopped
    python benchmarks/twin.py --out results/twin --models resnet --seeds 1

After the twin a learner's answer is measured first, then it learns on; at a budget of one that
answer is all. Takes about 40 minutes a model on an idle machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium as gym
from common import Row, make_parser
from stable_baselines3 import A2C
from summaries import Tables, describe_mean, group_by

import agents
from agents.fine_tuning import soften
from agents.stock import ppo
from placement_gym.bench.study import Study, run_study
from placement_gym.envs import PerUnitEnv, make_twin, placement_env, play_episode

BED = "cpu-testbed-limited"
MODELS = ("resnet", "bert-8")
JOINT, BY_UNIT = "DevicePlacement-v0", "DevicePlacementPerUnit-v0"
LEARNERS: dict[str, dict[str, Any]] = {
    "hsdag": {},
    "post": {"policy": {"cost_weight": 8}},
    "graph-groups": {},
    "ppo": {},
    "a2c": {},
}
"""Options of each; those of post were chosen on validation problems, as in ``measured``."""
IN_TWIN = 2_000
BUDGETS = (1, 20, 100)
SCRATCH, TWIN, UNSOFTENED = "from scratch", "twin first", "twin first, not softened"
ARMS = (SCRATCH, TWIN, UNSOFTENED)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/twin"), help="%(default)s")
    parser.add_argument("--models", nargs="+", default=MODELS, help="of " + ", ".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3, help="%(default)s")
    options = parser.parse_args()
    for budget in BUDGETS:
        for env in (JOINT, BY_UNIT):
            study = plan_study(env, budget, options.models, options.seeds)
            run_study(study, options.out / f"{env}-{budget}")


def plan_study(env: str, budget: int, models: Sequence[str], seeds: int) -> Study:
    """The learners of an environment at a budget; without learning there is no arm from scratch."""
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
            for agent in LEARNERS
            for arm in arms
            if (agent == "a2c") == (env == BY_UNIT)
        ],
    )


class Learner:
    """A learner as comparisons run it.

    Args:
        env: Where it is measured.
        seed: Seed of its random numbers.
        agent: Its name in ``LEARNERS``.
        arm: One of ``ARMS``.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, agent: str, arm: str) -> None:
        self.env, self.arm = env, arm
        self.scale = placement_env(env).problem.n_units if agent == "a2c" else 1
        """Steps of a placement."""
        self.model = make_learner(agent, env if arm == SCRATCH else make_sim(env), seed)
        if arm != SCRATCH:
            self.untrained = deepcopy(self.model.policy.state_dict())
            self.model.learn(self.scale * IN_TWIN)

    def learn(self, total_timesteps: int) -> None:
        """Learn from so many measured placements, the first of which is the twin's answer."""
        if self.arm != SCRATCH:
            play_episode(self.env, self.model)
            total_timesteps -= 1
            if self.arm == TWIN:
                soften(self.model, self.untrained)
            self.model.set_env(self.env)
        self.model.learn(self.scale * total_timesteps)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """As the algorithm does."""
        return self.model.predict(*args, **kwargs)


def make_sim(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The twin of an environment, which places unit by unit where that one does."""
    if not isinstance(env.unwrapped, PerUnitEnv):
        return make_twin(env)
    assert env.spec is not None
    same = {name: env.spec.kwargs[name] for name in ("model", "devices", "costs", "observe")}
    return gym.make("DevicePlacementPerUnitSim-v0", repair=True, **same)


def make_learner(agent: str, env: gym.Env[Any, Any], seed: int) -> Any:
    """An algorithm of Stable-Baselines3, or one of ours."""
    if agent == "ppo":
        return ppo(env, seed)
    if agent == "a2c":
        return A2C("MlpPolicy", env, n_steps=40, gamma=1.0, seed=seed, device="cpu")
    return agents.make(agent, env, seed, **LEARNERS[agent])


def list_arms(rows: Sequence[Row]) -> list[Row]:
    """Finalists' speed-ups of each learner, x the best single device, with 95 % intervals."""
    lines = []
    for (model, agent), mine in group_by(
        [row | row["kwargs"] for row in rows if not row["error"]], "model", "agent"
    ).items():
        runs = group_by(mine, "budget", "arm")
        line: Row = {"model": model, "learner": f"`{agent}`"}
        for budget in sorted({row["budget"] for row in rows}):
            for arm in ARMS if budget > 1 else (TWIN,):
                values = [row["speedup_vs_best_single"] for row in runs.get((budget, arm), [])]
                line[f"{budget} measured, {arm}"] = describe_mean(values, digits=2)
        lines.append(line)
    return lines


TABLES: Tables = {"arms": list_arms}
"""Name -> what makes the table of rows."""


if __name__ == "__main__":
    main()
