"""The table of a comparison that fills while its runs go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult

from placement_gym.base.arrays import FloatArray
from placement_gym.base.fitted_table import Column, FittedTable
from placement_gym.bench.report.announcement import count_evaluations
from placement_gym.bench.report.preview import Preview
from placement_gym.bench.report.wording import describe_misfit, format_ratio
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.task import Task

WIDTH = 28
"""Characters of a strip of samples."""
DOTS = np.array(list(" \N{MIDDLE DOT}\N{BULLET}\N{BLACK CIRCLE}"))
"""No sample, one, two or three, and more of them at one place of the strip."""
BASE = "\N{BOX DRAWINGS LIGHT QUADRUPLE DASH VERTICAL}"
"""The place of what speed-ups are relative to."""


@dataclass
class Line:
    """What is known of an agent's runs, those of all seeds.

    Attributes:
        tasks: Its runs.
        ratios: Speed-ups of its samples, in the order of their evaluation.
        evaluations: Of the run that goes on.
        latency_ms: The lowest of the run that goes on.
        rows: Of the runs that have ended.
    """

    tasks: list[Task] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    evaluations: int = 0
    latency_ms: float = np.inf
    rows: list[Json] = field(default_factory=list)

    @property
    def budget(self) -> int:
        """Evaluations of a run at most."""
        return count_evaluations(self.tasks[0])

    @property
    def best(self) -> Json | None:
        """The row with the lowest latency."""
        found = [row for row in self.rows if row["latency_ms"]]
        return min(found, key=lambda row: float(row["latency_ms"]), default=None)

    def describe_state(self, runs: bool) -> str:
        """Describe what happens now; ``runs`` if one of its runs goes on."""
        errors = [row["error"] for row in self.rows if row["error"]]
        if runs:
            state = "searching" if self.evaluations < self.budget else "measuring again"
        elif len(self.rows) < len(self.tasks):
            state = "waiting"
        else:
            state = (describe_misfit(errors[0]) or "failed") if errors else "done"
        seeds = f", {len(self.rows)} of {len(self.tasks)} seeds" * (len(self.tasks) > 1)
        return state + seeds

    def count_evaluations(self) -> str:
        """Evaluations done, and while its runs go on those that are allowed."""
        n = sum(row["evaluations"] for row in self.rows) + min(self.evaluations, self.budget)
        ended = len(self.rows) == len(self.tasks)
        return f"{n}" if ended else f"{n}/{self.budget * len(self.tasks)}"


class LiveTable:
    """Agents as lines: state, evaluations, best latency so far, and a dot for each sample.

    Args:
        bench_env: Where the agents run.
        tasks: All runs.
        missing: Those of them that are done now, in their order.
        labels: Of the agents, by the keys of tasks.
        preview: Simulates what was found, or None.
    """

    def __init__(
        self,
        bench_env: BenchEnv,
        tasks: Sequence[Task],
        missing: Sequence[Task],
        labels: Mapping[str, str],
        preview: Preview | None,
    ) -> None:
        self.bench_env, self.labels, self.preview = bench_env, labels, preview
        self.missing = list(missing)
        self.alone = bench_env.one_device_holds_the_model
        self.lines: dict[str, Line] = {}
        for task in tasks:
            self.lines.setdefault(labels[task.key], Line()).tasks.append(task)

    @property
    def running(self) -> Line | None:
        """The line of the run that goes on."""
        return self.lines[self.labels[self.missing[0].key]] if self.missing else None

    def add_evaluation(self, speedup: float | None) -> None:
        """Take note of an evaluation of the run that goes on; see ``OnEvaluation``."""
        line = self.running
        if line is None:
            return
        line.evaluations += 1
        if speedup is not None:
            base = self.bench_env.base
            over = base.best_speedups[0] if self.alone else 1.0
            line.ratios.append(speedup / over)
            line.latency_ms = min(line.latency_ms, base.reference.latency_ms / speedup)

    def add_row(self, row: Json) -> None:
        """Take note of a run that has ended, now or earlier."""
        line = self.lines[self.labels[row["key"]]]
        self.missing = [task for task in self.missing if task.key != row["key"]]
        line.rows.append(row)
        line.evaluations, line.latency_ms = 0, np.inf

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ratios = [ratio for line in self.lines.values() for ratio in line.ratios]
        low, high = min([*ratios, 1.0]), max([*ratios, 1.0])
        base = "the best single device" if self.alone else "the reference device"
        dots = f"each evaluation, from {low:.2f} to {high:.2f} x {base} ({BASE})"
        columns = [
            Column("agent", text=True, whole=True),
            Column("state", text=True),
            Column("evals"),
            Column("best ms"),
            Column("speed-up"),
            Column("simulated", spare=2, meaning="speed-up in the simulation"),
            Column("samples", spare=1, text=True, whole=True, meaning=dots),
        ]
        table = FittedTable(columns)
        for label, line in self.lines.items():
            strip = draw_strip(np.array(line.ratios), low, high) if ratios else ""
            now = line is self.running
            table.add_row(
                *(label, line.describe_state(now), line.count_evaluations()),
                *self.describe_best(line),
                strip,
                style="bold" if now else "",
            )
        yield table

    def describe_best(self, line: Line) -> tuple[str, str, str]:
        """Latency, speed-up and simulated speed-up of the best finalist, or the best so far."""
        row, ratio = line.best, "speedup_vs_best_single" if self.alone else "speedup"
        if row is None:
            latency = f"{line.latency_ms:.2f}" if np.isfinite(line.latency_ms) else "-"
            return latency, f"{max(line.ratios):.3f}" if line.ratios else "-", "-"
        simulated = f"{self.preview.find_ratio(row):.3f}" if self.preview else "-"
        return f"{row['latency_ms']:.2f}", format_ratio(row[ratio], row["noise"]), simulated


def draw_strip(ratios: FloatArray, low: float, high: float) -> str:
    """Draw samples as dots on a scale; ``BASE`` is at 1."""
    counts, edges = np.histogram(ratios, WIDTH, (low, high))
    strip = DOTS[np.searchsorted([1, 2, 4], counts, side="right")]
    at = min(int(np.searchsorted(edges, 1.0, side="right")) - 1, WIDTH - 1)
    if not counts[at]:
        strip[at] = BASE
    return "".join(strip)
