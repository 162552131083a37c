"""Presets of published agents: limits, starts, and the papers' forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learned import simulated

import agents
from agents.gdp.agent import make as make_go
from agents.placeto.agent import make as make_placeto
from agents.post.agent import make as make_post
from agents.rnn.agent import make as make_rnn
from agents.rnn.agent import make_hierarchical
from agents.search.starts import propose_first
from placement_gym.base.errors import UserError
from placement_gym.envs.env import DevicePlacementEnv

SMALL = {
    "rnn": {"policy": {"hidden": 16, "decoder": 16}},
    "hdp": {"policy": {"hidden": 16, "decoder": 16}},
    "gdp": {"policy": {"hidden": 16, "layers": 1, "rounds": 1}},
}
ALL_AT_ONCE = {"rnn": make_rnn, "hdp": make_hierarchical, "post": make_post, "gdp": make_go}
LIMITED = [
    {"name": "CPU", "roofline": "CPU"},
    {"name": "GPU", "roofline": "GPU", "weight_share": 0.4},
]


def limited(**kwargs: Any) -> DevicePlacementEnv:
    return simulated(devices=LIMITED, **kwargs)


def make(name: str, env: DevicePlacementEnv, **kwargs: Any) -> Any:
    small = {} if kwargs.get("preset") == "paper" else SMALL.get(name, {})
    return ALL_AT_ONCE[name](env, 0, **small, **kwargs)


class Recorder:
    """A backend that keeps what it evaluates."""

    def __init__(self, inner: Any, seen: list[Any]) -> None:
        self.inner, self.seen = inner, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def evaluate_batch(self, assignments: Any) -> Any:
        self.seen += list(assignments)
        return self.inner.evaluate_batch(assignments)


@pytest.mark.parametrize("name", ["rnn", "post", "gdp"])
def test_heuristics_are_evaluated_first(name: str) -> None:
    env = limited()
    agent, seen = make(name, env, begin_with="heuristics"), []
    agent.env.envs.env.backend = Recorder(env.backend, seen)
    agent.learn(10)
    starts = propose_first(env, "heuristics")
    fitting = [one for one in starts if not env.problem.infeasibility(one)]
    for start in fitting[:10]:
        assert any(np.array_equal(start, one) for one in seen)


def test_the_papers_form_sees_neither_times_nor_limits() -> None:
    names = [key for key, _ in make("rnn", limited(), preset="paper").policy.named_parameters()]
    assert not any(key.startswith("preferences") for key in names)
    post = make("post", limited(), preset="paper").policy
    assert not post.options.runs
    assert not bool(post.logits.any())
    assert not make_placeto(limited(), 0, preset="paper").policy.options.devices
    go = make("gdp", limited(), preset="paper")
    assert not go.policy.options.devices
    assert not go.policy.proposals


def test_placeto_starts_from_the_best_of_heuristics() -> None:
    env = limited()
    agent = make_placeto(env, 0, begin_with="heuristics")
    start = agent.env.reset()["placement"][0]
    proposed = propose_first(env, "heuristics")
    speedup, feasible = env.backend.evaluate_batch(proposed)
    reached = env.backend.evaluate(start).speedup
    assert reached == pytest.approx(speedup[feasible].max())


@pytest.mark.parametrize("name", ["hsdag", "rnn", "hdp", "post", "gdp"])
def test_by_default_nothing_is_proposed(name: str) -> None:
    small: dict[str, Any] = SMALL.get(name, {})
    assert not len(agents.make(name, limited(), **small).policy.proposals)


@pytest.mark.parametrize(
    "begin_with", ["nothing", "heuristics", pytest.param("search", marks=pytest.mark.slow)]
)
def test_what_is_proposed_is_distinct_and_fits_after_repair(begin_with: str) -> None:
    env = limited(repair=True)
    proposed = propose_first(env, begin_with)
    assert len({one.tobytes() for one in proposed}) == len(proposed)
    assert bool(len(proposed)) == (begin_with != "nothing")
    assert not any(env.problem.infeasibility(one) for one in proposed)
    assert all(env.name_start(one) for one in proposed)


@pytest.mark.parametrize("name", ["graph-groups", "rnn", "post", "gdp", "placeto", "doppler"])
def test_another_beginning_is_refused_with_the_nearest(name: str) -> None:
    small: dict[str, Any] = SMALL.get(name, {})
    with pytest.raises(UserError, match="did you mean 'heuristics'"):
        agents.make(name, limited(), **small, begin_with="heuristic").learn(10)


@pytest.mark.parametrize(
    ("name", "said"),
    [("saved", "needs a placement file"), ("placeto-transfer", "needs models to train on")],
)
def test_an_agent_says_what_it_needs(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        agents.make(name, limited())
