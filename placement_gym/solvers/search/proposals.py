"""Proposals: random moves of some units."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.base.kernels import kernel, long_part, part, signed
from placement_gym.solvers.search.draws import draw, draw_length
from placement_gym.solvers.search.ejections import move_unit
from placement_gym.solvers.search.model import (
    LIST,
    LOAD,
    MOVES,
    N_CRITICAL,
    OVER,
    PENALTY,
    Layout,
    Model,
    State,
)
from placement_gym.solvers.search.rebuild import rebuild

UNIT, RUN, STRETCH, REGION, SWAP, REBUILD, CLUSTER = range(7)
"""Kinds of move: a unit; a run of consecutive units of one device, or one end of it; a stretch of
the order; a unit and linked units around it; two units that change places; a stretch that is
placed again, one unit after another; a cluster of linked units, see ``clusters``."""
N_KINDS = 7
TRIES, GAIN = range(2)
"""Columns of what is counted for each kind."""
CRITICAL = 0.5
"""Share of moves whose first unit is on a longest chain of the schedule, or on the device with the
largest load."""
TRIED = 16
"""Units that are drawn until one is on the device with the largest load."""
ADOPT = 0.5
"""Share of moves to the device of a linked unit, if the two devices differ."""
REFRESH = 64
"""Moves after which the penalty of exceeding a limit changes."""
RAISED, LOWERED = 1.25, 0.8
"""Factors of the penalty where a limit is exceeded, and where none is: a chain stays near the
limits, on either side half of the time."""
LARGEST_REGION = 512


@long_part
def propose(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    shares: FloatArray,
    counts: FloatArray,
) -> tuple[int, int, int]:
    """Move some units, whatever the limits.

    Args:
        model: Operators.
        layout: Units.
        state: ``moved`` and ``was`` will list the units; their operators are not moved yet.
        rng: Source of random numbers.
        shares: (n_kinds,) cumulative probabilities of kinds.
        counts: (n_kinds, 2) gets the try.

    Returns:
        How many units were moved; the kind of the move; and the device that the first of them
        left, -1 if the move is refused.
    """
    place, numbers, n_devices = state.place, state.numbers, model.ms.shape[1]
    numbers[MOVES] += 1.0
    chance, kind = rng.random(), 0
    while kind < N_KINDS - 1 and chance >= shares[kind]:
        kind += 1
    counts[kind, TRIES] += 1.0

    # a penalty with which the limits are exceeded half of the time
    if numbers[MOVES] % REFRESH == 0.0:
        numbers[PENALTY] *= RAISED if numbers[OVER] > 0.0 else LOWERED

    # the units that move
    u = choose_unit(model.kind, state, rng)
    here, there = signed(place[u]), choose_device(layout, place, rng, u, n_devices)
    if kind == REBUILD:
        begin, length = choose_stretch(layout, rng, u)
        return rebuild(model, layout, state, rng, begin, length), kind, here
    if n_devices == 1 or not layout.possible[u, there]:
        return 0, kind, -1
    return move_units(layout, state, rng, kind, u, there), kind, here


@part
def choose_unit(kind_of_model: int, state: State, rng: np.random.Generator) -> int:
    """Draw any unit, or one of those on which the cost depends."""
    place, load, n_units = state.place, state.load, len(state.place)
    u = draw(rng, n_units)
    if kind_of_model == LIST and rng.random() < CRITICAL:
        u = signed(state.critical[draw(rng, signed(state.numbers[N_CRITICAL]))])
    elif kind_of_model == LOAD and rng.random() < CRITICAL:
        fullest, tries = 0, 0
        for d in range(len(load)):
            if load[d] > load[fullest]:
                fullest = d
        while tries < TRIED and place[u] != fullest:
            u, tries = draw(rng, n_units), tries + 1
    return u


@part
def choose_device(
    layout: Layout, place: np.ndarray, rng: np.random.Generator, u: int, n_devices: int
) -> int:
    """Draw another device for a unit, often that of a linked unit."""
    here, begin = signed(place[u]), signed(layout.first_link[u])
    there = (here + 1 + draw(rng, n_devices - 1)) % n_devices
    n_links = signed(layout.first_link[u + 1]) - begin
    if n_links > 0 and rng.random() < ADOPT:
        linked = signed(place[layout.link[begin + draw(rng, n_links)]])
        there = there if linked == here else linked
    return there


@part
def choose_stretch(layout: Layout, rng: np.random.Generator, u: int) -> tuple[int, int]:
    """Draw where a stretch of the order around a unit begins, and its length."""
    n_units, at = len(layout.order), signed(layout.rank[u])
    length = draw_length(rng, n_units)
    return min(max(at - draw(rng, length), 0), n_units - length), length


@long_part
def move_units(
    layout: Layout, state: State, rng: np.random.Generator, kind: int, u: int, there: int
) -> int:
    """Move a unit, and what goes with it in a move of this kind; returns how many moved."""
    place, order, n_units = state.place, layout.order, len(state.place)
    # an interval of the order, or of that of clusters
    here, at = signed(place[u]), signed(layout.rank[u])
    begin, end, nests = at, at + 1, False
    if kind == RUN:
        side = draw(rng, signed(3))
        while side != 0 and end < n_units and place[order[end]] == here:
            end += 1
        while side != 1 and begin > 0 and place[order[begin - 1]] == here:
            begin -= 1
    elif kind == STRETCH:
        begin, length = choose_stretch(layout, rng, u)
        end = begin + length
    elif kind == CLUSTER and len(layout.first_nested) > 0:
        level, nests = draw(rng, len(layout.first_nested)), True
        begin = signed(layout.first_nested[level, u])
        end = signed(layout.last_nested[level, u])
    n_moved = signed(0)
    for k in range(begin, end):
        v = signed(layout.nested[k]) if nests else signed(order[k])
        n_moved = move_unit(layout, state, n_moved, v, there)

    # then linked units, or one in return
    if kind == REGION:
        wanted, done = draw_length(rng, min(n_units, LARGEST_REGION)), 0
        while done < n_moved and n_moved < wanted:
            v = state.moved[done]
            for k in range(layout.first_link[v], layout.first_link[v + 1]):
                if n_moved < wanted and place[layout.link[k]] == here:
                    n_moved = move_unit(layout, state, n_moved, signed(layout.link[k]), there)
            done += 1
    elif kind == SWAP:
        at, forward = at if rng.random() < 0.5 else draw(rng, n_units), rng.random() < 0.5
        for _ in range(min(n_units, 256)):
            at = at + 1 if forward else at - 1
            at = 0 if at == n_units else n_units - 1 if at < 0 else at
            if place[order[at]] == there and order[at] != u:
                n_moved = move_unit(layout, state, n_moved, signed(order[at]), here)
                break
    return n_moved


propose_kernel = kernel(propose)
"""For calls from Python."""
