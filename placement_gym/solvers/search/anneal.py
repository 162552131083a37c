"""Annealing: moves that cost less are accepted, others with a probability that falls."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.arrays import FloatArray
from placement_gym.solvers.search.estimate import (
    estimate_all,
    estimate_move,
    keep_estimate,
    undo_estimate,
)
from placement_gym.solvers.search.model import BEST, NOW, Layout, Model, State
from placement_gym.solvers.search.moves import N_KINDS, propose, undo

POWER = 8
TRIES, WORK, GAIN = range(3)
"""Columns of what is counted for each kind of move."""


@njit(cache=True, nogil=True)
def draw_allowance(rng: np.random.Generator) -> float:
    """How much worse a move may be, in temperatures: a loss x passes in (1 + x / 8)^-8 of all draws.

    That is nearly exp(-x), by square roots alone, which are the same on every processor.
    """
    return POWER * (1.0 / np.sqrt(np.sqrt(np.sqrt(1.0 - rng.random()))) - 1.0)


@njit(cache=True, nogil=True)
def anneal(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moves: int,
    heat: tuple[float, float],
    shares: FloatArray,
    counts: FloatArray,
) -> None:
    """Make moves under the model; the state ends at the last placement and knows the best one.

    Args:
        model: Its kind is not ``SIMULATED``.
        layout: Units.
        state: Changes; ``numbers[NOW]`` is finite once it has been estimated.
        rng: Source of random numbers.
        n_moves: Number of moves.
        heat: First and last temperature, as a share of the cost.
        shares: (n_kinds,) cumulative probabilities of kinds.
        counts: (n_kinds, 3) gets tries, work and gains of each kind.
    """
    if not np.isfinite(state.numbers[NOW]):
        state.numbers[NOW] = estimate_all(model, layout, state)
        note_best(state)
    hot, cold = heat
    for k in range(n_moves):
        left = 1.0 - k / n_moves
        temperature = cold + (hot - cold) * left * left
        draw, kind = rng.random(), 0
        while kind < N_KINDS - 1 and draw >= shares[kind]:
            kind += 1
        counts[kind, TRIES] += 1.0
        n_moved = propose(model, layout, state, rng, kind)
        if n_moved == 0:
            continue
        now = state.numbers[NOW]
        limit = now * (1.0 + temperature * draw_allowance(rng))
        cost = estimate_move(model, layout, state, n_moved, limit)
        if cost <= limit:
            keep_estimate(model, layout, state, n_moved)
            state.numbers[NOW] = cost
            counts[kind, GAIN] += max(state.numbers[BEST] - cost, 0.0)
            note_best(state)
        else:
            undo(layout, state, n_moved)
            undo_estimate(model, layout, state, n_moved)


@njit(cache=True, nogil=True)
def note_best(state: State) -> None:
    """Keep the placement if it is the cheapest so far."""
    if state.numbers[NOW] < state.numbers[BEST]:
        state.numbers[BEST] = state.numbers[NOW]
        state.best[:] = state.place
