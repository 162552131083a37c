"""The simulated environment of a model, with this machine's profile where it keeps one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import gymnasium as gym

from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.profile import kept_profile, load_kept_profile
from placement_gym.backends.simulated.build import is_generated
from placement_gym.costs.workloads import is_workload
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.keywords import check_kwargs
from placement_gym.machine import UnknownDeviceError

ENV = "placement_gym:DevicePlacementSim-v0"
PROFILED = (
    "devices",
    "granularity",
    "graph",
    "sequence_length",
    "shapes",
    "scenario",
    "data_shapes",
)
"""Arguments of ``gym.make`` that decide, with the model, what is profiled."""


def make_twin(env_kwargs: Mapping[str, Any]) -> DevicePlacementEnv:
    """Make the simulated environment; nothing is measured.

    Args:
        env_kwargs: For ``gym.make``. Without ``costs`` the profile that this machine keeps of the
            model and the devices is taken; where there is none, published or analytic costs.
            ``devices`` None means this machine's, for a model that OpenVINO reads.

    Raises:
        UserError: An argument is unknown or wrong.
    """
    check_kwargs(ENV, env_kwargs)
    kwargs = {"observe_graph": False, **env_kwargs}
    if kwargs.get("costs") is None:
        kwargs |= find_profile(kwargs)
    return placement_env(gym.make(ENV, **kwargs))


def find_profile(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The devices as this machine has them, and the file of its profile; empty if it has not."""
    model = kwargs["model"]
    if is_workload(model) or is_generated(model):
        return {}
    try:
        backend = build_measured_backend(
            model, **{name: kwargs[name] for name in PROFILED if name in kwargs}
        )
    except UnknownDeviceError:
        return {}
    with closing(backend):
        devices = [spec.to_json() for spec in backend.problem.devices]
        if load_kept_profile(backend, quick=True) is None:
            return {"devices": devices}
        return {"devices": devices, "costs": str(kept_profile(backend, quick=True))}
