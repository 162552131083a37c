"""Problems to learn from, with the fastest placements known for each."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from agents.common.sampled_env import floor_ms
from agents.search.search import UNFIT
from agents.sequential.chains import Chains, cool
from agents.sequential.network import Network
from agents.sequential.outlook import no_scorer
from agents.sequential.refining import Log, make_log
from agents.sequential.search import Sequential
from placement_gym.arrays import IntArray
from placement_gym.entry_points import SimulatedEnv
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError
from placement_gym.graph.families.problems import SEEDS, make_problem
from placement_gym.problem import assignment_hash
from placement_gym.solvers.levels import multilevel
from placement_gym.solvers.list_sampling import draw_prices

NOISE = 10.0
"""Factor of the noise of searches for labels."""
INFEASIBLE = 0.1
"""Speed-up of what is infeasible."""
ROUNDS, ROUND = 10, 40
"""Of an examination's chains, and moves of a round."""
IMPROVED_SHARE = 0.5
"""Share of visits that move the fastest placement on, not the network's own."""
GUIDED_SHARE = 0.5
"""Share of visits whose moves the network proposes."""


class Lesson:
    """A problem and the fastest placements known for it, which its labels are.

    Args:
        network: Guides the search for faster ones.
        env: The problem.
        seed: Of ``make_problem``, or -1 if the environment was given.
    """

    def __init__(self, network: Network, env: DevicePlacementEnv, seed: int = -1) -> None:
        self.seed, self.env = seed, env
        self.search = Sequential(env, 0, network, NOISE)
        self.placer = self.search.placer

    def ask_teacher(self, evaluations: int) -> None:
        """Add the fastest placements that the multilevel placer finds, with prices of memory."""
        search, rng = self.search, np.random.default_rng(max(self.seed, 0))
        proposals = multilevel.search(search.problem, self.env.cost_table(), rng, evaluations)
        end, placements = search.evaluations + evaluations, next(proposals)
        while search.evaluations < end:
            placements, speedups = search.evaluate(placements)
            prices = draw_prices(search.decoder, rng, len(placements))
            search.keep_parents(placements, speedups, prices)
            placements = proposals.send(np.where(speedups > UNFIT, 1.0 / speedups, np.inf))

    def improve(self, evaluations: int, rng: np.random.Generator) -> None:
        """Search on, guided by the network as it is now; only ``rng`` decides what is drawn."""
        self.search.rng = rng
        self.search.tried = set(map(assignment_hash, self.search.parents))
        self.search.learn(evaluations)

    @cached_property
    def chains(self) -> Chains:
        """What moves are tried with."""
        return Chains(self.env, np.random.default_rng(0))

    def refine(self, moves: int, rng: np.random.Generator) -> Log:
        """Move a placement on under the decoder's model, and evaluate where that ends.

        It is the fastest one or the network's own. The temperature is any that a search goes
        through; half of the visits move as the network proposes, the others without it.

        Returns:
            The moves that were tried.
        """
        search, log = self.search, make_log(moves)
        if not moves:
            return log
        chains = self.chains
        known = search.parents[:1] if rng.random() < IMPROVED_SHARE else search.parents[:0]
        if not len(known):
            known = self.placer.place()[None]
        chains.rng = rng
        chains.follow(known)
        heat = cool(rng.random())
        scorer = self.placer.move_scorer if rng.random() < GUIDED_SHARE else no_scorer()
        ends = chains.propose(self.placer.preference, scorer, heat, moves, log)
        if search.find_untried(ends):
            search.tried.update(map(assignment_hash, ends))
            search.keep_parents(*search.evaluate(ends), np.ones(len(ends)))
        return log

    def refine_in_rounds(self) -> IntArray:
        """(1 + n_rounds, n_units) the network's placement, and where moves lead from it."""
        self.placer.refresh()
        placements, chains = [self.placer.place()], self.chains
        chains.rng = np.random.default_rng(0)
        chains.follow(placements[0][None])
        preference, scorer = self.placer.preference, self.placer.move_scorer
        for done in range(ROUNDS):
            placements.append(chains.propose(preference, scorer, cool(done / ROUNDS), ROUND)[0])
        return np.stack(placements)

    def state(self) -> dict[str, Any]:
        """The seed and the placements with their speed-ups, as tensors."""
        search = self.search
        return {
            "seed": self.seed,
            "placements": torch.from_numpy(search.parents.copy()),
            "speedups": torch.from_numpy(search.speedups.copy()),
            "prices": torch.from_numpy(search.prices.copy()),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take what ``state`` returned.

        Raises:
            UserError: It is of another problem.
        """
        keys = ("placements", "speedups", "prices")
        placements, speedups, prices = (torch.as_tensor(state[k]).numpy().copy() for k in keys)
        n_units, n_devices = self.search.problem.supported.shape
        fits = placements.shape == (len(speedups), n_units) and len(prices) == len(speedups)
        if not fits or not ((placements >= 0) & (placements < n_devices)).all():
            raise UserError("the training state is of other problems; begin a new training")
        self.search.parents, self.search.speedups = placements.astype(np.int64), speedups
        self.search.prices = prices


def make_lesson(network: Network, seed: int) -> Lesson:
    """The lesson of a generated problem."""
    return Lesson(network, make_env(seed), seed)


def make_env(seed: int) -> SimulatedEnv:
    """The environment of a generated problem."""
    return SimulatedEnv(**make_problem(seed).env_kwargs(), observe_graph=False)


def draw_seed(rng: np.random.Generator) -> int:
    """Draw a problem of the split ``train``."""
    return int(rng.integers(SEEDS["train"].start, SEEDS["train"].stop))


class Examination:
    """Fixed problems of the split ``validation``; made once, as that takes longest.

    Args:
        network: Examined.
        problems: How many.
    """

    def __init__(self, network: Network, problems: int) -> None:
        self.network = network
        self.lessons = [make_lesson(network, seed) for seed in SEEDS["validation"][:problems]]
        self.floors_ms = [floor_ms(lesson.env) for lesson in self.lessons]

    def grade(self) -> dict[str, float]:
        """Evaluate the network's placement of each, without noise, and what is refined from it.

        Returns:
            ``log_speedup``, mean log(floor / latency) of what is refined from them, see
            ``sampled_env.floor_ms``; ``first``, the same of the placements themselves; and
            ``infeasible``, a share of these.
        """
        first, reached, fits = [], [], []
        for lesson, floor in zip(self.lessons, self.floors_ms, strict=True):
            speedups, feasible = lesson.env.backend.evaluate_batch(lesson.refine_in_rounds())
            relative = floor / lesson.env.reference.reference_ms
            speedups = np.where(feasible, speedups, INFEASIBLE) * relative
            first.append(np.log(speedups[0]))
            reached.append(np.log(speedups.max()))
            fits.append(feasible[0])
        return {
            "log_speedup": float(np.mean(reached)),
            "first": float(np.mean(first)),
            "infeasible": float(1.0 - np.mean(fits)),
        }
