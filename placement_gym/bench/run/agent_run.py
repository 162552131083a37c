"""One run: an agent searches within its budget, and its finalist is measured again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from placement_gym.backends import Finalist
from placement_gym.base import IntArray, PlacementGymError, raise_interrupt
from placement_gym.bench.run.agents import REPAIR, UNCHANGED, AgentSpec
from placement_gym.bench.run.budget import N_FINALISTS, BudgetedBackend, BudgetReached, OnEvaluation
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.row_schema import Row
from placement_gym.envs import play_episode
from placement_gym.problem import Placement


def run_agent(
    bench_env: BenchEnv,
    agent: AgentSpec,
    seed: int,
    budget: int,
    on_evaluation: OnEvaluation = lambda speedup: None,
) -> tuple[Row, Placement | None]:
    """Run an agent's search within a budget of evaluations, and measure its finalist again.

    At the end every agent plays a deterministic episode. An agent with ``learn`` gets the rest of
    the budget before, or the whole budget if its ``predicts_best`` says that ``predict`` returns
    the best placement that it has evaluated. The finalist is the fastest of the best three,
    measured again; of an agent that does not learn, its one placement.

    Returns the row, and the finalist's placement if there is one. A failure of the engine or of the
    agent, ``sys.exit`` included, is the row's ``error``; the row has the best placement so far.
    """
    base = bench_env.base
    # Counts at the backend, below all wrappers, vectors and callbacks of an agent.
    budgeted = BudgetedBackend(base.backend, budget, on_evaluation)
    row = Row.begin(
        agent=agent.name,
        label=agent.label,
        kwargs=dict(agent.kwargs),
        env=bench_env.env_id,
        env_kwargs=dict(bench_env.env_kwargs),
        model=base.problem.units.graph.model,
        **bench_env.origin,
        seed=seed,
        budget=budget,
    )
    # Starts belong to one run: the row names the start that its finalist equals.
    base.starts = {}
    try:
        with budgeted.count_evaluations(base, decide_repair(bench_env, agent)):
            row, candidates = run_search(bench_env, agent, budgeted, row)
            if not candidates:
                return row.change(error=budgeted.explain_failure()), None
            finalist = bench_env.finals.choose(candidates)
    except (Exception, SystemExit) as error:
        raise_interrupt(error)
        # An error of an agent ends its run, not the comparison; Ctrl-C ends both.
        if not row.evaluations:
            row = row.change(**budgeted.describe(min(budgeted.evaluations, budget)))
        best = [bench_env.to_placement(assignment).units for assignment in budgeted.best(1)]
        found = {"placement": dict(best[0]) if best else None, "error": describe_error(error)}
        return row.change(**found), None
    placement = bench_env.to_placement(finalist.assignment)
    start = base.starts.get(finalist.assignment.astype(np.int64).tobytes(), "")
    found = {"placement": dict(placement.units), "start": start}
    return row.change(**describe_finalist(finalist), **found), placement


def decide_repair(bench_env: BenchEnv, agent: AgentSpec) -> bool:
    """By default, repair placements where limits are hard, but not those of fixed choices."""
    if agent.repair is not None:
        return agent.repair
    requested = bench_env.env_kwargs.get(REPAIR)
    if requested is not None:
        return bool(requested)
    return bench_env.base.backend.limits_weights and agent.name not in UNCHANGED


def describe_error(error: BaseException) -> str:
    """The error's class and message; for a bug, also the line that raised it."""
    text = f"{type(error).__name__}: {error}"
    frames = extract_tb(error.__traceback__)
    if isinstance(error, PlacementGymError | SystemExit) or not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def run_search(
    bench_env: BenchEnv, agent: AgentSpec, budgeted: BudgetedBackend, row: Row
) -> tuple[Row, list[IntArray]]:
    """Search, and return the row with the placements that may become the finalist."""
    # Making an agent may already evaluate placements, which count.
    policy = agent.make(bench_env.env, row.seed)
    learns, ended_early = agent.learns and hasattr(policy, "learn"), False
    # The last evaluations of a learner are for its greedy placement. If the budget is too small for
    # them, they are not counted.
    greedy_cost = bench_env.episode_evaluations
    shares = learns and not getattr(policy, "predicts_best", False) and greedy_cost < row.budget
    if learns:
        # Before `learn`, so that the environment's random numbers depend on the row's seed alone.
        bench_env.env.reset(seed=row.seed)
        budgeted.budget = row.budget - greedy_cost * shares
        with suppress(BudgetReached):
            policy.learn(budgeted.budget)
            ended_early = budgeted.evaluations < budgeted.budget
    searched = budgeted.evaluations
    budgeted.budget = max(row.budget, searched + greedy_cost)
    info = play_episode(bench_env.env, policy, deterministic=True, seed=row.seed)
    # An agent that has evaluated nothing itself is judged by this one placement.
    counted = budgeted.evaluations if shares or not searched else searched
    row = row.change(
        **budgeted.describe(counted),
        stopped=ended_early,
        greedy_latency_ms=float(info["latency_ms"]) if info["feasible"] else None,
        greedy_speedup=float(info["speedup"]) if info["feasible"] else None,
    )
    return row, budgeted.best(N_FINALISTS, counted) if searched else budgeted.last()


def describe_finalist(finalist: Finalist) -> dict[str, Any]:
    """The fields of a row that the measurement of its finalist determines."""
    measurement = finalist.measurement
    return {
        "latency_ms": measurement.latency_ms,
        "latency_p90_ms": measurement.latency_p90_ms,
        "speedup": finalist.speedup,
        "speedup_vs_best_single": finalist.speedup_vs_best_single,
        "noise": finalist.noise,
        "n_submodels": measurement.n_submodels,
        "n_submodels_expected": measurement.n_submodels_expected,
        "memory_bytes": list(measurement.memory_bytes),
        "held_bytes": list(measurement.held_bytes) or None,
        "beats_best_single": finalist.beats_best_single,
        "warning": measurement.warning,
        "interference": measurement.interference,
    }
