"""Devices, levels of priority and bits of fusion, each stage sampled after the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from agents.common.distribution import UnitCategorical

Choose = Callable[[UnitCategorical], Tensor]
"""Returns the (B, ...) choices in the distribution of a stage."""


class LaterStages(Protocol):
    """The stages after the placement."""

    def __call__(self, devices: Tensor, choose: Choose) -> list[UnitCategorical]:
        """The distribution of each stage, given the (B, N) devices and what ``choose`` returned."""


@dataclass(frozen=True, eq=False)
class StagedDistribution:
    """The distribution of all decisions.

    Attributes:
        devices: Of the first stage.
        later: The stages after it.
        sizes: Entries of an action in each stage.
    """

    devices: UnitCategorical
    later: LaterStages
    sizes: Sequence[int]

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, width) sampled decisions; or the most likely ones, stage by stage."""
        parts = [self.devices.get_actions(deterministic)]

        def choose(stage: UnitCategorical) -> Tensor:
            parts.append(stage.get_actions(deterministic))
            return parts[-1]

        self.later(parts[0], choose)
        return torch.cat(parts, dim=1)

    def conditioned_on(self, actions: Tensor) -> StagedLikelihood:
        """The likelihood of (B, width) decisions, each stage given the ones before."""
        parts = torch.split(actions.long(), list(self.sizes), dim=1)
        given: Iterator[Tensor] = iter(parts[1:])
        later = self.later(parts[0], lambda _: next(given))
        return StagedLikelihood((self.devices, *later), self.sizes)

    def restricted_to(self, allowed: Tensor) -> StagedDistribution:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""
        return replace(self, devices=self.devices.restricted_to(allowed))


@dataclass(frozen=True, eq=False)
class StagedLikelihood:
    """The likelihood of all decisions.

    Attributes:
        stages: The distribution of each stage.
        sizes: Entries of an action in each.
    """

    stages: Sequence[UnitCategorical]
    sizes: Sequence[int]

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, width) log-probability of each decision, zero where nothing is decided."""
        parts = torch.split(actions, list(self.sizes), dim=1)
        found = [
            log_prob if stage.weight is None else log_prob * stage.weight
            for stage, part in zip(self.stages, parts, strict=True)
            for log_prob in [stage.unit_log_prob(part)]
        ]
        return torch.cat(found, dim=1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) log-probability of (B, width) decisions."""
        return self.unit_log_prob(actions).sum(dim=1)

    def entropy(self) -> Tensor:
        """(B,) entropies of the stages, each given the one before, added up."""
        return torch.stack([stage.entropy() for stage in self.stages]).sum(dim=0)

    def permits(self, actions: Tensor) -> Tensor:
        """(B,) bool, whether (B, width) decisions are allowed."""
        parts = torch.split(actions, list(self.sizes), dim=1)
        each = [stage.permits(part) for stage, part in zip(self.stages, parts, strict=True)]
        return torch.stack(each).all(dim=0)
