"""Measure a saved placement again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from placement_gym.backends import Finalist, Finals
from placement_gym.base import progress_bar, to_plain
from placement_gym.deployment.plan_rows import describe_throughput
from placement_gym.envs import placement_env
from placement_gym.hardware import collect_cautions
from placement_gym.models import Given, Shapes, model_of_placement
from placement_gym.problem import Placement, describe_saved


def evaluate_placement(
    model: Any,
    placement: Placement | str | Path,
    split: str = "auto",
    shapes: Shapes | None = None,
    quiet: bool = False,
    objective: str = "latency",
    tolerance: float | None = None,
    inputs: Given | None = None,
    extension: str | Path | None = None,
) -> dict[str, Any]:
    """Compile a placement and measure it next to the fastest single device.

    Args:
        model: The model that the placement was made for, as for ``gym.make``; None means the
            built-in model that it names.
        placement: A placement or its file; its devices and their settings are used.
        split: See ``placement_gym.compile_model``.
        shapes: As for ``gym.make``. The scenario of a model with state, and the measured sizes of
            dynamic dimensions, are those of the placement.
        quiet: Show no progress.
        objective: As for ``gym.make``; with ``"throughput"`` latencies are the times between two
            results.
        tolerance: As for ``gym.make``.
        inputs: As for ``gym.make``; a placement keeps only the sizes and the fingerprint of its
            inputs.
        extension: As for ``gym.make``.

    Returns:
        model, saved (what the file holds, in one line), alone (whether that is a single device),
        notes, latency_ms, latency_p90_ms, reference_ms, best_single_ms, speedup,
        speedup_vs_best_single, noise, n_submodels, n_submodels_expected, memory_bytes and
        held_bytes (of each device, see ``Measurement``), beats_best_single, warning (why the
        measurement decides nothing, or an empty string), and interference (share of its time that
        other programs took, 0 if enough samples were undisturbed), objective, and scenario,
        data_shapes or inputs (what was run, and the fingerprint of the user's inputs). For a model
        with state also prefill_ms and token_ms, or step_ms if it reads no tokens; for throughput
        requests_per_s, requests (in flight) and streams.
        best_single_ms, speedup_vs_best_single and beats_best_single are None if no device may run
        the model alone.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        UnknownDeviceError: The machine does not have its devices.
    """
    loaded_placement = placement if isinstance(placement, Placement) else Placement.load(placement)
    # The same environment and finalist as in a benchmark, so the figures are comparable.
    env_kwargs = {
        **loaded_placement.spec.with_model(model, shapes, inputs).to_json(),
        "devices": loaded_placement.devices,
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
        # A placement is stored by operators: it fits all units that it does not divide.
        units = base.problem.units
        assignment = np.empty(len(units), dtype=np.int64)
        assignment[units.of_operator] = loaded_placement.operator_devices(units.graph)
        progress.update(progress.task_ids[0], advance=1, description="measuring")
        finals = Finals(base.backend, base.singles, noisy=True)
        finalist = finals.choose([assignment])
    return {
        "model": loaded_placement.model,
        "saved": describe_measured(loaded_placement, finalist, name_best_single(finals)),
        "alone": len(set(loaded_placement.units.values())) == 1,
        "notes": [
            *collect_cautions(base.problem.devices, measured=True),
            *loaded_placement.describe_inputs(units.graph.request.own.fingerprint),
        ],
        **list_values(finalist),
        "objective": objective,
        **units.graph.request.keywords(),
        **finalist.measurement.parts_ms,
        **describe_throughput(finalist.measurement, units.graph.models),
    }


def name_best_single(finals: Finals) -> str:
    """``"CPU alone"`` if that is the best single device; empty if none may run the model."""
    best = finals.best_single
    return "" if best is None else f"{finals.problem.device_names[best]} alone"


def describe_measured(placement: Placement, finalist: Finalist, best_single: str) -> str:
    """Describe what the file holds, with the gain that was measured."""
    speedup = finalist.speedup_vs_best_single if best_single else None
    return describe_saved(placement, speedup, finalist.noise, best_single)


def list_values(finalist: Finalist) -> dict[str, Any]:
    """The values of a finalist that are returned and printed."""
    measurement, is_single = finalist.measurement, finalist.handicap == 1.0
    values: dict[str, Any] = to_plain(
        {
            "latency_ms": measurement.latency_ms,
            "latency_p90_ms": measurement.latency_p90_ms,
            "reference_ms": measurement.latency_ms * finalist.speedup,
            "best_single_ms": measurement.reference_ms if is_single else None,
            "speedup": finalist.speedup,
            "speedup_vs_best_single": finalist.speedup_vs_best_single if is_single else None,
            "noise": finalist.noise,
            "n_submodels": measurement.n_submodels,
            "n_submodels_expected": measurement.n_submodels_expected,
            "memory_bytes": measurement.memory_bytes,
            "held_bytes": measurement.held_bytes,
            "beats_best_single": finalist.beats_best_single if is_single else None,
            "warning": measurement.warning,
            "interference": measurement.interference,
        }
    )
    return values
