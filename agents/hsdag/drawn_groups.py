"""Parsing by chance: each dominant edge is kept with a probability, which its score raises."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from agents.common.distribution import PlacementMemory, UnitCategorical, intersect_followers
from agents.common.graphs import GraphBatch
from agents.hsdag.networks import Networks
from agents.hsdag.rollout import Batch, group_states


class GroupedDevices(UnitCategorical):
    """Devices of groups that were drawn: the likelihood is of both."""

    log_keep: Tensor
    keep_entropy: Tensor

    def log_prob(self, actions: Tensor) -> Tensor:
        return super().log_prob(actions) + self.log_keep

    def entropy(self) -> Tensor:
        return super().entropy() + self.keep_entropy


class DrawnGroups:
    def __init__(
        self,
        networks: Networks,
        graphs: GraphBatch,
        batch: Batch,
        z: Tensor,
        row: Tensor,
        bias: list[float],
        keys: Tensor,
        memory: PlacementMemory,
    ) -> None:
        self.networks, self.graphs, self.batch, self.z, self.row = networks, graphs, batch, z, row
        self.keys, self.memory = keys, memory
        self.mask: Tensor | None = None
        n_edges = [len(step.tree) for step in batch.steps]
        trees = [
            s.edges[:, s.tree] + int(b) for s, b in zip(batch.steps, batch.begins, strict=True)
        ]
        scores = networks.score_edges(z, torch.cat(trees, dim=1)).split(n_edges)
        scores = [one + b for one, b in zip(scores, bias, strict=True)]
        self.scores = torch.nn.utils.rnn.pad_sequence(scores, batch_first=True)
        self.valid = torch.arange(max(n_edges)) < torch.tensor(n_edges)[:, None]
        self.last = None

    def get_actions(self, deterministic: bool = False) -> Tensor:
        likely = self.scores.detach().sigmoid()[self.row]
        keep = likely > (0.5 if deterministic else torch.rand_like(likely))
        devices = self.given(keep)
        actions = devices.get_actions(deterministic)
        self.memory.keep(self.keys, actions, keep)
        self.last = actions, devices
        return actions

    def conditioned_on(self, actions: Tensor) -> GroupedDevices:
        if self.last is not None and torch.equal(self.last[0], actions):
            return self.last[1]
        keep = self.memory.recall(
            self.keys, actions, torch.zeros_like(self.scores[self.row]).bool()
        )
        return self.given(keep)

    def given(self, keep: Tensor) -> GroupedDevices:
        keep = keep & self.valid[self.row]
        states = self.row.tolist()
        sizes = [len(self.batch.steps[s].tree) for s in states]
        distinct, index = torch.unique(
            torch.cat([self.row[:, None], keep.long()], 1), dim=0, return_inverse=True
        )
        ds = distinct[:, 0].tolist()
        parts = [one[: len(self.batch.steps[s].tree)].bool() for s, one in zip(ds, distinct[:, 1:])]
        groups = group_states(self.graphs, self.batch, ds, parts)
        costs = self.networks.costs_of(self.graphs)[self.batch.node]
        logits = self.networks(self.z, costs, groups)
        allowed = groups.allowed
        row = index
        if self.mask is not None:
            shared = intersect_followers(self.mask, groups.leader[index])
            allowed = shared if allowed is None else shared & allowed[index]
            devices = GroupedDevices(
                logits[index], groups.decides[index], groups.leader[index], allowed
            )
        else:
            devices = GroupedDevices(logits, groups.decides, groups.leader, allowed, index)
        signed = torch.where(keep, self.scores[self.row], -self.scores[self.row])
        devices.log_keep = (logsigmoid(signed) * self.valid[self.row]).sum(dim=1)
        p = self.scores.sigmoid()
        each = -(p * logsigmoid(self.scores) + (1 - p) * logsigmoid(-self.scores)) * self.valid
        devices.keep_entropy = each.sum(dim=1)[self.row]
        return devices

    def restricted_to(self, allowed: Tensor) -> "DrawnGroups":
        part = copy(self)
        part.mask, part.last = allowed, None
        return part
