"""Progress of a comparison on standard error: its plan, and a table that fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult

from placement_gym.backends.measured import predict_interference
from placement_gym.base import Column, FittedTable, FittedText, FloatArray
from placement_gym.bench.report.wording import describe_memory_error, explain_agents
from placement_gym.bench.run import N_FINALISTS, UNCHANGED, BenchEnv, Json, Task, is_measured
from placement_gym.bench.study import count_runs

START_S, COMPILE_S, INFERENCES, FINALS = 15.0, 0.3, 6, 6
"""For estimates: seconds until the first evaluation and of a compilation, inferences of an
evaluation, and evaluations that take as long as measuring a run's finalists."""
STRIP_WIDTH = 16
"""Characters of a strip of samples: lines fit 80."""
DOTS = np.array(list(" \N{MIDDLE DOT}\N{BULLET}\N{BLACK CIRCLE}"))
"""Marks of 0, 1, 2 to 3 and more samples."""
BASE = "\N{BOX DRAWINGS LIGHT QUADRUPLE DASH VERTICAL}"
"""Mark of a speed-up of 1."""


def warn_if_busy(env_id: str) -> None:
    """Warn if other programs leave no core for measurements."""
    busy = predict_interference() if is_measured(env_id) else ""
    if busy:
        Console(stderr=True).print(FittedText(busy, "bold yellow"))


def announce(
    bench_env: BenchEnv, tasks: Sequence[Task], missing: Sequence[Task], notes: Sequence[str]
) -> None:
    """Print notes, the runs with their estimated time, and what agents do."""
    problem, plan = bench_env.base.problem, [count_runs(tasks, missing)]
    if bench_env.measured:
        plan.append(f"up to {N_FINALISTS} finalists of each measured again")
    if bench_env.measured and missing:
        minutes = estimate_minutes(missing, bench_env.base.reference.latency_ms)
        plan.append(f"about {minutes} on an idle machine")
    what = f"{problem.units.graph.model}: {problem.n_units} units on "
    what += f"{', '.join(problem.device_names)}; {'; '.join(plan)}"
    agents = explain_agents(task.agent for task in tasks)
    for text in filter(None, (*notes, what, agents)):
        Console(stderr=True).print(FittedText(text))


def count_evaluations(task: Task) -> int:
    """Largest number of evaluations of a run; a fixed choice has one."""
    return 1 if task.agent in UNCHANGED else task.budget


def estimate_minutes(missing: Sequence[Task], reference_ms: float) -> str:
    """Estimate how long runs take on an idle machine."""
    evaluations = sum(count_evaluations(task) + FINALS for task in missing)
    seconds = START_S + evaluations * (COMPILE_S + INFERENCES * reference_ms / 1e3)
    minutes = max(round(seconds / 60), 1)
    return f"{minutes} minute{'s' * (minutes != 1)}"


@dataclass
class Line:
    """The runs of an agent with all seeds.

    Attributes:
        rows: Of runs that have ended.
        samples: Speed-ups of feasible evaluations.
        evaluations: Of the current run.
    """

    tasks: list[Task] = field(default_factory=list)
    rows: list[Json] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    evaluations: int = 0

    def describe_state(self, running: bool) -> str:
        budget = count_evaluations(self.tasks[0])
        done = sum(row["evaluations"] for row in self.rows) + min(self.evaluations, budget)
        if running:
            state = "searching" if self.evaluations < budget else "finalists"
        elif len(self.rows) < len(self.tasks):
            state = "waiting"
        else:
            error = next((row["error"] for row in self.rows if row["error"]), "")
            if error:
                return "does not fit" if describe_memory_error(error) else "failed"
            state = "doubtful" if any(row["warning"] for row in self.rows) else "done"
        return f"{state} {done}/{budget * len(self.tasks)}"


class LiveTable:
    """A line for each agent: state, best latency so far, speed-up, and a dot for each sample.

    The ``missing`` tasks run now, in their order; ``labels`` are by the keys of tasks.
    """

    def __init__(
        self,
        bench_env: BenchEnv,
        tasks: Sequence[Task],
        missing: Sequence[Task],
        labels: Mapping[str, str],
    ) -> None:
        self.base, self.labels = bench_env.base, labels
        self.alone = bench_env.one_device_holds_the_model
        self.waiting = [task.key for task in missing]
        self.base_ms = np.nan
        self.lines: dict[str, Line] = {}
        for task in tasks:
            self.lines.setdefault(labels[task.key], Line()).tasks.append(task)

    def add_sample(self, speedup: float | None) -> None:
        """Add an evaluation of the current run; see ``OnEvaluation``."""
        line = self.lines[self.labels[self.waiting[0]]]
        line.evaluations += 1
        if speedup is not None:
            best_single = self.base.singles.best_speedups[0] if self.alone else 1.0
            self.base_ms = self.base.reference.latency_ms / best_single
            line.samples.append(speedup / best_single)

    def add_row(self, row: Json) -> None:
        """Add the result of a run that has ended, now or earlier."""
        line = self.lines[self.labels[row["key"]]]
        line.rows.append(row)
        line.evaluations = 0
        self.waiting = [key for key in self.waiting if key != row["key"]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        samples = [1.0, *(sample for line in self.lines.values() for sample in line.samples)]
        low, high = min(samples), max(samples)
        base = "the best single device" if self.alone else "the reference device"
        dots = f"evaluations, {low:.2f} to {high:.2f} ({BASE}: 1)"
        table = FittedTable(
            [
                Column("agent", text=True),
                Column("evaluations", spare=1, text=True, whole=True),
                Column("best ms"),
                Column("speed-up", meaning=f"x {base}"),
                Column("samples", spare=2, text=True, whole=True, meaning=dots),
            ]
        )
        # Another thread may add meanwhile: what is read twice may have changed.
        running = self.labels.get(next(iter(self.waiting), ""), "")
        for label, line in self.lines.items():
            table.add_row(
                label,
                line.describe_state(label == running),
                *self.describe_best(line),
                draw_strip(np.array(line.samples), low, high) if low < high else "",
                style="bold" if label == running else "",
            )
        yield table

    def describe_best(self, line: Line) -> tuple[str, str]:
        feasible_rows = [row for row in line.rows if row["latency_ms"]]
        if feasible_rows:
            row = min(feasible_rows, key=lambda row: float(row["latency_ms"]))
            ratio = row["speedup_vs_best_single" if self.alone else "speedup"]
            return f"{row['latency_ms']:.2f}", f"{ratio:.2f}"
        if line.samples:
            best = max(line.samples)
            return f"{self.base_ms / best:.2f}", f"{best:.2f}"
        return "-", "-"


def draw_strip(samples: FloatArray, low: float, high: float) -> str:
    """Draw samples as dots on a scale; ``BASE`` is at 1."""
    counts, edges = np.histogram(samples, STRIP_WIDTH, (low, high))
    strip = DOTS[np.searchsorted([1, 2, 4], counts, side="right")]
    index = min(int(np.searchsorted(edges, 1.0, side="right")) - 1, STRIP_WIDTH - 1)
    if not counts[index]:
        strip[index] = BASE
    return "".join(strip)
