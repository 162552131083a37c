"""Train the policies of list schedules that come with the package, and write their files.

    OMP_NUM_THREADS=1 python benchmarks/list_policy.py one many

They learn by the policy gradient for the best of k samples, half on problems of
``DevicePlacementStream-v0``, half on those of ``graph.families.problems``, whose limits are tighter
and whose schedules are also serial or pipelines. Prints CPU seconds, and the geometric mean of
floor / latency on validation problems.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import numpy as np
import torch
from common import make_parser
from scipy.stats import gmean

from agents.list_policy import BestOfK
from placement_gym.envs import StreamEnv
from placement_gym.graph.families import SampledProblem, StreamProblems
from placement_gym.graph.families.problems import make_problem
from placement_gym.solvers import list_policy
from placement_gym.solvers.list_policy import MANY, ONE, ListPolicy, draw_actions

TRAININGS = {ONE: (1, 600, 900), MANY: (8, 600, 900)}
"""``k``, problems and updates of each policy."""
VALIDATED, SIZES = 60, (1, 8, 100)
STREAM = StreamProblems()
FOLDER = Path(list_policy.__path__[0])


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="+", choices=(ONE, MANY), help="policies to train")
    options = parser.parse_args()
    torch.set_num_threads(1)
    validation = StreamEnv("validation", VALIDATED, make_problem=mix)
    print(f"random {validate(None, validation)}", flush=True)
    for name in options.names:
        began = process_time()
        policy = train(name)
        policy.save(FOLDER / f"{name}.json")
        spent = process_time() - began
        print(f"{name} {spent:.0f} CPU s {validate(policy, validation)}", flush=True)


def mix(seed: int) -> SampledProblem:
    """Make the problem of a seed: even ones are of the stream, odd ones of a wider set."""
    return make_problem(seed) if seed % 2 else STREAM(seed)


def train(name: str) -> ListPolicy:
    k, problems, updates = TRAININGS[name]
    trainer = BestOfK(StreamEnv(n_problems=problems, make_problem=mix), k, seed=0)
    trainer.learn(updates * trainer.samples * trainer.n_problems)
    return trainer.export(f"best of {k}, {updates} updates on {problems} problems, seed 0")


def validate(policy: ListPolicy | None, env: StreamEnv) -> dict[int, float]:
    """Geometric mean of floor / latency by the number of samples; None means random weights."""
    scores: dict[int, list[float]] = {size: [] for size in SIZES}
    for seed in env.seeds:
        problem = env.find_problem(seed)
        for size in SIZES:
            rng = np.random.default_rng(seed)
            actions = (
                draw_actions(rng, size)
                if policy is None
                else policy.draw(problem.statistics, size, rng)
            )
            (cost_ms, *_) = problem.scheduler.find_best(actions, rng)[1]
            scores[size].append(problem.floor_ms / problem.latency_ms(cost_ms))
    return {size: round(float(gmean(mine)), 3) for size, mine in scores.items()}


if __name__ == "__main__":
    main()
