"""A simulation shows what to expect before anything is measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from fakes import LIMITED, assignment, diamond_backend, diamond_env, diamond_problem
from rich.console import Console
from scripted_engine import ScriptedEngine

from placement_gym.backends import CachedBackend
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.bench.report import preview
from placement_gym.bench.report.preview import Preview
from placement_gym.bench.run import BenchEnv
from placement_gym.envs import DevicePlacementEnv
from placement_gym.problem import Placement


def simulate(env: DevicePlacementEnv) -> Preview:
    found = Preview.of(BenchEnv(env, "", {}))
    assert found is not None
    return found


def print_lines(shown: Any) -> list[str]:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(shown)
    return captured.get().splitlines()


def test_the_optimum_is_that_of_all_placements() -> None:
    env = diamond_env()
    found = simulate(env)
    least = min(
        env.backend.evaluate(assignment(one)).latency_ms for one in product((0, 1), repeat=4)
    )
    (line,) = (line for line in print_lines(found.table()) if "proven optimum" in line)
    assert f"{least:.2f}" in line
    assert f"{env.singles.fastest().latency_ms / least:.3f}" in line


def test_what_is_not_proven_stands_above_its_bound() -> None:
    found = simulate(diamond_env())
    loose = replace(found, solution=replace(found.solution, bound_ms=1.0))
    *_, best, bound = print_lines(loose.table())
    assert best.startswith("best placement found ")
    assert bound.split()[:5] == ["bound", "below", "all", "placements", "1.00"]


def test_a_device_that_is_too_small_does_not_fit() -> None:
    problem = diamond_problem([LIMITED[0], replace(LIMITED[1], memory_bytes=None)])
    limited = DevicePlacementEnv(diamond_backend(problem))
    lines = print_lines(simulate(limited).table())
    assert any("GPU alone: does not fit, 500 B of 1.0 kB" in line for line in lines)
    assert any(line.startswith("CPU alone ") and "1.000" in line for line in lines)


def test_a_found_placement_is_simulated_too() -> None:
    env = diamond_env()
    mixed = assignment([1, 1, 0, 0])
    row = {"placement": dict(Placement.of(env.problem, mixed, env.graph).units)}
    expected = env.singles.fastest().latency_ms / env.backend.evaluate(mixed).latency_ms
    assert simulate(env).find_ratio(row) == pytest.approx(expected)


def test_the_profile_of_this_machine_is_preferred_to_typical_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = diamond_backend().costs
    env = DevicePlacementEnv(CachedBackend(ScriptedEngine([10.0])))
    for table, words in ((None, "not this machine's own"), (kept, "with this machine's profile")):
        monkeypatch.setattr(preview, "load_kept_profile", lambda _, table=table: table)
        found = simulate(env)
        assert words in print_lines(found.table())[0]
    assert found.backend.costs is kept


def test_devices_of_unknown_costs_are_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    env = diamond_env()
    monkeypatch.setattr(SimulatedBackend, "rough_costs", None)
    assert Preview.of(BenchEnv(env, "", {})) is None
