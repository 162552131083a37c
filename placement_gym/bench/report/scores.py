"""Scores and curves of a study's rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from placement_gym.base import FloatArray, UserError
from placement_gym.bench import is_trivial
from placement_gym.bench.report.known_latencies import (
    KnownLatencies,
    find_recorded,
    median_device_ms,
)
from placement_gym.bench.report.stats import (
    Estimate,
    bootstrap,
    interquartile_mean,
    mean_of_medians,
)
from placement_gym.bench.run import Json, describe_devices, group_by, load_runs
from placement_gym.bench.study import TEST
from placement_gym.solvers import ROUNDING

TRIVIAL = "Trivial: one device is as fast as any placement that is known."
DRIFT_NOTE = "Latencies are corrected for drift, by the device that each was measured with."


def correct_drift(rows: Sequence[Json]) -> list[Json]:
    """Make measured latencies comparable within each problem; simulated ones do not change.

    A machine's speed varies over time. Each latency becomes the median latency of the device that
    was measured with it, divided by the speed-up over that device.
    """
    corrected = []
    for own in group_by("problem", rows).values():
        alone_ms = median_device_ms(own, "latency_ms", "speedup_vs_best_single")
        reference_ms = median_device_ms(own, "latency_ms", "speedup")
        elsewhere_ms = median_device_ms(own, "scored_ms", "scored_speedup")
        devices = (
            ("latency_ms", "speedup_vs_best_single", alone_ms),
            ("greedy_latency_ms", "greedy_speedup", reference_ms),
            ("scored_ms", "scored_speedup", elsewhere_ms),
        )
        for row in own:
            new = {ms: of_ms / row[ratio] for ms, ratio, of_ms in devices if row[ms] and row[ratio]}
            if row.get("latency_p90_ms") and "latency_ms" in new:
                factor = new["latency_ms"] / row["latency_ms"]
                new["latency_p90_ms"] = row["latency_p90_ms"] * factor
            corrected.append(row | new)
    return corrected


@dataclass(frozen=True)
class ScoreReference:
    """The lowest known latency of a problem.

    Attributes:
        latency_ms: A score is this divided by a run's latency; nan if nothing is known.
        origin: Where it comes from.
        trivial: Whether one device alone reaches it; averages leave such problems out.
    """

    latency_ms: float
    origin: str
    trivial: bool


def choose_score_reference(known: KnownLatencies, rows: Sequence[Json]) -> ScoreReference:
    """Choose the lowest of the optimum, the best known value and the latencies of runs."""
    ran = [row for row in rows if row["latency_ms"]]
    best = min(ran, key=lambda row: row["latency_ms"], default=None)
    found_ms = best["latency_ms"] if best else np.inf
    before_ms = min(known.optimum_ms or np.inf, known.best_known_ms or np.inf)
    if np.isinf(before_ms):
        if best is None:
            return ScoreReference(np.nan, "no run has a latency", trivial=False)
        return ScoreReference(found_ms, f"this study alone: {best['label']}", trivial=False)
    origin = known.origin or "proven optimum"
    if best and known.best_known_ms and found_ms < known.best_known_ms * (1 - ROUNDING):
        gain = 1 - found_ms / known.best_known_ms
        below = f"{100 * gain:.2g} % below {known.best_known_ms:.6g} ms by {known.origin}"
        origin = f"new in this study: {best['label']}, {below}"
    least_ms = min(found_ms, before_ms)
    return ScoreReference(least_ms, origin, is_trivial(least_ms, known.best_single_ms))


@dataclass(frozen=True, eq=False)
class StudyResults:
    """Rows by problem, agent and seed.

    Attributes:
        rows: Rows of the results file, corrected for drift.
        known: Known latencies of each problem.
        roles: Role of each problem, by default ``"test"``.
    """

    rows: Sequence[Json]
    known: Mapping[str, KnownLatencies] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> StudyResults:
        """Read the results of a folder with the best known values, without computing optima.

        Raises:
            UserError: The folder has no results.
        """
        rows = correct_drift(load_runs(Path(folder)))
        if not rows:
            raise UserError(f"{folder} has no results: run a study or a comparison first")
        return cls(rows, find_recorded(rows))

    def only(self, problems: Collection[str]) -> StudyResults:
        """The results on some of the problems."""
        return replace(self, rows=[row for row in self.rows if row["problem"] in problems])

    def role(self, problem: str) -> str:
        """``"test"``, ``"validation"`` or ``"train"``."""
        return self.roles.get(problem, TEST)

    def counted(self, role: str) -> list[str]:
        """The problems of a role but for trivial ones."""
        return [
            problem
            for problem in self.problems
            if self.role(problem) == role and not self.score_references[problem].trivial
        ]

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

    def rows_of(self, agent: str, problem: str = "") -> list[Json]:
        """The runs of an agent, on one problem or on all."""
        rows = [row for row in self.rows if row["label"] == agent]
        return [row for row in rows if problem in ("", row["problem"])]

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each problem: its model, with devices if these differ between problems."""
        parts = {problem: json.loads(problem)[2:] for problem in self.problems}
        stems = Counter(path.stem for path in {Path(model) for model, _ in parts.values()})
        several = len({json.dumps(devices) for _, devices in parts.values()}) > 1
        names = {}
        for problem, (model, devices) in parts.items():
            path = Path(model)
            name = path.stem if stems[path.stem] == 1 else f"{path.parent.name}/{path.stem}"
            names[problem] = f"{name} on {describe_devices(devices)}" if several else name
        return names

    @cached_property
    def scored_elsewhere(self) -> bool:
        """True if finalists were scored again in another environment."""
        return any(row["scored_ms"] for row in self.rows)

    def known_of(self, problem: str) -> KnownLatencies:
        """The known latencies of a problem."""
        return self.known.get(problem, KnownLatencies())

    @cached_property
    def score_references(self) -> dict[str, ScoreReference]:
        """Problem -> the latency of a score of 1."""
        groups = group_by("problem", self.rows)
        return {p: choose_score_reference(self.known_of(p), rows) for p, rows in groups.items()}

    @cached_property
    def least_ms(self) -> dict[str, float]:
        """The lowest known latency of each problem."""
        return {problem: found.latency_ms for problem, found in self.score_references.items()}

    @cached_property
    def least_elsewhere_ms(self) -> dict[str, float]:
        """The lowest known latency of each problem where finalists are scored again."""
        best_ms = {p: self.known_of(p).elsewhere_ms or np.inf for p in self.problems}
        for row in self.rows:
            best_ms[row["problem"]] = min(best_ms[row["problem"]], row["scored_ms"] or np.inf)
        return best_ms

    @cached_property
    def reference_ms(self) -> dict[str, float]:
        """Problem -> the latency of its reference device."""
        groups = group_by("problem", self.rows)
        return {p: median_device_ms(rows, "latency_ms", "speedup") for p, rows in groups.items()}

    def scores(self, agent: str, field: str = "latency_ms") -> FloatArray:
        """(n_seeds, n_problems) lowest known latency / the run's.

        It is 0 if the run failed, and nan where none ran.

        ``agent`` is a label, ``field`` one of ``score_fields``.
        """
        best_ms = self.least_elsewhere_ms if field == "scored_ms" else self.least_ms
        scores = np.full((len(self.seeds), len(self.problems)), np.nan)
        for row in self.rows_of(agent):
            index = self.seeds.index(row["seed"]), self.problems.index(row["problem"])
            scores[index] = best_ms[row["problem"]] / row[field] if row[field] else 0.0
        return scores

    @cached_property
    def estimates(self) -> dict[tuple[str, str], Estimate]:
        """Interquartile mean of the scores of each agent and field, with its interval."""
        return {
            (agent, name): bootstrap(interquartile_mean, self.scores(agent, name))
            for agent in self.agents
            for name in self.score_fields
        }

    @cached_property
    def means(self) -> dict[tuple[str, str], float]:
        """Mean over problems of the median score, of each agent and field."""
        return {
            (agent, name): float(mean_of_medians(self.scores(agent, name)))
            for agent in self.agents
            for name in self.score_fields
        }

    @property
    def score_fields(self) -> list[str]:
        further = ["scored_ms"] if self.scored_elsewhere else []
        return ["latency_ms", "greedy_latency_ms", *further]

    @cached_property
    def ranking(self) -> list[str]:
        """Agents by their means over problems, the best first; those without any are last."""
        means = np.array([self.means[agent, "latency_ms"] for agent in self.agents])
        return [self.agents[place] for place in np.argsort(-means, kind="stable")]

    def curve(self, agent: str, grid: FloatArray, axis: int) -> FloatArray:
        """(runs, len(grid)) best score so far, 0 at first, over evaluations (axis 0) or seconds."""
        curves = []
        for row in self.rows_of(agent):
            scale = self.least_ms[row["problem"]] / self.reference_ms[row["problem"]]
            when = np.array([point[axis] for point in row["curve"]])
            best = np.array([0.0] + [point[2] * scale for point in row["curve"]])
            curves.append(best[np.searchsorted(when, grid, side="right")])
        return np.array(curves)
