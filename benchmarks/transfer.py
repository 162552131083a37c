"""Policies that are trained on other graphs, and then place held-out ones.

    python benchmarks/transfer.py go --folder FOLDER --rows go.jsonl
    python benchmarks/transfer.py placeto --folder FOLDER --rows placeto.jsonl

GO is trained across families and places others, those of ``--families`` or those that are kept for
tests; Placeto is trained within each of ``--families``. Both are trained from several seeds, and
place at once (zero-shot), after fine-tuning, and by training from scratch at equal evaluations,
compared with searches. All placements are repaired. FOLDER keeps the weights. A second call does
what the file of rows lacks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from common import (
    GPUS,
    Row,
    describe_env,
    describe_run,
    make_env,
    make_parser,
    run_missing,
)
from summaries import (
    Describe,
    Scores,
    Tables,
    average,
    compare_scores,
    describe_groups,
    describe_mean,
    group_by,
)

import agents
from agents import AGENTS
from agents.common import save_weights
from agents.gdp import make as make_go
from agents.placeto import make as make_placeto
from agents.placeto.transfer import train_policy
from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.envs import DevicePlacementEnv, PerUnitEnv
from placement_gym.graph.families import SEEDS, SampledProblem
from placement_gym.graph.families.problems import HELD_OUT, make_problem
from placement_gym.solvers import heft

Arm = Callable[[DevicePlacementEnv, int], Any]
"""Lets an agent of a seed evaluate placements of an environment."""
SEGMENTS = {"segment": 256, "memory": 256}
UPDATES, PROBLEMS, EPISODES = 100, 4, 8
"""Of GO's training, problems of an update, and placements of each."""
EVALUATIONS = 20_000
"""Of Placeto's training."""
GO_BUDGET, PLACETO_BUDGET = 300, 200
"""Evaluations of a problem."""
SAMPLES = 64
"""Of a trained GO, whose best is taken."""
TRIVIAL = 1.01
"""Of the best latency: where a device alone comes so near, nothing is to be shown."""
NEAR = (0.01, 0.05, 0.1)
SCRATCH, TUNED = "from scratch", "fine-tuned"
SETTING = {"devices": GPUS, "granularity": "op", "schedule": "list", "repair": True}
PADDED = {"max_nodes": 160, "max_edges": 400, "observe_graph": False, "reward": "improvement"}
PLACETO = {"devices": True, "critic": True}
"""PPO trains with a critic, which fine-tuning keeps but does not use."""
SIZES = {"train": range(40, 80, 4), "test": range(42, 82, 8)}
"""Of the graphs of Placeto, by the split that their seeds are of."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("agent", choices=("go", "placeto"))
    parser.add_argument("--rows", type=Path, required=True, help="file of rows")
    parser.add_argument("--folder", type=Path, default=Path(), help="of weights (%(default)s)")
    parser.add_argument("--families", default="", help="comma-separated")
    parser.add_argument("--trainings", type=int, default=5, help="seeds (%(default)s)")
    parser.add_argument("--problems", type=int, default=4, help="that GO places (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    run = run_go if options.agent == "go" else run_placeto
    run(options)


def place(env: DevicePlacementEnv, arm: Arm, seed: int, budget: int, agent: AgentSpec) -> Row:
    """The fields of a row; its curve has evaluations, and latencies in ms as they improve."""
    env.backend = counted = BudgetedBackend(env.backend, budget)
    with suppress(BudgetReached):
        arm(env, seed)
    return describe_run(describe_env(env), agent, seed, budget, counted) | {
        "units": env.problem.n_units,
        "curve": [(n, env.reference.reference_ms / best) for n, _, best in counted.curve],
    }


def run_heft(env: DevicePlacementEnv, _: int) -> None:
    env.evaluate(heft(env.problem, env.cost_table()))


def run_agent(name: str, budget: int) -> Arm:
    """An agent that is not trained."""
    return lambda env, seed: AgentSpec(name).make(env, seed).learn(budget)


def choose_agent(name: str, policy: Row, arm: str, weights: Path) -> AgentSpec:
    """The agent of an arm: one that is trained or from scratch, or another one."""
    if arm.lower() in AGENTS:
        return AgentSpec(arm.lower())
    trained = {} if arm == SCRATCH else {"weights": weights.name}
    return AgentSpec(name, {"policy": policy} | trained)


def run_go(options: argparse.Namespace) -> None:
    """Train GO and place."""
    weights = partial(train_go, options.folder)
    searches = ("random-blocks", "hill-climb", "annealing", "search")
    arms: dict[str, Arm] = {name: run_agent(name, GO_BUDGET) for name in searches} | {
        "heft": run_heft,
        "go, zero-shot": lambda env, seed: sample_go(env, seed, weights(seed), 1),
        f"go, best of {SAMPLES}": lambda env, seed: sample_go(env, seed, weights(seed), SAMPLES),
        f"go, {TUNED}": lambda env, seed: make_search(env, seed, weights(seed)).learn(GO_BUDGET),
        f"go, {SCRATCH}": lambda env, seed: make_search(env, seed, None).learn(GO_BUDGET),
    }
    problems = {(p.seed, p.family): p for p in draw_problems(options.problems, options.families)}

    def run(problem: int, family: str, arm: str, seed: int) -> Row:
        kwargs = problems[problem, family].env_kwargs()
        env = make_env(**kwargs, observe_graph=False, repair=True)
        single_ms = env.get_info()["best_single_ms"]
        agent = choose_agent("gdp", SEGMENTS, arm.removeprefix("go, "), weights(seed))
        return {"single_ms": single_ms, **place(env, arms[arm], seed, GO_BUDGET, agent)}

    for seed in range(options.trainings):
        weights(seed)
    jobs = (
        {"problem": problem, "family": family, "arm": arm, "seed": seed}
        for problem, family in problems
        for arm in arms
        for seed in range(1 if arm == "heft" else options.trainings)
    )
    run_missing(options.rows, jobs, run)


def draw_problems(n: int, families: str) -> list[SampledProblem]:
    """The first test problems of these families, or of those that are not trained on."""
    if families:
        return [make_problem(seed, families.split(",")) for seed in SEEDS["test"][:n]]
    drawn = (make_problem(seed) for seed in SEEDS["test"])
    return list(islice((problem for problem in drawn if problem.family in HELD_OUT), n))


def train_go(folder: Path, seed: int) -> Path:
    """Train on the split ``train``, unless that was done; returns the file of weights."""
    path = folder / f"go-{UPDATES}-{seed}.safetensors"
    if not path.exists():
        trainer = agents.make_trainer(
            "gdp", seed, problems=PROBLEMS, episodes=EPISODES, policy=SEGMENTS
        )
        trainer.learn(UPDATES * PROBLEMS * EPISODES)
        save_weights(trainer, path, {"seed": seed, "updates": UPDATES})
    return path


def make_search(env: DevicePlacementEnv, seed: int, weights: Path | None) -> Any:
    """GO that follows the policy gradient alone."""
    return make_go(env, seed, weights=weights, policy=SEGMENTS)


def sample_go(env: DevicePlacementEnv, seed: int, weights: Path, n: int) -> None:
    """Evaluate the most likely placement, and samples, ``n`` in all."""
    agent, seen = make_search(env, seed, weights), env.reset()[0]
    placements = [np.asarray(agent.predict(seen, deterministic=True)[0])[None]]
    if n > 1:
        many = {key: np.repeat(value[None], n - 1, axis=0) for key, value in seen.items()}
        placements.append(agent.predict(many)[0])
    env.evaluate_batch(np.vstack(placements))


def leave_out_trivial(rows: Sequence[Row]) -> list[Row]:
    """Rows of problems that no device alone nearly solves, each with the best latency of all."""
    best = find_best(rows, lambda row: (row["problem"], row["family"]))
    rows = [row | {"best_ms": best[row["problem"], row["family"]]} for row in rows]
    return [row for row in rows if row["single_ms"] > TRIVIAL * row["best_ms"]]


def find_best(rows: Sequence[Row], name: Callable[[Row], Any]) -> dict[Any, float]:
    """Problem -> the lowest latency of any arm, in ms."""
    best: dict[Any, float] = {}
    for row in rows:
        if row["curve"]:
            best[name(row)] = min(best.get(name(row), np.inf), row["curve"][-1][1])
    return best


def list_go(rows: Sequence[Row]) -> list[Row]:
    """Scores of the first and of the best placement, and how soon the best one is nearly reached.

    Intervals are over seeds; problems that a device alone nearly solves are left out.
    """
    columns: dict[str, Describe] = {
        "first": lambda mine: describe_mean(list(mean_by_seed(mine, 0))),
        f"at {GO_BUDGET}": lambda mine: describe_mean(list(mean_by_seed(mine, -1))),
        **{f"within {100 * near:.0f} %": partial(describe_reached, near) for near in NEAR},
        "CPU s": lambda mine: f"{np.median([row['cpu_s'] for row in mine]):.1f}",
    }
    shown = [row for row in leave_out_trivial(rows) if row["curve"]]
    return describe_groups(shown, ("arm",), columns)


def mean_by_seed(rows: list[Row], at: int) -> Iterator[float]:
    """For each seed the mean score of the first or last placement of its curves."""
    for mine in group_by(rows, "seed").values():
        yield float(np.mean([row["best_ms"] / row["curve"][at][1] for row in mine]))


def soon(row: Row, target_ms: float) -> int | None:
    """Evaluations until a latency is reached; None if it never is."""
    return next((int(n) for n, latency_ms in row["curve"] if latency_ms <= target_ms), None)


def describe_reached(near: float, rows: list[Row]) -> str:
    """Number of runs that come so near to the best, and the median of evaluations if most do."""
    found = [soon(row, (1.0 + near) * row["best_ms"]) for row in rows]
    median = np.median([np.inf if n is None else n for n in found])
    reached = sum(n is not None for n in found)
    return f"{reached}/{len(found)}" + (f", {median:.0f}" if np.isfinite(median) else "")


def run_placeto(options: argparse.Namespace) -> None:
    """Train Placeto within each family and place."""
    weights = partial(train_placeto, options.folder)

    def run(family: str, model: str, arm: str, seed: int) -> Row:
        arms: dict[str, Arm] = {
            "HEFT": run_heft,
            "random-blocks": run_agent("random-blocks", PLACETO_BUDGET),
            "search": run_agent("search", PLACETO_BUDGET),
            "zero-shot": lambda env, seed: answer(env, seed, weights(family, seed)),
            TUNED: lambda env, seed: tune(env, seed, weights(family, seed)).learn(PLACETO_BUDGET),
            SCRATCH: lambda env, seed: tune(env, seed, None).learn(PLACETO_BUDGET),
        }
        env = make_env(model, **SETTING, observe_graph=False)
        agent = choose_agent("placeto", PLACETO, arm, weights(family, seed))
        return place(env, arms[arm], seed, PLACETO_BUDGET, agent)

    families = (options.families or "recurrent,attention").split(",")
    for family, seed in product(families, range(options.trainings)):
        weights(family, seed)
    jobs = (
        {"family": family, "model": model, "arm": arm, "seed": seed}
        for family in families
        for seed in range(options.trainings)
        for model in name_models(family, "test")
        for arm in ("HEFT", "random-blocks", "search", "zero-shot", TUNED, SCRATCH)
        if not (seed and arm in ("HEFT", "search"))
    )
    run_missing(options.rows, jobs, run)


def name_models(family: str, split: str) -> tuple[str, ...]:
    """Graphs of a family with the first seeds of a split."""
    pairs = zip(SIZES[split], SEEDS[split], strict=False)
    return tuple(f"family-{family}-{n}-seed{seed}" for n, seed in pairs)


def train_placeto(folder: Path, family: str, seed: int) -> Path:
    """Train on graphs of the training split, unless that was done; returns the weights' file."""
    path = folder / f"placeto-{family}-{EVALUATIONS}-{seed}.safetensors"
    if not path.exists():
        given = json.dumps({"settings": {}, "policy": PLACETO})
        models, setting = name_models(family, "train"), json.dumps(SETTING | PADDED)
        policy = train_policy(models, setting, EVALUATIONS, seed, given)
        about = {"family": family, "seed": seed, "evaluations": EVALUATIONS}
        save_weights(SimpleNamespace(policy=policy), path, about)
    return path


def answer(env: DevicePlacementEnv, seed: int, weights: Path) -> None:
    """Evaluate the final placement of an episode that evaluates none, from a single device."""
    agent = make_placeto(env, seed, policy=PLACETO, weights=weights)
    env.evaluate(np.asarray(agent.predict(env.reset()[0], deterministic=True)[0]))


def tune(env: DevicePlacementEnv, seed: int, weights: Path | None) -> Any:
    """Placeto from a trained or a random policy; its episodes go on from the best placement."""
    return make_placeto(PerUnitEnv(env, start="best"), seed, policy=PLACETO, weights=weights)


def list_placeto(rows: Sequence[Row]) -> list[Row]:
    """Scores over the best latency of the rows, and differences to training from scratch."""
    best = find_best(rows, lambda row: row["model"])
    runs = {arm: mine for (arm,), mine in group_by(rows, "arm").items()}
    scores: dict[str, Scores] = {
        arm: {
            (row["model"], "", row["seed"]): best[row["model"]] / row["curve"][-1][1]
            if row["curve"]
            else 0.0
            for row in mine
        }
        for arm, mine in runs.items()
    }
    problems, scratch = [(model, "") for model in best], scores.get(SCRATCH, {})
    return [
        {
            "arm": arm,
            **compare_scores(scores[arm], scratch, SCRATCH, problems),
            "evaluations": max(row["evaluations"] for row in mine),
            "runs": len(mine),
        }
        for arm, mine in sorted(runs.items(), key=lambda one: -average(scores[one[0]], problems))
    ]


TABLES: Tables = {"go": list_go, "placeto": list_placeto}
"""Name -> the table on a page."""


if __name__ == "__main__":
    main()
