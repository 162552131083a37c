"""Episodes, in which both policies decide in turn until every node is placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agents.common import FORBIDDEN
from agents.doppler.networks import DualPolicy
from agents.doppler.schedule import (
    DEVICE_FEATURES,
    OWN_FEATURES,
    CandidateDevices,
    Schedules,
    TaskGraph,
)
from placement_gym.base import BoolArray, Float32Array, FloatArray, IntArray, check_plain_fields


@dataclass(frozen=True)
class Settings:
    """Settings of episodes, and of the three stages that learn from them.

    Attributes:
        hidden: Width of the embeddings.
        rounds: Rounds of messages.
        published: Whether episodes and updates are those of the published code: decisions are the
            most likely ones or uniform, not sampled; there are no memory limits and none of
            ``OWN_FEATURES``; the teacher takes the earliest start, not finish, and all its ties
            count; the baseline is the mean of all costs of the stage, not of the other episodes;
            nothing is scaled or clipped.
        rows: Episodes per update.
        imitation: Updates of stage 1, the imitation of a list scheduler.
        simulation: Updates of stage 2, on the episodes' own schedule.
        learning_rate: Learning rate of stage 1.
        gradient_rate: Learning rate of stages 2 and 3.
        uniform: Initial probability of uniform decisions in each stage; it falls to 0.
        entropy: Weight of the entropy in each stage.
        discount: Discount of the return per step before the last.
    """

    hidden: int = 32
    rounds: int = 3
    published: bool = False
    rows: int = 10
    imitation: int = 40
    simulation: int = 20
    learning_rate: float = 3e-3
    gradient_rate: float = 1e-3
    uniform: tuple[float, float, float] = (0.0, 0.0, 0.0)
    entropy: tuple[float, float, float] = (0.0, 0.005, 0.005)
    discount: float = 1.0

    def __post_init__(self) -> None:
        check_plain_fields(
            self, may_be_zero=("rounds", "imitation", "simulation"), shares=("discount",)
        )

    @property
    def n_features(self) -> int:
        """Columns of a device that the policy reads."""
        return len(DEVICE_FEATURES) + len(OWN_FEATURES) * (not self.published)


class Trace(NamedTuple):
    """Observations and decisions in the T steps of B episodes."""

    node: IntArray  # (B, T) the next node
    device: IntArray  # (B, T) its device
    candidates: BoolArray  # (B, T, n) bool
    features: Float32Array  # (B, T, D, F) float32 of the devices
    allowed: BoolArray  # (B, T, D) bool
    teacher_node: BoolArray  # (B, T, n) bool, all candidates with the longest path ahead
    teacher_device: BoolArray  # (B, T, D) bool, see ``mark_earliest``
    placement: IntArray  # (B, n_units) devices
    length_ms: FloatArray  # (B,) lengths of the episodes' own schedules


class TraceLikelihood(NamedTuple):
    """Log-probabilities of all decisions of a trace."""

    node: Tensor  # (B, T, n), ``FORBIDDEN`` where a node is no candidate
    device: Tensor  # (B, T, D), ``FORBIDDEN`` where a device is not allowed

    def of(self, trace: Trace) -> Tensor:
        """(B, T) log-probability of both policies' decisions."""
        node = self.node.gather(2, torch.from_numpy(trace.node)[..., None])[..., 0]
        device = self.device.gather(2, torch.from_numpy(trace.device)[..., None])[..., 0]
        return node + device

    def entropy(self) -> Tensor:
        """Mean entropy of a decision."""
        each = [-(part.exp() * part).sum(dim=2).mean() for part in self]
        return torch.stack(each).sum()


@torch.no_grad()
def play(
    policy: DualPolicy,
    graph: TaskGraph,
    settings: Settings,
    rng: np.random.Generator,
    rows: int,
    greedy: int = 0,
    uniform: float = 0.0,
) -> Trace:
    """Play episodes together.

    The first ``greedy`` ones take the most likely decisions; the others take uniform ones with a
    probability of ``uniform``.
    """
    published = settings.published
    schedules = Schedules(graph, rows, respect_memory=not published)
    draw = np.arange(rows) >= greedy
    # as published, messages are passed once an episode
    preferred = np.broadcast_to(policy.node(graph).numpy(), schedules.done.shape)
    h = policy.device.messages(graph)
    placed = torch.zeros(rows, graph.ms.shape[1], h.shape[1])
    row = torch.arange(rows)
    steps = []
    for _ in range(len(graph)):
        # SEL chooses the next node among the candidates; the teacher takes the longest path
        candidates = schedules.candidates
        longest = mark_largest(graph.down, candidates)
        node = decide(preferred, candidates, draw, rng, not published, uniform)
        # PLC chooses its device
        choices = schedules.describe_devices(node)
        seen = choices.features[..., : settings.n_features].astype(np.float32)
        best = mark_earliest(choices, None if published else graph.ms[node])
        v = torch.from_numpy(node)
        logits = policy.device(graph.x[v], h[v], torch.from_numpy(seen), placed)
        device = decide(logits.numpy(), choices.allowed, draw, rng, not published, uniform)
        # PLC reads the schedule and the sum of embeddings on each device
        schedules.add(node, device, choices.start)
        placed[row, torch.from_numpy(device)] += h[v]
        steps.append((node, device, candidates, seen, choices.allowed, longest, best))
    parts = [np.stack(part, axis=1) for part in zip(*steps, strict=True)]
    return Trace._make([*parts, schedules.device, schedules.length_ms()])


def decide(
    logits: FloatArray,
    mask: BoolArray,
    draw: BoolArray,
    rng: np.random.Generator,
    sample: bool,
    uniform: float,
) -> IntArray:
    """(B,) choices among the options of (B, K) masks.

    Rows to ``draw`` are sampled if ``sample``, and a share ``uniform`` of them uniformly; the other
    rows take the most likely option.

    Deviation with ``sample``: the published code takes the most likely option or a uniform one, and
    scores both by the softmax from which neither was sampled.
    """
    noise = rng.gumbel(size=logits.shape)
    scores = logits + noise * draw[:, None] if sample else logits
    if uniform:
        chance = draw & (rng.random(len(draw)) < uniform)
        scores = np.where(chance[:, None], noise, scores)
    chosen: IntArray = np.where(mask, scores, -np.inf).argmax(axis=1)
    return chosen


def mark_largest(values: FloatArray, mask: BoolArray) -> BoolArray:
    """(B, n) bool, all options of (B, n) masks with the largest of (n,) or (B, n) values."""
    shown = np.where(mask, values, -np.inf)
    largest: BoolArray = mask & (shown == shown.max(axis=1, keepdims=True))
    return largest


def mark_earliest(choices: CandidateDevices, ms: FloatArray | None) -> BoolArray:
    """(B, D) bool, all allowed devices with the earliest finish, or start if ``ms`` is None."""
    when = choices.start if ms is None else choices.start + ms
    return mark_largest(-when, choices.allowed)


def compute_likelihood(policy: DualPolicy, graph: TaskGraph, trace: Trace) -> TraceLikelihood:
    """The likelihood of all decisions that were possible, with gradients."""
    node, device = torch.from_numpy(trace.node), torch.from_numpy(trace.device)
    candidates, allowed = torch.from_numpy(trace.candidates), torch.from_numpy(trace.allowed)
    logit = policy.node(graph).expand(candidates.shape).masked_fill(~candidates, FORBIDDEN)
    h = policy.device.messages(graph)
    of_node = h[node]
    chosen = torch.nn.functional.one_hot(device, allowed.shape[2]).to(h.dtype)
    added = chosen[..., None] * of_node[:, :, None]
    placed = added.cumsum(dim=1) - added
    features = torch.from_numpy(trace.features)
    logits = policy.device(graph.x[node], of_node, features, placed)
    return TraceLikelihood(
        logit.log_softmax(dim=2), logits.masked_fill(~allowed, FORBIDDEN).log_softmax(dim=2)
    )


def compare_with_teacher(likelihood: TraceLikelihood, trace: Trace, published: bool) -> Tensor:
    """Cross-entropy to the teacher's decisions in the learner's own states.

    The teacher chooses uniformly among ties; as published, the loss sums over all of them.
    """
    losses = []
    labels = (trace.teacher_node, trace.teacher_device)
    for log_probs, label in zip(likelihood, labels, strict=True):
        tied = torch.from_numpy(label)
        each = -(log_probs * tied).sum(dim=2)
        losses.append((each if published else each / tied.sum(dim=2)).mean())
    return torch.stack(losses).sum()
