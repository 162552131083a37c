"""Devices that serve requests by plans in simulated time."""

from __future__ import annotations

import numpy as np

from placement_gym.envs.online.kernel import HISTORY_WEIGHT, State, Trace, look, serve
from placement_gym.envs.online.plans import PlanTable


class SimulatedDevices:
    """Plays one trace after another.

    Args:
        plans: The plans.
        pace: See ``OnlineEnv``.
    """

    def __init__(self, plans: PlanTable, pace: float) -> None:
        self.plans, self.tables, self.pace = plans, plans.tables, pace

    def begin(self, trace: Trace, gap_ms: float) -> None:
        """Begin a trace with idle devices that hold nothing.

        Args:
            trace: The trace.
            gap_ms: Expected time between two requests.
        """
        n_devices, n_stages = len(self.plans.devices), len(self.tables.device)
        self.trace, self.free_ms = trace, np.zeros(n_devices)
        self.state = State(
            np.zeros(n_devices),
            np.ones(n_devices),
            np.full(n_stages, -1),
            np.array(self.plans.shares),
            np.array([gap_ms]),
        )

    def look(self, request: int) -> State:
        """The devices as a request arrives."""
        look(self.trace, self.pace, self.free_ms, self.trace.arrivals_ms[request], self.state)
        return self.state

    def serve(self, request: int, plan: int) -> tuple[float, float]:
        """Run a request by a plan of its model.

        Returns:
            Its latency in ms, and bytes of weights that were loaded.
        """
        trace, mix, gap_ms = self.trace, self.state.mix, self.state.gap_ms
        ms, loaded_bytes = serve(
            self.tables, trace, self.pace, self.free_ms, self.state.used, request, plan
        )
        mix *= HISTORY_WEIGHT
        mix[trace.models[request]] += 1.0 - HISTORY_WEIGHT
        following = min(request + 1, len(trace.models) - 1)
        last_ms = trace.arrivals_ms[following] - trace.arrivals_ms[request]
        gap_ms[0] = HISTORY_WEIGHT * gap_ms[0] + (1.0 - HISTORY_WEIGHT) * last_ms
        return ms, loaded_bytes
