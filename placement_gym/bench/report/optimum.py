"""The proven optimum of an environment's latency, or a lower bound of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.bench.known.evaluation import evaluate_ms
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.solvers import gap


def find_optimum_or_bound(
    env: DevicePlacementEnv, known_ms: Sequence[float]
) -> dict[str, float | None]:
    """Find ``optimum_ms``, if some placement is proven to be optimal, and ``bound_ms``.

    Both for the environment's own latency, submodels and memory limits included; None where it is
    measured, as a profile gives no bound. See ``solvers.gap.optimum_or_bound``.
    """
    backend = env.backend
    if not isinstance(backend, SimulatedBackend):
        return {"optimum_ms": None, "bound_ms": None}

    optimum_ms, bound_ms = gap.optimum_or_bound(
        backend.problem,
        backend.costs,
        backend.semantics,
        known_ms,
        partial(evaluate_ms, backend),
    )
    return {"optimum_ms": optimum_ms, "bound_ms": bound_ms}
