"""Kernels of the simulation: queues, other programs, weights that are loaded and displaced.

Devices serve stages in the order in which requests arrived, so the latency of a request is known
once its plan is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray, compile_once

HISTORY_WEIGHT = 0.95
"""Weight of earlier requests in the recent mix and rate. Chosen to average about 20 requests."""
MAX_LOG = 10.0
"""Bound of observed logarithms, a ratio of 22,000."""


class Tables(NamedTuple):
    """Plans as arrays; the stages of all plans of all models have consecutive numbers.

    Attributes:
        first: (n_models * n_plans + 1,) first stage of each plan; missing plans have no stages.
        allowed: (n_models, n_plans) whether the model has the plan.
        device: (n_stages,) device of each stage.
        work_ms: (n_stages,) time on the idle device.
        load_ms: (n_stages,) time to load the weights.
        held_bytes: (n_stages,) size of the weights.
        log_work: (n_models, n_plans, n_devices) log(1 + work of a plan on a device), work in mean
            latencies.
        group: (n_devices,) group of devices that share memory.
        limit_bytes: (n_groups,) weights that fit.
        reference_ms: (n_models,) latency of the fastest plan on idle devices.
    """

    first: IntArray
    allowed: BoolArray
    device: IntArray
    work_ms: FloatArray
    load_ms: FloatArray
    held_bytes: FloatArray
    log_work: FloatArray
    group: IntArray
    limit_bytes: FloatArray
    reference_ms: FloatArray


class Trace(NamedTuple):
    """The requests of an episode, and the activity of other programs.

    Attributes:
        arrivals_ms: (n_requests,) ascending times.
        models: (n_requests,) model of each request.
        toggles_ms: (n_devices, n_toggles) ascending times at which another program on a device
            begins, ends, begins, ...
    """

    arrivals_ms: FloatArray
    models: IntArray
    toggles_ms: FloatArray


class State(NamedTuple):
    """The devices when a request arrives.

    Attributes:
        queue_ms: (n_devices,) work in the queue.
        pace: (n_devices,) factor by which work takes longer now.
        used: (n_stages,) counter at the last use of each stage; -1 if it is not loaded.
        mix: (n_models,) recent shares of requests.
        gap_ms: (1,) recent mean time between requests.
    """

    queue_ms: FloatArray
    pace: FloatArray
    used: IntArray
    mix: FloatArray
    gap_ms: FloatArray


@compile_once(nogil=True)
def find_pace(toggles_ms: FloatArray, pace: float, at_ms: float) -> float:
    """The factor by which work takes longer on a device at a time."""
    return pace if np.searchsorted(toggles_ms, at_ms, side="right") % 2 else 1.0


@compile_once(nogil=True)
def find_end(toggles_ms: FloatArray, pace: float, begin_ms: float, work_ms: float) -> float:
    """The time at which work ends that a device begins at ``begin_ms``."""
    number = np.searchsorted(toggles_ms, begin_ms, side="right")
    while True:
        now = pace if number % 2 else 1.0
        end_ms = begin_ms + work_ms * now
        if number == len(toggles_ms) or end_ms <= toggles_ms[number]:
            return end_ms
        work_ms -= (toggles_ms[number] - begin_ms) / now
        begin_ms = toggles_ms[number]
        number += 1


@compile_once(nogil=True)
def find_work(toggles_ms: FloatArray, pace: float, begin_ms: float, end_ms: float) -> float:
    """The work that a device does between two times; the inverse of ``find_end``."""
    work_ms = 0.0
    number = np.searchsorted(toggles_ms, begin_ms, side="right")
    while begin_ms < end_ms:
        until_ms = min(end_ms, toggles_ms[number]) if number < len(toggles_ms) else end_ms
        work_ms += (until_ms - begin_ms) / (pace if number % 2 else 1.0)
        begin_ms = until_ms
        number += 1
    return work_ms


@compile_once(nogil=True)
def hold(tables: Tables, used: IntArray, stage: int) -> bool:
    """Load a stage's weights unless they are loaded, displacing the least recently used.

    Returns:
        True if the weights were loaded.
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


@compile_once(nogil=True)
def predict(tables: Tables, state: State, model: int, plan: int) -> tuple[float, float]:
    """Predict the latency of a plan if devices keep their pace, and the time to load weights.

    Returns:
        log(latency) and log(1 + time to load), relative to the model's fastest plan.
    """
    at_ms, load_ms, number = 0.0, 0.0, model * tables.allowed.shape[1] + plan
    for stage in range(tables.first[number], tables.first[number + 1]):
        device, work_ms = tables.device[stage], tables.work_ms[stage]
        if state.used[stage] < 0:
            work_ms += tables.load_ms[stage]
            load_ms += tables.load_ms[stage]
        pace = state.pace[device]
        at_ms = max(at_ms, state.queue_ms[device] * pace) + work_ms * pace
    reference_ms = tables.reference_ms[model]
    return (
        min(np.log(max(at_ms / reference_ms, 1.0)), MAX_LOG),
        min(np.log1p(load_ms / reference_ms), MAX_LOG),
    )


@compile_once(nogil=True)
def displace(tables: Tables, state: State, model: int, plan: int) -> float:
    """The time in ms to reload what a plan displaces, weighted by the recent mix."""
    used, n_plans, load_ms = state.used.copy(), tables.allowed.shape[1], 0.0
    number = model * n_plans + plan
    for stage in range(tables.first[number], tables.first[number + 1]):
        hold(tables, used, stage)
    for other, share in enumerate(state.mix):
        for stage in range(tables.first[other * n_plans], tables.first[(other + 1) * n_plans]):
            if state.used[stage] >= 0 and used[stage] < 0:
                load_ms += share * tables.load_ms[stage]
    return load_ms


@compile_once(nogil=True)
def look_ahead(tables: Tables, state: State, model: int, plan: int) -> float:
    """The log slow-down of a request by a plan, plus the expected one of the next request.

    The next request arrives after the recent mean gap, is for a model by the recent mix, and takes
    the plan with which it ends first. Devices keep their pace.
    """
    # The devices when the next request arrives.
    queue_ms, used, at_ms = state.queue_ms.copy(), state.used.copy(), 0.0
    number = model * tables.allowed.shape[1] + plan
    for stage in range(tables.first[number], tables.first[number + 1]):
        device, work_ms = tables.device[stage], tables.work_ms[stage]
        if hold(tables, used, stage):
            work_ms += tables.load_ms[stage]
        pace = state.pace[device]
        at_ms = max(at_ms, queue_ms[device] * pace) + work_ms * pace
        queue_ms[device] = at_ms / pace
    queue_ms = np.maximum(queue_ms - state.gap_ms[0] / state.pace, 0.0)
    after = State(queue_ms, state.pace, used, state.mix, state.gap_ms)
    # The mean over the models of the next request.
    total, _ = predict(tables, state, model, plan)
    for other, share in enumerate(state.mix / state.mix.sum()):
        least = MAX_LOG
        for following in np.flatnonzero(tables.allowed[other]):
            least = min(least, predict(tables, after, other, following)[0])
        total += share * least
    return total


@compile_once(nogil=True)
def look(trace: Trace, pace: float, free_ms: FloatArray, now_ms: float, state: State) -> None:
    """Fill in the queues and paces at a time."""
    for device in range(len(free_ms)):
        toggles_ms = trace.toggles_ms[device]
        state.queue_ms[device] = find_work(toggles_ms, pace, now_ms, free_ms[device])
        state.pace[device] = find_pace(toggles_ms, pace, now_ms)


@compile_once(nogil=True)
def serve(
    tables: Tables,
    trace: Trace,
    pace: float,
    free_ms: FloatArray,
    used: IntArray,
    request: int,
    plan: int,
) -> tuple[float, float]:
    """Serve a request by a plan; changes ``free_ms`` and ``used``.

    ``pace`` is the factor by which work takes longer while another program uses a device, and
    ``free_ms`` the (n_devices,) times at which the devices have finished.

    Returns:
        The latency in ms, and the bytes of weights that were loaded.
    """
    # Stages run in turn, each after earlier work of its device.
    at_ms, loaded_bytes = trace.arrivals_ms[request], 0.0
    number = trace.models[request] * tables.allowed.shape[1] + plan
    for stage in range(tables.first[number], tables.first[number + 1]):
        device, work_ms = tables.device[stage], tables.work_ms[stage]
        if hold(tables, used, stage):
            work_ms += tables.load_ms[stage]
            loaded_bytes += tables.held_bytes[stage]
        begin_ms = max(at_ms, free_ms[device])
        at_ms = find_end(trace.toggles_ms[device], pace, begin_ms, work_ms)
        free_ms[device] = at_ms
    return at_ms - trace.arrivals_ms[request], loaded_bytes


@compile_once(nogil=True)
def play(
    tables: Tables, trace: Trace, pace: float, free_ms: FloatArray, used: IntArray, plans: IntArray
) -> float:
    """Serve a trace by (n_requests,) plans; changes ``free_ms`` and ``used``.

    A plan of -1 takes the plan with which the request ends first if nothing changes.

    Returns:
        The sum of log slow-downs.
    """
    total, nothing = 0.0, np.empty(0)
    state = State(np.empty(len(free_ms)), np.empty(len(free_ms)), used, nothing, nothing)
    for request, model in enumerate(trace.models):
        best, least = plans[request], np.float32(np.inf)
        if plans[request] < 0:
            look(trace, pace, free_ms, trace.arrivals_ms[request], state)
            for plan in np.flatnonzero(tables.allowed[model]):
                latency = np.float32(predict(tables, state, model, plan)[0])
                if latency < least:
                    best, least = plan, latency
        ms, _ = serve(tables, trace, pace, free_ms, used, request, best)
        total += np.log(ms / tables.reference_ms[model])
    return total
