"""An environment with the arguments to make it again in another process."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym

from placement_gym.backends import CachedBackend, Finals, SingleDeviceResults
from placement_gym.base import IntArray, JsonFile, UserError, safe_name
from placement_gym.envs import (
    DevicePlacementEnv,
    PerUnitEnv,
    find_env_spec,
    find_placement_env,
    not_placement,
    placement_env,
)
from placement_gym.hardware import DeviceSpec
from placement_gym.models import read_older, save_inputs, save_model, states_sizes
from placement_gym.problem import PLACEMENT_ALONE, Placement


@dataclass(frozen=True)
class BenchEnv:
    """An environment to compare agents in, with the id and arguments to make it again."""

    env: gym.Env[Any, Any]
    env_id: str
    env_kwargs: Mapping[str, Any]

    @classmethod
    def make(cls, env_id: str, env_kwargs: Mapping[str, Any]) -> BenchEnv:
        """Make an environment from arguments as ``make_portable`` returns them.

        Raises:
            UserError: The id or an argument is wrong.
        """
        try:
            env = gym.make(find_env_spec(f"placement_gym:{env_id}"), **read_older(env_kwargs))
        except TypeError as error:
            if "keyword argument" not in str(error) and "multiple values" not in str(error):
                raise
            # gym.make adds all arguments to the message
            raise UserError(f"{env_id}: {error.__cause__ or error.__context__ or error}") from error
        if find_placement_env(env) is None:
            raise not_placement(env_id)
        check_decisions(env)
        # Resolved devices: another process, or machine, must get the same.
        devices = [device.to_json() for device in placement_env(env).problem.devices]
        return cls(env, env_id, {**env_kwargs, "devices": devices})

    @property
    def base(self) -> DevicePlacementEnv:
        return placement_env(self.env)

    @property
    def measured(self) -> bool:
        """True if latencies are noisy measurements, not simulated ones."""
        return self.env.spec is not None and self.env.spec.nondeterministic

    @property
    def origin(self) -> dict[str, Any]:
        """Fields of rows that identify the problem; no costs if it is measured."""
        problem = self.base.problem
        graph = problem.units.graph
        return {
            "model_fingerprint": "-".join(
                filter(None, (graph.fingerprint(), graph.request.own.fingerprint))
            ),
            "costs_fingerprint": None if self.measured else self.base.cost_table().fingerprint,
            "devices": [device.to_json() for device in problem.devices],
        }

    @property
    def episode_evaluations(self) -> int:
        """Placements that an episode evaluates, its reset included."""
        env = self.env.unwrapped
        if not isinstance(env, PerUnitEnv):
            return self.base.horizon
        if env.pays != "improvement":  # only the last placement is evaluated
            return 1
        return self.base.problem.n_units + (env.start in ("random", "best"))

    @cached_property
    def finals(self) -> Finals:
        """Measures the finalists of all runs since ``clear_caches``."""
        return Finals(self.base.backend, self.base.singles, self.measured)

    def to_placement(self, assignment: IntArray) -> Placement:
        return Placement.from_assignment(self.base.problem, assignment, self.base.graph)

    @property
    def one_device_holds_the_model(self) -> bool:
        """True if some device may run the model alone within its memory limit."""
        problem, backend = self.base.problem, self.base.backend
        return any(
            runs_all and not backend.infeasibility(problem.single(device))
            for device, runs_all in enumerate(problem.runs_all)
        )

    def clear_caches(self) -> None:
        """Drop measurements in memory, so that runs with different seeds are independent."""
        self.__dict__.pop("finals", None)
        if isinstance(self.base.backend, CachedBackend):
            self.base.backend.seen.clear()
        if self.measured:  # one sample must not decide for all seeds which device is the fastest
            self.base.singles = SingleDeviceResults.from_backend(self.base.backend)

    def close(self) -> None:
        self.env.close()


class BenchEnvs:
    """Open environments; the least recently used one is closed."""

    size = 4
    """Hand-tuned: a study alternates between few problems, and each holds a model and a process."""

    def __init__(self) -> None:
        self.open: OrderedDict[str, BenchEnv] = OrderedDict()

    def get(self, env_id: str, env_kwargs: Mapping[str, Any]) -> BenchEnv:
        key = json.dumps([env_id, env_kwargs], sort_keys=True)
        if key not in self.open:
            self.open[key] = BenchEnv.make(env_id, env_kwargs)
        self.open.move_to_end(key)
        while len(self.open) > self.size:
            self.open.popitem(last=False)[1].close()
        return self.open[key]

    def __enter__(self) -> BenchEnvs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self.open:
            self.open.popitem()[1].close()


def is_measured(env_id: str) -> bool:
    """Return whether latencies of an environment are measured; ``UserError`` if it is unknown."""
    return find_env_spec(f"placement_gym:{env_id}").nondeterministic


def check_decisions(env: gym.Env[Any, Any]) -> None:
    """Raise a ``UserError`` if actions have decisions beyond the placement."""
    decisions = placement_env(env, joint=True).decisions
    if decisions != PLACEMENT_ALONE:
        raise UserError(
            f"comparisons and studies save and replay placements, but the environment decides "
            f"{decisions}: pass decisions=('placement',), or nothing; "
            "benchmarks/go.py compares agents with all decisions"
        )


def make_portable(kwargs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Arguments of ``gym.make`` as JSON holds them; what is in memory is saved into the folder."""
    portable = {key: to_portable(value, folder) for key, value in kwargs.items() if key != "inputs"}
    inputs = kwargs.get("inputs")
    if inputs is None:
        return portable
    if not isinstance(inputs, (str, Path)) and not states_sizes(inputs):
        inputs = save_inputs(inputs, folder / "inputs")
    return {**portable, "inputs": to_portable(inputs, folder)}


def to_portable(value: Any, folder: Path) -> Any:
    import openvino as ov

    match value:
        case JsonFile():  # a graph with its costs, or these alone
            path = folder / f"{safe_name(getattr(value, 'name', 'costs'))}.json"
            value.save(path)
            return str(path)
        case ov.Model():
            path = folder / f"{safe_name(value.get_friendly_name())}.xml"
            save_model(value, path)
            return str(path)
        case Path():
            return str(value)
        case DeviceSpec():
            return value.to_json()
        case list() | tuple():
            return [to_portable(item, folder) for item in value]
        case _:
            return value
