# White-box tests of agents.gdp
"""GO's attention: all segments of a layer at once equal one segment after another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from learned import MAKERS, small_go
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from agents.gdp import GOOptions, networks
from agents.gdp.networks import Attention, Neighbours, SegmentAttention, take_largest


def apply_one_by_one(network: SegmentAttention, x: Tensor, context: Tensor) -> Tensor:
    """As the paper describes it: each segment after the one before, layer after layer."""
    memories = [x[..., :0, :] for _ in network.layers]
    done = []
    for part in torch.split(x, network.segment, dim=-2):
        h = part
        for number, layer in enumerate(network.layers):
            assert isinstance(layer, Attention)
            known = torch.cat([memories[number], h], dim=-2)
            memories[number] = known.detach()[..., -network.memory :, :]
            h = attend(layer, h, known[..., : -h.shape[-2], :], context)
        done.append(h)
    return torch.cat(done, dim=-2)


def attend(layer: Attention, x: Tensor, memory: Tensor, context: Tensor) -> Tensor:
    def dense(name: str, x: Tensor) -> Tensor:
        modulated = getattr(layer, name)
        result: Tensor = modulated.dense(x * (1.0 + modulated.gate(context).tanh()))
        return result

    key, value = dense("pair", torch.cat([memory, x], dim=-2)).chunk(2, dim=-1)
    heads = [layer.split(one) for one in (dense("query", x), key, value)]
    read = scaled_dot_product_attention(*heads).transpose(1, 2).reshape(x.shape)
    x = layer.norms[0](x + dense("out", read))
    normed: Tensor = layer.norms[1](x + dense("outer", dense("inner", x).relu()))
    return normed


@pytest.mark.parametrize(
    ("shape", "segment", "memory"),
    [((3,), 4, 4), ((16,), 4, 4), ((23,), 4, 4), ((23,), 4, 6), ((23,), 4, 1), ((2, 23), 3, 5)],
)
@pytest.mark.parametrize("recompute", [False, True])
def test_segments_together_equal_one_after_another(
    shape: tuple[int, ...],
    segment: int,
    memory: int,
    recompute: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(networks, "SEGMENTS_AT_ONCE", 2)
    torch.manual_seed(0)
    if not recompute:
        monkeypatch.setattr(networks, "checkpoint", lambda run, *args, **_: run(*args))
    options = GOOptions(hidden=8, heads=2, segment=segment, memory=memory)
    network = SegmentAttention(options, 2).double()
    x, context = torch.randn(*shape, 8).double(), torch.randn(8).double()
    weight = torch.randn(*shape, 8).double()
    found = [
        differentiate(network, run, x, context, weight) for run in (network, one_by_one(network))
    ]
    torch.testing.assert_close(*found)


def one_by_one(network: SegmentAttention) -> Any:
    return lambda x, context: apply_one_by_one(network, x, context)


def differentiate(
    network: SegmentAttention, run: Any, x: Tensor, context: Tensor, weight: Tensor
) -> list[Tensor]:
    """What is computed, and the gradients of units, graph and weights."""
    inputs = x.clone().requires_grad_(), context.clone().requires_grad_()
    answer = run(*inputs)
    wanted = [*inputs, *network.parameters()]
    return [answer, *torch.autograd.grad((answer * weight).sum(), wanted)]


@pytest.mark.parametrize("algorithm", ["ppo", "reinforce"])
def test_the_first_step_goes_on_from_the_rollout(algorithm: str) -> None:
    model: Any = small_go(make=MAKERS[algorithm], n_epochs=2)
    read: list[bool] = []
    model.policy.encoder.register_forward_hook(lambda *_: read.append(torch.is_grad_enabled()))
    model.learn(20)
    assert read == [True, True]
    anew: Any = small_go(make=MAKERS[algorithm], n_epochs=2)
    train = anew.train
    anew.train = lambda: (anew.policy.clear_caches(), train())
    anew.learn(20)
    for name, value in model.policy.state_dict().items():
        torch.testing.assert_close(value, anew.policy.state_dict()[name])


def test_what_was_read_with_other_weights_is_not_used() -> None:
    model: Any = small_go()
    seen = model.policy.obs_to_tensor(model.env.reset())[0]
    graphs, _ = model.policy.graphs.batch(seen)
    with torch.no_grad():
        model.policy(seen)
        first = model.policy.read(graphs)
        assert model.policy.read(graphs) is first
        next(model.policy.encoder.parameters()).add_(1.0)
        assert model.policy.read(graphs) is not first


def test_the_largest_message_is_the_same_by_both_ways() -> None:
    edges = torch.tensor([[0, 0, 1, 3, 2, 0], [1, 2, 3, 4, 4, 2]])
    neighbours = Neighbours.from_edges(edges, 6)
    weight, found = torch.arange(18.0).reshape(6, 3), []
    for device in ("cpu", "cuda"):
        sent = torch.linspace(0.1, 0.9, 18).reshape(6, 3).requires_grad_()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(networks, "SPARSE_ON", device)
            largest = take_largest(sent, neighbours)
        found.append([largest, *torch.autograd.grad((largest * weight).sum(), sent)])
    torch.testing.assert_close(*found)
    assert not found[0][0][5].any()
