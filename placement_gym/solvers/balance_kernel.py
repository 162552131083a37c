"""The kernel of ``solvers.balance``: moves of units, with the loads of devices kept up to date."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, FloatArray, IntArray

WALK = 6
"""Units of a run that may follow another to its new device."""
TRIES = 20
"""Units that are drawn until one is on a certain device."""
FRESH = 1000
"""Moves after which sums are added up again, so that rounding does not grow."""
HEAT = (0.03, 0.0003)
"""Temperature at the first and at the last move, in log energy."""
POWER = (8.0, 60.0)
"""Of loads in the energy, likewise: the higher, the more the largest load alone counts."""


class Terms(NamedTuple):
    """What loads depend on.

    Attributes:
        ms: (n_units, n_devices) times.
        possible: (n_units, n_devices) bool, support, and units that fit alone.
        held: (n_units,) bytes.
        limit: (n_devices,) bytes; those of its pool if a device shares one.
        owner: (n_devices,) the first device of those that share its memory, mostly itself.
        begin: (n_units + 1,) where each unit's tensors begin in ``touched``.
        touched: (n_touches,) tensors that each unit makes or reads.
        first: (n_tensors + 1,) where each tensor's units begin in ``toucher``.
        toucher: (n_touches,) units that make or read each tensor.
        border_ms: (n_tensors, n_devices) time when the tensor leaves or enters a device.
    """

    ms: FloatArray
    possible: BoolArray
    held: FloatArray
    limit: FloatArray
    owner: IntArray
    begin: IntArray
    touched: IntArray
    first: IntArray
    toucher: IntArray
    border_ms: FloatArray


class State(NamedTuple):
    """A placement, changed in place.

    Attributes:
        device: (n_units,) device of each unit.
        load_ms: (n_devices,) times and borders.
        room: (n_devices,) bytes left, kept by owners.
        present: (n_tensors, n_devices) how many units that touch a tensor are on a device.
    """

    device: IntArray
    load_ms: FloatArray
    room: FloatArray
    present: IntArray


@njit(cache=True, nogil=True)
def make_state(terms: Terms, device: IntArray) -> State:
    """Add up loads and memory of a placement, which is copied."""
    n_devices = len(terms.limit)
    present = np.zeros((len(terms.border_ms), n_devices), np.int64)
    state = State(device.copy(), np.zeros(n_devices), terms.limit.copy(), present)
    for u in range(len(device)):
        state.load_ms[device[u]] += terms.ms[u, device[u]]
        state.room[terms.owner[device[u]]] -= terms.held[u]
        for e in range(terms.begin[u], terms.begin[u + 1]):
            present[terms.touched[e], device[u]] += 1
    for t in range(len(present)):
        for d in range(n_devices):
            state.load_ms[d] += pay_border(terms, state, t, d)
    return state


@njit(cache=True, nogil=True)
def pay_border(terms: Terms, state: State, t: int, d: int) -> float:
    """What a device pays for a tensor: it has some of the units that touch it, but not all."""
    if 0 < state.present[t, d] < terms.first[t + 1] - terms.first[t]:
        return terms.border_ms[t, d]
    return 0.0


@njit(cache=True, nogil=True)
def move(terms: Terms, state: State, u: int, there: int) -> None:
    """Move a unit to a device, full or not."""
    here = state.device[u]
    state.device[u] = there
    state.room[terms.owner[here]] += terms.held[u]
    state.room[terms.owner[there]] -= terms.held[u]
    state.load_ms[here] -= terms.ms[u, here]
    state.load_ms[there] += terms.ms[u, there]
    for e in range(terms.begin[u], terms.begin[u + 1]):
        t = terms.touched[e]
        before = pay_border(terms, state, t, here), pay_border(terms, state, t, there)
        state.present[t, here] -= 1
        state.present[t, there] += 1
        state.load_ms[here] += pay_border(terms, state, t, here) - before[0]
        state.load_ms[there] += pay_border(terms, state, t, there) - before[1]


@njit(cache=True, nogil=True)
def anneal(terms: Terms, device: IntArray, n_moves: int, seed: int) -> tuple[IntArray, float]:
    """The placement with the smallest largest load that was seen, and this load.

    Args:
        terms: See ``Terms``.
        device: (n_units,) devices to start from, within memory limits.
        n_moves: Number of moves.
        seed: Of the random numbers.
    """
    np.random.seed(seed)
    state = make_state(terms, device)
    best, best_ms = device.copy(), state.load_ms.max()
    if best_ms <= 0.0:
        return best, best_ms
    usual_ms, now, energy = best_ms, np.inf, np.inf
    moved, left = np.empty(WALK + 2, np.int64), np.empty(WALK + 2, np.int64)
    for step in range(n_moves):
        passed = step / n_moves
        power = POWER[0] * (POWER[1] / POWER[0]) ** passed
        if step % FRESH == 0:
            state = make_state(terms, state.device)
            now = log_energy(state.load_ms, usual_ms, power)
        here, there, count = try_move(terms, state, moved, left)
        if count == 0:
            continue
        accepted = min(state.room[terms.owner[here]], state.room[terms.owner[there]]) >= 0.0
        if accepted:
            energy = log_energy(state.load_ms, usual_ms, power)
            heat = HEAT[0] * (HEAT[1] / HEAT[0]) ** passed
            accepted = energy <= now or np.random.random() < np.exp((now - energy) / heat)
        if accepted:
            now = energy
            if state.load_ms.max() < best_ms:
                best_ms = state.load_ms.max()
                best[:] = state.device
        else:
            for k in range(count - 1, -1, -1):
                move(terms, state, moved[k], left[k])
    return best, best_ms


@njit(cache=True, nogil=True)
def log_energy(load_ms: FloatArray, usual_ms: float, power: float) -> float:
    """The logarithm of a norm of the loads, near that of the largest."""
    largest, total = load_ms.max(), 0.0
    for d in range(len(load_ms)):
        total += (max(load_ms[d], 0.0) / largest) ** power
    return np.log(largest / usual_ms) + np.log(total) / power


@njit(cache=True, nogil=True)
def try_move(terms: Terms, state: State, moved: IntArray, left: IntArray) -> tuple[int, int, int]:
    """Move a unit, some with a run of neighbours, some in exchange for another.

    Units that have moved, and the devices that they left, are written to ``moved`` and ``left``.

    Returns:
        The two devices, and the number of moves; zero if the draw was in vain.
    """
    n = len(state.device)
    u = np.random.randint(n)
    if np.random.random() < 0.3:
        u = draw_on(state, np.argmax(state.load_ms), u)
    here, there = state.device[u], draw_device(terms, state, u)
    if here == there or not terms.possible[u, there]:
        return here, there, 0
    move(terms, state, u, there)
    moved[0], left[0], count = u, here, 1
    form = np.random.random()
    if form < 0.4:
        for _ in range(1 + np.random.randint(WALK)):
            v = draw_neighbour(terms, u)
            if state.device[v] == here and terms.possible[v, there]:
                move(terms, state, v, there)
                moved[count], left[count] = v, here
                count += 1
                u = v
    elif form < 0.8:
        v = draw_on(state, there, u)
        if v != u and state.device[v] == there and terms.possible[v, here]:
            move(terms, state, v, here)
            moved[count], left[count] = v, there
            count += 1
    return here, there, count


@njit(cache=True, nogil=True)
def draw_on(state: State, d: int, u: int) -> int:
    """Draw a unit that is on a device; another after ``TRIES`` draws in vain."""
    for _ in range(TRIES):
        u = np.random.randint(len(state.device))
        if state.device[u] == d:
            break
    return u


@njit(cache=True, nogil=True)
def draw_device(terms: Terms, state: State, u: int) -> int:
    """Draw a device: mostly that of a neighbour."""
    if np.random.random() < 0.8:
        return state.device[draw_neighbour(terms, u)]
    return np.random.randint(len(terms.limit))


@njit(cache=True, nogil=True)
def draw_neighbour(terms: Terms, u: int) -> int:
    """Draw a unit that touches a tensor that this one touches; it may be this one."""
    begin, end = terms.begin[u], terms.begin[u + 1]
    if begin == end:
        return u
    t = terms.touched[np.random.randint(begin, end)]
    return terms.toucher[np.random.randint(terms.first[t], terms.first[t + 1])]
