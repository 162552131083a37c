"""Evolution strategies on the scorer: its weights move where sampled placements get faster.

Antithetic perturbations with ranked fitness (Salimans et al. 2017); the encoder stays as it is, so
that a perturbation costs nothing but the placements that it decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from agents.sequential.network import Network
from agents.sequential.placer import Placer
from placement_gym.arrays import FloatArray
from placement_gym.env import DevicePlacementEnv
from placement_gym.solvers.list_sampling import Noise, draw_noise, draw_prices, silence_first

GREEDY = 0.5
"""Weight of the placement without noise beside the best sample."""
UNFIT = 0.1
"""Speed-up of what is infeasible."""


def evolve(
    network: Network,
    envs: Sequence[DevicePlacementEnv],
    generations: int,
    pairs: int = 16,
    batch: int = 8,
    samples: int = 8,
    spread: float = 0.05,
    learning_rate: float = 0.01,
    seed: int = 0,
    report: Callable[[int, float], None] = lambda done, fitness: None,
) -> None:
    """Train the scorer of a network, in place.

    Args:
        network: To be trained.
        envs: The problems, one environment each.
        generations: Updates.
        pairs: Perturbations of a generation, each tried with both signs.
        batch: Problems of a generation.
        samples: Placements that a perturbation decodes for each; the first is without noise. All
            perturbations get the same noise.
        spread: Standard deviation of a perturbation.
        learning_rate: Of Adam.
        seed: Of perturbations, problems and noise.
        report: Called after each generation with its number and mean fitness, in log speed-up.
    """
    rng = np.random.default_rng(seed)
    placers = [Placer(network, env) for env in envs]
    weights = [network.step.weight, network.out.weight, network.sharpness]
    optimizer = torch.optim.Adam(weights, lr=learning_rate)
    for done in range(generations):
        chosen = rng.choice(len(envs), min(batch, len(envs)), replace=False)
        noises = [draw_samples(placers[i], samples, rng) for i in chosen]
        centre = torch.nn.utils.parameters_to_vector(weights).detach()
        away = torch.from_numpy(rng.normal(size=(pairs, len(centre))).astype(np.float32))
        fitness = np.zeros((2, pairs, len(chosen)))
        for (sign, pair), _ in np.ndenumerate(fitness[:, :, 0]):
            moved = centre + (1 - 2 * sign) * spread * away[pair]
            torch.nn.utils.vector_to_parameters(moved, weights)
            for column, (i, noise) in enumerate(zip(chosen, noises, strict=True)):
                fitness[sign, pair, column] = compute_fitness(placers[i], envs[i], noise)
        torch.nn.utils.vector_to_parameters(centre, weights)
        set_gradient(weights, -estimate_gradient(fitness, away))
        optimizer.step()
        report(done + 1, float(fitness.mean()))


def draw_samples(placer: Placer, samples: int, rng: np.random.Generator) -> Noise:
    """Noise of ``samples`` placements, the first without any."""
    decoder = placer.board.decoder
    noise = draw_noise(decoder, rng, draw_prices(decoder, rng, samples))
    silence_first(noise)
    return noise


def compute_fitness(placer: Placer, env: DevicePlacementEnv, noise: Noise) -> float:
    """Log speed-up of the placement without noise and of the best sample, averaged."""
    placer.refresh_scorer()
    speedups, feasible = env.backend.evaluate_batch(placer.sample(noise))
    reached = np.log(np.where(feasible, speedups, UNFIT))
    return float(GREEDY * reached[0] + (1.0 - GREEDY) * reached.max())


def estimate_gradient(fitness: FloatArray, away: Tensor) -> Tensor:
    """(n_weights,) direction in which fitness rises.

    Args:
        fitness: (2, pairs, n_problems) of perturbations and their opposites.
        away: (pairs, n_weights) perturbations.
    """
    flat = fitness.reshape(-1, fitness.shape[2])
    ranks = flat.argsort(axis=0).argsort(axis=0) / max(len(flat) - 1, 1) - 0.5
    gain = ranks.reshape(fitness.shape).mean(axis=2)
    difference = torch.from_numpy((gain[0] - gain[1]).astype(np.float32))
    return difference @ away / len(away)


def set_gradient(weights: Sequence[Tensor], gradient: Tensor) -> None:
    """Hand a vector to the optimizer as the gradient of the weights."""
    parts = torch.split(gradient, [weight.numel() for weight in weights])
    for weight, part in zip(weights, parts, strict=True):
        weight.grad = part.reshape(weight.shape).clone()
