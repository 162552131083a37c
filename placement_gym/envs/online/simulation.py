"""Several traces that are played at once: the state of devices, and what is seen of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.envs.online.kernel import Load, Tables, look, serve
from placement_gym.envs.online.observation import KEPT, Layout, Seen, fill_observation
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.traces import Trace


class Requests(NamedTuple):
    """The traces as arrays: arrivals_ms and models (n_traces, n_requests), toggles_ms
    (n_traces, n_devices, n_toggles), and the pace of ``Load``.
    """

    arrivals_ms: FloatArray
    models: IntArray
    toggles_ms: FloatArray
    pace: float


class State(NamedTuple):
    """What changes while traces are played; the first axis of each array is the trace.

    Attributes:
        free_ms: (n_traces, n_devices) when each device has done what it was given.
        used: (n_traces, n_stages) see ``kernel.hold``.
        queue_ms: (n_traces, n_devices) work in each device's queue as the request arrives.
        pace: (n_traces, n_devices) times as long that it takes then.
        mix: (n_traces, n_models) recent shares.
        gap_ms: (n_traces,) recent time between two requests.
    """

    free_ms: FloatArray
    used: IntArray
    queue_ms: FloatArray
    pace: FloatArray
    mix: FloatArray
    gap_ms: FloatArray


class Simulation:
    """Plays traces with equally many requests, one request of each at a time.

    Args:
        plans: The plans.
        traces: What is played.
        pace: See ``OnlineEnv``.
        observe_load: See ``OnlineEnv``.
        gap_ms: Expected time between two requests.
    """

    def __init__(
        self,
        plans: PlanTable,
        traces: Sequence[Trace],
        pace: float,
        observe_load: bool,
        gap_ms: float,
    ) -> None:
        layout, n = Layout.of(plans), len(traces)
        self.tables, self.observe_load = plans.tables, observe_load
        self.size, self.n_plans, self.request = layout.size, layout.n_plans, 0
        self.requests = Requests(
            np.stack([trace.arrivals_ms for trace in traces]),
            np.stack([trace.models for trace in traces]),
            stack([trace.toggles_ms for trace in traces]),
            pace,
        )
        self.state = State(
            np.zeros((n, layout.n_devices)),
            np.full((n, layout.n_stages), -1),
            np.zeros((n, layout.n_devices)),
            np.ones((n, layout.n_devices)),
            np.tile(plans.shares, (n, 1)),
            np.full(n, gap_ms),
        )

    @property
    def over(self) -> bool:
        """True after the last request."""
        return self.request == self.requests.models.shape[1]

    @property
    def models(self) -> IntArray:
        """(n_traces,) model of each one's request; after the last one that of the last."""
        models: IntArray = self.requests.models[:, self.request - self.over]
        return models

    @property
    def queue_ms(self) -> FloatArray:
        """(n_traces, n_devices) work in each device's queue as the request arrived."""
        return self.state.queue_ms

    def know(self) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, float]:
        """What is known of the devices, in the first trace.

        Returns:
            (n_devices,) work in each queue and pace, (n_stages,) ``used``, (n_models,) recent
            shares, and the recent time between two requests.
        """
        state = self.state
        return (
            state.queue_ms[0],
            state.pace[0],
            state.used[0],
            state.mix[0],
            float(state.gap_ms[0]),
        )

    def arrive(self) -> Seen:
        """(n_traces, n_entries) what is seen as the request of each trace arrives."""
        seen = np.empty((len(self.state.gap_ms), self.size), np.float32)
        now = self.request - self.over
        see_all(self.tables, self.requests, self.state, now, self.observe_load, seen)
        return seen

    def serve(self, plans: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Run each trace's request by a plan of its model, and go on to the next.

        Returns:
            (n_traces,) models, latencies in ms, and bytes that were loaded.
        """
        models = self.models
        ms, loaded_bytes = np.empty(len(plans)), np.empty(len(plans))
        serve_all(self.tables, self.requests, self.state, self.request, plans, ms, loaded_bytes)
        self.request += 1
        return models, ms, loaded_bytes


def stack(toggles_ms: Sequence[FloatArray]) -> FloatArray:
    """(n_traces, n_devices, n_toggles) toggles of several traces; those that lack are never."""
    most = max(one.shape[1] for one in toggles_ms)
    return np.stack(
        [
            np.pad(one, ((0, 0), (0, most - one.shape[1])), constant_values=np.inf)
            for one in toggles_ms
        ]
    )


@njit(cache=True, nogil=True)
def serve_all(
    tables: Tables,
    requests: Requests,
    state: State,
    request: int,
    plans: IntArray,
    ms: FloatArray,
    loaded_bytes: FloatArray,
) -> None:
    """Run one request of each trace, and count it in the recent mix and rate."""
    n_plans, last = tables.allowed.shape[1], requests.models.shape[1] - 1
    for trace in range(len(plans)):
        load = Load(requests.toggles_ms[trace], requests.pace)
        model, now_ms = requests.models[trace, request], requests.arrivals_ms[trace, request]
        ms[trace], loaded_bytes[trace] = serve(
            tables,
            load,
            state.free_ms[trace],
            state.used[trace],
            now_ms,
            request,
            model * n_plans + plans[trace],
        )
        state.mix[trace] *= KEPT
        state.mix[trace, model] += 1.0 - KEPT
        gap_ms = requests.arrivals_ms[trace, min(request + 1, last)] - now_ms
        state.gap_ms[trace] = KEPT * state.gap_ms[trace] + (1.0 - KEPT) * gap_ms


@njit(cache=True, nogil=True)
def see_all(
    tables: Tables,
    requests: Requests,
    state: State,
    request: int,
    observe_load: bool,
    seen: Seen,
) -> None:
    """Fill the observation of each trace."""
    for trace in range(len(seen)):
        load = Load(requests.toggles_ms[trace], requests.pace)
        queue_ms, pace = state.queue_ms[trace], state.pace[trace]
        look(load, state.free_ms[trace], requests.arrivals_ms[trace, request], queue_ms, pace)
        if not observe_load:
            pace[:] = 1.0
        fill_observation(
            tables,
            queue_ms,
            pace,
            state.used[trace],
            requests.models[trace, request],
            state.mix[trace],
            state.gap_ms[trace],
            seen[trace],
        )
