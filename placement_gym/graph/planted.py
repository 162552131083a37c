"""Graphs whose best placement is known by construction, at any size.

``"planted-3x100-seed7"`` has 300 operators of equal work for three equal devices. It is grown from
a plan: operator k of a device runs in slot k, from k to k + 1 times the time of one operator. An
operator reads operators of earlier slots of its own device, and of other devices those that finish
at least ``SLACK`` slots before it starts. So, if a transfer takes at most ``SLACK`` times as long
as an operator, and transfers do not wait for each other:

- The plan can be run. Operators are numbered slot by slot, so that schedule ``"list"`` runs those
  of a device in the order of their slots. If all operators of earlier slots ran in theirs, the
  inputs of an operator are there when its slot begins, and its device is free: by induction, each
  runs in its slot. The latency is the number of slots times the time of one operator.
- No placement is faster. On equal devices every placement has the same work in total, and the
  busiest device has at least the mean of it, which is the latency of the plan.

So the plan is optimal, whichever device plays which part; it need not be the only optimum.
``problem.costs.planted_optimum`` checks what the proof needs of a cost table. The operators of a
slot are shuffled, so that their numbers do not reveal their devices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.graph.graph_builder import op_graph
from placement_gym.graph.operators import OpGraph

NAME = re.compile(r"planted-(?P<devices>\d{1,2})x(?P<slots>\d{1,6})-seed(?P<seed>\d{1,9})")
SLACK = 2
"""Slots between the end of an operator and the start of its readers on other devices."""
CHAINED, REMOTE, REACH = 0.7, 0.6, 8
"""Shares of operators that read the one before them on their device, and one of another device;
largest distance in slots of what they read."""
MAX_OPERATORS = 1_000_000
MAX_DEVICES = 16
FLOPS, WEIGHT_BYTES, WIDTH = 2e8, 400_000, 1000


@dataclass(frozen=True)
class PlantedPlan:
    """The parts of a name, ``slots`` operators for each device, and the plan that they mean."""

    devices: int
    slots: int
    seed: int

    @classmethod
    def parse(cls, name: str) -> PlantedPlan:
        """The plan of a name.

        Raises:
            UserError: It is not such a name, or a number is out of range.
        """
        match = NAME.fullmatch(name)
        plan = cls(*(int(match[key]) for key in ("devices", "slots", "seed"))) if match else None
        if plan is None or not plan.fits():
            raise UserError(
                "a planted model is 'planted-DEVICESxSLOTS-seedNUMBER', as in "
                f"'planted-3x100-seed7', of 2 to {MAX_DEVICES} devices and at most "
                f"{MAX_OPERATORS} operators, not {name!r:.80}"
            )
        return plan

    def fits(self) -> bool:
        """Return whether the numbers are in range."""
        few = 2 <= self.devices <= MAX_DEVICES and self.slots >= 1
        return few and self.devices * self.slots <= MAX_OPERATORS

    @property
    def assignment(self) -> IntArray:
        """(n_operators,) the device of each operator: the best placement."""
        rng = np.random.default_rng([self.seed, self.devices, self.slots])
        each = np.tile(np.arange(self.devices), (self.slots, 1))
        return rng.permuted(each, axis=1).ravel()


def build_planted(name: str) -> OpGraph:
    """Build the graph of a name, the same on every call.

    Raises:
        UserError: See ``Plan.parse``.
    """
    plan = PlantedPlan.parse(name)
    n = plan.devices * plan.slots
    edges = draw_edges(plan)
    return op_graph(
        name,
        edges,
        ("MatMul",) * n,
        ((1, WIDTH),) * n,
        np.full(n, WEIGHT_BYTES, dtype=np.int64),
        np.full(n, FLOPS),
        np.full(n, 4 * WIDTH, dtype=np.int64),
    )


def draw_edges(plan: PlantedPlan) -> IntArray:
    """(2, n_edges) what each operator reads, one operator of its own device and often another."""
    rng = np.random.default_rng([plan.seed, plan.devices, plan.slots, 1])
    number = np.empty((plan.devices, plan.slots), dtype=np.int64)
    device, order = plan.assignment, np.arange(plan.devices * plan.slots)
    number[device, order // plan.devices] = order
    slot = np.tile(np.arange(plan.slots), (plan.devices, 1))
    own = np.broadcast_to(np.arange(plan.devices)[:, None], slot.shape)
    back = np.where(rng.random(slot.shape) < CHAINED, 1, rng.integers(1, REACH + 1, slot.shape))
    other = (own + rng.integers(1, plan.devices, slot.shape)) % plan.devices
    earlier_slot = slot - 1 - SLACK - rng.integers(0, REACH, slot.shape)
    near, far = slot > 0, (rng.random(slot.shape) < REMOTE) & (earlier_slot >= 0)
    local = number[own[near], np.maximum(slot - back, 0)[near]], number[near]
    remote = number[other[far], earlier_slot[far]], number[far]
    return np.concatenate([np.stack(local), np.stack(remote)], axis=1)
