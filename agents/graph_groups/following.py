"""A distribution in which units follow a producer or choose a device."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from agents.common import FORBIDDEN, sample_devices


class FollowingDevices:
    """A ``DeviceDistribution`` in which a unit takes its leader's device, or chooses its own.

    Each placement draws the units that follow, and so the groups that get one device. Groups need
    not be stored: the likelihood of a placement sums over all groupings that lead to it,

        log p(a) = sum_u log(keep_u [a_u = a_leader(u)] + (1 - keep_u) p_u(a_u)).

    Args:
        logits: (S, N, D) logits of each unit's own choice in each of S states.
        keep: (S, N) logits of following.
        leader: (S, N) int64, an earlier unit that each unit may follow, or the unit itself.
        mask: (S, N) bool, False for padding.
        allowed: (S, N, D) bool, the devices that may be chosen; None allows all. A unit that does
            not allow all that its leader allows does not follow.
        row: (B,) state of each row; None means one row per state.
    """

    def __init__(
        self,
        logits: Tensor,
        keep: Tensor,
        leader: Tensor,
        mask: Tensor,
        allowed: Tensor | None = None,
        row: Tensor | None = None,
    ) -> None:
        self.given = logits, keep, leader, mask
        self.allowed = allowed
        self.row = torch.arange(len(logits), device=logits.device) if row is None else row
        units = torch.arange(leader.shape[1], device=leader.device)
        # otherwise the likelihood would give probability to devices that a follower cannot have
        follows = mask & (leader != units)
        if allowed is not None:
            logits = logits.masked_fill(~allowed, FORBIDDEN)
            of_leader = allowed.gather(1, leader[..., None].expand_as(allowed))
            follows = follows & (allowed | ~of_leader).all(dim=-1)
        self.own = logits.log_softmax(dim=-1)
        self.stay = logsigmoid(keep).masked_fill(~follows, FORBIDDEN)
        self.leave = logsigmoid(-keep).masked_fill(~follows, 0.0)
        self.leader, self.mask = leader, mask
        self.window: Tensor | None = None
        self.base: Tensor | None = None

    @property
    def decides(self) -> Tensor:
        """(B, N) bool, the units that are drawn."""
        mask = self.mask[self.row]
        return mask if self.window is None else mask & self.window

    def get_actions(self, deterministic: bool = False) -> Tensor:
        devices = self.mode() if deterministic else self.sample()
        return devices * self.mask[self.row]

    @torch.no_grad()
    def sample(self) -> Tensor:
        """(B, N) devices: all units choose, then those that follow take their leader's device."""
        devices = sample_devices(self.own, self.row)
        stay = self.stay.exp()[self.row]
        follows = torch.rand_like(stay) < stay
        # nothing is drawn outside a window, but units there may lead those inside
        if self.window is not None and self.base is not None:
            devices, follows = torch.where(self.window, devices, self.base), follows & self.window
        # the first unit of a chain of followers chooses for all; pointer doubling finds it in
        # log2(length) operations on whole batches
        units = torch.arange(devices.shape[1], device=devices.device)
        chooser = torch.where(follows, self.leader[self.row], units)
        while (next_chooser := chooser.gather(1, chooser)).ne(chooser).any():
            chooser = next_chooser
        return devices.gather(1, chooser)

    @torch.no_grad()
    def mode(self) -> Tensor:
        """(B, N) device with the highest marginal probability of each unit."""
        # marginals by the chain rule: a leader comes before its followers
        probability = (self.own + self.leave[..., None]).exp()
        states = torch.arange(len(probability), device=probability.device)
        stay = self.stay.exp()
        for unit in range(int(self.mask.sum(dim=1).max())):  # padding comes last
            of_leader = probability[states, self.leader[:, unit]]
            probability[:, unit] += stay[:, unit, None] * of_leader
        return probability.argmax(dim=-1)[self.row]

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, N) log-probability of each unit's device, given its leader's."""
        devices = actions.long()
        units = torch.arange(devices.shape[1], device=devices.device)
        own_log_prob = self.leave[self.row] + self.own[self.row[:, None], units, devices]
        # a unit with its leader's device has followed it, or has chosen the same
        agrees = devices == devices.gather(1, self.leader[self.row])
        return torch.where(agrees, torch.logaddexp(self.stay[self.row], own_log_prob), own_log_prob)

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) log-probability of (B, N) devices."""
        return (self.unit_log_prob(actions) * self.decides).sum(dim=1)

    def entropy(self) -> Tensor:
        """(B,) entropy of the units that follow, and of the devices of those that do not."""
        of_choice = -(self.own.exp() * self.own).sum(dim=-1)
        of_following = -(self.stay.exp() * self.stay + self.leave.exp() * self.leave)
        entropies = of_following + self.leave.exp() * of_choice
        return (entropies[self.row] * self.decides).sum(dim=1)

    def conditioned_on(self, actions: Tensor) -> FollowingDevices:
        """Itself: the likelihood is that of whole placements."""
        return self

    def within(self, window: Tensor, base: Tensor) -> FollowingDevices:
        """The distribution of a window's units, given the (k B, N) ``base`` devices of the others.

        There are (k B, N) windows, k for each row, whose units may follow ones outside.
        """
        part = copy(self)
        part.row = self.row.repeat_interleave(len(window) // len(self.row))
        part.window, part.base = window, base
        return part

    def restricted_to(self, allowed: Tensor) -> FollowingDevices:
        joint_mask = allowed if self.allowed is None else allowed & self.allowed[self.row]
        logits, keep, leader, mask = (tensor[self.row] for tensor in self.given)
        return FollowingDevices(logits, keep, leader, mask, joint_mask)
