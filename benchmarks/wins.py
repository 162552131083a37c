"""The table "What wins where", from the rows of all pages of results.

``python benchmarks/figures.py all-wins`` prints the table of the index of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import floors
import measured_tables
import numpy as np
import stream
from common import Row, load_rows
from online_trainings import LEARNERS
from summaries import Interval, find_interval_over_problems

from agents import AGENTS
from agents.about import ABOUT, LEARNED
from placement_gym.base.texts import join_words
from placement_gym.bench.report import StudyResults
from placement_gym.bench.report.known_latencies import find_recorded
from placement_gym.envs.online.rules import RULES

Run = tuple[str, str, int, float | None]
"""Arm, problem, seed, and latency in ms; None or infinite if nothing was found in time."""
Scores = dict[str, list[float]]
"""Problem -> the score of each run of an arm."""
Middle = Callable[[Sequence[float]], Any]
HEADER = ("budget", "problems", "best", "best learned agent", "page")
POLICIES = ("list-policy", *LEARNERS)
"""Learned arms that are no agents, or also trained policies."""
LISTS = ("random weights", "HEFT", "random blocks", "earliest finish", "lookahead")
"""Arms of the stream that are agents under other names, or list schedules without learning."""


def of_runs(rows: Iterable[Row], **values: object) -> Iterator[Run]:
    for row in rows:
        if values.items() <= row.items():
            yield row["arm"], row["problem"], row["seed"], row["latency_ms"]


def of_study(rows: Sequence[Row]) -> Iterator[Run]:
    """Runs of a study over the best known latencies, as ``bench report`` has them."""
    least_ms = StudyResults(rows, find_recorded(rows)).least_ms
    for row in rows:
        ms = row["latency_ms"]
        yield row["arm"], row["problem"], row["seed"], ms and ms / least_ms[row["problem"]]


def of_loads(rows: Iterable[Row]) -> Iterator[Run]:
    for row in rows:
        if row["arm"] != "greedy-fill":
            yield row["arm"], row["input"], 0, row["ms"]


def of_learning(n: int, rows: Sequence[Row]) -> Iterator[Run]:
    """The best of the first ``n`` placements of the learning curves."""
    for row in rows:
        yield row["arm"], row["problem"], row["seed"], row["best_ms"][str(n)]


def of_floors(unit: str, amount: float, rows: Sequence[Row]) -> Iterator[Run]:
    """The best within a budget of evaluations or seconds, over the best known."""
    known = floors.find_best_known(rows)
    for row in rows:
        if amount in row[unit] and not row["model"].startswith(floors.GENERATED):
            problem = row["model"], row["devices"]
            ms = floors.latency_at(row, unit, amount)
            yield row["arm"], " ".join(problem), row["seed"], ms / known[problem]


def of_measured(rows: Sequence[Row]) -> Iterator[Run]:
    """The latency on two devices over that of the best single device."""
    for row in measured_tables.select(rows, measured_tables.TWO):
        yield row["arm"], row["model"], row["seed"], 1.0 / row["speedup_vs_best_single"]


def of_stream(within: str, rows: Sequence[Row]) -> Iterator[Run]:
    """The best answer within a CPU time, over the best of all arms at any time."""
    for run in stream.score_times(rows):
        if run["after"] == within:
            yield run["arm"], str(run["problem"]), 0, 1.0 / run["score"] if run["score"] else None


def of_requests(rate: float, rows: Iterable[Row]) -> Iterator[Run]:
    """Mean slow-down of the requests of each trace, in place of a latency."""
    for row in rows:
        if row["env_kwargs"] == {"trace": "test", "rate": rate}:
            for trace, slowdown in enumerate(row["slowdown"]):
                yield row["agent"], str(trace), row["seed"], slowdown


@dataclass(frozen=True)
class Question:
    """One line of a table.

    Attributes:
        problems: The problems, in words.
        budget: What every arm may use.
        page: The page with its numbers.
        rows: Files, separated by spaces.
        read: Makes runs from rows.
        arms: Arms that count besides agents.
        together: Whether a seed is a training that plays all problems.
        known: Whether latencies are relative to the best known, not to the best of these runs.
        middle: What of a problem's runs is averaged over problems, as on the page.
    """

    problems: str
    budget: str
    page: str
    rows: str
    read: Callable[[Sequence[Row]], Iterator[Run]]
    arms: tuple[str, ...] = ()
    together: bool = False
    known: bool = False
    middle: Middle = np.median

    def score(self) -> dict[str, Scores]:
        """The scores of each arm that has runs on all problems."""
        rows = load_rows(*self.rows.split())
        runs = [run for run in self.read(rows) if self.counts(run[0])]
        best: dict[str, float] = {}
        for _, problem, _, ms in runs:
            best[problem] = 1.0 if self.known else min(best.get(problem, np.inf), ms or np.inf)
        scores: dict[str, Scores] = {}
        for arm, problem, _, ms in sorted(runs, key=itemgetter(2)):
            mine = scores.setdefault(arm, {})
            mine.setdefault(problem, []).append(best[problem] / ms if ms else 0.0)
        return {arm: mine for arm, mine in scores.items() if mine.keys() == best.keys()}

    def counts(self, arm: str) -> bool:
        """Return whether an arm is an agent that can still be run, or one of ``arms``."""
        return first_word(arm) in AGENTS or arm in self.arms or first_word(arm) in POLICIES


FLOORS = "floors/floors.jsonl.xz"
UNSEEN, STARTS = "graphs never seen before", "HSDAG's models and six workloads, random starts"
SCARCE = "published workloads, little memory"
QUESTIONS = (
    *(Question(UNSEEN, within, "online.md", "stream-rows.jsonl.gz stream-floors-rows.jsonl.gz",
               partial(of_stream, within), LISTS, known=True)
      for within in ("3 ms", "100 ms")),
    Question(SCARCE, "100 placements", "published.md", FLOORS,
             partial(of_floors, "evaluations", 100), known=True),
    Question(SCARCE, "500 placements", "published.md", FLOORS,
             partial(of_floors, "evaluations", 500), known=True),
    Question("generated graphs, little memory", "500 placements", "published.md",
             "published-rows.jsonl.gz", partial(of_runs, budget=500), middle=np.mean),
    Question("ten fixed problems", "500 placements", "placement-bench-1.md",
             "placement-bench-1/results.jsonl.xz", of_study, known=True),
    Question("HSDAG's three models", "500 placements", "hsdag.md", "paper/results.jsonl.xz",
             of_study, known=True),
    *(Question(STARTS, f"{n:,} placements", "learning.md", "learning-rows.jsonl.gz",
               partial(of_learning, n)) for n in (500, 2000)),
    Question("four networks on OpenVINO", "100 measured placements", "measured.md",
             "measured-rows.jsonl", of_measured),
    Question(SCARCE, "10 s", "published.md", FLOORS,
             partial(of_floors, "cpu_seconds", 10.0), known=True),
    Question("throughput of pipelines", "at most 15 s", "throughput.md", "algorithms-rows.jsonl",
             of_loads),
    *(Question("requests under load", f"rate {rate}", "online.md", "online/requests.jsonl",
               partial(of_requests, rate), tuple(RULES), together=True)
      for rate in (0.6, 1.0)),
)  # fmt: skip
MOST_NAMED = 3
"""Largest number of arms level with the best one that are named."""


@cache
def answer(question: Question) -> list[str]:
    scores = question.score()
    means = {arm: mean(mine, question.middle) for arm, mine in scores.items()}
    ranked = sorted(means, key=lambda arm: -means[arm])
    first, *others = ranked
    gaps = {
        arm: find_interval_over_problems(
            [*scores[first].values()],
            [scores[arm][one] for one in scores[first]],
            question.together,
        )
        for arm in others
    }
    level = [arm for arm in others if gaps[arm][0] <= 0.0]
    learned = next((arm for arm in ranked if is_learned(arm)), "")
    best = f"{code(first)} {means[first]:.3f}"
    return [
        question.budget,
        f"{question.problems} ({len(scores[first])})",
        f"{best}, level with {name_few(level)}" if level else f"**{best}**",
        describe_learned(learned, means, gaps),
        f"[{Path(question.page).stem}]({question.page})",
    ]


def name_few(arms: Sequence[str]) -> str:
    """The names of a few arms, or how many there are."""
    few = len(arms) <= MOST_NAMED
    return join_words([code(arm) for arm in arms]) if few else f"{len(arms)} others"


def describe_learned(arm: str, means: dict[str, float], gaps: dict[str, Interval]) -> str:
    """The best learned arm, and the interval of its points behind the best one."""
    if not arm:
        return "none ran"
    text = f"{code(arm)} {means[arm]:.3f}"
    if arm not in gaps:
        return f"{text}, the best"
    low, high = gaps[arm]
    return f"{text}, {100.0 * low:.1f} to {100.0 * high:.1f} points behind"


def mean(scores: Scores, middle: Middle) -> float:
    """Mean over problems of the median of their runs, or of what the page states instead."""
    return float(np.mean([middle(runs) for runs in scores.values()]))


def is_learned(arm: str) -> bool:
    word = first_word(arm)
    return word in POLICIES or (word in ABOUT and ABOUT[word].kind == LEARNED)


def first_word(arm: str) -> str:
    return arm.replace(",", " ").split()[0]


def code(arm: str) -> str:
    return f"`{arm}`"
