"""How well the twin predicts: the same placements measured and simulated, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.profile import cached, fitted_splits
from placement_gym.backends.measured.timing_protocol import RANKED
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.bench.run.rows import plain
from placement_gym.costs.table import CostTable
from placement_gym.errors import UserError
from placement_gym.patterns import sample_placements
from placement_gym.problem import Problem
from placement_gym.progress import progress_bar

SEED = 7
FASTEST = 1 / 3
Document = dict[str, Any]


def fidelity(
    model: Any = "resnet",
    devices: Any = None,
    granularity: str = "colocated",
    n_placements: int = 40,
    out: str | Path = "results",
    refresh: bool = False,
    quiet: bool = False,
) -> Document:
    """Measure a spread of placements with OpenVINO, predict them with the profiled twin, compare.

    The placements are others than the profile was fitted to. Both latencies are speed-ups over the
    reference device, times its median latency while measuring, so that a machine which has become
    slower since it was profiled is no error of the twin. ``out`` gets ``fidelity-MODEL.json``
    with every placement and ``fidelity-MODEL.png``, a scatter plot.

    Args:
        model: As for ``gym.make``.
        devices: As for ``gym.make``.
        granularity: As for ``gym.make``.
        n_placements: How many.
        out: Folder for the results.
        refresh: Profile again, even if this machine has a profile.
        quiet: Show no progress.

    Returns:
        ``model``, ``devices``, ``costs`` (fingerprint), ``reference_ms``,
        ``profiled_reference_ms``, ``noise``, ``failed``, ``rows`` of
        placements with ``measured_ms``, ``predicted_ms``, ``slow_share``; and ``twin`` and
        ``slow_share``, each with ``spearman``, ``kendall``, ``spearman_fastest_third`` and, for
        the twin, ``median_error`` and ``largest_error``.

    Raises:
        ValueError: Fewer than six placements are asked for or exist.
    """
    if n_placements < 6:
        raise UserError(f"rank correlation needs at least 6 placements, not {n_placements}")
    backend = build_measured_backend(model, devices, granularity)
    costs = cached(backend, refresh, quiet)
    problem = backend.problem
    placements = held_out(problem, n_placements)
    with progress_bar(len(placements), "placements", quiet) as progress:
        task = progress.task_ids[0]
        progress.update(task, description="measuring")
        found = []
        judge = backend.under(RANKED)
        for placement in placements:
            found.append(judge.evaluate_ignoring_limits(placement))
            progress.advance(task)
    twin = SimulatedBackend(problem, costs)
    reference_ms = float(np.median([m.reference_ms for m in found]))
    rows = [
        {
            "placement": placement.tolist(),
            "measured_ms": reference_ms / m.speedup,
            "predicted_ms": reference_ms / twin.evaluate_ignoring_limits(placement).speedup,
            "slow_share": slow_share(problem, costs, placement),
            "noise": m.noise,
            "n_submodels": m.n_submodels,
        }
        for placement, m in zip(placements, found, strict=True)
        if m.feasible
    ]
    if len(rows) < 6:
        raise UserError(f"only {len(rows)} placements could be measured: too few to compare")
    document: Document = plain(
        {
            "model": problem.units.graph.model,
            "devices": problem.device_names,
            "costs": costs.fingerprint,
            "reference_ms": reference_ms,
            "profiled_reference_ms": twin.reference_ms,
            "noise": float(np.median([row["noise"] for row in rows])),
            "failed": len(placements) - len(rows),
            **agreement(rows),
            "rows": rows,
        }
    )
    write(document, Path(out))
    return document


def held_out(problem: Problem, n: int) -> list[IntArray]:
    """``n`` splits that no profile was fitted to."""
    known = {split.tobytes() for split in fitted_splits(problem)}
    drawn = sample_placements(problem, n + len(known), np.random.default_rng(SEED))
    return [split for split in drawn if split.tobytes() not in known][:n]


def slow_share(problem: Problem, costs: CostTable, placement: IntArray) -> float:
    """The share of the work that lies on devices slower than the fastest."""
    unit_ms = costs.unit_ms(problem.units)
    fastest = int(unit_ms.sum(axis=0).argmin())
    work = unit_ms[:, fastest]
    return float(work[placement != fastest].sum() / work.sum())


def agreement(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """How predictions, and the plain share of slow work, rank and hit the measurements."""
    measured = np.array([row["measured_ms"] for row in rows])
    predicted = np.array([row["predicted_ms"] for row in rows])
    share = np.array([row["slow_share"] for row in rows])
    error = np.abs(predicted / measured - 1.0)
    return {
        "twin": {
            **ranks(measured, predicted),
            "median_error": float(np.median(error)),
            "largest_error": float(error.max()),
        },
        "slow_share": ranks(measured, share),
    }


def ranks(measured: FloatArray, predicted: FloatArray) -> dict[str, float]:
    """Rank correlations over all placements, and over the fastest third as measured.

    Where all values are equal, so that there is no order to agree with, they are 0.
    """
    fastest = np.argsort(measured)[: max(int(np.ceil(len(measured) * FASTEST)), 3)]
    found = {
        "spearman": spearmanr(measured, predicted),
        "kendall": kendalltau(measured, predicted),
        "spearman_fastest_third": spearmanr(measured[fastest], predicted[fastest]),
    }
    return {name: float(np.nan_to_num(result.statistic)) for name, result in found.items()}


def write(document: Document, folder: Path) -> None:
    """Write the report's JSON and its scatter plot."""
    from placement_gym.plots.fidelity import draw_fidelity
    from placement_gym.plots.style import save

    folder.mkdir(parents=True, exist_ok=True)
    name = f"fidelity-{document['model']}"
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    save(draw_fidelity(document), folder / f"{name}.png")
