"""What a policy sees before it chooses the plan of a request."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit
from numpy.typing import NDArray

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.envs.online.kernel import State, Tables, predict

MAX_LOG = 10.0
"""Bound of logarithms of ratios: ours, 22,000 times."""
MIN_HIGH = 0.01
"""Smallest upper bound: ours, as a space of one value gives a warning."""
Seen = NDArray[np.float32]


def list_parts(tables: Tables) -> dict[str, slice]:
    """Slice of each part of an observation, in order; ``OnlineEnv`` says what they mean."""
    n_devices, (n_models, n_plans) = len(tables.group), tables.allowed.shape
    widths = {
        "queue": n_devices,
        "load": n_devices,
        "model": n_models,
        "latency": n_plans,
        "loading": n_plans,
        "work": n_plans * n_devices,
        "resident": len(tables.device),
        "mix": n_models,
        "rate": 1,
    }
    ends = np.cumsum([*widths.values()]).tolist()
    return {
        name: slice(end - width, end)
        for (name, width), end in zip(widths.items(), ends, strict=True)
    }


def make_space(tables: Tables, pace: float) -> spaces.Box:
    """The observation space. Bounds of work are those of the plans, so that spaces tell plans
    apart.
    """
    parts = list_parts(tables)
    low, high = np.zeros((2, parts["rate"].stop), np.float32)
    high[:] = 1.0
    for name in ("queue", "latency", "loading", "rate"):
        high[parts[name]] = MAX_LOG
    low[parts["rate"]], high[parts["load"]] = -MAX_LOG, max(pace - 1.0, MIN_HIGH)
    works = [log_work(tables, model) for model in range(len(tables.allowed))]
    high[parts["work"]] = np.maximum(np.max(works, axis=0).ravel(), MIN_HIGH)
    return spaces.Box(low, high, dtype=np.float32)


@njit(cache=True, nogil=True)
def log_work(tables: Tables, model: int) -> FloatArray:
    """(n_plans, n_devices) log(1 + work) of each of a model's plans on each device."""
    n_plans = tables.allowed.shape[1]
    work_ms = np.zeros((n_plans, len(tables.group)))
    for plan in range(n_plans):
        number = model * n_plans + plan
        for stage in range(tables.first[number], tables.first[number + 1]):
            work_ms[plan, tables.device[stage]] += tables.work_ms[stage]
    return np.log1p(work_ms / tables.reference_ms.mean())


def observe(tables: Tables, state: State, models: IntArray) -> Seen:
    """(n_traces, n_entries) observations as requests of these models arrive."""
    seen = np.zeros((len(models), list_parts(tables)["rate"].stop), np.float32)
    fill(tables, state, models, seen)
    return seen


@njit(cache=True, nogil=True)
def fill(tables: Tables, state: State, models: IntArray, seen: Seen) -> None:
    """Fill zeros with observations, whose parts are those of ``list_parts`` in the same order."""
    n_devices, (n_models, n_plans) = len(tables.group), tables.allowed.shape
    n_stages, unit_ms = len(tables.device), tables.reference_ms.mean()
    for trace in range(len(seen)):
        row, model, reference_ms = seen[trace], models[trace], tables.reference_ms[models[trace]]
        queue_ms, pace, used = state.queue_ms[trace], state.pace[trace], state.used[trace]
        # Devices and the request.
        for device in range(n_devices):
            row[device] = min(np.log1p(queue_ms[device] / unit_ms), MAX_LOG)
            row[n_devices + device] = pace[device] - 1.0
        at = 2 * n_devices
        row[at + model] = 1.0
        at += n_models
        # What its plans take, and load.
        for plan in range(n_plans):
            row[at + plan] = MAX_LOG
            if tables.allowed[model, plan]:
                ms, load_ms = predict(tables, queue_ms, pace, used, model * n_plans + plan)
                row[at + plan] = min(np.log(max(ms / reference_ms, 1.0)), MAX_LOG)
                row[at + n_plans + plan] = min(np.log1p(load_ms / reference_ms), MAX_LOG)
        at += 2 * n_plans
        row[at : at + n_plans * n_devices] = log_work(tables, model).ravel()
        at += n_plans * n_devices
        # Weights, and recent requests.
        row[at : at + n_stages] = used >= 0
        at += n_stages
        row[at : at + n_models] = state.mix[trace]
        rate = np.log(max(unit_ms / max(state.gap_ms[trace], 1e-9), 1e-9))
        row[at + n_models] = min(max(rate, -MAX_LOG), MAX_LOG)
