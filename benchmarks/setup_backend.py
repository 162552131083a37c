"""A measured backend on the test bed, shared by the benchmarks."""

from __future__ import annotations

import gymnasium as gym

import placement_gym  # noqa: F401  registers the environments
from placement_gym.backends.measured import MeasuredBackend
from placement_gym.env import placement_env


def measured_backend(model: str, split: str = "auto", **env_kwargs: object) -> MeasuredBackend:
    """The bare backend of ``DevicePlacement-v0`` on ``cpu-testbed``, without its cache."""
    env = gym.make(
        "DevicePlacement-v0",
        model=model,
        devices="cpu-testbed",
        split=split,
        cache=False,
        **env_kwargs,
    )
    backend = placement_env(env).backend
    assert isinstance(backend, MeasuredBackend)
    return backend
