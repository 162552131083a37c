"""Agents without learning: fixed placements and lists of proposals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, islice, permutations
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.best import Best, BestPlacements
from placement_gym.base import IntArray, UserError, is_path, parse_count, unknown_name, warn_user
from placement_gym.envs import (
    DevicePlacementEnv,
    find_wrapper,
    placement_env,
    play_episode,
    read_current_unit,
)
from placement_gym.problem import Placement, patterns

Proposer = Callable[[int], Iterable[IntArray]]


class FixedPlacement:
    """Predicts the same placement for every observation.

    Args:
        assignment: (n_units,) device indices, or a (width,) row of all decisions, see
            ``placement_gym.problem.decisions``.
    """

    def __init__(self, assignment: IntArray) -> None:
        self.assignment = assignment

    def predict(
        self,
        observation: dict[str, NDArray[Any]],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[IntArray, Any]:
        """The placement; in an environment of one unit per step, the current unit's device."""
        if not isinstance(observation, Mapping):
            raise UserError(
                "a known placement cannot be played from flat observations: compare in the same "
                "environment without observe='flat', or without the wrapper"
            )
        if "current_unit" in observation:
            return self.assignment[read_current_unit(observation)[..., 0]], state
        if len(self.assignment) > observation["placement"].shape[-1]:  # all decisions
            return self.assignment.copy(), state
        action = np.zeros(observation["placement"].shape, dtype=np.int64)
        action[..., : len(self.assignment)] = self.assignment
        return action, state


class BestEvaluated(FixedPlacement):
    """Predicts the fastest feasible placement that it has evaluated; at first the reference device.

    Args:
        env: The environment that evaluates. A warning names wrappers, whose rewards are not seen.
        joint: Whether it makes all decisions of an environment, not only the placement.
    """

    predicts_best = True
    """False if it predicts another one, which comparisons evaluate last, within the budget."""

    def __init__(self, env: gym.Env[Any, Any], joint: bool = False) -> None:
        self.base = placement_env(env, joint)
        super().__init__(self.base.reference_row())
        self.best_speedup, self.best_row = 0.0, self.assignment
        if wrapper := find_wrapper(env):
            warn_user(
                f"{type(self).__name__} compares latencies: {wrapper} does not change these, and "
                "may not be called; a learned agent, as hsdag, learns from its rewards"
            )

    def keep(self, row: IntArray, speedup: float) -> None:
        """Keep a feasible (width,) row of decisions if it is the fastest."""
        if speedup > self.best_speedup:
            self.best_speedup, self.best_row = speedup, row.copy()
            self.assignment = self.best_row if self.predicts_best else self.assignment

    @property
    def best(self) -> Best:
        """The fastest feasible placement; a ``UserError`` if none has been evaluated."""
        if not self.best_speedup:
            return BestPlacements().only  # raises
        base, speedup = self.base, self.best_speedup
        latency_ms = base.reference.reference_ms / speedup
        return Best(self.best_row, speedup, latency_ms, base.problem, base.graph)


class BestOfProposals(BestEvaluated):
    """Tries proposed placements in order and predicts the fastest one.

    Args:
        env: The environment that evaluates them.
        proposals: Returns placements to try, given the number of tries.
    """

    def __init__(self, env: gym.Env[Any, Any], proposals: Proposer) -> None:
        super().__init__(env)
        self.env, self.proposals = env, proposals

    def learn(self, total_timesteps: int) -> BestOfProposals:
        """Try at most ``total_timesteps`` placements."""
        total_timesteps = parse_count("total_timesteps", total_timesteps, 0)
        for assignment in islice(self.proposals(total_timesteps), total_timesteps):
            info = play_episode(self.env, FixedPlacement(assignment))
            if info["feasible"]:
                self.keep(self.base.assignment, info["speedup"])
        return self


def single_device(env: gym.Env[Any, Any], seed: int, device: str | None = None) -> FixedPlacement:
    """Everything on one device; without a name, on the fastest that can run the whole model.

    Raises:
        ValueError: The environment has no device of that name.
    """
    base = placement_env(env)
    names = base.problem.device_names
    if device is not None and device not in names:
        raise unknown_name("device", device, names)
    best = base.singles.best()
    fallback = base.problem.reference_device if best is None else best
    return FixedPlacement(base.problem.single(fallback if device is None else names.index(device)))


def saved(env: gym.Env[Any, Any], seed: int, file: str | None = None) -> FixedPlacement:
    """A placement from a file, as ``placement-gym plan`` writes it.

    Raises:
        ValueError: No file is given, there is none, or it is not a placement file.
        PlacementMismatchError: The placement was made for something else.
    """
    if file is None:
        raise UserError("saved needs a placement file: file='plan.json'")
    if not is_path(file):
        raise UserError(f"no placement file {file!r}; placement-gym plan writes one")
    return FixedPlacement(Placement.load(file).assignment(placement_env(env).problem))


def openvino_hetero(env: gym.Env[Any, Any], seed: int) -> FixedPlacement:
    """The placement that HETERO chooses itself, with devices in the environment's order."""
    return FixedPlacement(placement_env(env).backend.own_choice("HETERO"))


def openvino_auto(env: gym.Env[Any, Any], seed: int) -> FixedPlacement:
    """The device that AUTO chooses, with the environment's settings."""
    return FixedPlacement(placement_env(env).backend.own_choice("AUTO"))


def random(env: gym.Env[Any, Any], seed: int) -> BestOfProposals:
    """Independent random devices of all units, uniform over those that support each unit."""
    problem, rng = placement_env(env).problem, np.random.default_rng(seed)
    return BestOfProposals(
        env, lambda budget: (patterns.random_devices(problem, rng) for _ in range(budget))
    )


def random_blocks(env: gym.Env[Any, Any], seed: int) -> BestOfProposals:
    """One to eight runs of the topological order, each on a uniformly random device."""
    problem, rng = placement_env(env).problem, np.random.default_rng(seed)
    return BestOfProposals(
        env, lambda budget: (patterns.random_blocks(problem, rng) for _ in range(budget))
    )


def prefix(env: gym.Env[Any, Any], seed: int) -> BestOfProposals:
    """The first units on one device and the rest on another, for every ordered pair."""
    problem = placement_env(env).problem

    def proposals(budget: int) -> Iterator[IntArray]:
        pairs = list(permutations(range(len(problem.devices)), 2))
        n_cuts = min(problem.n_units - 1, max(1, budget // max(1, len(pairs))))
        for cut in patterns.cut_grid(problem, n_cuts + 1)[1:-1]:
            for first, second in pairs:
                yield patterns.window(problem, (0, cut), first, second)

    return BestOfProposals(env, proposals)


def window(env: gym.Env[Any, Any], seed: int) -> BestOfProposals:
    """One contiguous run on the fastest device, the rest on the fastest other feasible device.

    Windows begin and end on the finest even grid of cuts whose feasible windows fit the budget.
    """
    base = placement_env(env)
    problem = base.problem
    inside, outside = find_two_fastest(base)

    def windows(cells: int) -> list[IntArray]:
        pairs = combinations(patterns.cut_grid(problem, cells), 2)
        inner = [(begin, end) for begin, end in pairs if end - begin < problem.n_units]
        candidates = [patterns.window(problem, ends, inside, outside) for ends in inner]
        return [candidate for candidate in candidates if not base.backend.infeasibility(candidate)]

    def proposals(budget: int) -> list[IntArray]:
        best = windows(2)
        finest = min(problem.n_units, patterns.MAX_CELLS)
        for cells in range(3, finest + 1):
            finer = windows(cells)
            if len(finer) > budget:
                break
            best = finer
        return best

    return BestOfProposals(env, proposals)


def find_two_fastest(env: DevicePlacementEnv) -> tuple[int, int]:
    """The fastest device, memory aside, and the fastest other device that holds the model."""
    singles = env.singles
    speeds = [m.speedup if m is not None else 0.0 for m in singles.measurements]
    order = sorted(range(len(speeds)), key=lambda device: -speeds[device])
    slower = [device for device in order[1:] if singles.feasible[device]] or order[1:] or order
    return order[0], slower[0]
