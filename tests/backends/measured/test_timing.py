from __future__ import annotations

from collections.abc import Callable
from math import sin

import numpy as np
import pytest

from placement_gym.backends.measured import timing
from placement_gym.backends.measured.candidate import Compilation, summarize


class Clock:
    """Time that passes only while an arm runs."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.runs: list[str] = []

    def arm(
        self, name: str, cost_ms: float, slowdown: Callable[[float], float] = lambda now_s: 1.0
    ) -> timing.Arm:
        def run() -> None:
            self.runs.append(name)
            self.now_s += cost_ms / 1e3 * slowdown(self.now_s)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter", lambda: clock.now_s)
    return clock


def measure(
    clock: Clock, slowdown: Callable[[float], float], repeats: int = 30
) -> tuple[timing.Samples, timing.Samples]:
    arms = [clock.arm("reference", 2.0, slowdown), clock.arm("candidate", 1.0, slowdown)]
    reference, candidate = timing.time_interleaved(arms, repeats)
    return reference, candidate


@pytest.mark.parametrize("repeats", [2, 3, 5, 10, 11, 13, 60])
def test_every_arm_has_at_least_the_counted_runs(clock: Clock, repeats: int) -> None:
    samples = timing.time_interleaved([clock.arm("a", 1.0), clock.arm("b", 3.0)], repeats)
    n_arms, n_blocks, runs = samples.shape
    assert n_arms == 2
    assert n_blocks >= 2
    assert repeats <= n_blocks * runs < repeats + n_blocks


def test_samples_are_milliseconds_of_their_own_arm(clock: Clock) -> None:
    samples = timing.time_interleaved([clock.arm("a", 1.0), clock.arm("b", 3.0)], 10)
    np.testing.assert_allclose(samples[0], 1.0)
    np.testing.assert_allclose(samples[1], 3.0)


def test_arms_take_turns_and_each_goes_first_in_turn(clock: Clock) -> None:
    samples = timing.time_interleaved([clock.arm("a", 1.0), clock.arm("b", 1.0)], 20)
    _, n_blocks, runs = samples.shape
    firsts = clock.runs[:: 2 * (runs + 1)]
    assert firsts == ["a", "b"] * (n_blocks // 2)


def test_the_first_run_after_another_arm_is_not_counted(clock: Clock) -> None:
    def cold_after_another(now_s: float) -> float:
        return 1.0 if clock.runs[-2:-1] == clock.runs[-1:] else 100.0

    samples = timing.time_interleaved(
        [clock.arm(name, 1.0, cold_after_another) for name in ("a", "b")], 10
    )
    np.testing.assert_allclose(samples, 1.0)


def speedup(reference: timing.Samples, candidate: timing.Samples) -> float:
    """What a measurement of these samples states."""
    return summarize(Compilation(1, 1, 0, 0, (0, 0), 0.0), reference, candidate).speedup


@pytest.mark.parametrize(
    "slowdown",
    [lambda now_s: 1 + 5 * now_s, lambda now_s: 2 - 8 * now_s],
    ids=["slows-down", "speeds-up"],
)
def test_drift_common_to_both_arms_cancels(
    clock: Clock, slowdown: Callable[[float], float]
) -> None:
    reference, candidate = measure(clock, slowdown)
    assert reference.max() / reference.min() > 1.4
    assert speedup(reference, candidate) == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("moment_s", [0.02, 0.05, 0.1])
def test_step_in_machine_speed_cancels_or_is_called_unsteady(clock: Clock, moment_s: float) -> None:
    reference, candidate = measure(clock, lambda now_s: 1.0 if now_s < moment_s else 1.5)
    cancels = speedup(reference, candidate) == pytest.approx(2.0, rel=0.01)
    assert cancels or timing.is_unsteady(reference, candidate)


def test_constant_arms_have_no_noise_and_are_steady(clock: Clock) -> None:
    reference, candidate = measure(clock, lambda now_s: 1.0)
    assert speedup(reference, candidate) == pytest.approx(2.0)
    assert timing.noise(reference, candidate) == pytest.approx(0.0, abs=1e-12)
    assert not timing.is_unsteady(reference, candidate)


def test_noise_grows_with_spread_and_shrinks_with_blocks() -> None:
    reference = np.full((8, 5), 10.0)
    small, large = (
        10.0 + size * np.resize([-1.0, 1.0], (8, 1)) * np.ones((8, 5)) for size in (0.1, 1.0)
    )
    assert 0 < timing.noise(reference, small) < timing.noise(reference, large)
    assert timing.noise(reference, large) < timing.noise(reference[:4], large[:4])


def test_the_spread_between_compilations_is_noise_too() -> None:
    reference = np.full((4, 8, 5), 10.0)
    candidate = reference * np.array([1.0, 1.02, 1.0, 1.02])[:, None, None]
    ratios = np.array([1.0, 1 / 1.02, 1.0, 1 / 1.02])
    quantile = 3.182446  # Student's t of three degrees of freedom, 97.5 %
    expected = quantile * ratios.std(ddof=1) / 2 / ratios.mean()
    assert timing.noise(reference, candidate) == pytest.approx(expected, rel=1e-6)


def test_noise_usually_covers_the_error_of_the_speedup() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        drift = 1 + 0.05 * rng.standard_normal((2, 24, 1))
        reference, candidate = drift * np.array([10.0, 5.0])[:, None, None] * np.ones((2, 24, 5))
        error = abs(speedup(reference, candidate) / 2.0 - 1)
        covered += error <= timing.noise(reference, candidate)
    assert covered / 400 > 0.85


def test_an_outlier_in_each_block_does_not_move_the_speedup() -> None:
    candidate = np.full((4, 5), 5.0)
    candidate[:, 2] = 500.0
    assert speedup(np.full((4, 5), 10.0), candidate) == 2.0


def test_a_long_tail_is_unsteady() -> None:
    candidate = np.full((4, 5), 5.0)
    candidate[:, 0] = 6.0
    assert timing.is_unsteady(np.full((4, 5), 10.0), candidate)


def test_a_reference_that_moved_is_unsteady() -> None:
    reference = np.full((4, 5), 10.0)
    reference[2:] = 10.8
    assert timing.is_unsteady(reference, np.full((4, 5), 5.0))


def test_a_little_jitter_is_steady(clock: Clock) -> None:
    assert not timing.is_unsteady(*measure(clock, lambda now_s: 1 + 0.01 * sin(1e4 * now_s)))
