"""The problems of a study with their best known latencies, for scores outside of a study."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from placement_gym.base import UserError
from placement_gym.bench.known import VALUES, BestKnown, identify, load_values, name_problem
from placement_gym.bench.run import Task
from placement_gym.bench.study import Study
from placement_gym.envs import placement_env


@dataclass(frozen=True)
class BenchmarkTask:
    """A problem of a study.

    Attributes:
        task: One of its runs.
        seeds: The study's seeds of each agent.
        role: ``"test"``, ``"validation"`` or ``"train"``; reports average over test problems.
        known: Its best known latency and placement; None if it is measured, or not one of the
            package. Averages leave it out if ``known.trivial``: a single device is as fast.
    """

    task: Task
    seeds: tuple[int, ...]
    role: str
    known: BestKnown | None

    @property
    def name(self) -> str:
        """Model, devices and settings in a few words."""
        return name_problem(json.loads(self.task.problem))

    @property
    def budget(self) -> int:
        """Evaluations that the study allows an agent."""
        return self.task.budget

    def env(self, env_id: str | None = None, **kwargs: Any) -> gym.Env[Any, Any]:
        """Make the environment.

        Args:
            env_id: Another id for the same problem, as ``"DevicePlacementPerUnitSim-v0"``.
            kwargs: Arguments of ``gym.make`` that do not change a placement's latency, as
                ``reward``, ``horizon`` or ``max_nodes``.

        Raises:
            UserError: An environment variable in the model's path is not set, or the problem is
                not the one whose best latency is known.
        """
        env = gym.make(env_id or self.task.env, **{**self.task.make_kwargs, **kwargs})
        if self.known and identify(placement_env(env).backend) != self.known.identity:
            raise UserError(
                f"this is not the problem {self.name!r}, whose best latency is known: leave out "
                f"arguments that change latencies, of {sorted(kwargs)}, or update the model's file"
            )
        return env

    def score(self, info: Mapping[str, Any]) -> float:
        """Best known latency / latency of an ``info``: 1 is the best known, 0 infeasible.

        Raises:
            UserError: The problem is measured, or not one of the package.
        """
        if self.known is None:
            raise UserError(
                f"{self.name!r} has no best known latency, which simulated problems of the package "
                "have: compare agents by info['speedup_vs_best_single']"
            )
        return self.known.latency_ms / info["latency_ms"] if info["feasible"] else 0.0


def benchmark(study: str | Path) -> list[BenchmarkTask]:
    """List the problems of a study with their best known latencies.

    ::

        for task in placement_gym.benchmark("placement-bench-1"):
            env = task.env()
            info = placement_gym.play_episode(env, agents.make("heft", env))
            print(task.name, task.score(info))

    Args:
        study: Name of a study of the package, or its file; see ``Study.load``.

    Returns:
        Each problem once, in the study's order; ``env()`` makes it.

    Raises:
        UserError: There is no such study, or it is not valid.
    """
    whole = Study.load(study)
    once = replace(whole, agents=whole.agents[:1], seeds=1)
    seeds, role_of = tuple(whole.all_seeds), once.role_of
    known = {json.dumps(value.problem, sort_keys=True): value for value in load_values(VALUES)}
    return [
        BenchmarkTask(task, seeds, role_of[task.problem], known.get(task.problem))
        for task in once.tasks()
    ]
