"""Compiled parts of the simulation: queues, foreign load, weights that come and go.

Devices serve stages in the order in which requests arrived: none overtakes another, and a stage
whose turn it is waits for the one before. So a request's latency is known once its plan is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray


class Tables(NamedTuple):
    """Plans as arrays. The stages of all plans of all models are numbered through.

    Attributes:
        first: (n_models * n_plans + 1,) first stage of each plan; none where a model has fewer.
        allowed: (n_models, n_plans) whether there is such a plan.
        device: (n_stages,) device of each stage.
        work_ms: (n_stages,) time on the idle device.
        load_ms: (n_stages,) time to load its weights.
        held_bytes: (n_stages,) size of its weights.
        group: (n_devices,) devices of one group share memory.
        limit_bytes: (n_groups,) weights that fit.
        reference_ms: (n_models,) latency of the fastest plan alone.
    """

    first: IntArray
    allowed: BoolArray
    device: IntArray
    work_ms: FloatArray
    load_ms: FloatArray
    held_bytes: FloatArray
    group: IntArray
    limit_bytes: FloatArray
    reference_ms: FloatArray


class Load(NamedTuple):
    """Other programs on the devices.

    Attributes:
        toggles_ms: (n_devices, n_toggles) ascending times at which one begins, ends, begins, ...
        pace: Times as long that everything takes meanwhile.
    """

    toggles_ms: FloatArray
    pace: float


@njit(cache=True, nogil=True)
def find_pace(load: Load, device: int, at_ms: float) -> float:
    """Times as long that a device takes at a moment."""
    begun = np.searchsorted(load.toggles_ms[device], at_ms, side="right")
    return load.pace if begun % 2 else 1.0


@njit(cache=True, nogil=True)
def find_end(load: Load, device: int, begin_ms: float, work_ms: float) -> float:
    """When work ends that a device begins."""
    toggles = load.toggles_ms[device]
    number = np.searchsorted(toggles, begin_ms, side="right")
    while True:
        pace = load.pace if number % 2 else 1.0
        end_ms = begin_ms + work_ms * pace
        if number == len(toggles) or end_ms <= toggles[number]:
            return end_ms
        work_ms -= (toggles[number] - begin_ms) / pace
        begin_ms = toggles[number]
        number += 1


@njit(cache=True, nogil=True)
def find_work(load: Load, device: int, begin_ms: float, end_ms: float) -> float:
    """Work of a device between two times: the inverse of ``find_end``."""
    toggles, work_ms = load.toggles_ms[device], 0.0
    number = np.searchsorted(toggles, begin_ms, side="right")
    while begin_ms < end_ms:
        pace = load.pace if number % 2 else 1.0
        until_ms = min(end_ms, toggles[number]) if number < len(toggles) else end_ms
        work_ms += (until_ms - begin_ms) / pace
        begin_ms = until_ms
        number += 1
    return work_ms


@njit(cache=True, nogil=True)
def look(
    load: Load, free_ms: FloatArray, now_ms: float, queue_ms: FloatArray, pace: FloatArray
) -> None:
    """Find what can be known of the devices now: the work in their queues, and their pace."""
    for device in range(len(free_ms)):
        queue_ms[device] = find_work(load, device, now_ms, free_ms[device])
        pace[device] = find_pace(load, device, now_ms)


@njit(cache=True, nogil=True)
def hold(tables: Tables, used: IntArray, stage: int, request: int) -> bool:
    """Load a stage's weights, unless they are there, in place of those unused for longest.

    Args:
        tables: See there.
        used: (n_stages,) number of the last request that used it; -1 where it is not loaded.
        stage: The stage.
        request: Number of the request.

    Returns:
        Whether they had to be loaded.
    """
    absent = used[stage] < 0
    used[stage] = request
    group = tables.group[tables.device[stage]]
    while absent:
        held_bytes, oldest = 0.0, -1
        for other in range(len(used)):
            if used[other] >= 0 and tables.group[tables.device[other]] == group:
                held_bytes += tables.held_bytes[other]
                if other != stage and (oldest < 0 or used[other] < used[oldest]):
                    oldest = other
        if held_bytes <= tables.limit_bytes[group] or oldest < 0:
            break
        used[oldest] = -1
    return absent


@njit(cache=True, nogil=True)
def serve(
    tables: Tables,
    load: Load,
    free_ms: FloatArray,
    used: IntArray,
    now_ms: float,
    request: int,
    plan: int,
) -> tuple[float, float]:
    """Let a request run by a plan, ``model * n_plans + plan``; returns latency and loaded bytes."""
    at_ms, loaded_bytes = now_ms, 0.0
    for stage in range(tables.first[plan], tables.first[plan + 1]):
        device, work_ms = tables.device[stage], tables.work_ms[stage]
        if hold(tables, used, stage, request):
            work_ms += tables.load_ms[stage]
            loaded_bytes += tables.held_bytes[stage]
        at_ms = find_end(load, device, max(at_ms, free_ms[device]), work_ms)
        free_ms[device] = at_ms
    return at_ms - now_ms, loaded_bytes


@njit(cache=True, nogil=True)
def predict(
    tables: Tables, queue_ms: FloatArray, pace: FloatArray, used: IntArray, plan: int
) -> tuple[float, float]:
    """Latency of a plan that is chosen now, if every device keeps its pace; and time to load."""
    at_ms, load_ms = 0.0, 0.0
    for stage in range(tables.first[plan], tables.first[plan + 1]):
        device, work_ms = tables.device[stage], tables.work_ms[stage]
        if used[stage] < 0:
            work_ms += tables.load_ms[stage]
            load_ms += tables.load_ms[stage]
        at_ms = max(at_ms, queue_ms[device] * pace[device]) + work_ms * pace[device]
    return at_ms, load_ms


@njit(cache=True, nogil=True)
def choose_shortest(
    tables: Tables, queue_ms: FloatArray, pace: FloatArray, used: IntArray, model: int
) -> int:
    """The plan of a model that ends first by ``predict``, as ``model * n_plans + plan``."""
    n_plans = tables.allowed.shape[1]
    best, shortest_ms = 0, np.inf
    for plan in range(n_plans):
        if tables.allowed[model, plan]:
            ms, _ = predict(tables, queue_ms, pace, used, model * n_plans + plan)
            if ms < shortest_ms:
                best, shortest_ms = plan, ms
    return model * n_plans + best


@njit(cache=True, nogil=True)
def play_static(
    tables: Tables, load: Load, arrivals_ms: FloatArray, models: IntArray, choice: IntArray
) -> float:
    """Mean log slow-down of a trace if each model always runs by one plan."""
    free_ms, used = np.zeros(len(tables.group)), np.full(len(tables.device), -1)
    total = 0.0
    for request in range(len(models)):
        model = models[request]
        plan = model * tables.allowed.shape[1] + choice[model]
        ms, _ = serve(tables, load, free_ms, used, arrivals_ms[request], request, plan)
        total += np.log(ms / tables.reference_ms[model])
    return total / len(models)


@njit(cache=True, nogil=True)
def roll_out(
    tables: Tables,
    queue_ms: FloatArray,
    pace: FloatArray,
    used: IntArray,
    request: int,
    plan: int,
    arrivals_ms: FloatArray,
    models: IntArray,
) -> float:
    """Sum of log slow-downs of a plan for the first request and the shortest ones for the others.

    Devices keep their pace. ``arrivals_ms`` are from now on.
    """
    toggles = np.where(pace > 1.0, -1.0, np.inf).reshape(-1, 1)
    load = Load(toggles, pace.max())
    free_ms, used, queue_ms, total = queue_ms * pace, used.copy(), queue_ms.copy(), 0.0
    for number in range(len(models)):
        now_ms, model = arrivals_ms[number], models[number]
        if number:
            look(load, free_ms, now_ms, queue_ms, pace)
            plan = choose_shortest(tables, queue_ms, pace, used, model)
        ms, _ = serve(tables, load, free_ms, used, now_ms, request + number, plan)
        total += np.log(ms / tables.reference_ms[model])
    return total
