"""Compiled parts of the simulation: queues, other programs, weights that come and go.

Devices serve stages in the order in which requests arrived: none overtakes another, and a stage
whose turn it is waits for the one before. So a request's latency is known once its plan is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray

HISTORY_WEIGHT = 0.95
"""Weight of earlier requests in the recent mix and rate: ours, about the last twenty count."""


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


class Requests(NamedTuple):
    """Traces that are played at once.

    Attributes:
        arrivals_ms: (n_traces, n_requests) ascending.
        models: (n_traces, n_requests) index of each one's model.
        toggles_ms: (n_traces, n_devices, n_toggles) ascending times at which another program on a
            device begins, ends, begins, ...
        pace: Times as long that everything takes meanwhile.
    """

    arrivals_ms: FloatArray
    models: IntArray
    toggles_ms: FloatArray
    pace: float


class State(NamedTuple):
    """The devices of each trace as its request arrives.

    Attributes:
        queue_ms: (n_traces, n_devices) work in each device's queue.
        pace: (n_traces, n_devices) times as long that it takes now.
        used: (n_traces, n_stages) rises with the last use of a stage; -1 where it is not loaded.
        mix: (n_traces, n_models) recent shares.
        gap_ms: (n_traces,) recent time between two requests.
    """

    queue_ms: FloatArray
    pace: FloatArray
    used: IntArray
    mix: FloatArray
    gap_ms: FloatArray


@njit(cache=True, nogil=True)
def find_pace(toggles_ms: FloatArray, pace: float, at_ms: float) -> float:
    """Times as long that a device takes at a moment."""
    return pace if np.searchsorted(toggles_ms, at_ms, side="right") % 2 else 1.0


@njit(cache=True, nogil=True)
def find_end(toggles_ms: FloatArray, pace: float, begin_ms: float, work_ms: float) -> float:
    """When work ends that a device begins."""
    number = np.searchsorted(toggles_ms, begin_ms, side="right")
    while True:
        now = pace if number % 2 else 1.0
        end_ms = begin_ms + work_ms * now
        if number == len(toggles_ms) or end_ms <= toggles_ms[number]:
            return end_ms
        work_ms -= (toggles_ms[number] - begin_ms) / now
        begin_ms = toggles_ms[number]
        number += 1


@njit(cache=True, nogil=True)
def find_work(toggles_ms: FloatArray, pace: float, begin_ms: float, end_ms: float) -> float:
    """Work of a device between two times: the inverse of ``find_end``."""
    work_ms = 0.0
    number = np.searchsorted(toggles_ms, begin_ms, side="right")
    while begin_ms < end_ms:
        until_ms = min(end_ms, toggles_ms[number]) if number < len(toggles_ms) else end_ms
        work_ms += (until_ms - begin_ms) / (pace if number % 2 else 1.0)
        begin_ms = until_ms
        number += 1
    return work_ms


@njit(cache=True, nogil=True)
def hold(tables: Tables, used: IntArray, stage: int) -> bool:
    """Load a stage's weights, unless they are there, in place of those unused for longest.

    Args:
        tables: See there.
        used: (n_stages,) see ``State``.
        stage: The stage.

    Returns:
        Whether they had to be loaded.
    """
    absent = used[stage] < 0
    used[stage] = used.max() + 1
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
def look(
    requests: Requests, free_ms: FloatArray, request: int, observe_load: bool, state: State
) -> None:
    """Fill in the queues and paces of all devices as the requests of this number arrive."""
    for trace in range(len(free_ms)):
        now_ms = requests.arrivals_ms[trace, request]
        for device in range(free_ms.shape[1]):
            load = requests.toggles_ms[trace, device], requests.pace
            state.queue_ms[trace, device] = find_work(*load, now_ms, free_ms[trace, device])
            state.pace[trace, device] = find_pace(*load, now_ms) if observe_load else 1.0


@njit(cache=True, nogil=True)
def serve(
    tables: Tables,
    requests: Requests,
    free_ms: FloatArray,
    state: State,
    request: int,
    plans: IntArray,
    ms: FloatArray,
    loaded_bytes: FloatArray,
) -> None:
    """Run one request of each trace by a plan, and count it in the recent mix and rate.

    Args:
        tables: See there.
        requests: See there.
        free_ms: (n_traces, n_devices) when each device has done what it was given.
        state: See there.
        request: Number of the request.
        plans: (n_traces,) plan of its model.
        ms: (n_traces,) gets latencies.
        loaded_bytes: (n_traces,) gets the size of weights that were loaded.
    """
    last = requests.models.shape[1] - 1
    for trace in range(len(plans)):
        now_ms, model = requests.arrivals_ms[trace, request], requests.models[trace, request]
        # Stages run in turn, each where its device has done what came before.
        at_ms, loaded_bytes[trace] = now_ms, 0.0
        plan = model * tables.allowed.shape[1] + plans[trace]
        for stage in range(tables.first[plan], tables.first[plan + 1]):
            device, work_ms = tables.device[stage], tables.work_ms[stage]
            if hold(tables, state.used[trace], stage):
                work_ms += tables.load_ms[stage]
                loaded_bytes[trace] += tables.held_bytes[stage]
            begin_ms = max(at_ms, free_ms[trace, device])
            at_ms = find_end(requests.toggles_ms[trace, device], requests.pace, begin_ms, work_ms)
            free_ms[trace, device] = at_ms
        ms[trace] = at_ms - now_ms
        state.mix[trace] *= HISTORY_WEIGHT
        state.mix[trace, model] += 1.0 - HISTORY_WEIGHT
        gap_ms = requests.arrivals_ms[trace, min(request + 1, last)] - now_ms
        state.gap_ms[trace] = HISTORY_WEIGHT * state.gap_ms[trace] + (1.0 - HISTORY_WEIGHT) * gap_ms
