"""Scores of a study's runs: what they are relative to, and the names of its problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import REPORTED, read_rows

from placement_gym.bench.report import (
    KnownLatencies,
    StudyResults,
    choose_score_reference,
    load_known_latencies,
)
from placement_gym.bench.run import BenchEnvs


def runs(**latencies_ms: float | None) -> list[dict[str, Any]]:
    return [{"label": label, "latency_ms": ms} for label, ms in latencies_ms.items()]


BEST_KNOWN = KnownLatencies(10.0, bound_ms=2.0, best_known_ms=4.0, origin="milp, abc, 2026-01-01")


@pytest.mark.parametrize(
    ("known", "found", "latency_ms", "origin"),
    [
        (BEST_KNOWN, {"random": 5.0}, 4.0, "milp, abc, 2026-01-01"),
        (BEST_KNOWN, {"random": 4.0}, 4.0, "milp, abc, 2026-01-01"),
        (
            BEST_KNOWN,
            {"random": 5.0, "hsdag": 3.9},
            3.9,
            "new in this study: hsdag, 2.5 % below 4 ms by milp, abc, 2026-01-01",
        ),
        (
            KnownLatencies(5.0, bound_ms=2.0),
            {"random": 5.0, "bad": None},
            5.0,
            "this study alone: random",
        ),
        (KnownLatencies(5.0, 3.0, 3.0), {"random": 5.0}, 3.0, "proven optimum"),
    ],
)
def test_the_reference_is_the_lowest_latency_and_says_where_it_comes_from(
    known: KnownLatencies, found: dict[str, float | None], latency_ms: float, origin: str
) -> None:
    reference = choose_score_reference(known, runs(**found))
    assert (reference.latency_ms, reference.origin) == (latency_ms, origin)
    assert not reference.trivial


@pytest.mark.parametrize(
    ("known", "found_ms", "trivial"),
    [
        (KnownLatencies(3.0, 3.0, 3.0), 3.2, True),
        (KnownLatencies(3.00001, 3.0, 3.0), 3.2, True),
        (KnownLatencies(3.1, 3.0, 3.0), 3.2, False),
        (KnownLatencies(3.0, None, 2.0, best_known_ms=3.0), 3.2, True),
        (KnownLatencies(3.0, None, 2.0, best_known_ms=3.0), 2.9, False),
        (KnownLatencies(None, None, 2.0, best_known_ms=3.0), 3.2, False),
        (KnownLatencies(3.0, None, 2.0), 3.2, False),
    ],
)
def test_problem_is_trivial_if_one_device_reaches_the_best_known(
    known: KnownLatencies, found_ms: float, trivial: bool
) -> None:
    assert choose_score_reference(known, runs(random=found_ms)).trivial is trivial


def test_without_any_latency_there_is_no_reference() -> None:
    assert np.isnan(choose_score_reference(KnownLatencies(), runs(random=None)).latency_ms)


def found_in(folder: Path) -> StudyResults:
    tasks = {task.problem: task for task in REPORTED.tasks()}
    with BenchEnvs() as envs:
        return StudyResults(
            read_rows(folder), load_known_latencies(read_rows(folder), tasks, folder, envs)
        )


def test_scores_are_relative_to_the_proven_optimum(folder: Path) -> None:
    found = found_in(folder)
    np.testing.assert_allclose(found.scores("min-cut"), 1.0)
    assert (found.scores("random-blocks") <= 1.0).all()
    for problem, known in found.known.items():
        singles = [row["latency_ms"] for row in found.rows_of("single-device", problem)]
        assert known.best_single_ms == pytest.approx(singles[0])
        assert known.optimum_ms == pytest.approx(found.least_ms[problem])


def test_curves_end_at_the_best_that_was_seen(folder: Path) -> None:
    found = found_in(folder)
    curves = found.curve("annealing", np.array([0.0, 1.0, 30.0]), axis=0)
    assert curves.shape == (6, 3)
    assert (curves[:, 0] == 0).all()
    assert (curves[:, 1] <= curves[:, 2]).all()
    final = [
        found.least_ms[r["problem"]] / r["latency_ms"]
        for r in read_rows(folder)
        if r["agent"] == "annealing"
    ]
    np.testing.assert_allclose(np.sort(curves[:, 2]), np.sort(final))


def test_problems_are_called_by_what_tells_them_apart() -> None:
    def named(*problems: tuple[str, str]) -> list[str]:
        keys = [json.dumps(["E", {}, model, devices]) for model, devices in problems]
        rows = [{"problem": key} for key in keys]
        return list(StudyResults(rows, {}).names.values())

    assert named(("tiny", "a"), ("resnet", "a")) == ["tiny", "resnet"]
    assert named(("tiny", "a"), ("tiny", "b")) == ["tiny on a", "tiny on b"]
    assert named(("x/net.json", "a"), ("y/net.json", "a")) == ["x/net", "y/net"]


def test_scores_elsewhere_use_the_lowest_score_there() -> None:
    problem = json.dumps(["E", {}, "tiny", "a"])
    one, other = (
        {"problem": problem, "label": label, "seed": 0, "latency_ms": ms, "scored_ms": scored_ms}
        for label, ms, scored_ms in (("one", 2.0, 9.0), ("other", 4.0, 6.0))
    )
    results = StudyResults([one, other], {problem: KnownLatencies(optimum_ms=1.0)})
    assert results.scores("one").tolist() == [[1 / 2]]
    assert results.scores("one", "scored_ms").tolist() == [[6 / 9]]
    assert results.scores("other", "scored_ms").tolist() == [[1.0]]


def test_results_are_read_as_scores_of_runs_and_problems(folder: Path, tmp_path: Path) -> None:
    results = StudyResults.load(folder)
    assert results.scores("annealing").shape == (3, 2)
    assert results.scores("min-cut").max() == 1.0
    with pytest.raises(ValueError, match="no results"):
        StudyResults.load(tmp_path)
