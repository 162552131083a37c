"""Profiled costs: counters for operators, and a fit to measured placements for transfers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import lsq_linear

from placement_gym.backends import Measurement
from placement_gym.backends.measured.timing_protocol import FOR_FITTING, TimingProtocol
from placement_gym.base import EngineError, FloatArray, IntArray, UserError
from placement_gym.problem import Problem, sample_placements
from placement_gym.problem.costs import CostTable

if TYPE_CHECKING:
    from placement_gym.backends.measured.backend import MeasuredBackend

PLACEMENTS_SEED = 20_202
"""Any number, but always the same: all profiles are fitted to the same placements."""
MIN_TRANSFER_MS = 0.02
"""Smallest cost of a transfer in an inference. Hand-tuned: if noise made transfers free, solvers
would cut everywhere."""
MIN_SINGLE_DEVICE_SHARE = 0.5
"""Lower bound of a device's fitted time, as a share of its measured time. Hand-tuned: a fit could
charge all of a fast model's time to transfers."""
SPARE_MEASUREMENTS = 2
"""Measurements that a fit needs beyond the number of its unknowns."""
DRAWS_PER_PLACEMENT = 50
"""Random placements for each that has to fit into memory. Hand-tuned: enough even if 1 in 20 fits.
"""


def check_can_be_profiled(problem: Problem) -> None:
    """Raise an error if the problem cannot be profiled.

    Raises:
        UserError: There is only one device, the reference cannot hold the model, or there are
            fewer placements than the fit needs.
    """
    names, reference = list(problem.device_names), problem.reference_device
    check_several(names)
    if not holds_model(problem, reference):
        raise UserError(
            f"the reference, {names[reference]}, cannot hold the model, and it has to run to check "
            "outputs: name a device first that can, as 'CPU'"
        )
    minimum, possible = n_needed(problem), len(names) ** problem.n_units
    if possible < minimum:
        raise UserError(
            f"{problem.n_units} units have only {possible} placements on {names}, and a profile is "
            f"fitted to at least {minimum}: the model is too small for one, or its units are too "
            "coarse (granularity 'op' is the finest)"
        )


def measure_profile(
    backend: MeasuredBackend, step: Callable[[], object] = lambda: None
) -> CostTable:
    """Measure a cost table, calling ``step`` after each measurement.

    Operators get the times of OpenVINO's counters on each device alone, times one factor per
    device. These factors, the fixed and per-megabyte costs of transfers and the cost of another
    submodel are a non-negative least-squares fit, by relative errors, to the latencies of every
    device alone and of ``sample_fit_placements``.

    On a device that cannot run the model alone, operators get analytic times before the fit.

    Raises:
        UserError: The problem cannot be profiled, or the model's outputs are not finite.
        EngineError: Too few placements could be measured.
    """
    problem = backend.problem
    check_can_be_profiled(problem)
    backend.check_reference()
    full_devices = [
        device
        for device in range(len(problem.devices))
        if holds_model(problem, device) and problem.runs_all[device]
    ]
    columns = []
    for device in range(len(problem.devices)):
        find_ms = time_operators if device in full_devices else estimate_operators
        columns.append(find_ms(backend, device))
        step()
    singles = [problem.single(device) for device in full_devices]
    placements = [*singles, *sample_fit_placements(problem, backend.protocol)]
    measurements = []
    for placement in placements:
        measurements.append(backend.evaluate_ignoring_limits(placement))
        step()
    return fit_costs(problem, np.stack(columns, axis=1), placements, measurements)


def check_several(names: Sequence[str]) -> None:
    """Raise ``UserError`` if there are fewer than two devices."""
    if len(names) < 2:
        raise UserError(
            f"there is nothing to place with one device, {names[0]!r}: name two or more, as in "
            "'CPU,GPU', or take the test bed 'cpu-testbed', which needs nothing but a CPU"
        )


def holds_model(problem: Problem, device: int) -> bool:
    """Return whether a device can run the whole model, as any device of a test bed can."""
    return problem.testbed or not problem.memory_error(problem.memory_bytes(problem.single(device)))


def time_operators(backend: MeasuredBackend, device: int) -> FloatArray:
    """(n_operators,) counted ms; analytic if they fail and constraints keep operators off."""
    try:
        return backend.measure_operators(device)
    except EngineError:
        if backend.problem.supported[:, device].all():
            raise
        return estimate_operators(backend, device)


def estimate_operators(backend: MeasuredBackend, device: int) -> FloatArray:
    """(n_operators,) analytic ms of operators on a device, which has to be of a known kind."""
    if backend.rough_costs is None:
        names = backend.problem.device_names
        raise UserError(
            f"{names[device]} cannot run the model alone, which would time its operators, and "
            "there are no analytic costs of such a device: state its 'roofline'"
        )
    return backend.rough_costs.operator_ms[:, device]


def sample_fit_placements(
    problem: Problem, protocol: TimingProtocol = FOR_FITTING
) -> list[IntArray]:
    """The placements that a profile is fitted to: the same for each profile of a problem.

    They fit the devices' memory, except on test beds.
    """
    n = n_fit_placements(problem, protocol)
    rng = np.random.default_rng(PLACEMENTS_SEED)
    if problem.testbed or not problem.limited:
        return sample_placements(problem, n, rng)
    candidates = sample_placements(problem, DRAWS_PER_PLACEMENT * n, rng)
    return [one for one in candidates if not problem.memory_error(problem.memory_bytes(one))][:n]


def n_fit_placements(problem: Problem, protocol: TimingProtocol) -> int:
    """Enough placements to average out noise; for a quick profile only what a fit needs."""
    needed = n_needed(problem)
    unknowns = needed - SPARE_MEASUREMENTS
    return max(protocol.fit_placements, 2 * unknowns) if protocol.fit_placements else needed


def n_needed(problem: Problem) -> int:
    """The smallest number of measurements for a fit."""
    n = len(problem.devices)
    # Unknowns are a factor for each device, two costs for each link, and the cost of a submodel.
    return n + n * (n - 1) + 1 + SPARE_MEASUREMENTS


def n_measurements(problem: Problem, protocol: TimingProtocol) -> int:
    """The maximum number of measurements in ``measure_profile``."""
    return 2 * len(problem.devices) + n_fit_placements(problem, protocol)


def fit_costs(
    problem: Problem,
    operator_ms: FloatArray,
    placements: Iterable[IntArray],
    measurements: Iterable[Measurement],
) -> CostTable:
    """Fit a cost table to measurements of placements and (n_operators, n_devices) counted times."""
    measured = list(zip(placements, measurements, strict=True))
    pairs = [(a, m) for a, m in measured if m.feasible]
    # Fewer measurements than unknowns would leave some of them to chance.
    if len(pairs) < n_needed(problem):
        raise explain_too_few(problem, [m.error for _, m in measured])
    n_devices = len(problem.devices)
    links = list(combinations(range(n_devices), 2))
    reference_ms = float(np.median([m.reference_ms for _, m in pairs]))
    # Speed-ups cancel the machine's drift.
    latency_ms = np.array([reference_ms / m.speedup for _, m in pairs])
    # A latency is a sum: scaled work of each device, transfers and megabytes of links, submodels.
    design = np.array(
        [
            [
                *work_per_device(problem, operator_ms, assignment),
                *count_crossings(problem, assignment, links),
                m.n_submodels - 1,
            ]
            for assignment, m in pairs
        ]
    )
    lower = np.zeros(design.shape[1])
    lower[n_devices : n_devices + len(links)] = MIN_TRANSFER_MS * problem.units.graph.n_inferences
    relative = design / latency_ms[:, None]
    # A single device has the most exact latency and no transfers: its work must explain most of it.
    for row in relative[np.count_nonzero(design[:, :n_devices], axis=1) == 1, :n_devices]:
        device = int(row.argmax())
        lower[device] = max(lower[device], MIN_SINGLE_DEVICE_SHARE / row[device])
    fit = lsq_linear(relative, np.ones(len(pairs)), bounds=(lower, np.inf))
    # The solver stays inside its bounds by as little as 5e-324.
    solution = np.where(fit.active_mask < 0, lower, fit.x)
    ends = np.cumsum([n_devices, len(links), len(links)])
    scale, fixed, per_mb, (submodel_ms,) = np.split(solution, ends)
    total_ms = operator_ms.sum(axis=0) * scale
    # A table charges every submodel, the fit all but the first: subtract its cost from operators.
    share = 1.0 - submodel_ms / np.maximum(total_ms, np.finfo(float).tiny)
    return CostTable(
        source="profiled",
        graph=problem.units.graph.fingerprint(),
        structure=problem.units.graph.fingerprint(by_name=False),
        operators=problem.units.graph.names,
        devices=problem.device_names,
        operator_ms=operator_ms * scale * np.where(total_ms > submodel_ms, share, 1.0),
        supported=problem.runs[problem.units.of_operator],
        memory_bytes=problem.units.graph.weight_bytes,
        transfer_size=problem.units.graph.tensors.size_bytes / 1e6,
        transfer_unit="MB",
        link_ms=symmetric_matrix(fixed, links, n_devices),
        link_ms_per_size=symmetric_matrix(per_mb, links, n_devices),
        submodel_ms=np.full(n_devices, submodel_ms),
        host=np.array([device.host for device in problem.devices]),
        interference=float(np.median([m.interference for _, m in pairs])),
    )


def explain_too_few(problem: Problem, errors: Sequence[str]) -> EngineError:
    """Make the error for fewer measurements than a fit needs; those that ran have empty errors."""
    reasons = Counter(filter(None, errors)).most_common(1)
    reason = f": {reasons[0][0]}" if reasons else ""
    # HETERO's errors about a border of unknown size name tensors or shapes.
    of_shapes = any(word in reason.lower() for word in ("tensor", "shape"))
    if of_shapes and problem.units.graph.request.keywords().get("data_shapes"):
        reason += ". HETERO refuses some splits of dynamic shapes: bind all of them (--shape)"
    return EngineError(
        f"no profile: it needs {n_needed(problem)} measured placements, and {errors.count('')} of "
        f"{len(errors)} ran{reason}"
    )


def work_per_device(problem: Problem, operator_ms: FloatArray, assignment: IntArray) -> FloatArray:
    operator_devices = assignment[problem.units.of_operator]
    times_ms = operator_ms[np.arange(len(operator_devices)), operator_devices]
    return np.bincount(operator_devices, times_ms, len(problem.devices)).astype(np.float64)


def count_crossings(
    problem: Problem, assignment: IntArray, links: list[tuple[int, int]]
) -> list[float]:
    """Transfers over each link, then megabytes over each link."""
    tensors = problem.units.quotient.tensors
    tensor, target = problem.transfers(assignment)
    source = assignment[tensors.source[tensor]]
    low, high = np.minimum(source, target), np.maximum(source, target)
    crossings = [(low == a) & (high == b) for a, b in links]
    megabytes = tensors.size_bytes[tensor] / 1e6
    return [
        *(float(mine.sum()) for mine in crossings),
        *(float(megabytes[mine].sum()) for mine in crossings),
    ]


def symmetric_matrix(
    values: FloatArray, links: list[tuple[int, int]], n_devices: int
) -> FloatArray:
    matrix = np.zeros((n_devices, n_devices))
    for value, (a, b) in zip(values, links, strict=True):
        matrix[a, b] = matrix[b, a] = value
    return matrix
