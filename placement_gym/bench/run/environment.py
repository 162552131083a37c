"""An environment together with what makes it again in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from placement_gym.backends.cached import CachedBackend
from placement_gym.bench.run.make_env import make_env
from placement_gym.devices import DeviceSpec
from placement_gym.env import DevicePlacementEnv, placement_env

if TYPE_CHECKING:
    from placement_gym.bench.run.finalists import Finalist


@dataclass(frozen=True)
class BenchEnv:
    """Where agents compete.

    Attributes:
        env: The environment, made once for all of them.
        env_id: Its registered id.
        env_kwargs: JSON-able arguments that make an equal one.
        finals: Placements that were measured afresh, by their bytes: no need to do it twice.
    """

    env: gym.Env[Any, Any]
    env_id: str
    env_kwargs: Mapping[str, Any]
    finals: dict[bytes, Finalist] = field(default_factory=dict)

    @classmethod
    def make(cls, env_id: str, env_kwargs: Mapping[str, Any], folder: Path) -> BenchEnv:
        """Make the environment; a model in memory is saved into ``folder`` first."""
        kwargs = {key: portable(value, folder) for key, value in env_kwargs.items()}
        env = make_env(env_id, kwargs)
        kwargs["devices"] = [device.to_json() for device in placement_env(env).problem.devices]
        return cls(env, env_id, kwargs)

    @property
    def base(self) -> DevicePlacementEnv:
        return placement_env(self.env)

    @property
    def measured(self) -> bool:
        """Whether latencies are noisy measurements, not simulated ones."""
        return self.env.spec is not None and self.env.spec.nondeterministic

    @property
    def episode_steps(self) -> int:
        """Placements that one episode evaluates at most, that of its reset included."""
        one_by_one = self.env.has_wrapper_attr("place")
        return 1 + (self.base.problem.n_units if one_by_one else self.base.horizon)

    def clear_caches(self) -> None:
        """Measure anew what was measured before: runs with different seeds are independent."""
        self.finals.clear()
        if isinstance(self.base.backend, CachedBackend):
            self.base.backend.seen.clear()

    def close(self) -> None:
        self.env.close()


def portable(value: Any, folder: Path) -> Any:
    """A make argument as JSON can hold it."""
    import openvino as ov

    if isinstance(value, ov.Model):
        path = folder / f"{value.get_friendly_name()}.xml"
        ov.save_model(value, path, compress_to_fp16=False)
        return str(path)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, DeviceSpec):
        return value.to_json()
    if isinstance(value, (list, tuple)):
        return [portable(item, folder) for item in value]
    return value
