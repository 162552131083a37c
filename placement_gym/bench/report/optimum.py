"""How far a comparison's best is from the best there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.env import DevicePlacementEnv
from placement_gym.solvers.bounds import lower_bound

TOLERANCE = 1e-4
TIME_LIMIT_S = 10.0


def optimum_or_bound(env: DevicePlacementEnv, known_ms: Sequence[float]) -> dict[str, float | None]:
    """``optimum_ms``, if some placement is proven to be optimal, and ``bound_ms``.

    Both for the environment's own latency, submodels and memory limits included; None where it is
    measured, since a profile bounds nothing. The optimum is a known latency, or that of the
    solver's own placement, that exceeds the bound by no more than rounding.
    """
    backend = env.backend
    if not isinstance(backend, SimulatedBackend):
        return {"optimum_ms": None, "bound_ms": None}
    solved = lower_bound(backend.problem, backend.costs, backend.semantics, TIME_LIMIT_S)
    known = list(known_ms)
    if solved.assignment is not None and not backend.infeasibility(solved.assignment):
        known.append(backend.remeasure([solved.assignment])[0].latency_ms)
    best = min(known, default=np.inf)
    proven = best <= solved.bound_ms * (1 + TOLERANCE)
    return {"optimum_ms": best if proven else None, "bound_ms": solved.bound_ms}
