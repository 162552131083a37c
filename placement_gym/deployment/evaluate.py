"""Measure a saved placement again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from placement_gym.backends import Finalist, Finals
from placement_gym.base import progress_bar, to_plain
from placement_gym.deployment.selection import describe_throughput
from placement_gym.envs import placement_env
from placement_gym.hardware import collect_cautions
from placement_gym.models import InputsArgument, Shapes, model_of_placement
from placement_gym.problem import Placement, describe_saved

MEASURED = (
    "latency_ms",
    "latency_p90_ms",
    "n_submodels",
    "n_submodels_expected",
    "memory_bytes",
    "held_bytes",
    "warning",
    "interference",
)
"""Fields of a measurement that ``evaluate_placement`` returns unchanged."""


def evaluate_placement(  # noqa: D417  arguments as for gym.make share a line
    model: Any,
    placement: Placement | str | Path,
    split: str = "auto",
    shapes: Shapes | None = None,
    quiet: bool = False,
    objective: str = "latency",
    tolerance: float | None = None,
    inputs: InputsArgument | None = None,
    extension: str | Path | None = None,
) -> dict[str, Any]:
    """Compile a placement and measure it next to the fastest single device.

    The placement also states the scenario of a model with state, and the measured sizes of dynamic
    dimensions. Of the user's inputs it keeps only sizes and a fingerprint, so pass ``inputs``
    again. With objective ``"throughput"`` latencies are times between two results.

    Args:
        model: The model that the placement was made for, as for ``gym.make``; None means the
            built-in model that it names.
        placement: A placement or its file; its devices and their settings are used.
        split: See ``placement_gym.compile_model``.
        shapes, objective, tolerance, inputs, extension: As for ``gym.make``.
        quiet: Show no progress.

    Returns:
        model, saved (the content of the file in one line), alone (whether it uses a single device),
        notes, latency_ms, latency_p90_ms, reference_ms, speedup, noise, n_submodels,
        n_submodels_expected, memory_bytes and held_bytes (of each device, see ``Measurement``),
        warning (why the measurement decides nothing, or an empty string), interference (share of
        the time that other programs took, 0 if enough samples were undisturbed), objective, and
        scenario, data_shapes or inputs (what was run; a fingerprint of the user's inputs).
        best_single_ms, speedup_vs_best_single and beats_best_single, None if no device may run the
        model alone. For a model with state also prefill_ms and token_ms, or step_ms if it reads no
        tokens; for throughput requests_per_s, requests (in flight) and streams.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        UnknownDeviceError: The machine does not have its devices.
    """
    planned = placement if isinstance(placement, Placement) else Placement.load(placement)
    # The same environment and finals as in a benchmark, so figures are comparable.
    env_kwargs = {
        **planned.spec.with_model(model, shapes, inputs).to_json(),
        "devices": planned.devices,
        "split": split,
        "objective": objective,
        "tolerance": tolerance,
        "extension": extension,
    }
    with (
        progress_bar(2, "steps", quiet, description="reading the model") as progress,
        model_of_placement(model),
        closing(gym.make("placement_gym:DevicePlacement-v0", **env_kwargs)) as env,
    ):
        base = placement_env(env)
        # Placements are stored by operators, so they fit any units that they do not divide.
        problem, units = base.problem, base.problem.units
        assignment = np.empty(len(units), dtype=np.int64)
        assignment[units.of_operator] = planned.operator_devices(units.graph)
        progress.update(progress.task_ids[0], advance=1, description="measuring")
        finals = Finals(base.backend, base.singles)
        finalist = finals.choose([assignment])
    # Compare only if a device may run the model alone.
    best = "" if finals.best_single is None else f"{problem.device_names[finals.best_single]} alone"
    speedup = finalist.speedup_vs_best_single if best else None
    request, measurement = units.graph.request, finalist.measurement
    return {
        "model": planned.model,
        "saved": describe_saved(planned, speedup, finalist.noise, best),
        "alone": len(set(planned.units.values())) == 1,
        "notes": [
            *collect_cautions(problem.devices),
            *planned.describe_inputs(request.own.fingerprint),
        ],
        **list_values(finalist),
        "objective": objective,
        **request.keywords(),
        **measurement.parts_ms,
        **describe_throughput(measurement, units.graph.models),
    }


def list_values(finalist: Finalist) -> dict[str, Any]:
    """Return the values of a finalist that ``evaluate_placement`` reports."""
    measurement, is_single = finalist.measurement, finalist.handicap == 1.0
    compared = {
        "best_single_ms": measurement.reference_ms,
        "speedup_vs_best_single": finalist.speedup_vs_best_single,
        "beats_best_single": finalist.beats_best_single,
    }
    values: dict[str, Any] = to_plain(
        {
            **{name: getattr(measurement, name) for name in MEASURED},
            "reference_ms": measurement.latency_ms * finalist.speedup,
            "speedup": finalist.speedup,
            "noise": finalist.noise,
            **(compared if is_single else dict.fromkeys(compared)),
        }
    )
    return values
