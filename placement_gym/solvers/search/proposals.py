"""Proposals: random moves of some units, also for searches with other estimates."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, IntArray, inlined_part, kernel, part, signed
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, CostTable
from placement_gym.schedules import Simulator
from placement_gym.solvers.search.ejections import draw, draw_length, move_unit, undo
from placement_gym.solvers.search.model import (
    LIST,
    LOAD,
    SIMULATED,
    Layout,
    Model,
    State,
    make_state,
)
from placement_gym.solvers.search.rebuild import rebuild

UNIT, RUN, STRETCH, REGION, SWAP, REBUILD, CLUSTER = range(7)
"""Kinds of move: a unit; a run of consecutive units of one device, or one end of it; a stretch of
the order; a unit and linked units around it; two units that change places; a stretch that is placed
again, one unit after another; a cluster of linked units, see ``make_clusters``."""
N_KINDS = 7
NEITHER = 3
"""Side of a run: 0 is what precedes a unit, 1 what follows, 2 both."""
TRIES, GAIN = range(2)
"""Columns of the counts of each kind."""
CRITICAL = 0.5
"""Share of moves whose first unit is on a longest chain of the schedule, or on the device with the
largest load."""
TRIED = 16
"""Units drawn to find one on the device with the largest load."""
ADOPT = 0.5
"""Share of moves to the device of a linked unit, if the two devices differ."""
REFRESH = 64
"""Moves after which the penalty of exceeding a limit changes."""
RAISED, LOWERED = 1.25, 0.8
"""Factors of the penalty if a limit is exceeded, and if none is: chains stay near the limits, on
either side half of the time."""
LARGEST_REGION = 512
NEXT = 256
"""Units visited to find one to change places with."""


@kernel
def propose(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    shares: FloatArray,
    counts: FloatArray,
) -> tuple[int, int, int]:
    """Move some units, regardless of limits; their operators do not follow yet.

    Kinds have (n_kinds,) cumulative probabilities ``shares``; ``counts``, (n_kinds, 2), counts the
    try. Returns the number of units moved, which ``moved`` and ``was`` list; the kind of the move;
    and the device that the first of them left, -1 without a move.
    """
    place, scalars, n_devices = state.place, state.scalars, model.ms.shape[1]
    scalars.n_moves += 1
    chance, kind = rng.random(), 0
    while kind < N_KINDS - 1 and chance >= shares[kind]:
        kind += 1
    counts[kind, TRIES] += 1.0

    # a penalty with which the limits are exceeded half of the time
    if scalars.n_moves % REFRESH == 0:
        scalars.penalty_ms *= RAISED if scalars.over_bytes > 0.0 else LOWERED

    # the units that move
    u = choose_unit(model.kind, state, rng)
    here, there = signed(place[u]), choose_device(layout, place, rng, u, n_devices)
    if kind == REBUILD:
        begin, length = choose_stretch(len(place), rng, signed(layout.rank[u]))
        n_moved, freed = rebuild(model, layout, state, rng, begin, length), here
    elif (n_devices > 1) & layout.possible[u, there]:
        n_moved, freed = move_units(layout, state, rng, kind, u, there), here
    else:
        n_moved, freed = signed(0), signed(-1)
    return n_moved, kind, freed


@inlined_part
def choose_unit(kind_of_model: int, state: State, rng: np.random.Generator) -> int:
    """Draw any unit, or one of those on which the cost depends."""
    u = draw(rng, len(state.place))
    if kind_of_model == LIST:
        return draw_critical(state, rng, u)
    if kind_of_model == LOAD:
        return draw_loaded(state, rng, u)
    return u


@inlined_part
def draw_critical(state: State, rng: np.random.Generator, u: int) -> int:
    """Draw a unit of a longest chain, or keep the one given."""
    if rng.random() >= CRITICAL:
        return u
    return signed(state.critical[draw(rng, state.scalars.n_critical)])


@inlined_part
def draw_loaded(state: State, rng: np.random.Generator, u: int) -> int:
    """Draw a unit of the device with the largest load, or keep the one given."""
    if rng.random() >= CRITICAL:
        return u
    return draw_of_fullest(state.place, state.load, rng, u)


@part
def draw_of_fullest(place: np.ndarray, load: FloatArray, rng: np.random.Generator, u: int) -> int:
    """Draw units until one is on the device with the largest load."""
    fullest, tries = 0, 0
    for d in range(len(load)):
        if load[d] > load[fullest]:
            fullest = d
    while tries < TRIED and place[u] != fullest:
        u, tries = draw(rng, len(place)), tries + 1
    return u


@inlined_part
def choose_device(
    layout: Layout, place: np.ndarray, rng: np.random.Generator, u: int, n_devices: int
) -> int:
    """Draw another device for a unit, often that of a linked unit."""
    here, begin = signed(place[u]), signed(layout.first_link[u])
    there = (here + 1 + draw(rng, n_devices - 1)) % n_devices
    n_links = signed(layout.first_link[u + 1]) - begin
    if n_links == 0 or rng.random() >= ADOPT:
        return there
    linked = signed(place[layout.link[begin + draw(rng, n_links)]])
    return there if linked == here else linked


@inlined_part
def choose_stretch(n_units: int, rng: np.random.Generator, at: int) -> tuple[int, int]:
    """Draw where a stretch of the order around a place begins, and its length."""
    length = draw_length(rng, n_units)
    return min(max(at - draw(rng, length), 0), n_units - length), length


@inlined_part
def move_units(
    layout: Layout, state: State, rng: np.random.Generator, kind: int, u: int, there: int
) -> int:
    """Move a unit and those that join it in a move of this kind; return the number moved."""
    n_levels = len(layout.first_nested)
    if kind == REGION:
        n_moved = move_region(layout, state, rng, u, there)
    elif kind == SWAP:
        n_moved = swap_units(layout, state, rng, u, there)
    elif (kind == CLUSTER) & (n_levels > 0):
        n_moved = move_cluster(layout, state, draw(rng, n_levels), u, there)
    else:
        begin, end = choose_interval(layout, state.place, rng, kind, u)
        n_moved = move_all(layout, state, layout.order, begin, end, there)
    return n_moved


@inlined_part
def choose_interval(
    layout: Layout, place: np.ndarray, rng: np.random.Generator, kind: int, u: int
) -> tuple[int, int]:
    """Choose the interval of the order that moves with a unit: itself, a run or a stretch."""
    at = signed(layout.rank[u])
    if kind == STRETCH:
        begin, length = choose_stretch(len(place), rng, at)
        end = begin + length
    else:
        side = draw(rng, signed(3)) if kind == RUN else signed(NEITHER)
        begin, end = choose_run(layout.order, place, at, side)
    return begin, end


@inlined_part
def choose_run(order: np.ndarray, place: np.ndarray, at: int, side: int) -> tuple[int, int]:
    """Choose the run of a device's units around one in the order, an end of it, or that one."""
    here, begin, end = place[order[at]], at, at + 1
    forward, backward = (side == 1) | (side == 2), (side == 0) | (side == 2)
    while forward and end < len(order) and place[order[end]] == here:
        end += 1
    while backward and begin > 0 and place[order[begin - 1]] == here:
        begin -= 1
    return begin, end


@inlined_part
def move_cluster(layout: Layout, state: State, level: int, u: int, there: int) -> int:
    """Move the cluster of a unit at a level."""
    begin, end = layout.first_nested[level, u], layout.last_nested[level, u]
    return move_all(layout, state, layout.nested, signed(begin), signed(end), there)


@inlined_part
def move_all(
    layout: Layout, state: State, order: np.ndarray, begin: int, end: int, there: int
) -> int:
    """Move an interval of units in some order."""
    n_moved = signed(0)
    for k in range(begin, end):
        n_moved = move_unit(layout, state, n_moved, signed(order[k]), there)
    return n_moved


@inlined_part
def move_region(layout: Layout, state: State, rng: np.random.Generator, u: int, there: int) -> int:
    """Move a unit and linked units around it that are on its device."""
    place, first_link, link = state.place, layout.first_link, layout.link
    here = place[u]
    wanted, done = draw_length(rng, min(len(place), LARGEST_REGION)), 0
    n_moved = move_unit(layout, state, signed(0), u, there)
    while done < n_moved and n_moved < wanted:
        v = state.moved[done]
        for k in range(first_link[v], first_link[v + 1]):
            if n_moved < wanted and place[link[k]] == here:
                n_moved = move_unit(layout, state, n_moved, signed(link[k]), there)
        done += 1
    return n_moved


@inlined_part
def swap_units(layout: Layout, state: State, rng: np.random.Generator, u: int, there: int) -> int:
    """Move a unit, and in return the next one of that device, near it or anywhere."""
    place, order, n_units = state.place, layout.order, len(state.place)
    here, at = signed(place[u]), signed(layout.rank[u])
    n_moved = move_unit(layout, state, signed(0), u, there)
    at, forward = at if rng.random() < 0.5 else draw(rng, n_units), rng.random() < 0.5
    return move_unit(layout, state, n_moved, find_next(order, place, at, forward, there, u), here)


@part
def find_next(
    order: np.ndarray, place: np.ndarray, at: int, forward: bool, there: int, other: int
) -> int:
    """Find the next or previous unit of a device in the order; ``other`` if none is near."""
    n_units, tries, v = len(order), min(len(order), NEXT), other
    while tries > 0 and v == other:
        tries -= 1
        at = at + 1 if forward else at - 1
        at = 0 if at == n_units else n_units - 1 if at < 0 else at
        if place[order[at]] == there:
            v = signed(order[at])
    return v


ATTEMPTS = 10
SHARES = np.cumsum([0.05, 0.2, 0.3, 0.2, 0.05, 0.2, 0.0])
"""Of the kinds of move: few change a single unit, as each result costs an evaluation."""


class RandomMoves:
    """Changes placements by one move each, within support; memory limits do not count.

    ``costs`` decide where a stretch of units is placed again; None takes the bytes of transfers.
    """

    def __init__(self, problem: Problem, costs: CostTable | None, rng: np.random.Generator) -> None:
        costs = costs or CostTable.by_bytes(problem.units.graph, problem.device_names)
        simulator = Simulator(problem.units, costs, PRESETS["serial"])
        self.model = Model.from_simulator(simulator, SIMULATED)
        self.layout, self.rng = Layout.from_problem(problem, self.model, limited=False), rng

    def change(self, placement: IntArray, k: int) -> IntArray:
        """(k, n_units) changed copies of an (n_units,) placement."""
        model, layout, counts = self.model, self.layout, np.zeros((N_KINDS, 2))
        state = make_state(model, layout, placement)
        changed = np.empty((k, len(placement)), np.int64)
        for row in changed:
            for _ in range(ATTEMPTS):
                n_moved, _, _ = propose(model, layout, state, self.rng, SHARES, counts)
                if n_moved:
                    break
            row[:] = state.place
            undo(layout, state, n_moved)
        return changed
