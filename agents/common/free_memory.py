"""Devices that are chosen one after another, each only where memory is left for the unit.

Where an environment does not repair, most placements that ignore limits are infeasible: 77 % of
those of the RNN and 89 % of Post's on generated problems, 6 and 7 % with these choices.
"""

# mypy: disallow-untyped-decorators=False
# (numba's are not typed)

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numba import njit
from torch import Tensor

from agents.common.distribution import UnitCategorical, intersect_followers
from agents.common.graphs import GraphBatch
from placement_gym.base.arrays import BoolArray, FloatArray, IntArray

MARGIN = 1e-6
"""Share of the model's bytes that stays free, as shares are rounded."""


@dataclass(frozen=True, eq=False)
class FreeMemory:
    """Bytes of units and limits of devices, as shares of the model's bytes.

    Attributes:
        held: (B, N) float64 bytes that come with each decision; 0 where nothing is decided.
        limits: (B, D) float64.
        pools: (B, D) int64, a number from 1 for devices that share a limit, else 0; None for
            none.
    """

    held: Tensor
    limits: Tensor
    pools: Tensor | None = None

    @classmethod
    def of(cls, graphs: GraphBatch) -> FreeMemory | None:
        """Read the memory of (G,) graphs with padded units; None if nothing is limited.

        Raises:
            UserError: Devices are not observed.
        """
        tables = graphs.device_tables
        if not bool((tables.devices[..., 1] > 0).any()):
            return None
        held = graphs.pad(tables.unit_bytes[:, None])[..., 0]
        return cls(held, tables.limits, tables.memory_pool if tables.memory_pool.any() else None)

    def take(self, row: Tensor) -> FreeMemory:
        """Take (B,) rows of this one."""
        pools = None if self.pools is None else self.pools[row]
        return FreeMemory(self.held[row], self.limits[row], pools)

    def gather(self, place: Tensor, n_places: int) -> FreeMemory:
        """Add up units that are decided together; ``place``: (B, N), where each belongs."""
        summed = self.held.new_zeros(len(self.held), n_places)
        return replace(self, held=summed.scatter_add_(1, place, self.held))

    def share(self, used: Tensor) -> Tensor:
        """(B, M, D) bytes that count against each device's limit, of (B, M, D) bytes on devices."""
        return used if self.pools is None else used @ self.shared.to(used.dtype)

    @property
    def shared(self) -> Tensor:
        """(B, D, D) bool, devices that share a limit; each with itself."""
        same = torch.eye(self.limits.shape[1], dtype=torch.bool, device=self.limits.device)
        same = same.expand(len(self.limits), -1, -1)
        if self.pools is None:
            return same
        return same | ((self.pools[:, :, None] == self.pools[:, None]) & (self.pools[:, None] > 0))

    def before(self, devices: Tensor) -> Tensor:
        """(B, N, D) float64 free memory before each of (B, N) decisions, in their order."""
        chosen = torch.nn.functional.one_hot(devices.long(), self.limits.shape[1])
        used = chosen * self.held[..., None]
        return self.limits[:, None] - self.share(used.cumsum(dim=1) - used)

    def restrict(self, allowed: Tensor | None, free: Tensor, held: Tensor) -> Tensor:
        """(..., D) bool, allowed devices on which a decision fits; if on none, the freest.

        Args:
            allowed: (..., D) bool; None allows all.
            free: (..., D) float64.
            held: (...) bytes of the decision.
        """
        supported = torch.ones_like(free, dtype=torch.bool) if allowed is None else allowed
        fits = supported & ((held[..., None] <= free - MARGIN) | (held[..., None] <= 0.0))
        freest = free.masked_fill(~supported, -torch.inf).argmax(dim=-1)
        one = torch.nn.functional.one_hot(freest, free.shape[-1]).bool()
        return torch.where(fits.any(dim=-1, keepdim=True), fits, one)

    def restrict_each(self, allowed: Tensor | None, actions: Tensor) -> Tensor:
        """(B, N, D) bool, as ``restrict`` for each of (B, N) decisions after those before it.

        The chosen device always stays, unless it is forbidden: a heuristic that decides in another
        order may have found memory for it.

        Args:
            allowed: (B, N, D) bool; None allows all.
            actions: (B, N) devices.
        """
        fits = self.restrict(allowed, self.before(actions), self.held)
        chosen = torch.nn.functional.one_hot(actions.long(), fits.shape[2]).bool()
        return fits | (chosen if allowed is None else chosen & allowed)


@dataclass(frozen=True, eq=False)
class MemoryLimitedCategorical:
    """Categorical choices in the order of units, each among the devices on which the unit fits.

    Attributes:
        logits: (S, N, D) logits of the devices in each of S states.
        memory: Of the S states.
        weight: (S, N) bool, the units that decide.
        leader: (S, N) int64, the unit that each unit follows; None means itself.
        allowed: (S, N, D) bool; None allows all.
        row: (B,) state of each row.
    """

    logits: Tensor
    memory: FreeMemory
    weight: Tensor
    leader: Tensor | None
    allowed: Tensor | None
    row: Tensor

    @property
    def decided(self) -> FreeMemory:
        """The memory of decisions: followers come with their leader."""
        if self.leader is None:
            return self.memory
        return self.memory.gather(self.leader, self.leader.shape[1])

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) sampled devices, or the most likely ones, one after another."""
        allowed = self.allowed
        if allowed is None:
            allowed = torch.ones_like(self.logits, dtype=torch.bool)
        row = self.row.cpu().numpy()
        # the largest of logits with Gumbel noise is a sample of their softmax, however it is masked
        scores = self.logits.detach().double().cpu().numpy()[row]
        if not deterministic:
            scores = scores - np.log(torch.empty(scores.shape).exponential_().double().numpy())
        memory = self.decided
        chosen = choose(
            scores,
            allowed.cpu().numpy()[row],
            self.weight.cpu().numpy()[row],
            memory.held.cpu().numpy()[row],
            memory.limits.cpu().numpy()[row],
            memory.shared.cpu().numpy()[row],
        )
        found = torch.from_numpy(chosen).to(self.row.device)
        return found if self.leader is None else found.gather(1, self.leader[self.row])

    def conditioned_on(self, actions: Tensor) -> UnitCategorical:
        """The distribution of each device, conditioned on the (B, N) devices before it."""
        supported = None if self.allowed is None else self.allowed[self.row]
        allowed = self.decided.take(self.row).restrict_each(supported, actions)
        leader = None if self.leader is None else self.leader[self.row]
        return UnitCategorical(self.logits[self.row], self.weight[self.row], leader, allowed)

    def restricted_to(self, allowed: Tensor) -> MemoryLimitedCategorical:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""
        leader = None if self.leader is None else self.leader[self.row]
        both = intersect_followers(allowed, leader)
        if self.allowed is not None:
            both = both & self.allowed[self.row]
        rows = torch.arange(len(self.row), device=self.row.device)
        memory, weight = self.memory.take(self.row), self.weight[self.row]
        return MemoryLimitedCategorical(self.logits[self.row], memory, weight, leader, both, rows)


@njit(cache=True, nogil=True)
def choose(
    scores: FloatArray,
    allowed: BoolArray,
    weight: BoolArray,
    held: FloatArray,
    limits: FloatArray,
    shared: BoolArray,
) -> IntArray:
    """(B, N) devices of highest score among those on which a unit fits, or the freest one.

    Args:
        scores: (B, N, D).
        allowed: (B, N, D).
        weight: (B, N), the units that decide; the others get device 0.
        held: (B, N) bytes that come with each decision.
        limits: (B, D).
        shared: (B, D, D), devices that share a limit; each with itself.
    """
    n_rows, n_units, n_devices = scores.shape
    found = np.zeros((n_rows, n_units), np.int64)
    for b in range(n_rows):
        free = limits[b].copy()
        for i in range(n_units):
            if not weight[b, i]:
                continue
            best, freest = -1, -1
            for d in range(n_devices):
                if not allowed[b, i, d]:
                    continue
                if freest < 0 or free[d] > free[freest]:
                    freest = d
                if held[b, i] > free[d] - MARGIN and held[b, i] > 0.0:
                    continue
                if best < 0 or scores[b, i, d] > scores[b, i, best]:
                    best = d
            # a unit that fits nowhere must go somewhere: where it exceeds the limit least
            found[b, i] = max(best, 0) if best >= 0 else max(freest, 0)
            for d in range(n_devices):
                if shared[b, d, found[b, i]]:
                    free[d] -= held[b, i]
    return found
