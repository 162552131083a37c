"""One categorical distribution for all units."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical

from agents.common import FORBIDDEN, UnitCategorical, intersect_followers

B, N, D = 3, 5, 4


def logits(seed: int = 0) -> Tensor:
    return torch.randn(B, N, D, generator=torch.Generator().manual_seed(seed))


def test_log_probabilities_are_of_independent_categoricals() -> None:
    actions = torch.randint(D, (B, N))
    expected = Categorical(logits=logits())
    distribution = UnitCategorical(logits())
    torch.testing.assert_close(distribution.log_prob(actions), expected.log_prob(actions).sum(1))
    torch.testing.assert_close(distribution.entropy(), expected.entropy().sum(1))
    torch.testing.assert_close(distribution.mode(), logits().argmax(-1))


def test_samples_follow_the_probabilities() -> None:
    torch.manual_seed(0)
    wide = logits()[:1].expand(20_000, N, D)
    counts = torch.nn.functional.one_hot(UnitCategorical(wide).sample(), D).float().mean(0)
    torch.testing.assert_close(counts, logits()[0].softmax(-1), atol=0.02, rtol=0.0)


def test_padding_has_neither_likelihood_nor_entropy() -> None:
    weight = torch.tensor([[True, True, True, False, False]]).expand(B, N)
    padded, short = UnitCategorical(logits(), weight), UnitCategorical(logits()[:, :3])
    actions = torch.randint(D, (B, N))
    torch.testing.assert_close(padded.log_prob(actions), short.log_prob(actions[:, :3]))
    torch.testing.assert_close(padded.entropy(), short.entropy())


def test_followers_go_where_their_leader_goes_and_decide_nothing() -> None:
    leader = torch.tensor([[0, 0, 2, 2, 0]]).expand(B, N)
    leads = leader == torch.arange(N)
    distribution = UnitCategorical(logits(), leads, leader)
    for actions in (distribution.sample(), distribution.mode()):
        assert (actions == actions.gather(1, leader)).all()
    decided = UnitCategorical(logits()[:, [0, 2]])
    torch.testing.assert_close(distribution.log_prob(actions), decided.log_prob(actions[:, [0, 2]]))


def test_what_is_not_allowed_is_never_chosen() -> None:
    torch.manual_seed(1)
    allowed = torch.rand(B, N, D) < 0.5
    allowed[..., 0] |= ~allowed.any(-1)
    distribution = UnitCategorical(logits(), allowed=allowed)
    for _ in range(50):
        assert allowed.gather(-1, distribution.sample()[..., None]).all()
    assert allowed.gather(-1, distribution.mode()[..., None]).all()
    assert torch.isfinite(distribution.entropy()).all()


def test_a_leader_may_do_what_all_its_followers_may() -> None:
    allowed = torch.tensor([[[1, 1, 0], [0, 1, 1], [1, 1, 1]]], dtype=torch.bool)
    leader = torch.tensor([[0, 0, 2]])
    both = intersect_followers(allowed, leader, leader.shape[1])
    assert both[0, 0].tolist() == [False, True, False]
    assert both[0, 2].tolist() == [True, True, True]


def test_rows_of_a_state_are_as_if_each_had_its_own() -> None:
    torch.manual_seed(2)
    row = torch.tensor([0, 2, 2, 1, 0])
    weight, leader = torch.rand(B, N) < 0.7, torch.arange(N).expand(B, N)
    shared = UnitCategorical(logits(), weight, leader, row=row)
    own = UnitCategorical(logits()[row], weight[row], leader[row])
    actions = torch.randint(D, (5, N))
    for name in ("log_prob", "unit_log_prob"):
        torch.testing.assert_close(getattr(shared, name)(actions), getattr(own, name)(actions))
    torch.testing.assert_close(shared.entropy(), own.entropy())
    assert torch.equal(shared.mode(), own.mode())


def test_what_a_mask_forbids_is_not_permitted() -> None:
    allowed = torch.ones(1, N, D, dtype=torch.bool)
    allowed[0, 2, 1] = False
    distribution = UnitCategorical(logits()[:1]).restricted_to(allowed)
    good = torch.zeros(1, N, dtype=torch.long)
    assert distribution.log_prob(good) > FORBIDDEN / 2 > distribution.log_prob(good + 1)


def test_rounding_never_leads_to_a_forbidden_device(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 20_000, 4)
    allowed = torch.ones_like(logits, dtype=torch.bool)
    allowed[..., -1] = False
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.full(*shape, 1.0 - 2.0**-24))
    drawn = UnitCategorical(logits, allowed=allowed).sample()
    assert drawn.max() < 3
