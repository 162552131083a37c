# White-box tests of agents, agents.graph_groups
"""Windows of the best placement that are drawn anew: what is drawn, and how likely it is."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import SIMULATED, simulated, weights
from torch import Tensor

import agents
from agents.best import BestPlacements
from agents.graph_groups.following import FollowingDevices
from agents.graph_groups.redraw import Redraws, draw_windows
from placement_gym.base import UserError

LEADER = torch.tensor([[0, 0, 1, 1]])
BASE = torch.tensor([2, 0, 1, 0])
WINDOW = torch.tensor([False, True, False, True])
LIMITED = ["CPU", {"name": "GPU", "weight_share": 0.4}]


def whole(rows: int = 1, allowed: Tensor | None = None) -> FollowingDevices:
    torch.manual_seed(0)
    logits, keep = torch.randn(1, 4, 3), torch.randn(1, 4)
    row = torch.zeros(rows, dtype=torch.int64)
    return FollowingDevices(logits, keep, LEADER, torch.ones(1, 4).bool(), allowed, row)


def redrawn(actions: Tensor, **kwargs: Any) -> FollowingDevices:
    rows = len(actions)
    return whole(rows, **kwargs).within(WINDOW.expand(rows, -1), BASE.expand(rows, -1))


def every_redraw() -> Tensor:
    """The placements that have the base's devices outside the window."""
    placements = BASE.repeat(9, 1)
    placements[:, WINDOW] = torch.tensor(list(product(range(3), repeat=2)))
    return placements


def brute_force(placement: Tensor) -> float:
    """Sum over which of the window's units follow: the probability of what they have."""
    devices, total = whole(), 0.0
    own, stay = devices.own.exp()[0], devices.stay.exp()[0]
    units = WINDOW.nonzero().flatten().tolist()
    for follows in product((False, True), repeat=len(units)):
        share = 1.0
        for unit, follow in zip(units, follows, strict=True):
            same = float(placement[unit] == placement[LEADER[0, unit]])
            alone = (1.0 - float(stay[unit])) * float(own[unit, placement[unit]])
            share *= float(stay[unit]) * same if follow else alone
        total += share
    return total


def test_likelihoods_are_those_of_all_ways_to_what_is_in_the_window() -> None:
    placements = every_redraw()
    found = redrawn(placements).log_prob(placements).exp()
    torch.testing.assert_close(found, torch.tensor([brute_force(one) for one in placements]))
    assert found.sum().item() == pytest.approx(1.0)


def test_redraws_are_as_frequent_as_likely_and_keep_the_rest() -> None:
    devices = redrawn(BASE.expand(50_000, -1))
    sampled = devices.get_actions()
    assert (sampled[:, ~WINDOW] == BASE[~WINDOW]).all()
    counts = torch.bincount(sampled[:, WINDOW] @ torch.tensor([3, 1]), minlength=9) / len(sampled)
    likely = redrawn(every_redraw()).log_prob(every_redraw()).exp()
    assert (counts - likely).abs().max() < 4 * (0.25 / len(sampled)) ** 0.5


def test_a_window_of_all_units_is_the_whole_distribution() -> None:
    placements = torch.tensor(list(product(range(3), repeat=4)))
    both = whole(81).within(torch.ones(81, 4).bool(), torch.zeros(81, 4).long())
    torch.testing.assert_close(both.log_prob(placements), whole(81).log_prob(placements))
    torch.testing.assert_close(both.entropy(), whole(81).entropy())


def test_a_device_that_is_not_allowed_is_never_redrawn() -> None:
    allowed = torch.ones(1, 4, 3).bool()
    allowed[0, 3, 0] = False
    many = redrawn(BASE.expand(2_000, -1), allowed=allowed)
    assert (many.get_actions()[:, 3] != 0).all()


def test_windows_are_runs_of_every_size_without_padding() -> None:
    torch.manual_seed(0)
    mask = torch.arange(6).expand(4_000, -1) < 5
    windows = draw_windows(mask)
    assert not windows[:, 5].any()
    assert set(windows.sum(dim=1).tolist()) == {1, 2, 3, 4, 5}
    edges = windows.int().diff(dim=1, prepend=torch.zeros(len(windows), 1).int())
    assert ((edges == 1).sum(dim=1) == 1).all()
    assert windows[windows.sum(dim=1) == 1, :5].any(dim=0).all()


def make(redraw: int | None, **kwargs: Any) -> Any:
    env = simulated(devices=LIMITED, repair=True)
    return agents.make("graph-groups", env, seed=0, policy={"hidden": 16}, redraw=redraw, **kwargs)


def test_what_is_redrawn_is_the_best_placement_after_repair() -> None:
    model = make(20)
    model.learn(80)
    redraws, (best,) = model.policy.redraws, model.best.values()
    assert redraws.best is model.best
    base = simulated(devices=LIMITED)
    assert not base.problem.infeasibility(best.row)
    assert base.backend.evaluate(best.row).speedup == pytest.approx(best.speedup)
    returns = [one["r"] for one in model.ep_info_buffer]
    assert best.speedup == pytest.approx(np.exp(max(returns)), rel=0.01)


def test_draws_differ_from_the_best_placement_in_their_windows() -> None:
    model = make(20)
    model.learn(60)
    seen, redraws = model.policy.obs_to_tensor(model._last_obs)[0], model.policy.redraws
    torch.manual_seed(0)
    actions, windows = redraws.draw(seen, model.policy.decide(seen).distribution)
    (best,) = model.best.values()
    differs = actions.numpy() != best.row
    assert differs.any(axis=1).mean() > 0.9
    assert not differs[~windows.numpy()].any()
    # a graph without a best placement is drawn as a whole
    _, windows = Redraws(BestPlacements()).draw(seen, model.policy.decide(seen).distribution)
    assert windows.all()


def test_learning_is_as_without_it_until_it_begins() -> None:
    learned = []
    for redraw in (None, 60, 40):
        env = gym.make(SIMULATED, model="tiny")
        agent = agents.make("graph-groups", env, seed=0, policy={"hidden": 16}, redraw=redraw)
        learned.append(agent.learn(60))
    off, late, on = map(weights, learned)
    assert torch.equal(off, late)
    assert not torch.equal(off, on)


def test_a_loaded_model_redraws_the_best_placement_of_before(tmp_path: Path) -> None:
    model = make(20).learn(60)
    ((graph, best),) = model.best.items()
    model.save(tmp_path / "model.zip")
    loaded = agents.load(tmp_path / "model.zip", simulated(devices=LIMITED, repair=True))
    assert loaded.best[graph].speedup == best.speedup
    np.testing.assert_array_equal(loaded.best[graph].row, best.row)
    loaded.learn(40, reset_num_timesteps=False)
    assert torch.isfinite(weights(loaded)).all()


def test_what_cannot_be_redrawn_is_refused() -> None:
    with pytest.raises(UserError, match="no option 'redraw'"):
        agents.make("logits", simulated(), seed=0, redraw=100)
    with pytest.raises(UserError, match="horizon=1"):
        make(100, envs={"horizon": 2})
