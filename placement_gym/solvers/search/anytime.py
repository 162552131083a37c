"""The search: chains of moves from many starts, of which the better ones continue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from placement_gym.base import IntArray, UInt8, UserError, now_s, parse_count
from placement_gym.problem import Problem, assignment_hash, random_blocks
from placement_gym.problem.costs import CostTable, Semantics, parse_schedule
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers import merge_submodels, propose_simple, propose_single_devices, repair
from placement_gym.solvers.list_policy import ListScheduler, propose_lists
from placement_gym.solvers.search.chains import Chains, Elite
from placement_gym.solvers.search.model import LIST, LOAD, SIMULATED, State

CHAINS = 2
"""Chains of a bracket; after each of its rungs the better half continues (successive halving)."""
FIRST_MOVES = 200
"""Moves of each chain on the first rung of the first bracket; each bracket doubles them."""
HEATS = (0.001, 0.0006, 0.0003, 0.0001)
"""Temperatures between which the rungs of a bracket cool, as a share of the cost."""
HEATED = 1000
"""With more operators, temperatures fall with their number, as each weighs less."""
SAMPLES = 4
"""Starts that are estimated before the first bracket."""
RANDOM = 0.6
"""Share of the starts that are random blocks; the others are built one unit after another."""
ELITES = 8
"""Placements to which the search may return, each the best of a line of chains."""
RETURNING = 1
"""Chains of a bracket that continue the best lines."""
CROSSED, PARENTS = 0.5, 4
"""Share of the other chains that start from a cross of two elites, once there are ``PARENTS``."""
STEP = 200_000
"""Operators scheduled between two looks at the clock, about a millisecond."""
WORK = 4_000_000
"""Maximum operators scheduled per evaluation: 20 to 80 ms, and up to 200 ms for sums of about 600
operators."""
EARLY = 8
"""Evaluations over which the work per evaluation grows to ``WORK``, so the first ones come soon."""
MOVES_PER_UNIT = 50
"""Maximum moves per evaluation and unit: small problems need less than ``WORK``."""
UPDATED, FEW = 30, 500
"""Operators that a move visits if estimates are sums: the first number, or half of those beyond the
second, as runs and stretches grow with the order."""
SIMULATED_WORK = 20, 20_000
"""Work of a simulated move in operators of a list schedule: per operator, and constant."""
PATIENCE, ATTEMPTS = 5, 10
"""The search ends after the work of so many evaluations without a new placement; sampling gives up
after so many placements seen before."""


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Attributes:
        assignment: (n_units,) devices.
        latency_ms: Its latency; infinite if no feasible placement was found.
        evaluations: Placements proposed.
        seconds: Wall time, without the compilation of kernels.
    """

    assignment: IntArray
    latency_ms: float
    evaluations: int
    seconds: float


def search(
    problem: Problem,
    costs: CostTable,
    schedule: str | Semantics = "serial",
    *,
    seconds: float | None = None,
    evaluations: int | None = None,
    rng: np.random.Generator | None = None,
    starts: Sequence[IntArray] | None = None,
) -> SearchResult:
    """Search for a fast placement until a budget is spent or nothing new is found.

    A larger budget is never worse: the search does not depend on it. With a budget of evaluations,
    equal seeds find equal placements on every machine.

    Args:
        problem: Units, devices and limits.
        costs: Times of operators and transfers.
        schedule: The meaning of a latency: the name of a preset, or semantics.
            ``"tarnawski-throughput"`` minimises the largest load.
        seconds: Wall time, including preparation; kept to some milliseconds, or to one estimate of
            a very large problem. Compiling kernels, once per machine for about 20 s, does not
            count.
        evaluations: Placements to propose, each the result of the same amount of work.
        rng: Source of all random numbers; None takes seed 0.
        starts: (n_units,) placements to begin with; None takes list schedules of a trained policy.

    Raises:
        UserError: Neither budget is given, or the evaluations are not a whole number above 0.
    """
    began = now_s()
    if seconds is None and evaluations is None:
        raise UserError("search needs a budget: seconds=1.0, evaluations=100, or both")
    if evaluations is not None:
        evaluations = parse_count("evaluations", evaluations, 1)
    semantics = schedule if isinstance(schedule, Semantics) else parse_schedule(schedule, "latency")
    rng = np.random.default_rng(0) if rng is None else rng
    found = AnytimeSearch(problem, Simulator(problem.units, costs, semantics), rng, starts)
    end = np.inf if seconds is None else began + seconds
    for _ in found.propose(end):
        if found.proposed == evaluations:
            break
    place = found.merge_best()
    ms = cost_ms(problem, found.chains.simulator, place.astype(np.uint8))
    return SearchResult(place, ms, found.proposed, now_s() - began)


class AnytimeSearch:
    """Proposes placements that improve with time.

    The first are ``starts``, see ``search``, and simple placements. Others are random blocks,
    repaired, or built one unit after another with random tastes and prices of memory. Chains of
    moves start from these, from the best so far and from crosses of two of these, in brackets:
    after each rung the better half continues, colder and longer. Each bracket is twice as long as
    the last, so a fair share of any budget is spent on one long chain. ``best`` is the cheapest
    placement so far, ``proposed`` the number of placements proposed.
    """

    def __init__(
        self,
        problem: Problem,
        simulator: Simulator,
        rng: np.random.Generator,
        starts: Sequence[IntArray] | None = None,
    ) -> None:
        self.problem, self.rng, self.starts = problem, rng, starts
        self.chains, self.lists = Chains(problem, simulator, rng), ListScheduler(problem, simulator)
        if starts:
            problem.check(np.stack(starts))
            self.starts = list(self.make_feasible(np.stack(starts)))
        reference = problem.single(problem.reference_device).astype(np.uint8)
        self.best = Elite(np.inf, reference, 0.0, -1.0)
        self.elites: list[Elite] = []
        self.proposed = 0
        self.seen: set[str] = set()
        n, kind = len(self.chains.model.unit), self.chains.model.kind
        per_operator, constant = SIMULATED_WORK
        work = {LIST: n, SIMULATED: per_operator * n + constant}
        self.move_work = work.get(kind, max(min(n, UPDATED), (n - FEW) // 2))

    def propose(self, end: float = np.inf) -> Iterator[IntArray]:
        """Yield (n_units,) distinct placements, each after some work.

        Ends at ``end``, a value of ``now_s``, or when nothing new is found.
        """
        full_work = min(WORK, MOVES_PER_UNIT * self.problem.n_units * self.move_work)
        done, fruitless = 0, 0
        for state, work in self.advance_chains():
            self.keep_elite(state)
            done += work
            if now_s() >= end or fruitless > PATIENCE:
                break
            if done >= full_work * min((self.proposed + 1) / EARLY + fruitless, 1.0):
                done, new = 0, self.find_new(state)
                if new is None:
                    fruitless += 1
                else:
                    fruitless = 0
                    self.proposed += 1
                    yield merge_submodels(self.problem, self.chains.simulator, new)

    def find_new(self, state: State) -> IntArray | None:
        """The first placement not yet proposed: of elites, of a chain, or newly built."""
        elites = (elite.place for elite in self.elites)
        states = chain([state], (self.build_near_elite() for _ in range(ATTEMPTS)))
        for place in chain(elites, feasible_places(states)):
            key = assignment_hash(place)
            if key not in self.seen:
                self.seen.add(key)
                return place.astype(np.int64)
        return None

    def merge_best(self) -> IntArray:
        """The cheapest placement; with limited submodels, of all elites after merging theirs."""
        if self.problem.max_submodels is None:
            return self.best.place.astype(np.int64)
        places = np.stack([one.place for one in (self.best, *self.elites)])
        return self.lists.compare(places, 1)[0][0].astype(np.int64)

    def advance_chains(self) -> Iterator[tuple[State, int]]:
        """Yield advanced chains with the work spent, indefinitely."""
        starts = propose_lists(self.lists, self.rng) if self.starts is None else self.starts
        for place in chain(starts, self.propose_simple()):
            yield self.chains.start(place), self.move_work
        for _ in range(SAMPLES):
            yield self.start_anywhere(), 3 * self.move_work
        length = FIRST_MOVES
        while True:
            yield from self.run_bracket(length)
            length *= 2

    def propose_simple(self) -> Iterator[IntArray]:
        """Each device alone, devices filled in order and, for loads, the best contiguous split."""
        problem, costs = self.problem, self.chains.simulator.costs
        names = ["fill-in-order", *(["dpl"] if self.chains.model.kind == LOAD else [])]
        named = [*propose_single_devices(problem), *propose_simple(problem, costs, *names)]
        simple = self.make_feasible(np.stack([placement for _, placement in named]))
        yield from {one.tobytes(): one for one in simple}.values()

    def make_feasible(self, places: IntArray) -> IntArray:
        """(k, n_units) placements with units moved that are unsupported or do not fit."""
        if not self.chains.limited:
            return np.stack([self.problem.move_unsupported(place) for place in places])
        return repair(self.problem, places, self.lists.prices)

    def start_line(self) -> State:
        """A chain that begins a line: at a cross of two elites, or anywhere."""
        if len(self.elites) < PARENTS or self.rng.random() >= CROSSED:
            return self.start_anywhere()
        one, other = self.rng.choice(len(self.elites), 2, replace=False)
        return self.chains.cross(self.elites[one], self.elites[other])

    def start_anywhere(self) -> State:
        """A chain at a placement that is built, or at repaired random blocks."""
        if self.rng.random() >= RANDOM:
            return self.build_near_elite()
        (place,) = self.make_feasible(random_blocks(self.problem, self.rng)[None])
        return self.chains.start(place)

    def build_near_elite(self) -> State:
        """A chain at a placement that is built from nothing, near an elite's price of memory."""
        if not self.elites:
            return self.chains.build(self.best.place)
        elite = self.elites[int(self.rng.integers(len(self.elites)))]
        return self.chains.build(elite.place, elite.price)

    def run_bracket(self, length: int) -> Iterator[tuple[State, int]]:
        """Yield chains while they continue, the better half of them from rung to rung."""
        returning = self.elites[:RETURNING]
        states = [self.chains.start(elite.place, elite.price, elite.line) for elite in returning]
        while len(states) < CHAINS:
            states.append(self.start_line())
            yield states[-1], 3 * self.move_work
        scale = min(1.0, HEATED / len(self.chains.model.unit))
        for rung, (hot, cold) in enumerate(pairwise(HEATS)):
            for state in states:
                yield from self.continue_chain(state, length << rung, scale * hot, scale * cold)
            states.sort(key=lambda state: float(state.scalars.best_ms))
            states = states[: max(len(states) // 2, 1)]

    def continue_chain(
        self, state: State, n_moves: int, hot: float, cold: float
    ) -> Iterator[tuple[State, int]]:
        """Yield a cooling chain after every few moves."""
        step = max(STEP // self.move_work, 1)
        for done in range(0, n_moves, step):
            n = min(step, n_moves - done)
            first, last = (hot + (cold - hot) * at / n_moves for at in (done, done + n))
            self.chains.anneal(state, n, (first, last))
            yield state, n * self.move_work

    def keep_elite(self, state: State) -> None:
        """Keep a chain's best placement if it is the best of its line and among the best of all."""
        ms, line = float(state.scalars.best_ms), float(state.scalars.line)
        beaten = [elite.ms for elite in self.elites if elite.line == line]
        if len(self.elites) == ELITES:
            beaten.append(self.elites[-1].ms)
        known = any((state.best == elite.place).all() for elite in self.elites)
        if known or ms >= min(beaten, default=np.inf):
            return
        others = [elite for elite in self.elites if elite.line != line]
        elite = Elite(ms, state.best.copy(), float(state.scalars.price), line)
        self.elites = sorted([*others, elite], key=lambda one: one.ms)[:ELITES]
        self.best = self.elites[0]


def feasible_places(states: Iterable[State]) -> Iterator[UInt8]:
    """Yield the best and the current (n_units,) placement of each chain if limits allow them."""
    for state in states:
        if state.scalars.best_ms < np.inf:
            yield state.best
        if state.scalars.now_ms < np.inf and state.scalars.over_bytes <= 0.0:
            yield state.place
