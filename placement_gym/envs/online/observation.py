"""Observations of ``OnlineEnv``."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from placement_gym.base import compile_once
from placement_gym.envs.online.kernel import MAX_LOG, State, Tables, displace, predict

MIN_HIGH = 0.01
"""Smallest upper bound. Chosen because Gymnasium warns of a space with a single value."""
HALF_USES = 10.0
"""Uses of other stages after which ``resident`` is one half. Hand-tuned."""
Seen = NDArray[np.float32]


def list_parts(tables: Tables) -> dict[str, slice]:
    """The slice of each part of an observation; ``OnlineEnv`` documents the parts."""
    n_models, n_plans, n_devices = tables.log_work.shape
    widths = {
        "queue": n_devices,
        "load": n_devices,
        "model": n_models,
        "latency": n_plans,
        "loading": n_plans,
        "displaced": n_plans,
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
    """The observation space; its bound of work depends on the plans."""
    parts = list_parts(tables)
    low, high = np.zeros((2, parts["rate"].stop), np.float32)
    high[:] = 1.0
    for name in ("queue", "latency", "loading", "displaced", "rate"):
        high[parts[name]] = MAX_LOG
    low[parts["rate"]], high[parts["load"]] = -MAX_LOG, max(pace - 1.0, MIN_HIGH)
    high[parts["work"]] = np.maximum(tables.log_work.max(axis=0).ravel(), MIN_HIGH)
    return spaces.Box(low, high, dtype=np.float32)


@compile_once(nogil=True)
def observe(tables: Tables, state: State, model: int) -> Seen:
    """(n_entries,) observation when a request arrives, in the order of ``list_parts``."""
    n_models, n_plans, n_devices = tables.log_work.shape
    n_stages, unit_ms = len(tables.device), tables.reference_ms.mean()
    n_entries = n_devices * (2 + n_plans) + 2 * n_models + 3 * n_plans + n_stages + 1
    seen = np.zeros(n_entries, np.float32)
    # Devices and the request.
    for device in range(n_devices):
        seen[device] = min(np.log1p(state.queue_ms[device] / unit_ms), MAX_LOG)
        seen[n_devices + device] = state.pace[device] - 1.0
    at = 2 * n_devices
    seen[at + model] = 1.0
    at += n_models
    # Times of its plans, and of the weights that they load and displace.
    for plan in range(n_plans):
        seen[at + plan] = MAX_LOG
        if tables.allowed[model, plan]:
            seen[at + plan], seen[at + n_plans + plan] = predict(tables, state, model, plan)
            load_ms = displace(tables, state, model, plan)
            seen[at + 2 * n_plans + plan] = min(np.log1p(load_ms / unit_ms), MAX_LOG)
    at += 3 * n_plans
    seen[at : at + n_plans * n_devices] = tables.log_work[model].ravel()
    at += n_plans * n_devices
    # Weights, and recent requests.
    latest = state.used.max()
    for stage in np.flatnonzero(state.used >= 0):
        seen[at + stage] = HALF_USES / (HALF_USES + latest - state.used[stage])
    at += n_stages
    seen[at : at + n_models] = state.mix
    rate = np.log(max(unit_ms / max(state.gap_ms[0], 1e-9), 1e-9))
    seen[at + n_models] = min(max(rate, -MAX_LOG), MAX_LOG)
    return seen
