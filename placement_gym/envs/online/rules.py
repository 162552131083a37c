"""Rules that choose plans, as baselines for learned policies.

Each has ``predict`` as SB3's models have, for ``evaluate_policy``. ``lookahead`` and ``rollouts``
read the environment's state, the others only observations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray, IntArray, check_choice
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.kernel import State, Trace, look_ahead, play
from placement_gym.envs.online.plans import sum_by_device

MAX_ASSIGNMENTS = 5000
"""Largest number of assignments of plans to models to try. Hand-tuned."""
N_TRACES, TRACE_REQUESTS = 8, 400
"""Number of traces to try assignments on, and largest number of requests of each. Hand-tuned."""
N_FUTURES, FUTURE_REQUESTS = 6, 20
"""Futures of a rollout, and requests of each. Chosen for a decision within a millisecond."""


class Rule:
    """Chooses (n_envs,) plans by a function of (n_envs, n_entries) observations."""

    def __init__(self, choose: Callable[[FloatArray], IntArray]) -> None:
        self.choose = choose

    def predict(
        self,
        observation: NDArray[np.float32],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """Return the plan for an observation, or the plans for a batch; see SB3."""
        chosen = self.choose(np.atleast_2d(observation))
        return (chosen if observation.ndim == 2 else chosen[0]), state


def choose_shortest_completion(env: OnlineEnv) -> Rule:
    """Choose the plan with which the request ends first if nothing changes."""
    part = env.parts["latency"]
    return Rule(lambda seen: seen[:, part].argmin(axis=1))


def choose_by_load(env: OnlineEnv) -> Rule:
    """Choose the device that is fastest under its present load, as OpenVINO's AUTO might.

    Queues are ignored. A model that runs on no single device chooses from all of its plans.
    """
    model_of, load_of = env.parts["model"], env.parts["load"]
    allowed, work_ms = env.tables.allowed, sum_by_device(env.tables, env.tables.work_ms)
    alone = np.diff(env.tables.first).reshape(allowed.shape) == 1
    chosen_from = alone | (allowed & ~alone.any(axis=1, keepdims=True))

    def choose(seen: FloatArray) -> IntArray:
        models, paces = seen[:, model_of].argmax(axis=1), 1.0 + seen[:, None, load_of]
        ms = (work_ms[models] * paces).sum(axis=2)
        plans: IntArray = np.where(chosen_from[models], ms, np.inf).argmin(axis=1)
        return plans

    return Rule(choose)


def keep_static(env: OnlineEnv, resident: bool = False) -> Rule:
    """Keep one plan for each model: those that are best on the first traces of the split.

    With ``resident``, only plans count whose weights all fit at once, if there are any.
    """
    candidates = list_assignments(env)
    if resident:
        held_bytes = sum_by_device(env.tables, env.tables.held_bytes)
        of_models = held_bytes[np.arange(len(held_bytes)), candidates].sum(axis=1)
        in_groups = np.zeros((len(candidates), len(env.tables.limit_bytes)))
        np.add.at(in_groups.T, env.tables.group, of_models.T)
        fit = (in_groups <= env.tables.limit_bytes).all(axis=1)
        candidates = candidates[fit] if fit.any() else candidates
    traces = [cut_off(env.make_trace(number)) for number in range(N_TRACES)]
    totals = [
        sum(play_anew(env, trace, plans[trace.models]) for trace in traces) for plans in candidates
    ]
    best, part = candidates[np.argmin(totals)], env.parts["model"]
    return Rule(lambda seen: best[seen[:, part].argmax(axis=1)])


def list_assignments(env: OnlineEnv) -> IntArray:
    """(n_assignments, n_models) all choices of a plan for each model, or a sample of them."""
    counts = tuple(map(len, env.plans.plans))
    total, rng = prod(counts), np.random.default_rng(0)
    numbers = (
        np.arange(total) if total <= MAX_ASSIGNMENTS else rng.integers(total, size=MAX_ASSIGNMENTS)
    )
    return np.stack(np.unravel_index(numbers, counts), axis=1)


def cut_off(trace: Trace) -> Trace:
    """The first requests of a trace."""
    arrivals_ms, models = trace.arrivals_ms[:TRACE_REQUESTS], trace.models[:TRACE_REQUESTS]
    return trace._replace(arrivals_ms=arrivals_ms, models=models)


def play_anew(env: OnlineEnv, trace: Trace, plans: IntArray) -> float:
    """The sum of log slow-downs of a trace from idle devices without weights."""
    free_ms, used = np.zeros(len(env.tables.group)), np.full(len(env.tables.device), -1)
    return play(env.tables, trace, env.pace, free_ms, used, plans)


def look_one_ahead(env: OnlineEnv) -> Rule:
    """Choose the plan that is best for the request and the mean next one; see ``look_ahead``."""

    def choose(_: FloatArray) -> IntArray:
        plans = np.flatnonzero(env.action_masks())
        totals = [look_ahead(env.tables, env.state, env.model, plan) for plan in plans]
        return plans[[np.argmin(totals)]]

    return Rule(choose)


def roll_out(env: OnlineEnv) -> Rule:
    """Choose the plan that is best in futures drawn from the recent mix and rate.

    Later requests of a future take the shortest completion, and devices keep their pace.
    """
    rng = np.random.default_rng(0)

    def choose(_: FloatArray) -> IntArray:
        futures = [draw_future(env.state, env.model, rng) for _ in range(N_FUTURES)]
        plans = np.flatnonzero(env.action_masks())
        totals = [
            np.sum([play_future(env, future, int(plan)) for future in futures]) for plan in plans
        ]
        return plans[[np.argmin(totals)]]

    return Rule(choose)


def play_future(env: OnlineEnv, future: Trace, plan: int) -> float:
    """The sum of log slow-downs of a future whose first request is served by a plan."""
    plans = np.full(FUTURE_REQUESTS, -1)
    plans[0] = plan
    free_ms, used = env.state.queue_ms * env.state.pace, env.state.used.copy()
    return play(env.tables, future, env.pace, free_ms, used, plans)


def draw_future(state: State, model: int, rng: np.random.Generator) -> Trace:
    """Draw a future: a request for a model now, and those that may follow."""
    gaps_ms = rng.exponential(state.gap_ms[0], FUTURE_REQUESTS)
    models = rng.choice(len(state.mix), FUTURE_REQUESTS, p=state.mix / state.mix.sum())
    models[0], gaps_ms[0] = model, 0.0
    toggles_ms = np.where(state.pace > 1.0, -1.0, np.inf)[:, None]
    return Trace(np.cumsum(gaps_ms), models, toggles_ms)


RULES: dict[str, Callable[[OnlineEnv], Rule]] = {
    "static": keep_static,
    "by-load": choose_by_load,
    "shortest-completion": choose_shortest_completion,
    "lookahead": look_one_ahead,
    "rollouts": roll_out,
    "resident": partial(keep_static, resident=True),
}
"""Name -> function that makes the rule for an environment."""


def make_rule(name: str, env: OnlineEnv) -> Rule:
    """Make a rule of ``RULES``; static ones are searched on traces of the environment's split.

    Raises:
        UserError: There is no such rule.
    """
    check_choice("a rule", name, RULES)
    return RULES[name](env)
