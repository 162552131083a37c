"""Several traces that are played at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.envs.online.kernel import Requests, State, look, serve
from placement_gym.envs.online.observation import Seen, observe
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.traces import Trace


class Simulation:
    """Plays traces with equally many requests, one request of each at a time.

    Args:
        plans: The plans.
        traces: What is played, on idle devices that hold nothing.
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
        self.tables, self.observe_load, self.request = plans.tables, observe_load, 0
        longest = max(trace.toggles_ms.shape[1] for trace in traces)
        toggles_ms = np.full((len(traces), len(plans.devices), longest), np.inf)
        for own, trace in zip(toggles_ms, traces, strict=True):
            own[:, : trace.toggles_ms.shape[1]] = trace.toggles_ms
        self.requests = Requests(
            np.stack([trace.arrivals_ms for trace in traces]),
            np.stack([trace.models for trace in traces]),
            toggles_ms,
            pace,
        )
        n, n_devices = len(traces), len(plans.devices)
        self.free_ms = np.zeros((n, n_devices))
        self.state = State(
            np.zeros((n, n_devices)),
            np.ones((n, n_devices)),
            np.full((n, len(plans.tables.device)), -1),
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

    def arrive(self) -> Seen:
        """(n_traces, n_entries) what is seen as the request of each trace arrives."""
        now = self.request - self.over
        look(self.requests, self.free_ms, now, self.observe_load, self.state)
        return observe(self.tables, self.state, self.models)

    def serve(self, plans: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Run each trace's request by a plan of its model, and go on to the next.

        Returns:
            (n_traces,) models, latencies in ms, and bytes that were loaded.
        """
        models = self.models
        ms, loaded_bytes = np.empty(len(plans)), np.empty(len(plans))
        devices = self.requests, self.free_ms, self.state
        serve(self.tables, *devices, self.request, plans, ms, loaded_bytes)
        self.request += 1
        return models, ms, loaded_bytes
