"""Profiled costs: what the fit recovers, and what a real profile looks like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placement_gym.arrays import IntArray
from placement_gym.backends.measured import profile
from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.protocol import Measurement
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.costs.table import CostTable
from placement_gym.graph.submodels import acyclic_submodels
from placement_gym.patterns import sample_placements
from placement_gym.problem import Problem

LINK_MS, MS_PER_MB, SUBMODEL_MS = 0.05, 0.4, 0.03


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def made_up(problem: Problem, operator_ms: np.ndarray) -> tuple[list[IntArray], list[Measurement]]:
    """Splits, and measurements that follow the additive model to the letter."""
    singles = [problem.single(0), problem.single(1)]
    splits = [*singles, *sample_placements(problem, 20, np.random.default_rng(0))]
    found = []
    for split in splits:
        on = split[problem.units.of_operator]
        n = int(acyclic_submodels(problem.units.graph, on).max()) + 1
        transfers, moved = problem.traffic(split)
        work = float(operator_ms[np.arange(len(on)), on].sum())
        cuts = LINK_MS * transfers + MS_PER_MB * moved / 1e6 + SUBMODEL_MS * (n - 1)
        found.append(Measurement(work + cuts, 10.0, n_submodels=n, n_submodels_expected=n))
    return splits, found


def test_the_fit_recovers_the_costs_that_made_the_measurements() -> None:
    problem = build_simulated_problem("inception", "cpu+dgpu").problem
    rng = np.random.default_rng(1)
    true_ms = rng.random((len(problem.units.graph), 2)) * [1.0, 0.5]
    counted_ms = true_ms * [1.25, 0.8]
    splits, found = made_up(problem, true_ms)
    costs = profile.fitted(problem, counted_ms, splits, found)
    assert costs.link_ms == pytest.approx(np.array([[0.0, LINK_MS], [LINK_MS, 0.0]]), rel=0.02)
    assert costs.link_ms_per_size[0, 1] == pytest.approx(MS_PER_MB, rel=0.02)
    assert costs.submodel_ms == pytest.approx(np.full(2, SUBMODEL_MS), rel=0.02)
    twin = SimulatedBackend(problem, costs)
    for split, measurement in zip(splits, found, strict=True):
        assert twin.evaluate_ignoring_limits(split).latency_ms == pytest.approx(
            measurement.latency_ms, rel=0.01
        )


def test_a_transfer_never_costs_less_than_its_floor() -> None:
    problem = build_simulated_problem("tiny", "cpu+dgpu").problem
    operator_ms = np.ones((len(problem.units.graph), 2))
    splits, found = made_up(problem, operator_ms)
    free = [Measurement(7.0, 7.0, n_submodels=m.n_submodels) for m in found]
    costs = profile.fitted(problem, operator_ms, splits, free)
    assert costs.link_ms[0, 1] == pytest.approx(profile.MIN_TRANSFER_MS)


def test_too_few_measurements_are_no_profile() -> None:
    problem = build_simulated_problem("tiny", "cpu+dgpu").problem
    operator_ms = np.ones((len(problem.units.graph), 2))
    splits, found = made_up(problem, operator_ms)
    failed = [Measurement.failed("no", 1.0) for _ in found]
    with pytest.raises(RuntimeError, match="no profile"):
        profile.fitted(problem, operator_ms, splits, failed)


def test_a_profile_is_measured_once_and_kept_as_a_file() -> None:
    backend = build_measured_backend("tiny", "cpu-testbed")
    first = profile.cached(backend, quiet=True)
    path = profile.cache_path(backend)
    kept = CostTable.load(path)
    written = path.stat().st_mtime_ns
    assert kept.fingerprint == first.fingerprint == backend.cost_table().fingerprint
    assert path.stat().st_mtime_ns == written
    assert first.source == "profiled"
    assert first.devices == ("CPU", "CPU_FAST")
    assert (first.operator_ms.sum(axis=0) > 0).all()


@pytest.mark.slow
def test_the_twin_takes_this_machines_profile_on_request() -> None:
    import gymnasium as gym

    import placement_gym  # noqa: F401

    env = gym.make(
        "DevicePlacementSim-v0", model="tiny", devices="cpu-testbed", costs="profiled"
    ).unwrapped
    assert env.cost_table().source == "profiled"  # type: ignore[attr-defined]
    _, info = env.reset(seed=0)
    assert info["latency_ms"] > 0


def test_profiles_of_other_devices_or_units_are_kept_apart() -> None:
    paths = {
        profile.cache_path(build_measured_backend("tiny", devices, granularity))
        for devices in ("cpu-testbed", "cpu-testbed-limited")
        for granularity in ("op", "colocated")
    }
    assert len(paths) == 4


def test_profiles_of_other_ways_of_splitting_are_kept_apart() -> None:
    backends = [build_measured_backend("tiny", "cpu-testbed", split=s) for s in ("alias", "hetero")]
    assert len({profile.cache_path(backend) for backend in backends}) == 2
