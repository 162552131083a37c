"""Presets of published agents: limits, starts, and the papers' forms."""

from __future__ import annotations

from typing import Any

import pytest
from learned import simulated

import agents
from agents.gdp.agent import make as make_go
from agents.placeto.agent import make as make_placeto
from agents.post.agent import make as make_post
from agents.rnn.agent import make as make_rnn
from agents.rnn.agent import make_hierarchical
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


def test_the_papers_form_sees_neither_times_nor_limits() -> None:
    names = [key for key, _ in make("rnn", limited(), preset="paper").policy.named_parameters()]
    assert not any(key.startswith("preferences") for key in names)
    post = make("post", limited(), preset="paper").policy
    assert not bool(post.logits.any())
    assert not make_placeto(limited(), 0, preset="paper").policy.options.devices
    go = make("gdp", limited(), preset="paper")
    assert not go.policy.options.devices
    assert not go.policy.proposals


@pytest.mark.parametrize("name", ["hsdag", "rnn", "hdp", "post", "gdp"])
def test_by_default_nothing_is_proposed(name: str) -> None:
    small: dict[str, Any] = SMALL.get(name, {})
    assert not len(agents.make(name, limited(), **small).policy.proposals)


@pytest.mark.parametrize(
    ("name", "said"),
    [("saved", "needs a placement file"), ("placeto-transfer", "needs models to train on")],
)
def test_an_agent_says_what_it_needs(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        agents.make(name, limited())
