# White-box tests of bench
"""The problems of a study as environments with scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from published_workloads import DATA

import placement_gym
from placement_gym.base import IntArray, UserError
from placement_gym.bench import benchmark
from placement_gym.bench.benchmark import BenchmarkTask
from placement_gym.bench.study import STUDIES
from placement_gym.envs import play_episode

MEASURED = {"measured"}


@pytest.fixture(autouse=True)
def workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DNN_PARTITIONING", str(DATA))


@pytest.fixture(scope="module")
def generated() -> BenchmarkTask:
    """A problem whose graph is quick to make."""
    tasks = benchmark("placement-bench-1")
    return next(task for task in tasks if task.name.startswith("synthetic-series-parallel"))


class Always:
    """Answers with one placement."""

    def __init__(self, placement: IntArray) -> None:
        self.placement = placement

    def predict(self, *_: object) -> tuple[IntArray, None]:
        return self.placement, None


@pytest.mark.parametrize("name", sorted(path.stem for path in STUDIES.glob("*.yaml")))
def test_every_simulated_problem_of_a_shipped_study_has_a_best_latency(name: str) -> None:
    tasks = placement_gym.benchmark(name)
    assert {task.known is None for task in tasks} == {name in MEASURED}
    assert len({task.name for task in tasks}) == len(tasks)
    assert {task.role for task in tasks} <= {"test", "validation"}


def test_tasks_are_the_problems_of_the_study() -> None:
    tasks = benchmark("placement-bench-1")
    assert len(tasks) == 10
    assert {(task.seeds, task.budget) for task in tasks} == {((0, 1, 2), 500)}
    assert tasks[0].name == "inception on cpu+igpu, list"
    assert not any(task.known is None or task.known.trivial for task in tasks)


def test_the_best_known_placement_scores_one(generated: BenchmarkTask) -> None:
    assert generated.known is not None
    info = play_episode(generated.env(), Always(generated.known.assignment))
    assert generated.score(info) == pytest.approx(1.0, rel=1e-9)
    assert generated.score({"feasible": True, "latency_ms": 2 * info["latency_ms"]}) == 0.5
    by_unit = generated.env("DevicePlacementPerUnitSim-v0", observe_graph=False)
    assert by_unit.reset()[1]["reference_ms"] == info["reference_ms"]


def test_what_does_not_fit_scores_zero() -> None:
    *_, limited = benchmark("placement-bench-1")
    env = limited.env()
    n_units = env.get_wrapper_attr("problem").n_units
    info = play_episode(env, Always(np.ones(n_units, dtype=np.int64)))
    assert not info["feasible"]
    assert limited.score(info) == 0.0


def test_a_workload_of_a_study_is_found_by_its_variable() -> None:
    tasks = benchmark("memory-limited")
    small = next(task for task in tasks if task.name.startswith("LayerGraphs/bert24"))
    assert small.known is not None
    info = play_episode(small.env(), Always(small.known.assignment))
    assert small.score(info) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("change", [{"schedule": "serial"}, {"devices": "cpu+dgpu"}])
def test_another_problem_is_not_scored(generated: BenchmarkTask, change: dict[str, str]) -> None:
    with pytest.raises(UserError, match="this is not the problem"):
        generated.env(**change)


def test_a_problem_without_a_best_latency_cannot_be_scored(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("env: DevicePlacementSim-v0\nmodels: [tiny]\nagents: [random]\nbudget: 3\n")
    (task,) = benchmark(file)
    info = task.env().reset()[1]
    with pytest.raises(UserError, match="has no best known latency"):
        task.score(info)
