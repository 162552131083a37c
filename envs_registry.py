"""The environments to register with Gymnasium: a flat list of ``register`` arguments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

ENVS: tuple[dict[str, Any], ...] = (
    {
        "id": "DevicePlacement-v0",
        "entry_point": "placement_gym.envs.measured_env:MeasuredEnv",
        "vector_entry_point": "placement_gym.envs.entry_points:MeasuredVectorEnv",
        "nondeterministic": True,
    },
    {
        "id": "DevicePlacementSim-v0",
        "entry_point": "placement_gym.envs.simulated_env:SimulatedEnv",
        "vector_entry_point": "placement_gym.envs.entry_points:SimulatedVectorEnv",
    },
    {
        "id": "DevicePlacementPerUnit-v0",
        "entry_point": "placement_gym.envs.entry_points:measured_per_unit",
        "nondeterministic": True,
    },
    {
        "id": "DevicePlacementPerUnitSim-v0",
        "entry_point": "placement_gym.envs.entry_points:simulated_per_unit",
        "vector_entry_point": "placement_gym.envs.per_unit_vector:PerUnitVectorEnv",
    },
    {
        "id": "DevicePlacementStream-v0",
        "entry_point": "placement_gym.envs.stream:StreamEnv",
        "vector_entry_point": "placement_gym.envs.stream_vector:StreamVectorEnv",
    },
    {
        "id": "DevicePlacementOnline-v0",
        "entry_point": "placement_gym.envs.online.env:OnlineEnv",
    },
)


def register_envs() -> None:
    """Register every environment that is not registered yet."""
    for env in ENVS:
        if env["id"] not in gym.registry:
            gym.register(**env)
