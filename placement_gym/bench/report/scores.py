"""The rows of a study as arrays: scores, references, curves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from placement_gym.arrays import FloatArray
from placement_gym.bench.report.drift import (
    correct_drift,
    group_by_problem,
    median_device_ms,
)
from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.report.stats import Estimate, bootstrap, interquartile_mean
from placement_gym.bench.run.rows import Json, load_runs
from placement_gym.errors import UserError


@dataclass(frozen=True, eq=False)
class StudyResults:
    """Rows, by problem, agent and seed.

    Attributes:
        rows: Rows of the results file, corrected for drift.
        known: Known latencies of each problem.
    """

    rows: Sequence[Json]
    known: Mapping[str, KnownLatencies] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> StudyResults:
        """Read the results of a folder, corrected for drift, without optima and bounds.

        Raises:
            UserError: The folder has no results.
        """
        rows = load_runs(Path(folder))
        if not rows:
            raise UserError(f"{folder} has no results: run a study or a comparison first")
        return cls(correct_drift(rows))

    @cached_property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(row["problem"] for row in self.rows))

    @cached_property
    def agents(self) -> list[str]:
        """Labels, in the study's order."""
        return list(dict.fromkeys(row["label"] for row in self.rows))

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({row["seed"] for row in self.rows})

    def of(self, agent: str, problem: str) -> list[Json]:
        """The runs of an agent on a problem."""
        return [row for row in self.rows if (row["label"], row["problem"]) == (agent, problem)]

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each problem: its model, and its devices where there are several."""
        parts = {problem: json.loads(problem)[2:] for problem in self.problems}
        paths = {Path(model) for model, _ in parts.values()}
        stems = Counter(path.stem for path in paths)
        several = len({json.dumps(devices) for _, devices in parts.values()}) > 1
        names = {}
        for problem, (model, devices) in parts.items():
            path = Path(model)
            unique = stems[path.stem] == 1
            name = path.stem if unique else f"{path.parent.name}/{path.stem}"
            names[problem] = f"{name} on {devices}" if several else name
        return names

    def model(self, problem: str) -> str:
        """The model's name in the study."""
        model: str = json.loads(problem)[2]
        return model

    @cached_property
    def scored_elsewhere(self) -> bool:
        """Whether finalists were scored a second time, in another environment."""
        return any(row["scored_ms"] for row in self.rows)

    @cached_property
    def least_ms(self) -> dict[str, float]:
        """The proven optimum of each problem, or else the least latency that any run found."""
        proven = {name: known.optimum_ms for name, known in self.known.items()}
        found = {name: self.least_of(name, "latency_ms") for name in self.problems}
        return {name: proven.get(name) or least_ms for name, least_ms in found.items()}

    @cached_property
    def reference_ms(self) -> dict[str, float]:
        """The latency of each problem's reference device."""
        return {
            rows[0]["problem"]: median_device_ms(rows, "latency_ms", "speedup")
            for rows in group_by_problem(self.rows)
        }

    def least_of(self, problem: str, field: str) -> float:
        """The least value of a field on a problem; nan if no run has one."""
        mine = [row[field] for row in self.rows if row["problem"] == problem]
        found = [value for value in mine if value]
        return min(found, default=np.nan)

    def scores(self, agent: str, field: str = "latency_ms") -> FloatArray:
        """(n_seeds, n_problems) least latency divided by the run's; see ``stats``.

        Args:
            agent: Its label.
            field: ``"latency_ms"``, ``"greedy_latency_ms"`` or ``"scored_ms"``.
        """
        least = self.least_ms
        if field == "scored_ms":
            least = {problem: self.least_of(problem, field) for problem in self.problems}
        scores = np.full((len(self.seeds), len(self.problems)), np.nan)
        for row in self.rows:
            if row["label"] == agent:
                at = self.seeds.index(row["seed"]), self.problems.index(row["problem"])
                scores[at] = least[row["problem"]] / row[field] if row[field] else 0.0
        return scores

    @cached_property
    def estimates(self) -> dict[tuple[str, str], Estimate]:
        """Interquartile mean score with its interval, of each agent and field of ``scores``."""
        fields = ["latency_ms", "greedy_latency_ms"]
        fields += ["scored_ms"] if self.scored_elsewhere else []
        return {
            (agent, name): bootstrap(interquartile_mean, self.scores(agent, name))
            for agent in self.agents
            for name in fields
        }

    def curve(self, agent: str, grid: FloatArray, axis: int) -> FloatArray:
        """(runs, len(grid)) best score so far; 0 before the first feasible placement.

        Args:
            agent: Its label.
            grid: Evaluations or seconds.
            axis: 0 for evaluations, 1 for seconds.
        """
        curves = []
        for row in self.rows:
            if row["label"] == agent:
                scale = self.least_ms[row["problem"]] / self.reference_ms[row["problem"]]
                when = np.array([point[axis] for point in row["curve"]])
                best = np.array([0.0] + [point[2] * scale for point in row["curve"]])
                curves.append(best[np.searchsorted(when, grid, side="right")])
        return np.array(curves)
