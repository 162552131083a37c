"""The rows of a study as arrays: scores, references, curves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.bench.optimum import TOLERANCE, optimum_or_bound
from placement_gym.bench.results import Json
from placement_gym.bench.stats import FloatArray
from placement_gym.bench.worker import arena_of

REFERENCES = "references.json"
UNKNOWN = {"best_single_ms": None, "optimum_ms": None, "bound_ms": None}


@dataclass(frozen=True)
class Reference:
    """What latencies of a problem are compared with, in ms; None where it is not known.

    Attributes:
        best_single_ms: The fastest device alone, memory considered.
        optimum_ms: Proven.
        bound_ms: No placement is below.
    """

    best_single_ms: float | None
    optimum_ms: float | None
    bound_ms: float | None

    def proven_by(self, latencies_ms: Sequence[float]) -> Reference:
        """With an optimum, if one of these latencies is no more than rounding above the bound."""
        least = min(latencies_ms, default=np.inf)
        if self.optimum_ms or not self.bound_ms or least > self.bound_ms * (1 + TOLERANCE):
            return self
        return replace(self, optimum_ms=least)


@dataclass(frozen=True, eq=False)
class StudyResults:
    """Rows, by problem, agent and seed.

    Attributes:
        rows: As the results file holds them.
        references: Of each problem.
    """

    rows: Sequence[Json]
    references: Mapping[str, Reference]

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
        """What each problem is called: model and devices, as far as these tell problems apart."""
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
        """Whether finalists were scored once more, in another environment."""
        return any(row.get("scored_ms") for row in self.rows)

    @cached_property
    def least_ms(self) -> dict[str, float]:
        """The proven optimum of each problem, or else the least latency that any run found."""
        proven = {name: reference.optimum_ms for name, reference in self.references.items()}
        return {name: proven[name] or self.least_of(name, "latency_ms") for name in self.problems}

    def least_of(self, problem: str, field: str) -> float:
        """The least value that any run has; nan if none has one."""
        mine = [row.get(field) for row in self.rows if row["problem"] == problem]
        found = [value for value in mine if value]
        return min(found, default=np.nan)

    def scores(self, agent: str, field: str = "latency_ms") -> FloatArray:
        """(n_seeds, n_problems) least latency over the latency; nan where there is none.

        Args:
            agent: Its label.
            field: ``"latency_ms"``, ``"greedy_latency_ms"`` or ``"scored_ms"``.
        """
        least = self.least_ms
        if field == "scored_ms":
            least = {problem: self.least_of(problem, field) for problem in self.problems}
        scores = np.full((len(self.seeds), len(self.problems)), np.nan)
        for row in self.rows:
            if row["label"] == agent and row.get(field):
                at = self.seeds.index(row["seed"]), self.problems.index(row["problem"])
                scores[at] = least[row["problem"]] / row[field]
        return scores

    def curve(self, agent: str, grid: FloatArray, axis: int) -> FloatArray:
        """(runs, len(grid)) best score so far; 0 before the first feasible placement.

        Args:
            agent: Its label.
            grid: Evaluations or seconds.
            axis: 0 for evaluations, 1 for seconds.
        """
        curves = []
        for row in self.rows:
            if row["label"] != agent or not row["latency_ms"]:
                continue
            # what was seen in search, on the scale of the finalist's latency
            scale = self.least_ms[row["problem"]] / (row["latency_ms"] * row["speedup"])
            when = np.array([point[axis] for point in row["curve"]])
            best = np.array([0.0] + [point[2] * scale for point in row["curve"]])
            curves.append(best[np.searchsorted(when, grid, side="right")])
        return np.array(curves)


def references_of(rows: Sequence[Json], folder: Path) -> dict[str, Reference]:
    """The references of all problems, solved once and kept beside the results."""
    path = folder / REFERENCES
    kept: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    references = {}
    for problem in dict.fromkeys(row["problem"] for row in rows):
        mine = [row for row in rows if row["problem"] == problem and row["latency_ms"]]
        if problem not in kept and mine:
            kept[problem] = vars(reference_of(mine))
            path.write_text(json.dumps(kept, indent=1))
        reference = Reference(**kept.get(problem, UNKNOWN))
        references[problem] = reference.proven_by([row["latency_ms"] for row in mine])
    return references


def reference_of(rows: Sequence[Json]) -> Reference:
    """The reference of the problem that these runs are about."""
    single = np.median([row["latency_ms"] * row["speedup_vs_best_single"] for row in rows])
    arena = arena_of(rows[0]["env"], json.dumps(rows[0]["env_kwargs"]))
    proven = optimum_or_bound(arena.base, [row["latency_ms"] for row in rows])
    return Reference(float(single), **proven)
