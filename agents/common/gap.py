"""How far a placement is from what is provably possible."""

from __future__ import annotations

from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecEnvWrapper


def compute_bound_ms(env: VecEnv, time_limit_s: float) -> float | None:
    """A latency that no placement is below.

    Args:
        env: Environments of one problem.
        time_limit_s: For the solver; 0 computes nothing.

    Returns:
        None where latencies are measured, as their costs are not known, and in other processes.
    """
    from placement_gym.backends.simulated.backend import SimulatedBackend
    from placement_gym.solvers.bounds import lower_bound

    inner = env
    while isinstance(inner, VecEnvWrapper):
        inner = inner.venv
    if time_limit_s <= 0.0 or isinstance(inner, SubprocVecEnv):
        return None
    backend = inner.get_attr("backend")[0]
    if not isinstance(backend, SimulatedBackend):
        return None
    solved = lower_bound(backend.problem, backend.costs, backend.semantics, time_limit_s)
    return solved.bound_ms if solved.bound_ms > 0.0 else None
