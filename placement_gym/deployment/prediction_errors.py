"""Compare the twin with measurements of the same placements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from placement_gym.backends import Measurement
from placement_gym.backends.measured import (
    FOR_RANKING,
    MeasuredBackend,
    explain_interrupt,
    load_or_measure,
    sample_fit_placements,
)
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import (
    EngineError,
    FloatArray,
    IntArray,
    UserError,
    check_output_folder,
    keep_results,
    make_output_folder,
    progress_bar,
    safe_name,
    suggest_keywords,
    to_plain,
    warn_user,
    write_json,
)
from placement_gym.deployment.profiling import build_divisible_backend
from placement_gym.hardware import DevicesArgument, collect_cautions
from placement_gym.models import InputsArgument, ModelSpec, Shapes
from placement_gym.problem import Problem, sample_placements
from placement_gym.problem.costs import CostTable
from placement_gym.view.figures import draw_fidelity, draw_if_possible

PLACEMENTS_SEED = 7
"""Fixed, so reports on one problem measure the same placements."""
MIN_PLACEMENTS = 6
"""Smallest number of placements for a rank correlation."""
FASTEST_SHARE = 1 / 3
"""Share of the placements whose ranking is also reported separately."""
Document = dict[str, Any]


@suggest_keywords
def fidelity(  # noqa: D417  keywords as for gym.make share a line
    model: Any = "resnet",
    devices: DevicesArgument = None,
    *,
    granularity: str = "fused",
    shapes: Shapes | None = None,
    inputs: InputsArgument | None = None,
    scenario: str | None = None,
    extension: str | Path | None = None,
    tolerance: float | None = None,
    n_placements: int = 40,
    out: str | Path = "results",
    refresh: bool = False,
    quiet: bool = False,
) -> Document:
    """Measure placements with OpenVINO and compare them with predictions of the profiled twin.

    The profile was not fitted to these placements. Both latencies are relative to the reference
    device, measured meanwhile, so a machine that has become slower since it was profiled adds no
    error. ``out`` gets ``fidelity-MODEL.json`` with every placement, and a scatter plot.

    Args:
        model, devices, shapes, inputs, scenario, extension, tolerance: As for ``gym.make``.
        granularity: As for ``gym.make``; a finer one is used if there are fewer than four units.
        n_placements: Number of placements to measure.
        out: Folder for the results.
        refresh: Profile again, even if this machine has a profile.
        quiet: Show no progress.

    Returns:
        ``model``, ``devices``, ``notes``, ``costs`` (fingerprint), ``reference_ms`` and
        ``profiled_reference_ms``, which differ by the machine's drift, ``noise``, ``failed``,
        ``rows`` of placements with ``measured_ms``, ``predicted_ms`` and ``slow_share`` (of the
        work on slower devices); and ``twin`` and ``slow_share``, each with ``spearman``,
        ``kendall``, ``spearman_fastest_third`` and, for the twin, ``median_error`` and
        ``largest_error``.

    Raises:
        UserError: ``out`` cannot be written, the problem cannot be split or profiled, or there
            are fewer than six placements.
        EngineError: Fewer than six placements could be measured.
    """
    if n_placements < MIN_PLACEMENTS:
        raise UserError(
            f"rank correlation needs at least {MIN_PLACEMENTS} placements, not {n_placements}"
        )
    folder = check_output_folder(out)
    spec = ModelSpec(model, granularity, "folded", shapes, inputs, scenario, extension)
    backend, notes = build_divisible_backend(spec, devices, quiet=quiet, tolerance=tolerance)
    problem = backend.problem
    placements = sample_held_out(problem, n_placements)
    if len(placements) < MIN_PLACEMENTS:
        raise UserError(
            f"{problem.n_units} units allow only {len(placements)} placements that the profile is "
            f"not fitted to, and rank correlation needs {MIN_PLACEMENTS}: take a larger model"
        )
    with closing(backend), explain_interrupt(backend):
        # The exact profile, which users simulate with, not the quick one of a plan.
        costs = load_or_measure(backend, refresh, quiet)
        measured = measure_placements(backend, placements, quiet)
    twin = SimulatedBackend(problem, costs)
    reference_ms = float(np.median([m.reference_ms for m in measured]))
    rows = [
        {
            "placement": placement.tolist(),
            "measured_ms": reference_ms / m.speedup,
            "predicted_ms": reference_ms / twin.evaluate_ignoring_limits(placement).speedup,
            "slow_share": slow_share(problem, costs, placement),
            "noise": m.noise,
            "n_submodels": m.n_submodels,
        }
        for placement, m in zip(placements, measured, strict=True)
        if m.feasible
    ]
    if len(rows) < MIN_PLACEMENTS:
        reasons = sorted({m.error for m in measured if m.error})
        raise EngineError(f"only {len(rows)} placements could be measured: {'; '.join(reasons)}")
    document: Document = to_plain(
        {
            "model": problem.units.graph.model,
            "devices": problem.device_names,
            "notes": [*collect_cautions(problem.devices), *notes],
            "costs": costs.fingerprint,
            "reference_ms": reference_ms,
            "profiled_reference_ms": twin.reference_ms,
            "noise": float(np.median([row["noise"] for row in rows])),
            "failed": len(measured) - len(rows),
            **compute_agreement(rows),
            "rows": rows,
            "unsaved": "",
        }
    )
    with keep_results(document):
        file = make_output_folder(folder) / f"fidelity-{safe_name(document['model'])}.json"
        write_json(file, document)
        if note := draw_if_possible(partial(draw_fidelity, document), file.with_suffix(".png")):
            warn_user(note)
    return document


def measure_placements(
    backend: MeasuredBackend, placements: Sequence[IntArray], quiet: bool
) -> list[Measurement]:
    """Measure placements one by one, precisely enough to rank them; ignore memory limits."""
    measured: list[Measurement] = []
    with (
        progress_bar(len(placements), "placements", quiet, description="measuring") as progress,
        closing(backend.with_protocol(FOR_RANKING)) as exact,
    ):
        for placement in placements:
            measured.append(exact.evaluate_ignoring_limits(placement))
            progress.advance(progress.task_ids[0])
    return measured


def sample_held_out(problem: Problem, n: int) -> list[IntArray]:
    """Sample ``n`` placements that the profile was not fitted to; fewer if there are fewer."""
    fitted = {placement.tobytes() for placement in sample_fit_placements(problem)}
    samples = sample_placements(problem, n + len(fitted), np.random.default_rng(PLACEMENTS_SEED))
    return [placement for placement in samples if placement.tobytes() not in fitted][:n]


def slow_share(problem: Problem, costs: CostTable, placement: IntArray) -> float:
    """Return the share of the work that is not on the fastest device."""
    unit_ms = costs.unit_ms(problem.units)
    fastest = int(unit_ms.sum(axis=0).argmin())
    work = unit_ms[:, fastest]
    return float(work[placement != fastest].sum() / work.sum())


def compute_agreement(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Compare measurements with predictions, and with the share of slow work."""
    measured, predicted, share = (
        np.array([row[name] for row in rows])
        for name in ("measured_ms", "predicted_ms", "slow_share")
    )
    error = np.abs(predicted / measured - 1.0)
    errors = {"median_error": float(np.median(error)), "largest_error": float(error.max())}
    return {
        "twin": rank_correlations(measured, predicted) | errors,
        "slow_share": rank_correlations(measured, share),
    }


def rank_correlations(measured: FloatArray, predicted: FloatArray) -> dict[str, float]:
    """Correlate ranks over all placements, and over the fastest third; 0 if all are equal."""
    fastest = np.argsort(measured)[: max(int(np.ceil(len(measured) * FASTEST_SHARE)), 3)]
    correlations = {
        "spearman": spearmanr(measured, predicted),
        "kendall": kendalltau(measured, predicted),
        "spearman_fastest_third": spearmanr(measured[fastest], predicted[fastest]),
    }
    return {name: float(np.nan_to_num(result.statistic)) for name, result in correlations.items()}
