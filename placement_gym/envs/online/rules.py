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
from placement_gym.envs.online.kernel import State
from placement_gym.envs.online.simulation import Simulation
from placement_gym.envs.online.traces import Trace

MAX_ASSIGNMENTS, BATCH_SIZE = 5000, 500
"""Assignments of plans to models that are tried, at most, and those of one simulation: ours."""
N_TRACES, TRACE_REQUESTS = 8, 400
"""Traces of the split that they are tried on, and requests of each, at most: ours."""
N_FUTURES, FUTURE_REQUESTS = 6, 20
"""Futures of a rollout, and requests of each: ours, some milliseconds for a decision."""


class Rule:
    """Chooses plans by a function.

    Args:
        choose: (n_envs,) plans from (n_envs, n_entries) observations.
    """

    def __init__(self, choose: Callable[[FloatArray], IntArray]) -> None:
        self.choose = choose

    def predict(
        self,
        observation: NDArray[np.float32],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """The plan for one observation, or for a batch; see ``BasePolicy.predict``."""
        chosen = self.choose(np.atleast_2d(observation))
        return (chosen if observation.ndim == 2 else chosen[0]), state


def choose_shortest_completion(env: OnlineEnv) -> Rule:
    """The plan by which the request ends first, if nothing changes."""
    part = env.parts["latency"]
    return Rule(lambda seen: seen[:, part].argmin(axis=1))


def choose_by_load(env: OnlineEnv) -> Rule:
    """The device that is fastest by its present load, queues aside, as OpenVINO's AUTO might."""
    model_of, pace_of = env.parts["model"], env.parts["load"]
    alone_ms = list_alone_ms(env)

    def choose(seen: FloatArray) -> IntArray:
        own_ms = alone_ms[seen[:, model_of].argmax(axis=1)]
        return (own_ms * (1.0 + seen[:, None, pace_of])).min(axis=2).argmin(axis=1)

    return Rule(choose)


def list_alone_ms(env: OnlineEnv) -> FloatArray:
    """(n_models, n_plans, n_devices) latency of a device alone; infinite for other plans."""
    alone_ms = np.full((*env.tables.allowed.shape, len(env.plans.devices)), np.inf)
    names = [device.name for device in env.plans.devices]
    for model, own in enumerate(env.plans.plans):
        for number, plan in enumerate(own):
            if len(plan.stages) == 1:
                alone_ms[model, number, names.index(plan.stages[0].device)] = plan.ms
        if np.isinf(alone_ms[model]).all():  # no device alone may run it
            alone_ms[model, : len(own), 0] = [plan.ms for plan in own]
    return alone_ms


def keep_static(env: OnlineEnv) -> Rule:
    """The best plan of each model whatever happens."""
    return keep(env, list_assignments(env))


def keep_resident(env: OnlineEnv) -> Rule:
    """The best plan of each model of those whose weights fit the devices all at once."""
    return keep(env, (assignment for assignment in list_assignments(env) if fits(env, assignment)))


def list_assignments(env: OnlineEnv) -> Iterator[tuple[int, ...]]:
    """Every choice of a plan for each model."""
    return product(*(range(len(own)) for own in env.plans.plans))


def fits(env: OnlineEnv, choice: tuple[int, ...]) -> bool:
    """Return whether the devices hold the weights of a plan of each model at once."""
    tables, group_bytes = env.tables, np.zeros(len(env.tables.limit_bytes))
    for model, plan in enumerate(choice):
        number = model * tables.allowed.shape[1] + plan
        own = slice(tables.first[number], tables.first[number + 1])
        np.add.at(group_bytes, tables.group[tables.device[own]], tables.held_bytes[own])
    return bool((group_bytes <= tables.limit_bytes).all())


def keep(env: OnlineEnv, assignments: Iterator[tuple[int, ...]]) -> Rule:
    """The best of some assignments of plans to models, on the first traces of the split."""
    full_traces = [env.make_trace(number) for number in range(N_TRACES)]
    traces = [
        Trace(t.arrivals_ms[:TRACE_REQUESTS], t.models[:TRACE_REQUESTS], t.toggles_ms)
        for t in full_traces
    ]
    candidates = [*islice(assignments, MAX_ASSIGNMENTS)]
    parts = [candidates[at : at + BATCH_SIZE] for at in range(0, len(candidates), BATCH_SIZE)]
    totals = np.concatenate([try_static(env, traces, part) for part in parts])
    best, model = np.array(candidates[totals.argmin()]), env.parts["model"]
    return Rule(lambda seen: best[seen[:, model].argmax(axis=1)])


def try_static(
    env: OnlineEnv, traces: list[Trace], candidates: list[tuple[int, ...]]
) -> FloatArray:
    """(n_tried,) sums of log slow-downs of all traces, if each model always has its plan."""
    sim, choices = (
        env.simulate(traces * len(candidates)),
        np.repeat(candidates, len(traces), axis=0),
    )
    total = play(env, sim, lambda: choices[np.arange(len(choices)), sim.models])
    return total.reshape(len(candidates), len(traces)).sum(axis=1)


def play(env: OnlineEnv, sim: Simulation, choose: Callable[[], IntArray]) -> FloatArray:
    """(n_traces,) sums of log slow-downs until the traces are over."""
    total: FloatArray = np.zeros(len(sim.models))
    while not sim.over:
        models, ms, _ = sim.serve(choose())
        total += np.log(ms / env.tables.reference_ms[models])
    return total


class Rollouts(Rule):
    """Chooses the plan that is best in futures drawn from the recent mix and rate.

    Later requests of a future run by the shortest completion, and devices keep their pace.

    Args:
        env: The environment that it plays, whose queues and weights it reads.
        seed: Of the futures.
    """

    def __init__(self, env: OnlineEnv, seed: int = 0) -> None:
        super().__init__(self.search)
        self.env, self.rng = env, np.random.default_rng(seed)

    def search(self, _: FloatArray) -> IntArray:
        """(1,) the plan for the environment's request."""
        env, state = self.env, self.env.sim.state
        plans, latency = np.flatnonzero(env.action_masks()), env.parts["latency"]
        sim = env.simulate([self.draw(state) for _ in range(N_FUTURES)] * len(plans))
        sim.free_ms[:], sim.state.used[:] = state.queue_ms * state.pace, state.used
        chosen = np.repeat(plans, N_FUTURES)
        total = play(
            env, sim, lambda: sim.arrive()[:, latency].argmin(axis=1) if sim.request else chosen
        )
        return plans[[total.reshape(len(plans), N_FUTURES).sum(axis=1).argmin()]]

    def draw(self, state: State) -> Trace:
        """The request, and those that may follow it, at times from now on."""
        gaps_ms, mix = self.rng.exponential(state.gap_ms[0], FUTURE_REQUESTS), state.mix[0]
        models = self.rng.choice(len(mix), FUTURE_REQUESTS, p=mix / mix.sum())
        models[0], gaps_ms[0] = self.env.model, 0.0
        toggles_ms = np.where(state.pace[0] > 1.0, -1.0, np.inf)[:, None]
        return Trace(np.cumsum(gaps_ms), models, toggles_ms)


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
