"""The one way to evaluate rows of decisions: complete, repair and then evaluate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from placement_gym.base.arrays import BoolArray, IntArray
from placement_gym.problem.decisions import Layout

Result = TypeVar("Result")


class Repairing(Protocol):
    """The part of an environment that says which rows it evaluates."""

    repair: bool
    on_repair: Callable[[BoolArray], Any]

    @property
    def layout(self) -> Layout:
        """Of the decisions in a row."""

    def repair_placements(self, assignments: IntArray, keep: BoolArray | None = None) -> IntArray:
        """Repair (k, n_units) placements."""


def evaluate_all(
    env: Repairing,
    rows: IntArray,
    evaluate: Callable[[IntArray], Result],
    keep: BoolArray | None = None,
) -> tuple[IntArray, Result, BoolArray]:
    """Complete and repair rows of decisions as the environment does, and evaluate them.

    Args:
        env: Its layout and repair are used; nothing of its episode changes.
        rows: (k, width) decisions, or (k, n_units) placements alone.
        evaluate: Evaluates (k, width) rows; penalties are its own, as of a backend.
        keep: (k, n_units) bool, units that a repair moves only if it must.

    Returns:
        The rows that were evaluated, their result, and (k,) bool, which of them were repaired.
    """
    rows, repaired = repair_rows(env, env.layout.complete(rows), keep)
    return rows, evaluate(rows), repaired


def repair_rows(
    env: Repairing, rows: IntArray, keep: BoolArray | None
) -> tuple[IntArray, BoolArray]:
    """The rows with repaired placements, and (k,) bool, which changed; ``on_repair`` gets it."""
    if not env.repair:
        return rows, np.zeros(len(rows), dtype=np.bool_)
    proposed, further = np.split(rows, [env.layout.n_units], axis=1)
    fitting = env.repair_placements(proposed, keep)
    repaired: BoolArray = (fitting != proposed).any(axis=1)
    env.on_repair(repaired)
    return np.concatenate([fitting, further], axis=1), repaired
