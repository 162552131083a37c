"""Profiled costs: counters for operators, a fit on measured splits for what cuts cost."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import lsq_linear

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.measured.counters import operator_times
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.timing_protocol import FITTED, QUICK, TimingProtocol
from placement_gym.backends.protocol import Measurement
from placement_gym.costs.table import CostTable
from placement_gym.devices import usable_cores
from placement_gym.errors import EngineError, UserError
from placement_gym.patterns import sample_placements
from placement_gym.problem import Problem
from placement_gym.progress import progress_bar

if TYPE_CHECKING:
    from placement_gym.backends.measured.backend import MeasuredBackend

SEED = 20_202
METHOD = 2
"""Changes with what a profile measures or how it is kept, so that older ones are not read."""
MIN_TRANSFER_MS = 0.02
"""Least cost of a transfer, without which a solver trusts a lucky fit and cuts too often."""


def profile(backend: MeasuredBackend, step: Callable[[], object] = lambda: None) -> CostTable:
    """Measure a cost table, calling ``step`` after each measurement.

    Operators get the times of OpenVINO's counters on each device alone, times one factor a
    device. It, the fixed and per-megabyte costs of transfers and the cost of a further submodel
    are a non-negative least-squares fit, on relative errors, to the latencies of every device
    alone and of ``fitted_splits``.

    Raises:
        ValueError: There is one device only, or one does not run the whole model.
        RuntimeError: Too few of the splits could be measured.
    """
    problem = backend.problem
    graph = problem.units.graph
    check(problem)
    columns = []
    for device in problem.devices:
        with measurement_lock():
            columns.append(
                operator_times(
                    backend.core,
                    backend.model,
                    graph,
                    device,
                    backend.inputs,
                    backend.protocol.counted,
                )
            )
        step()
    singles = [problem.single(device) for device in range(len(problem.devices))]
    splits = [*singles, *fitted_splits(problem, backend.protocol)]
    found = []
    for split in splits:
        found.append(backend.evaluate_ignoring_limits(split))
        step()
    return fitted(problem, np.stack(columns, axis=1), splits, found)


def check(problem: Problem) -> None:
    """Refuse what cannot be profiled, before anything is measured."""
    partly = [
        n for n, whole in zip(problem.device_names, problem.runs_all, strict=True) if not whole
    ]
    if len(problem.devices) < 2 or partly:
        raise UserError(
            f"a profile needs two or more devices that run the whole model; {partly} do not, of "
            f"{list(problem.device_names)}: leave them out"
        )


def fitted_splits(problem: Problem, protocol: TimingProtocol = FITTED) -> list[IntArray]:
    """The splits that a profile is fitted to, always the same of a problem."""
    return sample_placements(problem, n_splits(problem, protocol), np.random.default_rng(SEED))


def n_splits(problem: Problem, protocol: TimingProtocol) -> int:
    """As many as average the noise out, or a few more than the unknowns of the fit."""
    unknowns = n_unknowns(len(problem.devices))
    return max(protocol.splits, 2 * unknowns if protocol.splits else unknowns + 2)


def n_unknowns(n_devices: int) -> int:
    """A factor a device, two costs a link, and that of a submodel."""
    return n_devices + n_devices * (n_devices - 1) + 1


def n_measurements(problem: Problem, protocol: TimingProtocol) -> int:
    """How often ``profile`` measures something, at most."""
    return 2 * len(problem.devices) + n_splits(problem, protocol)


def fitted(
    problem: Problem,
    operator_ms: FloatArray,
    splits: Iterable[IntArray],
    found: Iterable[Measurement],
) -> CostTable:
    """The table that explains the measurements best.

    Args:
        problem: Units and devices.
        operator_ms: (n_operators, n_devices) times by the counters.
        splits: The measured assignments, every device alone among them where it can be.
        found: Their measurements, in the same order.
    """
    pairs = [(split, m) for split, m in zip(splits, found, strict=True) if m.feasible]
    if len(pairs) < n_unknowns(len(problem.devices)) + 2:
        raise EngineError(f"only {len(pairs)} placements could be measured: no profile")
    n_devices = len(problem.devices)
    links = list(combinations(range(n_devices), 2))
    reference_ms = float(np.median([m.reference_ms for _, m in pairs]))
    latency_ms = np.array([reference_ms / m.speedup for _, m in pairs])
    design = np.array(
        [
            [
                *device_work(problem, operator_ms, a),
                *crossings(problem, a, links),
                m.n_submodels - 1,
            ]
            for a, m in pairs
        ]
    )
    lowest = np.zeros(design.shape[1])
    lowest[n_devices : n_devices + len(links)] = MIN_TRANSFER_MS
    relative = design / latency_ms[:, None]
    solution = lsq_linear(relative, np.ones(len(pairs)), bounds=(lowest, np.inf)).x
    ends = np.cumsum([n_devices, len(links), len(links)])
    scale, fixed, per_mb, (submodel_ms,) = np.split(solution, ends)
    whole = operator_ms.sum(axis=0) * scale
    rest = 1.0 - submodel_ms / np.maximum(whole, np.finfo(float).tiny)
    return CostTable(
        source="profiled",
        graph=problem.units.graph.fingerprint(),
        operators=problem.units.graph.names,
        devices=problem.device_names,
        operator_ms=operator_ms * scale * np.where(whole > submodel_ms, rest, 1.0),
        supported=problem.supported[problem.units.of_operator],
        memory_bytes=problem.units.graph.weight_bytes,
        transfer_size=problem.units.graph.tensors.size_bytes / 1e6,
        transfer_unit="MB",
        link_ms=symmetric(fixed, links, n_devices),
        link_ms_per_size=symmetric(per_mb, links, n_devices),
        submodel_ms=np.full(n_devices, submodel_ms),
        host=np.array([device.host for device in problem.devices]),
    )


def device_work(problem: Problem, operator_ms: FloatArray, assignment: IntArray) -> FloatArray:
    """(n_devices,) counted time of the operators on each device."""
    on = assignment[problem.units.of_operator]
    counted = operator_ms[np.arange(len(on)), on]
    return np.bincount(on, counted, len(problem.devices)).astype(np.float64)


def crossings(problem: Problem, assignment: IntArray, links: list[tuple[int, int]]) -> list[float]:
    """Transfers over each link, then megabytes over each link."""
    tensors = problem.units.quotient.tensors
    tensor, target = problem.transfers(assignment)
    source = assignment[tensors.source[tensor]]
    low, high = np.minimum(source, target), np.maximum(source, target)
    over = [(low == a) & (high == b) for a, b in links]
    megabytes = tensors.size_bytes[tensor] / 1e6
    return [*(float(mine.sum()) for mine in over), *(float(megabytes[mine].sum()) for mine in over)]


def symmetric(values: FloatArray, links: list[tuple[int, int]], n_devices: int) -> FloatArray:
    """(n_devices, n_devices) with each link's value in both directions."""
    matrix = np.zeros((n_devices, n_devices))
    for value, (a, b) in zip(values, links, strict=True):
        matrix[a, b] = matrix[b, a] = value
    return matrix


def cache_path(backend: MeasuredBackend, quick: bool = False) -> Path:
    """Where this machine keeps the profile of a backend's problem and way of splitting."""
    import openvino as ov

    problem = backend.problem
    key = {
        "method": METHOD,
        "alias": backend.alias,
        "problem": problem.fingerprint(),
        "devices": [device.to_json() for device in problem.devices],
        "machine": [platform.node(), platform.processor(), usable_cores()],
        "openvino": ov.__version__,
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in problem.units.graph.model)
    kind = "quick-profile" if quick else "profile"
    return cache / "placement_gym" / f"{kind}-{name}-{digest}.json"


def cached(
    backend: MeasuredBackend, refresh: bool = False, quiet: bool = False, quick: bool = False
) -> CostTable:
    """The profile that this machine keeps of the backend's problem; measured if there is none.

    Args:
        backend: Its model, problem and way of splitting.
        refresh: Measure again.
        quiet: Show no progress.
        quick: A rougher profile will do, in a fraction of the time; a full one is still taken
            where there is one.
    """
    path, full = cache_path(backend, quick), cache_path(backend)
    for known in (full, path):
        if known.exists() and not refresh:
            return CostTable.load(known)
    protocol = QUICK if quick else FITTED
    with progress_bar(n_measurements(backend.problem, protocol), "measurements", quiet) as progress:
        task = progress.task_ids[0]
        progress.update(task, description="profiling")
        table = profile(backend.under(protocol), step=lambda: progress.advance(task))
    path.parent.mkdir(parents=True, exist_ok=True)
    table.save(path)
    return table
