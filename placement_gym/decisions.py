"""What an action decides beside the placement: the priority of units, and which edges are fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.errors import UserError
from placement_gym.problem import Problem

PLACEMENT, PRIORITY, FUSION = "placement", "priority", "fusion"
DECISIONS = (PLACEMENT, PRIORITY, FUSION)
PLACEMENT_ALONE = (PLACEMENT,)
LEVELS = 8
"""Levels of priority; a device that is free starts a ready unit of the highest one."""


def decides_placement_alone(names: Sequence[str]) -> bool:
    """Whether an action is a placement and nothing else."""
    return not isinstance(names, str) and tuple(names) == PLACEMENT_ALONE


class Choices(NamedTuple):
    """The parts of a row of decisions.

    Attributes:
        placement: (n_units,) devices.
        priority: (n_units,) levels from 0 to ``LEVELS - 1``.
        fused: (n_edges,) 1 where an edge of the units' graph is to be fused.
    """

    placement: IntArray
    priority: IntArray
    fused: IntArray


@dataclass(frozen=True)
class Layout:
    """Where each decision stands in a row: devices of units, levels of units, bits of edges.

    Attributes:
        names: Some of ``DECISIONS``, in that order, the placement first.
        n_units: Number of units.
        n_edges: Edges of the units' graph.
        n_devices: Number of devices.
    """

    names: tuple[str, ...]
    n_units: int
    n_edges: int
    n_devices: int

    @classmethod
    def of(cls, names: Sequence[str], problem: Problem) -> Layout:
        """The layout of a problem's decisions.

        Raises:
            UserError: They are not some of ``DECISIONS`` in that order.
        """
        known = [name for name in DECISIONS if name in tuple(names)]
        if isinstance(names, str) or list(names) != known or known[:1] != [PLACEMENT]:
            raise UserError(
                f"decisions are 'placement' and then any of 'priority' and 'fusion', as in "
                f"{DECISIONS}, not {names!r}"
            )
        quotient = problem.units.quotient
        return cls(tuple(known), len(quotient), quotient.n_edges, len(problem.devices))

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of devices, levels and bits in a row."""
        levels = self.n_units * (PRIORITY in self.names)
        return self.n_units, levels, self.n_edges * (FUSION in self.names)

    @property
    def width(self) -> int:
        """Length of a row."""
        return sum(self.counts)

    @property
    def choices_of_each(self) -> IntArray:
        """(width,) number of values of each entry of a row."""
        return np.repeat([self.n_devices, LEVELS, 2], self.counts)

    def complete(self, rows: IntArray) -> IntArray:
        """(k, width) rows; those that hold a placement alone get level 0 and no fused edge."""
        missing = self.width - rows.shape[1]
        return np.pad(rows, [(0, 0), (0, missing)]) if rows.shape[1] == self.n_units else rows

    def split(self, row: IntArray) -> Choices:
        """The parts of a row, or of a placement alone; decisions that are not made are zero.

        Raises:
            UserError: Its length or an entry is out of range.
        """
        self.check(row)
        units, levels, _ = self.counts
        rest = row[units:]
        priority = rest[:levels] if len(rest) and levels else np.zeros(self.n_units, np.int64)
        fused = rest[levels:] if len(rest) > levels else np.zeros(self.n_edges, np.int64)
        return Choices(row[:units], priority, fused)

    def check(self, rows: Any) -> None:
        """Raise if the length or an entry of (..., width) rows is invalid.

        Raises:
            UserError: The message says what is valid.
        """
        alone = rows.shape[-1] == self.n_units
        most = self.choices_of_each[: self.n_units] if alone else self.choices_of_each
        fits = alone or rows.shape[-1] == self.width
        if not fits or (rows < 0).any() or (rows >= most).any():
            units, levels, bits = self.counts
            raise UserError(
                f"decisions are {units} devices below {self.n_devices}, {levels} levels below "
                f"{LEVELS} and {bits} bits, {self.width} numbers in all, not {rows!r}"
            )
