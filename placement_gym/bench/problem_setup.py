"""The problem that a comparison opens with: devices and units that leave something to place."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from placement_gym.base import UserError
from placement_gym.bench.run import BenchEnv, BenchEnvs, is_measured
from placement_gym.graph import FINER, MIN_USEFUL_UNITS, count_units
from placement_gym.hardware import choose_default


def choose_devices(env_id: str, devices: Any) -> tuple[Any, list[str]]:
    """The devices to compare on, and why they are not the machine's own."""
    if not is_measured(env_id) or devices is not None:
        return devices, []
    import openvino as ov

    preset, reason = choose_default("compared", ov.Core().available_devices)
    return preset, [reason] if reason else []


def open_env_to_split(
    envs: BenchEnvs, env_id: str, kwargs: dict[str, Any]
) -> tuple[BenchEnv, dict[str, Any], list[str]]:
    """Make the environment; with finer units if the default ones are too few to split.

    Returns:
        The environment, its arguments, and notes for the reader.
    """
    # Rules may name several devices for parts of one unit, and a profile needs several placements:
    # units are counted without either.
    strict = {
        name: value
        for name, value in kwargs.items()
        if name == "constraints" or (name, value) == ("costs", "profiled")
    }
    plain = {name: value for name, value in kwargs.items() if name not in strict}
    bench_env, notes = envs.get(env_id, plain), []
    finer = [] if "granularity" in kwargs else [*FINER.values()]
    while bench_env.base.problem.n_units < MIN_USEFUL_UNITS and finer:
        granularity = finer.pop(0)
        with suppress(UserError):  # published workloads have no fused units
            fine_env = envs.get(env_id, {**plain, "granularity": granularity})
            counts = count_units(bench_env.base.problem.units)
            notes = [f"the default granularity leaves {counts}: {granularity!r} is used"]
            bench_env, plain = fine_env, {**plain, "granularity": granularity}
    kwargs = {**plain, **strict}
    bench_env = envs.get(env_id, kwargs)
    names = bench_env.base.problem.device_names
    if len(names) == 1:
        notes.append(f"{names[0]} is the only device: name two or more to split, as in CPU,GPU")
    if bench_env.base.problem.n_units < MIN_USEFUL_UNITS:
        notes.append(f"there is little to place: {count_units(bench_env.base.problem.units)}")
    return bench_env, kwargs, notes
