# White-box tests of backends.measured
"""Profiled costs: what the fit recovers, and what a real profile looks like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from fakes import diamond_problem
from faulty_devices import FaultyCore
from graphs import simulate
from openvino import opset13 as ops
from testbed import build_here, known_model, measure_here

from placement_gym.backends import Measurement
from placement_gym.backends.measured import (
    QUICK,
    TimingProtocol,
    find_supported,
    kept_profiles,
    profile,
)
from placement_gym.backends.simulated import SimulatedBackend, build_simulated_problem
from placement_gym.base import IntArray, UserError
from placement_gym.graph import acyclic_submodels, extract_spec, group
from placement_gym.hardware import TESTBED, DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.problem import Constraints, Problem, sample_placements
from placement_gym.problem.costs import CostTable, analytic
from placement_gym.workloads import Inference

SHORT = TimingProtocol(warmup=0, repeats=2, fit_placements=0, counter_inferences=2)
LINK_MS, MS_PER_MB, SUBMODEL_MS = 0.05, 0.4, 0.03


def follow_the_model(
    problem: Problem, operator_ms: np.ndarray, submodel_ms: float = SUBMODEL_MS
) -> tuple[list[IntArray], list[Measurement]]:
    """Placements, and measurements that follow the additive model to the letter."""
    singles = [problem.single(0), problem.single(1)]
    placements = [*singles, *sample_placements(problem, 20, np.random.default_rng(0))]
    found = []
    for placement in placements:
        on = placement[problem.units.of_operator]
        n = int(acyclic_submodels(problem.units.graph, on).max()) + 1
        transfers, moved = problem.traffic(placement)
        work = float(operator_ms[np.arange(len(on)), on].sum())
        cuts = LINK_MS * transfers + MS_PER_MB * moved / 1e6 + submodel_ms * (n - 1)
        found.append(Measurement(work + cuts, 10.0, n_submodels=n, n_submodels_expected=n))
    return placements, found


def check_recovered(costs: CostTable) -> None:
    assert costs.link_ms == pytest.approx(np.array([[0.0, LINK_MS], [LINK_MS, 0.0]]), rel=0.02)
    assert costs.link_ms_per_size[0, 1] == pytest.approx(MS_PER_MB, rel=0.02)
    assert costs.submodel_ms == pytest.approx(np.full(2, SUBMODEL_MS), rel=0.02)


@pytest.fixture(scope="module")
def inception() -> tuple[Problem, np.ndarray]:
    """A problem, and made-up times of its operators."""
    problem = simulate("inception").problem
    rng = np.random.default_rng(1)
    return problem, rng.random((len(problem.units.graph), 2)) * [1.0, 0.5]


@pytest.fixture(scope="module")
def tiny() -> tuple[Problem, np.ndarray]:
    """The toy, whose operators take 1 ms on either device."""
    problem = simulate("tiny").problem
    return problem, np.ones((len(problem.units.graph), 2))


def test_the_fit_recovers_the_costs_that_made_the_measurements(
    inception: tuple[Problem, np.ndarray],
) -> None:
    problem, true_ms = inception
    counted_ms = true_ms * [1.25, 0.8]
    placements, found = follow_the_model(problem, true_ms)
    costs = profile.fit_costs(problem, counted_ms, placements, found)
    check_recovered(costs)
    twin = SimulatedBackend(problem, costs)
    for placement, measurement in zip(placements, found, strict=True):
        assert twin.evaluate_ignoring_limits(placement).latency_ms == pytest.approx(
            measurement.latency_ms, rel=0.01
        )


def test_drifting_machine_gives_the_same_costs(inception: tuple[Problem, np.ndarray]) -> None:
    problem, true_ms = inception
    placements, steady = follow_the_model(problem, true_ms)
    speeds = np.geomspace(0.7, 1 / 0.7, len(steady) - 1).tolist()
    speeds.insert(len(steady) // 2, 1.0)
    drifting = [
        replace(m, latency_ms=m.latency_ms * speed, reference_ms=m.reference_ms * speed)
        for m, speed in zip(steady, speeds, strict=True)
    ]
    assert np.median([m.reference_ms for m in drifting]) == pytest.approx(10.0, rel=0.02)
    costs = profile.fit_costs(problem, true_ms, placements, drifting)
    check_recovered(costs)
    assert costs.operator_ms.sum(axis=0) == pytest.approx(true_ms.sum(axis=0), rel=0.02)


def test_the_twin_charges_a_device_alone_what_was_measured(
    tiny: tuple[Problem, np.ndarray],
) -> None:
    problem, operator_ms = tiny[0], tiny[1] * [1.0, 0.6]
    placements, found = follow_the_model(problem, operator_ms, submodel_ms=2.0)
    twin = SimulatedBackend(problem, profile.fit_costs(problem, operator_ms, placements, found))
    assert twin.costs.submodel_ms == pytest.approx(np.full(2, 2.0), rel=0.02)
    for placement, measurement in zip(placements[:2], found[:2], strict=True):
        assert twin.evaluate_ignoring_limits(placement).latency_ms == pytest.approx(
            measurement.latency_ms, rel=1e-3
        )


def test_a_transfer_never_costs_less_than_its_floor(tiny: tuple[Problem, np.ndarray]) -> None:
    problem, operator_ms = tiny
    placements, found = follow_the_model(problem, operator_ms)
    free = [Measurement(7.0, 7.0, n_submodels=m.n_submodels) for m in found]
    costs = profile.fit_costs(problem, operator_ms, placements, free)
    assert costs.link_ms[0, 1] == pytest.approx(profile.MIN_TRANSFER_MS)


def test_a_profile_keeps_the_interference_of_its_measurements(
    tiny: tuple[Problem, np.ndarray], tmp_path: Path
) -> None:
    problem, operator_ms = tiny
    placements, found = follow_the_model(problem, operator_ms)
    found = [replace(m, interference=0.5) for m in found[:-2]] + found[-2:]
    profile.fit_costs(problem, operator_ms, placements, found).save(tmp_path / "costs.json")
    assert CostTable.load(tmp_path / "costs.json").interference == 0.5


def test_submodels_that_seem_to_save_time_cost_nothing(tiny: tuple[Problem, np.ndarray]) -> None:
    problem, operator_ms = tiny
    placements, found = follow_the_model(problem, operator_ms, submodel_ms=-SUBMODEL_MS)
    costs = profile.fit_costs(problem, operator_ms, placements, found)
    assert costs.submodel_ms.tolist() == [0.0, 0.0]


def test_model_shorter_than_its_transfers_still_takes_time(
    inception: tuple[Problem, np.ndarray],
) -> None:
    problem, true_ms = inception
    operator_ms = true_ms * 1e-3
    placements, found = follow_the_model(problem, operator_ms)
    found = [replace(m, latency_ms=0.05) for m in found]
    twin = SimulatedBackend(problem, profile.fit_costs(problem, operator_ms, placements, found))
    for placement in placements[:2]:
        assert twin.evaluate_ignoring_limits(placement).latency_ms > 0.024


def test_too_few_measurements_are_no_profile(tiny: tuple[Problem, np.ndarray]) -> None:
    problem, operator_ms = tiny
    placements, found = follow_the_model(problem, operator_ms)
    failed = [Measurement.failed("no", 1.0) for _ in found]
    with pytest.raises(RuntimeError, match="no profile"):
        profile.fit_costs(problem, operator_ms, placements, failed)


@pytest.mark.parametrize(
    ("reason", "advised"), [("Can't set the input tensor", True), ("out of memory", False)]
)
def test_binding_shapes_is_advised_where_it_helps(reason: str, advised: bool) -> None:
    problem = simulate("tiny").problem
    graph = replace(problem.units.graph, request=Inference(data_shapes={"image": (1, 3, 64, 64)}))
    problem = replace(problem, units=replace(problem.units, graph=graph))
    failed = [Measurement.failed(reason, 1.0) for _ in range(9)]
    placements, operator_ms = [problem.single(0)] * 9, np.ones((len(graph), 2))
    with pytest.raises(RuntimeError, match=reason) as raised:
        profile.fit_costs(problem, operator_ms, placements, failed)
    assert ("--shape" in str(raised.value)) == advised


@pytest.mark.slow
def test_a_profile_is_a_time_for_each_device() -> None:
    table = profile.measure_profile(build_here(ModelSpec("tiny"), protocol=QUICK))
    assert table.devices == ("CPU", "CPU_FAST")
    assert (table.operator_ms.sum(axis=0) > 0).all()
    assert table.link_ms[0, 1] >= profile.MIN_TRANSFER_MS


def test_one_device_is_refused_with_the_remedy() -> None:
    problem = diamond_problem((DeviceSpec("CPU"),))
    with pytest.raises(UserError, match=r"one device, 'CPU'.*'cpu-testbed'"):
        profile.check_can_be_profiled(problem)


@pytest.mark.parametrize("fault", ["unknown", pytest.param("refused", marks=pytest.mark.slow)])
def test_a_device_that_lacks_operators_is_profiled_in_placements(fault: str) -> None:
    core = FaultyCore("CPU_FAST", **{fault: ["gate", "stem/conv"]})
    core.register_plugin("openvino_intel_cpu_plugin", "CPU_FAST")
    model, spec = known_model("tiny"), ModelSpec("tiny", "op")
    units = group(extract_spec(model, spec), "op")
    operators = [core.query_model(model, device.name) for device in TESTBED]
    free = Problem(units, TESTBED, find_supported(units, operators))
    problem = Constraints(keep_off={"CPU_FAST": ["gate", "stem/conv"]}).apply(free)
    backend = measure_here(core, model, problem, protocol=SHORT)
    table = profile.measure_profile(backend)
    assert table.source == "profiled"
    assert (table.operator_ms > 0.0).any(axis=0).all()
    assert table.link_ms[0, 1] >= profile.MIN_TRANSFER_MS
    assert np.isfinite(table.operator_ms).all()
    assert table.units_supported(units).all() == (fault == "refused")


def test_too_few_placements_are_refused_before_measuring() -> None:
    values = ops.parameter((1, 8), np.float32)
    model = ov.Model([ops.result(ops.sigmoid(ops.relu(values)))], [values], "two")
    backend = build_here(ModelSpec(model, "op"))
    with pytest.raises(UserError, match=r"2 units have only 4 placements.*at least 7"):
        kept_profiles.load_or_measure(backend, quiet=True)


def small_gpu(share: float = 0.5) -> Problem:
    devices = [{"name": "CPU"}, {"name": "GPU", "weight_share": share}]
    return build_simulated_problem(ModelSpec("resnet"), devices).problem


class FullGPU:
    """Only the CPU can be timed alone."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.rough_costs: CostTable | None = analytic(problem.units.graph, problem.devices)
        self.protocol = QUICK
        self.ran: list[IntArray] = []

    def check_reference(self) -> None:
        pass

    def measure_operators(self, device: int) -> np.ndarray:
        assert device == 0, "out of memory"
        return np.ones(len(self.problem.units.graph))

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        self.ran.append(assignment)
        on_gpu = assignment[self.problem.units.of_operator] == 1
        assert self.rough_costs is not None
        gpu_ms = 3.0 * self.rough_costs.operator_ms[on_gpu, 1].sum()
        return Measurement(float((~on_gpu).sum() + gpu_ms), 10.0, n_submodels=1)


def test_a_device_that_cannot_hold_the_model_is_never_run_alone() -> None:
    problem = small_gpu()
    backend = FullGPU(problem)
    table = profile.measure_profile(backend)  # type: ignore[arg-type]
    assert not any(problem.infeasibility(assignment) for assignment in backend.ran)
    assert len(backend.ran) >= profile.n_needed(problem)
    assert backend.rough_costs is not None
    factor = table.operator_ms[:, 1].sum() / backend.rough_costs.operator_ms[:, 1].sum()
    assert factor == pytest.approx(3.0, rel=0.05)


def test_reference_too_small_for_the_model_is_refused_early() -> None:
    small = {"name": "GPU", "weight_share": 0.5}
    problem = build_simulated_problem(ModelSpec("tiny"), [small, {"name": "CPU"}]).problem
    with pytest.raises(UserError, match=r"the reference, GPU.*name a device first"):
        profile.check_can_be_profiled(problem)


def test_a_device_that_is_not_known_and_too_small_is_refused() -> None:
    backend = FullGPU(small_gpu())
    backend.rough_costs = None
    with pytest.raises(UserError, match="state its 'roofline'"):
        profile.measure_profile(backend)  # type: ignore[arg-type]
