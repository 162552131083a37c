"""One run: an agent searches within its budget, and its finalist is measured again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from traceback import extract_tb

import numpy as np

from placement_gym.backends.verdicts import Finalist
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import PlacementGymError, raise_interrupt
from placement_gym.bench.run.agents import REPAIR, UNCHANGED, AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached, OnEvaluation
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.row_schema import Row
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import play_episode
from placement_gym.problem.placement import Placement

N_FINALISTS = 3
"""Placements that are measured again: ours, as the fastest of many noisy samples is partly luck."""


def run_agent(
    bench_env: BenchEnv,
    agent: AgentSpec,
    seed: int,
    budget: int,
    on_evaluation: OnEvaluation = lambda speedup: None,
) -> tuple[Row, Placement | None]:
    """Run an agent's search, and measure its finalist again.

    An agent with ``learn`` gets the whole budget; then, and for any other agent, its deterministic
    placement is evaluated. The finalist is the fastest of the best three after re-measurement; of
    an agent that does not learn, its one placement.

    Args:
        bench_env: Where it runs.
        agent: The agent.
        seed: Seed of agent and environment.
        budget: Evaluations that the agent may use.
        on_evaluation: See ``OnEvaluation``.

    Returns:
        The result row, and the finalist's placement if there is one. A failure of the engine or
        of the agent, ``sys.exit`` included, is an ``error`` in the row, which then holds the best
        placement that was evaluated.
    """
    # Counted at the backend, below all wrappers, vectors and callbacks of an agent: none evaluates
    # a placement without it.
    base = bench_env.base
    budgeted = BudgetedBackend(base.backend, budget, on_evaluation)
    row = start_row(bench_env, agent, seed, budget)
    repair = decide_repair(bench_env, agent)
    # Starts belong to one run: the row names the start that its finalist equals.
    base.starts = {}
    try:
        with budgeted.count_evaluations(base, repair):
            row, candidates = run_search(bench_env, agent, budgeted, row)
            if not candidates:
                return row.change(error=budgeted.explain_failure()), None
            finalist = bench_env.finals.choose(candidates)
    except (Exception, SystemExit) as error:
        raise_interrupt(error)
        # An error of an agent ends its run, not the comparison; Ctrl-C ends both.
        return fail_row(row, budgeted, base, describe_error(error)), None
    placement = Placement.of(base.problem, finalist.assignment, base.graph)
    start = base.starts.get(finalist.assignment.astype(np.int64).tobytes(), "")
    return complete_row(row.change(start=start), finalist, placement), placement


def decide_repair(bench_env: BenchEnv, agent: AgentSpec) -> bool:
    """Decide whether an agent's placements are repaired.

    The agent's option decides, else the environment's argument; by default, placements are repaired
    where limits are hard, unless the agent is a fixed choice.
    """
    if agent.repair is not None:
        return agent.repair
    requested = bench_env.env_kwargs.get(REPAIR)
    if requested is not None:
        return bool(requested)
    return bench_env.base.backend.limits_weights and agent.name not in UNCHANGED


def fail_row(row: Row, budgeted: BudgetedBackend, base: DevicePlacementEnv, error: str) -> Row:
    """The row of a failed run, with its best placement until then."""
    placements = budgeted.best(1)
    placement = Placement.of(base.problem, placements[0], base.graph) if placements else None
    return row.change(
        evaluations=min(budgeted.evaluations, row.budget),
        wall_s=budgeted.wall_s,
        cpu_s=round(budgeted.cpu_s, 3),
        curve=row.curve or list(budgeted.curve),
        placement=dict(placement.units) if placement else None,
        error=error,
    )


def describe_error(error: BaseException) -> str:
    """The error's class and message; of a fault in a program, also the line that raised it."""
    text = f"{type(error).__name__}: {error}"
    frames = extract_tb(error.__traceback__)
    if isinstance(error, PlacementGymError | SystemExit) or not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def run_search(
    bench_env: BenchEnv, agent: AgentSpec, budgeted: BudgetedBackend, row: Row
) -> tuple[Row, list[IntArray]]:
    """Search, and return the row with the placements that may become the finalist.

    The greedy placement after learning is evaluated outside the budget, in one episode. It is a
    candidate only if the agent has evaluated nothing itself. An agent that answers with its best
    evaluated placement has an attribute ``greedy``, which predicts the greedy one.
    """
    # Making an agent may already evaluate placements, which count.
    policy = agent.make(bench_env.env, row.seed)
    ended_early = False
    if agent.learns and hasattr(policy, "learn"):
        # Before `learn`, so that the environment's random numbers depend on the row's seed alone.
        bench_env.env.reset(seed=row.seed)
        with suppress(BudgetReached):
            policy.learn(row.budget)
            ended_early = budgeted.evaluations < row.budget
    # The search is over: what follows must not enter its counts.
    n_spent, candidates = budgeted.evaluations, budgeted.best(N_FINALISTS)
    curve = list(budgeted.curve)
    n_infeasible, n_repaired = budgeted.n_infeasible, budgeted.n_repaired
    # The greedy episode is the harness's own, and gets the evaluations that it needs.
    budgeted.budget = max(row.budget, n_spent + bench_env.max_episode_evaluations)
    greedy = getattr(policy, "greedy", policy)
    info = play_episode(bench_env.env, greedy, deterministic=True, seed=row.seed)
    row = row.change(
        evaluations=n_spent or budgeted.evaluations,
        stopped=ended_early,
        infeasible=n_infeasible if n_spent else budgeted.n_infeasible,
        repaired=n_repaired if n_spent else budgeted.n_repaired,
        wall_s=budgeted.wall_s,
        cpu_s=round(budgeted.cpu_s, 3),
        curve=curve or budgeted.curve,
        greedy_latency_ms=float(info["latency_ms"]) if info["feasible"] else None,
        greedy_speedup=float(info["speedup"]) if info["feasible"] else None,
    )
    return row, candidates if n_spent else budgeted.last()


def start_row(bench_env: BenchEnv, agent: AgentSpec, seed: int, budget: int) -> Row:
    """The row of a run before it begins."""
    return Row.begin(
        agent=agent.name,
        label=agent.label,
        kwargs=dict(agent.kwargs),
        env=bench_env.env_id,
        env_kwargs=dict(bench_env.env_kwargs),
        model=bench_env.base.problem.units.graph.model,
        **bench_env.origin,
        seed=seed,
        budget=budget,
    )


def complete_row(row: Row, finalist: Finalist, placement: Placement) -> Row:
    """Add the finalist's measurement to the row."""
    measurement = finalist.measurement
    return row.change(
        latency_ms=measurement.latency_ms,
        latency_p90_ms=measurement.latency_p90_ms,
        speedup=finalist.speedup,
        speedup_vs_best_single=finalist.speedup_vs_best_single,
        noise=finalist.noise,
        n_submodels=measurement.n_submodels,
        n_submodels_expected=measurement.n_submodels_expected,
        memory_bytes=list(measurement.memory_bytes),
        held_bytes=list(measurement.held_bytes) or None,
        beats_best_single=finalist.beats_best_single,
        warning=measurement.warning,
        interference=measurement.interference,
        placement=dict(placement.units),
    )
