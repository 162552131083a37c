"""Verdicts: finalists measured again, and what decides that one beats the best single device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fakes import CPU_GPU, FakeBackend, diamond_problem

from placement_gym.backends import (
    NO,
    WITHIN_NOISE,
    YES,
    Finalist,
    Finals,
    Measurement,
    SingleDeviceResults,
)
from placement_gym.backends.measured import MeasuredBackend
from placement_gym.bench.run import AgentSpec, BenchEnv, run_agent
from placement_gym.hardware import DeviceSpec
from placement_gym.models import ModelSpec


@pytest.fixture
def measured_env() -> BenchEnv:
    """The toy on the CPU test bed, in this process."""
    kwargs = {"model": "tiny", "devices": "cpu-testbed", "isolate": False}
    return BenchEnv.make("DevicePlacement-v0", kwargs)


def measurement(speedup: float, noise: float = 0.0) -> Measurement:
    return Measurement(latency_ms=1.0, reference_ms=speedup, noise=noise)


@pytest.mark.parametrize(
    ("ratio", "noise", "warning", "verdict"),
    [
        (1.2, 0.05, "", YES),
        (1.2, 0.05, "the machine was busy", WITHIN_NOISE),
        (0.5, 0.05, "the machine was busy", WITHIN_NOISE),
        (1.02, 0.05, "", WITHIN_NOISE),
        (0.98, 0.05, "", WITHIN_NOISE),
        (0.8, 0.05, "", NO),
        (1.0004, 0.0, "", NO),  # a gain that tables write as 0.0 % is none
        (1.0006, 0.0, "", YES),
    ],
)
def test_a_win_exceeds_the_noise_and_what_tables_show(
    ratio: float, noise: float, warning: str, verdict: str
) -> None:
    measured = replace(measurement(ratio, noise), warning=warning)
    finalist = Finalist(np.zeros(1, np.int64), measured, speedup=3.0)
    assert finalist.beats_best_single == verdict


def test_the_best_single_device_does_not_beat_itself(bench_env: BenchEnv) -> None:
    finalist = bench_env.finals.choose([bench_env.base.problem.single(1)])
    assert finalist.speedup_vs_best_single == 1.0
    assert finalist.speedup == pytest.approx(bench_env.base.singles.fastest().speedup)
    assert finalist.beats_best_single == "no"


@pytest.mark.parametrize(
    ("noisy", "speedup", "best"), [(True, 0.9, 2), (True, 0.7, 1), (False, 0.9, 1)]
)
def test_devices_that_may_be_the_best_are_measured_together_before_finalists(
    noisy: bool, speedup: float, best: int
) -> None:
    """The search took the second device for the fastest; the third is faster by 2 %."""
    problem = diamond_problem((*CPU_GPU, DeviceSpec("NPU")))
    ms = {0: 20.0, 4: 10.0, 8: 9.8, 3: 9.0}
    backend = FakeBackend(lambda assignment: ms[int(assignment.sum())], problem)
    seen = SingleDeviceResults(tuple(map(measurement, (0.5, 1.0, speedup))), (True, True, True))
    finals = Finals(backend, seen, noisy)
    assert finals.best_single == 1
    finalist = finals.choose([np.array([0, 1, 1, 1])])
    assert finals.best_single == best
    assert finalist.speedup_vs_best_single == pytest.approx((9.8 if best == 2 else 10.0) / 9.0)
    assert finalist.speedup == pytest.approx(20.0 / 9.0)
    assert backend.calls_of("remeasure") == 2 * (best == 2) + 3 + 2 * noisy


def test_single_devices_are_measured_once_more_if_that_was_doubtful() -> None:
    class Doubtful(FakeBackend):
        """At first, while another program runs, the GPU seems to be the faster device."""

        def remeasure(self, assignments: Any) -> list[Measurement]:
            found = super().remeasure(assignments)
            if self.calls_of("remeasure") > len(assignments):
                return found
            return [replace(one, warning="the machine was busy") for one in reversed(found)]

    backend: Any = Doubtful(lambda assignment: 10.0 + 0.05 * float(assignment.sum()))
    finals = Finals(
        backend, SingleDeviceResults((measurement(1.0), measurement(1.1)), (True, True))
    )
    finals.settle_best_single()
    assert finals.best_single == 0
    assert backend.calls_of("remeasure") == 2 * 2


def test_a_best_single_device_behind_the_reference_is_replaced(
    bench_env: BenchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second device, taken for the best, takes 223 ms beside the reference's 184."""
    problem, mixed = bench_env.base.problem, np.arange(bench_env.base.problem.n_units) % 2
    ms = {0: 183.8, problem.n_units: 223.1}

    def remeasure(assignments: list[Any]) -> list[Measurement]:
        found = [ms.get(int(one.sum()), 150.0) for one in assignments]
        return [Measurement(one, found[0], one, noise=0.01) for one in found]

    assert bench_env.finals.best_single == 1
    monkeypatch.setattr(bench_env.base.backend, "remeasure", remeasure)
    chosen = bench_env.finals.choose([mixed])
    assert chosen.measurement.reference_ms == pytest.approx(183.8)
    assert chosen.speedup == chosen.speedup_vs_best_single == pytest.approx(183.8 / 150.0)
    assert bench_env.finals.best_single == problem.reference_device


def test_a_disturbed_single_device_leaves_clear_finalists_decided(
    bench_env: BenchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the reference of its race: its ratio of 1 can never be clear."""

    def remeasure(assignments: list[Any]) -> list[Measurement]:
        split = Measurement(5.0, 10.0, 5.0, noise=0.01, interference=0.2)
        single = Measurement(10.0, 10.0, 10.0, interference=0.2, warning="the machine was busy")
        return [split if np.ptp(one) else single for one in assignments]

    monkeypatch.setattr(bench_env.base.backend, "remeasure", remeasure)
    chosen = bench_env.finals.choose([np.arange(bench_env.base.problem.n_units) % 2])
    assert chosen.measurement.warning == ""
    assert chosen.beats_best_single == "yes"


def test_later_races_change_neither_the_best_single_device_nor_what_was_measured_again() -> None:
    ms = {0: 10.0, 4: 20.0, 2: 8.0}
    backend: Any = FakeBackend(lambda assignment: ms[int(assignment.sum())])
    seen = SingleDeviceResults((measurement(1.0), measurement(0.5)), (True, True))
    finals = Finals(backend, seen, noisy=True)
    again = finals.choose([np.array([0, 1, 1, 0])])
    assert again.rechecked
    ms[4] = 9.0  # in a moment when the other device was slow
    finals.choose([np.ones(4, np.int64)])
    assert finals.best_single == 0
    assert finals.choose([again.assignment]) is again


@pytest.mark.slow
def test_measured_finalists_come_from_a_new_process() -> None:
    kwargs = {"model": "tiny", "devices": "cpu-testbed", "repeats": 2, "warmup": 0}
    bench_env = BenchEnv.make("DevicePlacement-v0", kwargs)
    row, placement = run_agent(bench_env, AgentSpec("window"), seed=0, budget=2)
    assert placement is not None
    assert row.error == ""
    assert row.n_submodels == row.n_submodels_expected
    assert row.noise > 0


@pytest.mark.slow
def test_failing_new_process_is_an_error_row_with_a_placement() -> None:
    kwargs = {"model": "tiny", "devices": "cpu-testbed"}
    measured_env = BenchEnv.make("DevicePlacement-v0", kwargs)
    measured_env.env.reset()  # the process of the search has the model
    measured_env.base.backend.inner.engine.spec = ModelSpec("gone.xml")
    row, placement = run_agent(measured_env, AgentSpec("single-device"), seed=0, budget=2)
    measured_env.close()
    assert placement is None
    assert "gone.xml" in row.error
    assert len(set(row.placement.values())) == 1


@pytest.mark.parametrize("first", [measurement(1.5, 0.01), measurement(1.02, 0.05)])
def test_a_winner_is_measured_once_more_and_that_counts(
    first: Measurement, measured_env: BenchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = measured_env.base.problem
    single, mixed = problem.single(0), np.arange(problem.n_units) % 2
    found = iter([first, measurement(1.05, 0.01)])

    def remeasure(_: MeasuredBackend, assignments: list[Any]) -> list[Measurement]:
        split = next(found)
        return [split if len(set(one.tolist())) > 1 else measurement(1.0) for one in assignments]

    monkeypatch.setattr(MeasuredBackend, "remeasure", remeasure)
    measured_env.finals.best_single, measured_env.finals.rivals = 0, []
    finalist = measured_env.finals.choose([mixed])
    assert finalist.speedup_vs_best_single == pytest.approx(1.05)
    assert measured_env.finals.choose([single]).beats_best_single == "no"
    assert next(found, None) is None


@pytest.mark.parametrize(
    "warning", ["", pytest.param("the machine was busy", marks=pytest.mark.slow)]
)
def test_lucky_rival_of_an_earlier_run_is_measured_again(
    warning: str, measured_env: BenchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = measured_env.base.problem
    first, rival = np.arange(problem.n_units) % 2, 1 - np.arange(problem.n_units) % 2
    script = {first.tobytes(): iter([1.3, 1.01]), rival.tobytes(): iter([1.25, 1.02])}

    def remeasure(_: MeasuredBackend, assignments: list[Any]) -> list[Measurement]:
        found = [next(script.get(one.tobytes(), iter([1.0]))) for one in assignments]
        return [replace(measurement(one, 0.005), warning=warning) for one in found]

    monkeypatch.setattr(MeasuredBackend, "remeasure", remeasure)
    measured_env.finals.best_single, measured_env.finals.rivals = 0, []
    assert measured_env.finals.choose([first, rival]).speedup_vs_best_single == pytest.approx(1.01)
    for _ in range(2):  # the second time nothing is left to measure
        again = measured_env.finals.choose([rival])
        assert again.speedup_vs_best_single == pytest.approx(1.02)


def test_reference_is_measured_with_the_first_finalists_only(
    measured_env: BenchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = measured_env.base.problem
    reference, single, mixed = problem.single(0), problem.single(1), np.arange(problem.n_units) % 2
    speedups = {
        one.tobytes(): value for one, value in ((reference, 0.5), (single, 1), (mixed, 0.8))
    }
    measured: list[list[bytes]] = []

    def remeasure(_: MeasuredBackend, assignments: list[Any]) -> list[Measurement]:
        measured.append([one.tobytes() for one in assignments])
        return [measurement(speedups[key]) for key in measured[-1]]

    monkeypatch.setattr(MeasuredBackend, "remeasure", remeasure)
    measured_env.finals.best_single, measured_env.finals.rivals = 1, []
    assert measured_env.finals.choose([single]).speedup == 2.0
    assert measured_env.finals.choose([mixed]).speedup == pytest.approx(1.6)
    assert measured == [
        [single.tobytes(), reference.tobytes()],
        [single.tobytes(), mixed.tobytes()],
    ]
