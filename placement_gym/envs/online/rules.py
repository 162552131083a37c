"""Rules that choose plans: what a learned policy has to beat.

Each has SB3's ``predict``, so that ``evaluate_policy`` and every loop of SB3's models take it. All
but ``Rollouts`` read observations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import unknown_name
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.kernel import play_static, roll_out
from placement_gym.envs.online.observation import Layout
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.traces import Trace

TRIED = 1000
"""Most assignments of plans to models that are tried."""
SEARCHED = 8
"""Traces of the split that they are tried on."""
FUTURES, AHEAD = 6, 20
"""Futures of a rollout, and requests of each."""


class Rule:
    """Chooses the plan with the least cost.

    Args:
        costs: (n_envs, n_plans) from (n_envs, n_entries) observations; infinite where refused.
    """

    def __init__(self, costs: Callable[[FloatArray], FloatArray]) -> None:
        self.costs = costs

    def predict(
        self,
        observation: NDArray[np.float32],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """The plan for one observation, or for a batch; see ``BasePolicy.predict``."""
        chosen = self.costs(np.atleast_2d(observation)).argmin(axis=1)
        return (chosen if observation.ndim == 2 else chosen[0]), state


def choose_shortest_completion(env: OnlineEnv) -> Rule:
    """The plan by which the request ends first, if nothing changes."""
    part = env.layout.parts["latency"]
    return Rule(lambda seen: seen[:, part])


def choose_by_load(env: OnlineEnv) -> Rule:
    """The device that is fastest by its present load, queues aside, as OpenVINO's AUTO might."""
    layout, pace_of = env.layout, env.layout.parts["load"]
    alone_ms = list_alone_ms(env.plans, layout)

    def cost(seen: FloatArray) -> FloatArray:
        model = seen[:, layout.parts["model"]].argmax(axis=1)
        return (alone_ms[model] * (1.0 + seen[:, None, pace_of])).min(axis=2)

    return Rule(cost)


def list_alone_ms(plans: PlanTable, layout: Layout) -> FloatArray:
    """(n_models, n_plans, n_devices) latency of a device alone; infinite for other plans."""
    found = np.full((layout.n_models, layout.n_plans, layout.n_devices), np.inf)
    names = [device.name for device in plans.devices]
    for model, own in enumerate(plans.plans):
        for number, plan in enumerate(own):
            if len(plan.stages) == 1:
                found[model, number, names.index(plan.stages[0].device)] = plan.ms
        if np.isinf(found[model]).all():  # no device alone may run it
            found[model, : len(own), 0] = [plan.ms for plan in own]
    return found


def keep_static(env: OnlineEnv) -> Rule:
    """The best plan of each model whatever happens."""
    return keep(env, list_assignments(env.plans))


def keep_resident(env: OnlineEnv) -> Rule:
    """The best plan of each model of those whose weights fit the devices all at once."""
    fitting = (one for one in list_assignments(env.plans) if fits(env, one))
    return keep(env, fitting)


def keep(env: OnlineEnv, assignments: Iterator[tuple[int, ...]]) -> Rule:
    """The best of some assignments of plans to models, on the first traces of the split."""
    traces = [env.make_trace(number) for number in range(SEARCHED)]
    tried = [np.array(one) for one in islice(assignments, TRIED)]
    best = min(tried, key=lambda one: sum(play(env, trace, one) for trace in traces))
    model = env.layout.parts["model"]
    costs = np.ones((env.layout.n_models, env.layout.n_plans))
    costs[np.arange(len(best)), best] = 0.0
    return Rule(lambda seen: costs[seen[:, model].argmax(axis=1)])


def play(env: OnlineEnv, trace: Trace, choice: IntArray) -> float:
    """Mean log slow-down of a trace by one plan for each model."""
    return play_static(env.tables, trace.load(env.pace), trace.arrivals_ms, trace.models, choice)


def list_assignments(plans: PlanTable) -> Iterator[tuple[int, ...]]:
    """Every choice of a plan for each model."""
    return product(*(range(len(own)) for own in plans.plans))


def fits(env: OnlineEnv, choice: tuple[int, ...]) -> bool:
    """Return whether the devices hold the weights of a plan of each model at once."""
    tables, held = env.tables, np.zeros(len(env.tables.limit_bytes))
    for model, plan in enumerate(choice):
        number = model * env.layout.n_plans + plan
        own = slice(tables.first[number], tables.first[number + 1])
        np.add.at(held, tables.group[tables.device[own]], tables.held_bytes[own])
    return bool((held <= tables.limit_bytes).all())


class Rollouts:
    """Chooses the plan that is best in futures drawn from the recent mix and rate.

    Later requests of a future run by the shortest completion, and devices keep their pace.

    Args:
        env: The environment that it plays, whose queues and weights it reads.
        seed: Of the futures.
    """

    def __init__(self, env: OnlineEnv, seed: int = 0) -> None:
        self.env, self.rng = env, np.random.default_rng(seed)

    def predict(
        self,
        observation: NDArray[np.float32],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """The plan for the environment's request; see ``BasePolicy.predict``."""
        env, scores = self.env, np.full(self.env.layout.n_plans, np.inf)
        queue_ms, pace, used, mix, gap_ms = env.sim.know()
        futures = [self.draw(mix, gap_ms) for _ in range(FUTURES)]
        for plan in np.flatnonzero(env.action_masks()):
            now = queue_ms, pace, used, int(used.max()) + 1, env.model * env.layout.n_plans + plan
            scores[plan] = sum(roll_out(env.tables, *now, *one) for one in futures)
        return np.full(observation.shape[:-1], scores.argmin()), state

    def draw(self, mix: FloatArray, gap_ms: float) -> tuple[FloatArray, IntArray]:
        """The request, and those that may follow it: times from now on, and models."""
        gaps_ms = self.rng.exponential(gap_ms, AHEAD)
        models = self.rng.choice(len(mix), AHEAD, p=mix / mix.sum())
        models[0], gaps_ms[0] = self.env.model, 0.0
        return np.cumsum(gaps_ms), models


RULES: dict[str, Callable[[OnlineEnv], Any]] = {
    "static": keep_static,
    "by-load": choose_by_load,
    "shortest-completion": choose_shortest_completion,
    "rollouts": Rollouts,
    "resident": keep_resident,
}
"""Name -> what makes the rule for an environment."""


def make_rule(name: str, env: OnlineEnv) -> Any:
    """Make a rule for an environment; static ones are searched on traces of its split.

    Raises:
        UserError: There is no such rule.
    """
    if name not in RULES:
        raise unknown_name("a rule", name, RULES)
    return RULES[name](env)
