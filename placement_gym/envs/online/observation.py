"""What a policy sees before it chooses the plan of a request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from gymnasium import spaces
from numba import njit
from numpy.typing import NDArray

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.envs.online.kernel import Tables, predict
from placement_gym.envs.online.plans import PlanTable

MOST = 10.0
"""Bound of logarithms: 22,000 times."""
LEAST = 0.01
"""Upper bound of the work on devices that no plan uses, as a space of one value is a warning."""
KEPT = 0.95
"""Weight of what was before in the recent mix and rate: about the last twenty requests."""
Seen = NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """Where each part of an observation is; ``OnlineEnv`` says what it means."""

    n_devices: int
    n_models: int
    n_plans: int
    n_stages: int

    @classmethod
    def of(cls, plans: PlanTable) -> Layout:
        n_stages = len(plans.tables.device)
        return cls(len(plans.devices), len(plans.models), plans.n_plans, n_stages)

    @cached_property
    def widths(self) -> dict[str, int]:
        """Entries of each part, in order."""
        return {
            "queue": self.n_devices,
            "load": self.n_devices,
            "model": self.n_models,
            "latency": self.n_plans,
            "loading": self.n_plans,
            "work": self.n_plans * self.n_devices,
            "resident": self.n_stages,
            "mix": self.n_models,
            "rate": 1,
        }

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Slice of each part."""
        ends = np.cumsum(list(self.widths.values())).tolist()
        return {
            name: slice(end - width, end)
            for (name, width), end in zip(self.widths.items(), ends, strict=True)
        }

    @property
    def size(self) -> int:
        return sum(self.widths.values())


def make_space(plans: PlanTable, pace: float) -> spaces.Box:
    """The observation space. Bounds of work are those of the plans, so that spaces tell plans
    apart.
    """
    layout = Layout.of(plans)
    low, high = np.zeros(layout.size, np.float32), np.ones(layout.size, np.float32)
    for name in ("queue", "latency", "loading"):
        high[layout.parts[name]] = MOST
    high[layout.parts["load"]] = pace - 1.0
    low[layout.parts["rate"]], high[layout.parts["rate"]] = -MOST, MOST
    works = [np.zeros((layout.n_plans, layout.n_devices)) for _ in plans.models]
    for model, work in enumerate(works):
        fill_work(plans.tables, model, work)
    high[layout.parts["work"]] = np.maximum(np.max(works, axis=0).ravel(), LEAST)
    return spaces.Box(low, high, dtype=np.float32)


@njit(cache=True, nogil=True)
def fill_work(tables: Tables, model: int, work: FloatArray) -> None:
    """Add the work of each plan on each device, as a logarithm, to (n_plans, n_devices) zeros."""
    n_plans = tables.allowed.shape[1]
    for plan in range(n_plans):
        number = model * n_plans + plan
        for stage in range(tables.first[number], tables.first[number + 1]):
            work[plan, tables.device[stage]] += tables.work_ms[stage]
    work[:] = np.log1p(work / tables.reference_ms.mean())


@njit(cache=True, nogil=True)
def fill_observation(
    tables: Tables,
    queue_ms: FloatArray,
    pace: FloatArray,
    used: IntArray,
    model: int,
    mix: FloatArray,
    gap_ms: float,
    seen: Seen,
) -> None:
    """Fill an observation, whose parts are those of ``Layout`` in the same order.

    Args:
        tables: See there.
        queue_ms: (n_devices,) work in the queue of each device.
        pace: (n_devices,) times as long that everything takes.
        used: (n_stages,) at least 0 where weights are loaded.
        model: Model of the request.
        mix: (n_models,) recent shares.
        gap_ms: Recent time between two requests.
        seen: What is filled.
    """
    n_devices, (n_models, n_plans) = len(queue_ms), tables.allowed.shape
    unit_ms = tables.reference_ms.mean()
    seen[:] = 0.0
    at = 0
    for device in range(n_devices):
        seen[at + device] = min(np.log1p(queue_ms[device] / unit_ms), MOST)
        seen[at + n_devices + device] = pace[device] - 1.0
    at += 2 * n_devices
    seen[at + model] = 1.0
    at += n_models
    for plan in range(n_plans):
        seen[at + plan] = MOST
        if tables.allowed[model, plan]:
            ms, load_ms = predict(tables, queue_ms, pace, used, model * n_plans + plan)
            slowdown = max(ms / tables.reference_ms[model], 1.0)
            seen[at + plan] = min(np.log(slowdown), MOST)
            loading = load_ms / tables.reference_ms[model]
            seen[at + n_plans + plan] = min(np.log1p(loading), MOST)
    at += 2 * n_plans
    work = np.zeros((n_plans, n_devices))
    fill_work(tables, model, work)
    seen[at : at + work.size] = work.ravel()
    at += work.size
    for stage in range(len(used)):
        seen[at + stage] = used[stage] >= 0
    at += len(used)
    seen[at : at + n_models] = mix
    rate = np.log(max(unit_ms / max(gap_ms, 1e-9), 1e-9))
    seen[at + n_models] = min(max(rate, -MOST), MOST)
