"""Annealing: random moves, accepted if they cost less, or with a probability that falls.

The kernel is one function with inner functions on purpose, as ``schedules.event_fifo`` is: those
are inlined, while numba counts references to every array passed between compiled functions, which
made a move three times slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from placement_gym.base.arrays import FloatArray
from placement_gym.solvers.search.list_schedule import measure_tails, run_on
from placement_gym.solvers.search.model import (
    BEST,
    BLOCK,
    LIST,
    LOAD,
    MOVES,
    N_CRITICAL,
    NOW,
    OVER,
    PENALTY,
    SERIAL,
    SIMULATED,
    UPDATES,
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
REFRESH = 64
"""Moves after which these chains are found again, and the penalty of exceeding a limit changes."""
SQUARINGS = 5
"""Loads are summed with the exponent 2 to this power."""
TRIED = 16
"""Units that are drawn until one is on the device with the largest load."""
ROUNDING = 1.0 + 1e-9
"""Of sums that were added up in another order."""
ADOPT = 0.5
"""Share of moves to the device of a linked unit, where that is another one."""
RETURN = 0.7
"""Share of ejections to where the moved units came from, which has room now."""
CANDIDATES = 16
"""Units of which the one to eject is chosen."""
NEAR = 64
"""Units that are looked at for a candidate."""
EJECTIONS = 12
"""Attempts to make room on a full device."""
EJECTING = 0.3
"""Share of moves that make room; the others may exceed a limit, at a penalty."""
MOST_USED = 1.1
"""Use of a limit, as a share of it, from which on a move is refused."""
RAISED, LOWERED = 1.25, 0.8
"""Factors of the penalty where a limit is exceeded, and where none is: a chain stays near the
limits, on either side half of the time."""
LARGEST_REGION = 512
POWER = 8
signed: Any = np.int64
"""Makes an index of an unsigned number: numba takes the sum of both kinds for a float."""


@njit(cache=True, nogil=True)
def draw_allowance(rng: np.random.Generator) -> float:
    """Draw how much more a move may cost, in temperatures: x passes in (1 + x / 8)^-8 of draws.

    That is nearly exp(-x), by square roots alone, which are the same on every processor.
    """
    return POWER * (1.0 / np.sqrt(np.sqrt(np.sqrt(1.0 - rng.random()))) - 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def anneal(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moves: int,
    heat: tuple[float, float],
    shares: FloatArray,
    counts: FloatArray,
) -> int:
    """Make moves; the state ends at the last placement and keeps the cheapest one.

    Args:
        model: Operators. If its kind is ``SIMULATED``, one possible move is made and not judged:
            see ``undo`` and ``keep``.
        layout: Units.
        state: Has been estimated.
        rng: Source of random numbers.
        n_moves: Number of moves.
        heat: First and last temperature, as a share of the cost.
        shares: (n_kinds,) cumulative probabilities of kinds.
        counts: (n_kinds, 2) gets tries and gains of each kind.

    Returns:
        Units of the last move: ``moved`` and ``was`` list them.
    """
    kind_of_model, gap_ms = model.kind, model.gap_ms
    unit, ms, transfer_ms, tail_ms = model.unit, model.ms, model.transfer_ms, model.tail_ms
    first, maker, tensor, first_made = model.first, model.maker, model.tensor, model.first_made
    source, first_reader, reader = model.source, model.first_reader, model.reader
    boundary_ms, last_reader = model.boundary_ms, model.last_reader
    first_op, ops, order, rank = layout.first_op, layout.ops, layout.order, layout.rank
    first_link, link, possible = layout.first_link, layout.link, layout.possible
    size, member, limit = layout.size, layout.member, layout.limit
    unit_ms, link_ms = layout.unit_ms, layout.link_ms
    nested, first_nested, last_nested = layout.nested, layout.first_nested, layout.last_nested
    n_levels = len(first_nested)
    place, on, used, moved, was = state.place, state.on, state.used, state.moved, state.was
    marked, critical, best, numbers = state.marked, state.critical, state.best, state.numbers
    finish, kept, free, kept_free = state.finish, state.kept, state.free, state.kept_free
    tail, after = state.tail, state.after
    load, stamp = state.load, state.stamp
    n, n_units, n_devices, n_groups = len(unit), len(place), ms.shape[1], len(limit)
    device_free, final = np.empty(n_devices), len(free) - 1

    def draw(below: int) -> int:
        return int(rng.random() * below)

    def draw_length(most: int) -> int:
        """A power of two, times a random factor from one to two."""
        exponents = 1
        while 1 << exponents <= most:
            exponents += 1
        length = 1 << draw(exponents)
        return min(length + draw(length), most)

    def move(n_moved: int, u: int, there: int) -> int:
        """Move a unit, unless it has moved before or may not be there."""
        here = place[u]
        if here == there or marked[u] == np.int32(numbers[MOVES]) or not possible[u, there]:
            return n_moved
        marked[u] = np.int32(numbers[MOVES])
        moved[n_moved], was[n_moved], place[u] = u, here, there
        for g in range(n_groups):
            used[g] += size[u] * (member[g, there] - member[g, here])
        return n_moved + 1

    def put_back(n_moved: int) -> None:
        for k in range(n_moved):
            u, here, there = moved[k], was[k], place[moved[k]]
            for g in range(n_groups):
                used[g] += size[u] * (member[g, here] - member[g, there])
            place[u] = here

    def set_operators(n_moved: int) -> tuple[int, int]:
        """Write the devices of moved units to their operators; returns the first and the last."""
        lowest, last = n, -1
        for k in range(n_moved):
            u = moved[k]
            lowest = min(lowest, signed(ops[first_op[u]]))
            last = max(last, signed(ops[first_op[u + 1] - 1]))
            for at in range(first_op[u], first_op[u + 1]):
                on[ops[at]] = place[u]
        return lowest, last

    def run_span(lowest: int, last: int, limit_ms: float) -> tuple[bool, int, int]:
        """Run the operators from the first to the last that moved.

        Returns:
            Whether the schedule may end within the limit; the first operator that was not run; and
            the last reader of what changes.
        """
        # devices are free where they were before the first change
        for d in range(n_devices):
            device_free[d] = kept_free[lowest // BLOCK, d]
        for i in range(lowest // BLOCK * BLOCK, lowest):
            device_free[on[i]] = kept[i] + gap_ms

        # the span, given up once it must end too late
        reach, now = signed(-1), np.int32(numbers[MOVES])
        for i in range(lowest, last + 1):
            if i % BLOCK == 0:
                for d in range(n_devices):
                    free[i // BLOCK, d] = device_free[d]
            here = on[i]
            ready = device_free[here]
            for r in range(first[i], first[i + 1]):
                m = maker[r]
                ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], here])
            ready += ms[i, here]
            finish[i] = ready
            device_free[here] = ready + gap_ms
            if ready + tail_ms[i] > limit_ms:
                return False, i + 1, reach
            if finish[i] != kept[i] or marked[unit[i]] == now:
                reach = max(reach, signed(last_reader[i]))

        # what follows takes as long as before: each device's next operator, and readers
        limit_ms *= ROUNDING
        following = last // BLOCK + 1
        for d in range(n_devices):
            j = last + 1
            while j < min(following * BLOCK, n) and on[j] != d:
                j += 1
            j = j if j < min(following * BLOCK, n) else signed(after[following, d])
            if device_free[d] + tail[j] > limit_ms:
                return False, last + 1, reach
        for i in range(lowest, last + 1):
            if last_reader[i] > last:
                for t in range(first_made[i], first_made[i + 1]):
                    for r in range(first_reader[t], first_reader[t + 1]):
                        j = reader[r]
                        if (
                            j > last
                            and finish[i] + transfer_ms[t, on[i], on[j]] + tail[j] > limit_ms
                        ):
                            return False, last + 1, reach
        return True, last + 1, reach

    def add_tensor(t: int, sign: float) -> None:
        here, reached = on[source[t]], signed(0)
        for r in range(first_reader[t], first_reader[t + 1]):
            reached |= signed(1) << on[reader[r]]
        if reached & ~(signed(1) << here):
            for d in range(n_devices):
                if kind_of_model == SERIAL:
                    load[here] += sign * transfer_ms[t, here, d] * float(reached >> d & 1)
                elif d == here or reached >> d & 1:
                    load[d] += sign * boundary_ms[t, d]

    def add_loads(n_moved: int, sign: float) -> None:
        """Add what moved units and their tensors cost, or take it away."""
        numbers[UPDATES] += 1.0
        now = np.int32(numbers[UPDATES])
        for k in range(n_moved):
            u = moved[k]
            for at in range(first_op[u], first_op[u + 1]):
                i = ops[at]
                load[on[i]] += sign * ms[i, on[i]]
                for t in range(first_made[i], first_made[i + 1]):
                    if stamp[t] != now:
                        stamp[t] = now
                        add_tensor(t, sign)
                for r in range(first[i], first[i + 1]):
                    if stamp[tensor[r]] != now:
                        stamp[tensor[r]] = now
                        add_tensor(tensor[r], sign)

    def measure_loads() -> float:
        """A norm of the loads, so that it pays to relieve any device that is nearly the fullest."""
        largest, total = load.max(), 0.0
        if largest <= 0.0:
            return 0.0
        for d in range(n_devices):
            power = load[d] / largest
            for _ in range(SQUARINGS):
                power *= power
            total += power
        for _ in range(SQUARINGS):
            total = np.sqrt(total)
        return largest * total

    def note_critical() -> None:
        """List the units of longest chains of the schedule."""
        count, total_ms = 0, kept_free[final].max()
        for i in range(n):
            length = kept[i] - ms[i, on[i]] + tail[i]
            if length * ROUNDING >= total_ms and (count == 0 or critical[count - 1] != unit[i]):
                critical[count % n_units] = unit[i]
                count += 1
        numbers[N_CRITICAL] = min(count, n_units)

    def choose_unit() -> int:
        """Any unit, or one of those on which the cost depends."""
        u = draw(n_units)
        if kind_of_model == LIST and rng.random() < CRITICAL:
            u = signed(critical[draw(int(numbers[N_CRITICAL]))])
        elif kind_of_model == LOAD and rng.random() < CRITICAL:
            fullest, tries = load.argmax(), 0
            while tries < TRIED and place[u] != fullest:
                u, tries = draw(n_units), tries + 1
        return u

    def choose_device(u: int) -> int:
        """Another device for a unit, often that of a linked unit."""
        here = signed(place[u])
        there = (here + 1 + draw(n_devices - 1)) % n_devices
        n_links = signed(first_link[u + 1]) - signed(first_link[u])
        if n_links > 0 and rng.random() < ADOPT:
            linked = signed(place[link[first_link[u] + draw(n_links)]])
            there = there if linked == here else linked
        return there

    def move_units(kind: int, u: int, there: int) -> int:
        """Move a unit, and what goes with it in a move of this kind; returns how many moved."""
        # an interval of the order, or of that of clusters
        here, at = signed(place[u]), signed(rank[u])
        begin, end = at, at + 1
        if kind == RUN:
            side = draw(3)
            while side != 0 and end < n_units and place[order[end]] == here:
                end += 1
            while side != 1 and begin > 0 and place[order[begin - 1]] == here:
                begin -= 1
        elif kind in (STRETCH, REBUILD):
            length = draw_length(n_units)
            begin = min(max(at - draw(length), 0), n_units - length)
            end = begin + length
        elif kind == CLUSTER and n_levels > 0:
            level = draw(n_levels)
            begin, end = signed(first_nested[level, u]), signed(last_nested[level, u])
        n_moved = 0
        if kind == REBUILD:
            n_moved = rebuild(model, layout, state, rng, begin, end - begin)
        else:
            nests = kind == CLUSTER and n_levels > 0
            for k in range(begin, end):
                n_moved = move(n_moved, nested[k] if nests else order[k], there)

        # then linked units, or one in return
        if kind == REGION:
            wanted, done = draw_length(min(n_units, LARGEST_REGION)), 0
            while done < n_moved and n_moved < wanted:
                v = moved[done]
                for k in range(first_link[v], first_link[v + 1]):
                    if n_moved < wanted and place[link[k]] == here:
                        n_moved = move(n_moved, link[k], there)
                done += 1
        elif kind == SWAP:
            at, forward = at if rng.random() < 0.5 else draw(n_units), rng.random() < 0.5
            for _ in range(min(n_units, 256)):
                at = at + 1 if forward else at - 1
                at = 0 if at == n_units else n_units - 1 if at < 0 else at
                if place[order[at]] == there and order[at] != u:
                    n_moved = move(n_moved, order[at], here)
                    break
        return n_moved

    def has_room(target: int, v: int) -> bool:
        """True if a device would keep its limits with one more unit."""
        fits = True
        for h in range(n_groups):
            if member[h, target] > 0.0 and used[h] + size[v] > limit[h]:
                fits = False
        return fits

    def find_leaving(g: int, target: int) -> int:
        """Of some units that fill a limit, the place in the order of the one that loses least for
        each of its bytes on another device; -1 if none of them has room there.
        """
        leaves, least, now = -1, np.inf, np.int32(numbers[MOVES])
        for _ in range(CANDIDATES):
            at, tries = draw(n_units), 0
            v = order[at]
            while tries < NEAR and (
                member[g, place[v]] == 0.0 or size[v] == 0.0 or marked[v] == now
            ):
                at, tries = at + 1 if at + 1 < n_units else 0, tries + 1
                v = order[at]
            if tries == NEAR or not possible[v, target]:
                continue
            lost = unit_ms[v, target] - unit_ms[v, place[v]]
            for k in range(first_link[v], first_link[v + 1]):
                if place[link[k]] == place[v]:
                    lost += link_ms[k]
                elif place[link[k]] == target:
                    lost -= link_ms[k]
            if lost / size[v] < least and has_room(target, v):
                leaves, least = at, lost / size[v]
        return leaves

    def make_room(n_moved: int, freed: int, most_attempts: int) -> int:
        """Let units leave devices that are full for one with room, perhaps with their neighbours in
        the order; often for the one that the move has freed.
        """
        for g in range(n_groups):
            attempts = 0
            while used[g] > limit[g] and attempts < most_attempts:
                attempts += 1
                target = freed if rng.random() < RETURN else draw(n_devices)
                if member[g, target] > 0.0:
                    continue
                at = find_leaving(g, target)
                if at < 0:
                    continue
                origin = place[order[at]]
                run = rng.random() < 0.5
                n_moved = move(n_moved, order[at], target)
                while run and used[g] > limit[g] and at + 1 < n_units:
                    at += 1
                    if place[order[at]] != origin or not has_room(target, order[at]):
                        break
                    n_moved = move(n_moved, order[at], target)
        return n_moved

    hot, cold = heat
    n_moved = 0
    if kind_of_model == LOAD and numbers[NOW] < np.inf:
        numbers[NOW] = measure_loads()
    for step in range(n_moves):
        numbers[MOVES] += 1.0
        chance, kind = rng.random(), 0
        while kind < N_KINDS - 1 and chance >= shares[kind]:
            kind += 1
        counts[kind, TRIES] += 1.0
        n_moved = 0

        # now and then: a penalty with which the limits are exceeded half of the time, and the units
        # on which the latency depends
        due = numbers[MOVES] % REFRESH == 0.0
        if due:
            numbers[PENALTY] *= RAISED if numbers[OVER] > 0.0 else LOWERED
        if kind_of_model == LIST and (due or numbers[N_CRITICAL] == 0.0):
            note_critical()

        # the units that move; in some moves others make room for them
        u = choose_unit()
        here, there = signed(place[u]), choose_device(u)
        if kind != REBUILD and (n_devices == 1 or not possible[u, there]):
            continue
        n_moved = move_units(kind, u, there)
        most_attempts = EJECTIONS if kind_of_model == SIMULATED or rng.random() < EJECTING else 0
        n_moved = make_room(n_moved, here, most_attempts)

        # in the others a limit may be exceeded by some bytes, or by fewer than before
        over, much = 0.0, False
        for g in range(n_groups):
            over += max(used[g] - limit[g], 0.0)
            much = much or used[g] > MOST_USED * limit[g]
        if (much and over > numbers[OVER]) or (over > 0.0 and kind_of_model == SIMULATED):
            put_back(n_moved)
            n_moved = 0
        if n_moved == 0:
            continue
        if kind_of_model == SIMULATED:
            return n_moved

        # how much worse it may be
        left = 1.0 - step / n_moves
        temperature = cold + (hot - cold) * left * left
        limit_ms = numbers[NOW] + numbers[PENALTY] * numbers[OVER]
        limit_ms *= 1.0 + temperature * draw_allowance(rng)
        limit_ms -= numbers[PENALTY] * over

        # what it costs now: of a list schedule, what the change reaches is run again; sums are
        # updated
        lowest = reached = 0
        if kind_of_model == LIST:
            lowest, last = set_operators(n_moved)
            passes, reached, reach = run_span(lowest, last, limit_ms)
            cost = np.inf
            if passes:
                reached = run_on(model, state, last + 1, reach, device_free)
                cost = free[final].max()
        else:
            add_loads(n_moved, -1.0)
            set_operators(n_moved)
            add_loads(n_moved, 1.0)
            cost = load.sum() if kind_of_model == SERIAL else measure_loads()

        # keep it, or go back
        if cost <= limit_ms:
            if kind_of_model == LIST:
                kept[lowest:reached] = finish[lowest:reached]
                rows = slice(lowest // BLOCK, reached // BLOCK + 2)
                kept_free[rows] = free[rows]
                reach = lowest
                for k in range(n_moved):
                    for at in range(first_op[moved[k]], first_op[moved[k] + 1]):
                        i = signed(ops[at])
                        for r in range(first[i], first[i + 1]):
                            reach = min(reach, signed(maker[r]))
                measure_tails(model, state, last, reach)
            numbers[NOW], numbers[OVER] = cost, over
            if kind_of_model == LOAD:
                cost = load.max()
            if over == 0.0 and cost < numbers[BEST]:
                if numbers[BEST] < np.inf:
                    counts[kind, GAIN] += numbers[BEST] - cost
                numbers[BEST] = cost
                best[:] = place
        elif kind_of_model == LIST:
            put_back(n_moved)
            set_operators(n_moved)
            finish[lowest:reached] = kept[lowest:reached]
            rows = slice(lowest // BLOCK, reached // BLOCK + 2)
            free[rows] = kept_free[rows]
        else:
            add_loads(n_moved, -1.0)
            put_back(n_moved)
            set_operators(n_moved)
            add_loads(n_moved, 1.0)
    return n_moved


@njit(cache=True, nogil=True)
def estimate(model: Model, layout: Layout, state: State) -> float:
    """Compute from the beginning what a placement costs, in ms; limits are ignored."""
    ms, on, load = model.ms, state.on, state.load
    n, n_devices = ms.shape
    state.used[:] = 0.0
    for g in range(len(layout.limit)):
        for u in range(len(state.place)):
            state.used[g] += layout.size[u] * layout.member[g, state.place[u]]
    for i in range(n):
        on[i] = state.place[model.unit[i]]
    if model.kind == SIMULATED:
        return np.inf
    load[:] = 0.0
    if model.kind == LIST:
        run_on(model, state, 0, n, load)
        state.kept[:] = state.finish
        state.kept_free[:] = state.free
        measure_tails(model, state, n - 1, -1)
        return load.max()
    for i in range(n):
        load[on[i]] += ms[i, on[i]]
    for t in range(len(model.source)):
        here, reached = on[model.source[t]], signed(0)
        for r in range(model.first_reader[t], model.first_reader[t + 1]):
            reached |= signed(1) << on[model.reader[r]]
        if reached & ~(signed(1) << here):
            for d in range(n_devices):
                if model.kind == SERIAL and reached >> d & 1:
                    load[here] += model.transfer_ms[t, here, d]
                elif model.kind == LOAD and (d == here or reached >> d & 1):
                    load[d] += model.boundary_ms[t, d]
    return load.sum() if model.kind == SERIAL else load.max()


@njit(cache=True, nogil=True)
def undo(layout: Layout, state: State, n_moved: int) -> None:
    """Put units of a move that was not judged back."""
    for k in range(n_moved):
        u, here, there = state.moved[k], state.was[k], state.place[state.moved[k]]
        for g in range(len(layout.limit)):
            gained = layout.member[g, here] - layout.member[g, there]
            state.used[g] += layout.size[u] * gained
        state.place[u] = here


@njit(cache=True, nogil=True)
def keep(model: Model, state: State, cost_ms: float) -> None:
    """Accept a move that was not judged."""
    for i in range(len(state.on)):
        state.on[i] = state.place[model.unit[i]]
    state.numbers[NOW] = cost_ms
    if cost_ms < state.numbers[BEST]:
        state.numbers[BEST] = cost_ms
        state.best[:] = state.place
