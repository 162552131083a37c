"""Parsing by chance: in rollouts a dominant edge is kept with a probability that its score raises.

Ours, for training: the paper keeps all dominant edges. The likelihood of a placement is then that
of its groups and of their devices, so that the gradient of the reward reaches the scores.
"""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from agents.common.distribution import PlacementMemory, UnitCategorical, intersect_followers
from agents.common.graphs import GraphBatch
from agents.hsdag.groups import States, group_nodes
from agents.hsdag.networks import Networks

STEPS = 2**20
"""More than an episode has, in the keys of placements."""


class GroupedDevices(UnitCategorical):
    """Devices of groups that were drawn, too: the likelihood is that of both.

    Args:
        log_keep: (B,) log-likelihood of the groups.
        keep_entropy: (B,) entropy of the choice of groups.
        args: See ``UnitCategorical``.
    """

    def __init__(self, log_keep: Tensor, keep_entropy: Tensor, *args: Tensor | None) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.log_keep, self.keep_entropy = log_keep, keep_entropy

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) log-probability of (B, N) devices and of their groups."""
        return super().log_prob(actions) + self.log_keep

    def entropy(self) -> Tensor:
        """(B,) entropy of groups, and of devices given the groups that were drawn."""
        return super().entropy() + self.keep_entropy


class SampledGroups:
    """A distribution of groups and of their devices; see ``DeviceDistribution``.

    The groups of each placement are kept in a memory, from which its likelihood recalls them.

    Args:
        networks: The networks.
        graphs: The graphs.
        states: The states.
        z: (m, hidden) embeddings of their nodes.
        row: (B,) state of each row.
        keys: (B,) key of each row's state in the memory.
        memory: Which edges of each placement were kept.
    """

    def __init__(
        self,
        networks: Networks,
        graphs: GraphBatch,
        states: States,
        z: Tensor,
        row: Tensor,
        keys: Tensor,
        memory: PlacementMemory,
    ) -> None:
        self.networks, self.graphs, self.states, self.z = networks, graphs, states, z
        self.row, self.keys, self.memory = row, keys, memory
        # logits of keeping each dominant edge, padded to (S, N): a forest has less edges than nodes
        n_slots = graphs.node_mask.shape[1]
        counts = [step.tree.shape[1] for step in states.steps]
        begun = zip(states.steps, states.begins.tolist(), strict=True)
        trees = torch.cat([step.tree + begin for step, begin in begun], dim=1)
        scores = torch.split(networks.score_edges(z, trees), counts)
        padded = [pad(score, (0, n_slots - len(score))) for score in scores]
        self.logits = torch.stack(padded) + states.prior[:, None]
        self.valid = torch.arange(n_slots, device=z.device) < row.new_tensor(counts)[:, None]
        self.mask: Tensor | None = None
        self.last: tuple[Tensor, GroupedDevices] | None = None

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) sampled devices; or the most likely ones of the most likely groups."""
        likely = self.logits.detach().sigmoid()[self.row]
        keep = likely > (0.5 if deterministic else torch.rand_like(likely))
        devices = self.given(keep)
        actions = devices.get_actions(deterministic)
        self.memory.keep(self.keys, actions, keep)
        self.last = keep, devices
        return actions

    def conditioned_on(self, actions: Tensor) -> GroupedDevices:
        """The likelihood of (B, N) devices and of their groups; unknown ones have single units."""
        single = torch.zeros_like(self.logits[self.row], dtype=torch.bool)
        keep = self.memory.recall(self.keys, actions, single)
        if self.last is not None and torch.equal(self.last[0], keep):
            return self.last[1]
        return self.given(keep)

    def given(self, keep: Tensor) -> GroupedDevices:
        """The devices of the groups that (B, N) kept edges make, each grouping computed once."""
        logits, valid = self.logits[self.row], self.valid[self.row]
        pairs = torch.cat([self.row[:, None], (keep & valid).long()], dim=1)
        distinct, row = torch.unique(pairs, dim=0, return_inverse=True)
        which = distinct[:, 0].tolist()
        trees = [self.states.steps[state].tree for state in which]
        chosen = distinct[:, 1:].bool()
        forests = [tree[:, row[: tree.shape[1]]] for tree, row in zip(trees, chosen, strict=True)]
        groups = group_nodes(self.graphs, self.states, which, forests)
        devices = self.networks(self.z, self.states.costs, groups)
        likely = logsigmoid(torch.where(keep, logits, -logits))
        log_keep = (likely * valid).sum(dim=1)
        choice = (devices, groups.decides, groups.leader, groups.allowed, row)
        return GroupedDevices(log_keep, self.compute_entropy(logits, valid), *self.restrict(choice))

    def compute_entropy(self, logits: Tensor, valid: Tensor) -> Tensor:
        """(B,) entropy of which of the valid edges are kept."""
        share = logits.sigmoid()
        each = share * logsigmoid(logits) + (1.0 - share) * logsigmoid(-logits)
        return -(each * valid).sum(dim=1)

    def restrict(self, choice: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Arguments of ``UnitCategorical`` with only the devices that the rows' mask allows."""
        if self.mask is None:
            return choice
        *tables, row = choice
        devices, decides, leader, allowed = (
            None if table is None else table[row] for table in tables
        )
        assert leader is not None
        shared = intersect_followers(self.mask, leader)
        return devices, decides, leader, shared if allowed is None else shared & allowed

    def restricted_to(self, allowed: Tensor) -> SampledGroups:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""
        part = copy(self)
        part.mask, part.last = allowed, None
        return part
