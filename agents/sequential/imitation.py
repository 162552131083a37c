"""Self-labelling: a network imitates the best placements of searches that it guides itself.

Every problem has a search, which goes on with the network's present preferences; the likelihood of
the fastest placements so far is raised, step by step along the decoder's way to them. As in SLIM
(Corsini et al. 2024) no critic and no other solver is needed; unlike there, labels are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from agents.sequential.network import Network
from agents.sequential.refining import Log
from agents.sequential.search import Sequential
from placement_gym.env import DevicePlacementEnv

MAX_GRAD_NORM = 1.0
LEAST_GAIN = 1e-9
"""In log latency, of a move that made a placement cheaper."""
WORST = -10.0
"""Of the log-probability of one choice, so that single ones cannot outweigh all others."""


def imitate(
    network: Network,
    envs: Sequence[DevicePlacementEnv],
    passes: int,
    evaluations: int = 40,
    labels: int = 2,
    learning_rate: float = 1e-3,
    batch: int = 4,
    seed: int = 0,
    report: Callable[[int, float, float], None] = lambda done, loss, speedup: None,
) -> None:
    """Train a network, in place.

    Args:
        network: To be trained.
        envs: The problems, one environment each.
        passes: How often each problem is visited.
        evaluations: Placements that the search of a problem evaluates at a visit.
        labels: How many of the fastest placements of a problem are imitated.
        learning_rate: Of Adam; falls to zero linearly.
        batch: Problems in an update.
        seed: Of the searches and of the order of problems.
        report: Called after each pass with the number of passes, the mean loss, and the mean
            logarithm of the best speed-ups.
    """
    rng = np.random.default_rng(seed)
    searches = [Sequential(env, int(rng.integers(2**31)), network) for env in envs]
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, passes)
    for done in range(passes):
        order, losses = rng.permutation(len(searches)), []
        for first in range(0, len(order), batch):
            chosen = [searches[index] for index in order[first : first + batch]]
            for search in chosen:
                search.placer.refresh()
                search.learn(evaluations)
            loss = torch.stack([compute_loss(search, labels) for search in chosen]).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        reached = [search.best_speedup for search in searches if search.best_speedup]
        report(done + 1, float(np.mean(losses)), float(np.mean(np.log(reached))))


def join_logs(logs: Sequence[Log]) -> tuple[Tensor, Tensor]:
    """(k, n_features) moves that were tried, and (k,) whether they made a placement cheaper."""
    counts = [int(log.filled[0]) for log in logs]
    seen = np.concatenate([log.seen[:n] for log, n in zip(logs, counts, strict=True)])
    ratio = np.concatenate([log.ratio[:n] for log, n in zip(logs, counts, strict=True)])
    return torch.from_numpy(seen), torch.from_numpy((ratio < -LEAST_GAIN).astype(np.float32))


def compute_move_loss(network: Network, seen: Tensor, paid: Tensor) -> Tensor:
    """Cross-entropy of which moves made a placement cheaper; see ``join_logs``."""
    promise = network.promise_of(seen)
    return torch.nn.functional.binary_cross_entropy_with_logits(promise, paid)


def compute_loss(search: Sequential, labels: int, astray: float = 0.0) -> Tensor:
    """Mean negative log-probability of a choice in the fastest placements of a search.

    Args:
        search: Knows the placements.
        labels: How many of the fastest are imitated.
        astray: Weight of the same choices on the network's own way, where earlier units are not
            where the fastest placement has them (DAgger, Ross et al. 2011). On the way of labels
            alone a network learns to repeat what was chosen before, mistakes too.
    """
    best = search.parents[:labels]
    if not len(best):
        return torch.zeros((), requires_grad=True)
    placer = search.placer
    if not astray:
        return -placer.log_probabilities(best).clamp(min=WORST).mean()
    own = placer.place()[None]
    targets = np.concatenate([best, best[:1]])
    chosen = placer.log_probabilities(targets, np.concatenate([best, own])).clamp(min=WORST)
    loss: Tensor = -(1.0 - astray) * chosen[:-1].mean() - astray * chosen[-1].mean()
    return loss
