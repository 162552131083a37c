"""The layout of an action: devices of units, and optionally priority levels and fused edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from placement_gym.base import IntArray, UserError
from placement_gym.problem.problem import Problem

PLACEMENT, PRIORITY, FUSION = "placement", "priority", "fusion"
DECISIONS = (PLACEMENT, PRIORITY, FUSION)
PLACEMENT_ALONE = (PLACEMENT,)
LEVELS = 8
"""Priority levels: a free device starts a ready unit of the highest level, ties in topological
order. Hand-tuned."""


class Choices(NamedTuple):
    """The parts of one or several rows of decisions.

    Attributes:
        placement: (..., n_units) devices.
        priority: (..., n_units) levels from 0 to ``LEVELS - 1``.
        fused: (..., n_edges) 1 for edges of the units' graph that are to be fused.
    """

    placement: IntArray
    priority: IntArray
    fused: IntArray


def check_placement_alone(names: Sequence[str]) -> None:
    """Raise ``UserError`` if these decisions are more than the placement."""
    if tuple(names) != PLACEMENT_ALONE:
        raise UserError(
            f"this agent decides the placement only, and the environment's decisions are {names}: "
            "pass decisions=('placement',), or use gdp, annealing, hill-climb or heft"
        )


class ActionLayout:
    """The order of decisions in a row: devices of units, levels of units, bits of edges.

    An action is a row, padded if it holds devices alone.

    Args:
        names: Some of ``DECISIONS``, in that order, the placement first.
        problem: Units and devices.
        n_nodes: Padded number of units.
        n_padded_devices: Padded number of devices.

    Raises:
        UserError: The names are not in that order.
    """

    def __init__(
        self, names: Sequence[str], problem: Problem, n_nodes: int, n_padded_devices: int
    ) -> None:
        listed = list(names) if isinstance(names, (list, tuple)) else []
        in_order = [name for name in DECISIONS if name in listed]
        if listed != in_order or in_order[:1] != [PLACEMENT]:
            raise UserError(
                f"decisions are 'placement' and then any of 'priority' and 'fusion', as in "
                f"{DECISIONS}, not {names!r}"
            )
        self.names, self.reference = tuple(in_order), problem.reference_device
        self.n_units, self.n_nodes = problem.n_units, n_nodes
        self.n_devices, self.n_padded_devices = len(problem.devices), n_padded_devices
        self.n_edges = problem.units.quotient.n_edges

    @cached_property
    def alone(self) -> bool:
        """True if an action is a placement alone."""
        return self.names == PLACEMENT_ALONE

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of devices, levels and bits in a row."""
        levels = self.n_units * (PRIORITY in self.names)
        return self.n_units, levels, self.n_edges * (FUSION in self.names)

    @cached_property
    def width(self) -> int:
        """Length of a row."""
        return sum(self.counts)

    @cached_property
    def choices_of_each(self) -> IntArray:
        """(action width,) number of values of each entry of an action."""
        return np.repeat([self.n_padded_devices, LEVELS, 2], (self.n_nodes, *self.counts[1:]))

    def parse(self, actions: ArrayLike, *leading: int) -> IntArray:
        """Return (*leading, action width) actions as new rows without padding.

        Backends check the range of entries.

        Raises:
            UserError: The actions have another type or shape.
        """
        array, shape = np.asarray(actions), (*leading, len(self.choices_of_each))
        # Floats are not rounded: they come from a policy with another action space.
        if array.dtype.kind not in "iu" or array.shape != shape:
            suffix = "" if self.alone else f" of {self.names}"
            size = f"actions{suffix} are {shape}" if leading else f"an action{suffix} is {shape[0]}"
            last = self.n_padded_devices - 1
            kind = f"device indices from 0 to {last}" if self.alone else "numbers"
            raise UserError(f"{size} {kind}, not {actions!r}")
        return self.where_present(array[..., : self.width].astype(np.int64))

    def where_present(self, devices: IntArray) -> IntArray:
        """Replace padded devices, which a policy may choose, by the reference device."""
        if self.n_padded_devices == self.n_devices:
            return devices
        is_padding = (devices >= self.n_devices) & (devices < self.n_padded_devices)
        return np.where(is_padding, self.reference, devices)

    def complete(self, rows: IntArray) -> IntArray:
        """(k, width) rows; placements alone, as heuristics propose, get level 0 and no fusion."""
        if self.alone or rows.shape[1] != self.n_units:
            return rows
        return np.pad(rows, [(0, 0), (0, self.width - self.n_units)])

    def split(self, rows: IntArray) -> Choices:
        """The parts of (..., width) rows or of placements; missing decisions are zero.

        Raises:
            UserError: The length or an entry is out of range.
        """
        self.check(rows)
        units, levels, _ = self.counts
        priority, fused = rows[..., units : units + levels], rows[..., units + levels :]
        if not priority.shape[-1]:
            priority = np.zeros((*rows.shape[:-1], self.n_units), np.int64)
        if not fused.shape[-1]:
            fused = np.zeros((*rows.shape[:-1], self.n_edges), np.int64)
        return Choices(rows[..., :units], priority, fused)

    def check(self, rows: Any) -> None:
        """Raise ``UserError`` unless (..., width) rows, or placements alone, are in range."""
        is_placement = rows.shape[-1] == self.n_units
        upper = self.choices_of_each[: self.n_units] if is_placement else self.choices_of_each
        fits = is_placement or rows.shape[-1] == self.width
        if not fits or (rows < 0).any() or (rows >= upper).any():
            units, levels, bits = self.counts
            raise UserError(
                f"decisions are {units} devices below {self.n_devices}, {levels} levels below "
                f"{LEVELS} and {bits} bits, {self.width} numbers in all, not {rows!r}"
            )
