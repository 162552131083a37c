# White-box tests of backends.measured
"""Races: who takes part in which round, when they end, and how often their intervals are right."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from testbed import known_problem

from placement_gym.backends import Measurement
from placement_gym.backends.measured import interference, timing
from placement_gym.backends.measured.candidate import Compilation, summarize
from placement_gym.backends.measured.interference import (
    Usage,
    describe_interference,
    find_delay,
    find_share,
)
from placement_gym.backends.measured.timing import Arm, Race, warm_up
from placement_gym.hardware import TESTBED, DeviceSpec

NOISE = 0.05


class Machine:
    """Time that passes only while an arm runs, and of which others take a share."""

    def __init__(self) -> None:
        self.now_s = self.waited_s = 0.0
        self.runs: list[str] = []
        self.taken: Callable[[], float] = lambda: 0.0

    def arm(
        self, name: str, ms: float, slowdown: Callable[[float], float] = lambda now_s: 1.0
    ) -> Arm:
        def sample_ms() -> float:
            self.runs.append(name)
            spent_s, share = ms / 1e3 * slowdown(self.now_s), self.taken()
            self.now_s += spent_s
            self.waited_s += share * spent_s
            return spent_s * 1e3

        return sample_ms

    def read_usage(self) -> Usage:
        return Usage(self.now_s, self.now_s - self.waited_s, self.waited_s, 0.0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(timing, "perf_counter", lambda: machine.now_s)
    monkeypatch.setattr(timing, "read_usage", machine.read_usage)
    return machine


def race_of(*arms: Arm, most: int = 6, noise: float = 0.0) -> Race:
    race = Race(len(arms))
    race.run(arms, most, lambda: race.noise(1) <= noise)
    return race


def test_arms_take_turns_and_keep_their_own_samples(machine: Machine) -> None:
    race = race_of(machine.arm("a", 6.0), machine.arm("b", 3.0), most=4)
    assert machine.runs == ["a", "b"] * 4
    assert race.samples(1).tolist() == [[3.0, 6.0]] * 4
    assert race.speedup(1) == 2.0


def test_a_race_ends_once_its_answer_is_known(machine: Machine) -> None:
    race = race_of(machine.arm("a", 6.0), machine.arm("b", 3.0), most=50, noise=NOISE)
    assert 2 <= len(race.samples(1)) <= 3
    assert race.noise(1) <= NOISE


def test_one_that_is_clearly_slower_needs_no_more(machine: Machine) -> None:
    race = race_of(machine.arm("a", 6.0), machine.arm("b", 9.0), most=2)
    assert race.is_slower(1, than=1.0)
    assert not race.is_slower(1, than=0.6)


@pytest.mark.parametrize("change", [5, -4])
def test_drift_common_to_both_arms_cancels(machine: Machine, change: float) -> None:
    arms = [machine.arm(name, ms, lambda now_s: 2 + change * now_s) for name, ms in
            (("a", 2.0), ("b", 1.0))]  # fmt: skip
    race = race_of(*arms, most=30)
    samples = race.samples(1)
    assert samples.max(axis=0)[0] / samples.min(axis=0)[0] > 1.2
    assert race.speedup(1) == pytest.approx(2.0, rel=0.01)


def test_disturbed_rounds_are_taken_again(machine: Machine) -> None:
    shares = iter([0.5, 0.0] * 3 + [0.0] * 100)
    machine.taken = lambda: next(shares)
    race = race_of(machine.arm("a", 6.0), machine.arm("b", 3.0), most=4)
    assert len(machine.runs) == 2 * (3 + 4)
    assert len(race.samples(1)) == 4
    assert summary(race).warning == ""


def test_the_patience_with_other_programs_ends(machine: Machine) -> None:
    machine.taken = lambda: 0.46
    race = race_of(machine.arm("a", 6.0), machine.arm("b", 3.0), most=4, noise=1.0)
    assert len(race.samples(1)) == timing.MAX_DISTURBED_FACTOR * 4
    assert summary(race).warning == "other programs took 46% of the time"


@pytest.mark.parametrize(
    ("ms", "shares", "doubtful"),
    [
        ((10.0, 6.0), (0.0, 0.4), False),  # others delayed the arm alone, and it is faster still
        ((10.0, 6.0), (0.4, 0.0), True),  # they may have made the first slower
        ((10.0, 9.5), (0.0, 0.4), True),  # so near that caches may explain it
        ((6.0, 12.0), (0.4, 0.0), False),
        ((6.0, 12.0), (0.0, 0.6), True),
    ],
)
def test_a_disturbed_race_is_clear_if_no_delay_explains_it(
    machine: Machine, ms: tuple[float, float], shares: tuple[float, float], doubtful: bool
) -> None:
    turns = cycle(shares)
    machine.taken = lambda: next(turns)
    measured = summary(race_of(*map(machine.arm, "ab", ms), most=4))
    assert bool(measured.warning) == doubtful
    assert measured.interference == pytest.approx(max(shares))


def summary(race: Race) -> Measurement:
    return summarize(Compilation(1, 1, 0, 0, (0, 0), 0.0), race, 1, known_problem("tiny"))


def test_a_device_that_is_no_processor_is_not_seen() -> None:
    assert describe_interference(0.46, TESTBED) == "other programs took 46% of the time"
    mixed = (DeviceSpec("CPU"), DeviceSpec("GPU"))
    unseen = "of the host (use of GPU by other programs is not observed)"
    assert unseen in describe_interference(0.46, mixed)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        (Usage(0, 0, 0, 0), Usage(1, 1, 0, 0), 0.0),
        (Usage(0, 0, 0, 0), Usage(1, 0.5, 0.5, 0), 0.5),
        (Usage(0, 0, 0, 0), Usage(1, 1.5, 0.5, 0), 0.25),  # two threads
        (Usage(0, 0, 0, 0), Usage(1, 0.01, 0.05, 0), 0.05),  # a device computes
        (Usage(0, 0, 0, 0), Usage(1, 1, 0, 0.3), 0.3),  # the host of the virtual machine
        (Usage(0, 0, 5, 0), Usage(1, 1, 4, 0), 0.0),  # a thread has ended
        (Usage(0, 0, 0, 0, 0), Usage(1, 1, 0.9, 0, 1), 0.02 / 1.02),  # the same, with pauses
        (Usage(0, 0, 0, 0), Usage(1, 2, 1, 0), 0.0),  # three threads that wait for each other
    ],
)
def test_share_of_time_that_others_took(
    before: Usage, after: Usage, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interference, "usable_cores", lambda: 2)
    assert find_share(after.since(before)) == pytest.approx(share)


def test_delay_counts_all_waiting_and_the_host_of_each_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interference, "usable_cores", lambda: 4)
    cores = os.cpu_count() or 1
    assert find_delay(Usage(1, 1.5, 0.3, 0)) == pytest.approx(0.3)
    assert find_delay(Usage(1, 1, 0, 0.2 / cores)) == pytest.approx(0.2)
    assert find_delay(Usage(1, 1, 3, 0)) == 1.0


def test_warm_up_ends_when_times_stop_falling(machine: Machine) -> None:
    ms = iter([15.0, 12.0, 10.0, 9.9, 10.0])

    def run() -> None:
        machine.now_s += next(ms) / 1e3

    sample = warm_up(run, 9)
    assert sample() == pytest.approx(10.0)
    assert next(ms, None) is None


def test_a_short_inference_runs_several_times_for_a_sample(machine: Machine) -> None:
    sample = warm_up(machine.arm("a", 0.4), 2)
    machine.runs.clear()
    sample()
    assert len(machine.runs) == 5


def test_the_slow_drop_out_between_compilations(machine: Machine) -> None:
    ms = (10.0, 10.1, 20.0)
    race = Race(3)
    for _ in range(2):
        race.run([machine.arm(str(arm), ms[arm]) for arm in race.live], 4)
        race.drop_slower(NOISE)
    assert race.live == [0, 1]
    assert len(race.samples(2)) == 4
    assert len(race.samples(1)) == 8


def count_compilations(machine: Machine, *ms: float, samples: int = 4, gain: float = 0.02) -> int:
    """Compilations until a race of arms that take this long is decided."""
    race = Race(len(ms))
    while not race.is_decided(NOISE, gain):
        race.run([machine.arm(str(arm), one) for arm, one in enumerate(ms)], samples)
    return len(race.compilations)


def test_a_clear_win_is_decided_sooner_than_a_draw(machine: Machine) -> None:
    draw = count_compilations(machine, 10.0, 10.0)
    assert count_compilations(machine, 10.0, 8.0) < draw <= 8


def test_several_equals_are_left_to_the_race_of_the_chosen_one(machine: Machine) -> None:
    assert count_compilations(machine, *[10.0] * 3) < count_compilations(machine, *[10.0] * 2)


def test_hopeless_races_end(machine: Machine) -> None:
    machine.taken = lambda: 0.5
    assert count_compilations(machine, 10.0, 10.0, samples=2, gain=0.0) == 3


LUCKS = (0.95, 1.0, 1.05, 1.0, 1.0, 1.0, 1.0, 1.0)
"""Factors on the times of compilations of an arm."""


@pytest.mark.parametrize(
    ("ms", "decided"),
    [((3.0, 3.0), True), ((5.0, 5.0), False), ((12.0,), True), ((7.0,), False), ((3.0,), False)],
)
def test_noise_may_be_a_third_of_a_gain_or_loss_but_not_of_the_answer(
    machine: Machine, ms: Sequence[float], decided: bool
) -> None:
    race = Race(1 + len(ms))
    for luck in LUCKS[:3]:
        race.run([machine.arm(str(one), one) for one in (6.0, *(luck * one for one in ms))], 4)
    assert race.is_clear(1)
    assert race.noise(1) > NOISE
    assert race.is_decided(NOISE, 0.02) == decided


def test_a_faster_arm_that_is_left_alone_is_timed_until_its_gain_is_known(machine: Machine) -> None:
    race = Race(2)
    for luck in LUCKS:
        race.run([machine.arm("a", 6.0), machine.arm("b", luck * 4.0)], 4)
        if race.is_decided(NOISE, 0.02):
            break
    assert 3 < len(race.compilations) < len(LUCKS)
    assert race.noise(1) <= NOISE


def test_a_race_that_the_first_wins_is_decided(machine: Machine) -> None:
    race = Race(3)
    for _ in range(3):
        race.run([machine.arm(str(arm), (8.0, 16.0, 20.0)[arm]) for arm in race.live], 4)
        race.drop_slower(NOISE)
    assert race.live == [0]
    assert race.is_decided(NOISE, 0.02)


def test_the_spread_between_compilations_is_noise_too(machine: Machine) -> None:
    def noise(*factors: float) -> float:
        race = Race(2)
        for factor in factors:
            race.run([machine.arm("a", 10.0), machine.arm("b", 10.0 * factor)], 20)
        return race.noise(1)

    assert noise(1.0, 1.1, 1.0, 1.1) > 2 * noise(1.0, 1.0, 1.0, 1.0)


Errors = Iterator[float]


def normal(rng: np.random.Generator, size: float) -> Errors:
    while True:
        yield size * rng.standard_normal()


def heavy_tailed(rng: np.random.Generator, size: float) -> Errors:
    """One run in twenty takes up to a third longer."""
    while True:
        yield size * abs(rng.standard_t(3)) / 2 + 0.3 * rng.random() * (rng.random() < 0.05)


def drifting(rng: np.random.Generator, size: float) -> Errors:
    """Each error keeps a third of the one before it."""
    error = 0.0
    while True:
        error = error / 3 + size * rng.standard_normal()
        yield error


def simulate(
    rng: np.random.Generator,
    kind: Callable[..., Errors],
    size: float,
    n: int,
    run: Callable[[Sequence[Arm]], float],
) -> float:
    """The share of simulated races of which ``run`` returns an error, beyond the noise."""
    missed = 0
    for _ in range(n):
        reference, candidate = kind(rng, size / np.sqrt(2)), kind(rng, size / np.sqrt(2))
        drift = iter(np.exp(np.cumsum(0.01 * rng.standard_normal(4000))))

        def arm(errors: Errors, drift: Iterator[float] = drift) -> Arm:
            return lambda: 10.0 * next(drift) * np.exp(next(errors))

        missed += run([arm(reference), arm(candidate)]) > 0.0
    return missed / n


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *((kind, size) for kind in (normal, heavy_tailed) for size in (0.01, 0.04)),
        (drifting, 0.025),
    ],
)
def test_intervals_cover_the_ratio_wherever_a_race_stops(
    machine: Machine, kind: Callable[..., Errors], size: float
) -> None:
    """Up to 1.6 times the usual spread, or the usual one where errors last."""

    def step(arms: Sequence[Arm]) -> float:
        race = race_of(*arms, most=6, noise=NOISE)
        return abs(np.log(race.speedup(1))) - race.noise(1)

    assert simulate(np.random.default_rng(0), kind, size, 200, step) <= 0.05


@pytest.mark.parametrize(
    "kind",
    [heavy_tailed, *(pytest.param(one, marks=pytest.mark.slow) for one in (normal, drifting))],
)
def test_identical_finalists_are_seldom_called_faster(
    machine: Machine, kind: Callable[..., Errors]
) -> None:
    rng = np.random.default_rng(0)

    def final(arms: Sequence[Arm]) -> float:
        race = Race(2)
        while len(race.compilations) < 8 and not race.is_decided(NOISE, 0.02):
            luck = float(np.exp(0.02 * rng.standard_normal()))
            race.run([arms[0], lambda luck=luck: arms[1]() * luck], 4)
        return race.speedup(1) * (1.0 - race.noise(1)) - 1.0

    assert simulate(rng, kind, 0.025, 100, final) <= 0.05


def test_waiting_is_summed_over_threads_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thread, waited_s in (("11", 0.5), ("12", 0.25)):
        (tmp_path / "task" / thread).mkdir(parents=True)
        times = f"2000000000 {int(waited_s * 1e9)} 7\n"
        (tmp_path / "task" / thread / "schedstat").write_text(times)
    monkeypatch.setattr(interference, "THREADS", tmp_path / "task")
    assert interference.read_usage().waited_s == 0.75


def test_a_process_ran_as_long_as_its_threads_that_have_ended() -> None:
    before = interference.read_usage()
    thread = Thread(target=lambda: sum(i * i for i in range(500_000)))
    thread.start()
    thread.join()
    assert interference.read_usage().ran_s - before.ran_s > 0.001
