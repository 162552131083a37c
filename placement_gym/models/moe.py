"""Small decoder of ``gpt`` with mixtures of experts, two for each token (Jiang et al. 2024).

Every expert computes every token, and gates of zero drop the others: OpenVINO has no public
operator that skips experts, and branches of an ``If`` cannot be placed. Experts are added one after
another, so neighbours on one device are one submodel.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from placement_gym.base import UserError
from placement_gym.models.builder import Builder
from placement_gym.models.gpt import HIDDEN, SMALL, build_decoder

N_ROUTED, EXPERTS, MAX_EXPERTS = 2, 8, 128
INNER = 2 * SMALL.width
"""Width of an expert."""


def build(compressed: bool = False, bits: int | None = None, experts: int = EXPERTS) -> ov.Model:
    """Build four layers with ``experts`` each; see ``gpt.build``."""
    if not N_ROUTED <= experts <= MAX_EXPERTS:
        raise UserError(f"moe has {N_ROUTED} to {MAX_EXPERTS} experts, not {experts}")
    b = Builder(seed=2024, compressed=compressed, bits=bits)
    return build_decoder(b, SMALL, "moe", lambda b, name, x: mix_experts(b, name, x, experts))


def mix_experts(b: Builder, name: str, x: ov.Node, experts: int) -> ov.Node:
    """Add a layer's experts, and their sum weighted by gates."""
    gates = choose_experts(b, f"{name}/router", x, experts)
    total = None
    for number in range(experts):
        expert = f"{name}/expert{number}"
        index = b.constant(f"{expert}/index", [number])
        gate = b.name(ops.gather(gates, index, b.constant(f"{expert}/axis", 2)), f"{expert}/gate")
        inner = b.name(ops.gelu(b.dense(f"{expert}/inner", x, INNER), "tanh"), f"{expert}/gelu")
        outer = b.dense(f"{expert}/outer", inner, SMALL.width)
        gated = b.name(ops.multiply(outer, gate), f"{expert}/gated")
        total = gated if total is None else b.name(ops.add(total, gated), f"{expert}/sum")
    assert total is not None  # there are experts
    return total


def choose_experts(b: Builder, name: str, x: ov.Node, experts: int) -> ov.Node:
    """Add (1, new tokens, experts) gates: a softmax over the highest scores, else 0."""
    scores = b.dense(name, x, experts)
    highest = ops.topk(scores, b.constant(f"{name}/count", N_ROUTED), -1, "max", "value")
    b.name(highest, f"{name}/highest")
    axes = b.constant(f"{name}/axes", [-1])
    least = b.name(ops.reduce_min(highest.output(0), axes, keep_dims=True), f"{name}/least")
    chosen = b.name(ops.greater_equal(scores, least), f"{name}/chosen")
    hidden = b.constant(f"{name}/hidden", HIDDEN, np.float32)
    masked = b.name(ops.select(chosen, scores, hidden), f"{name}/kept")
    return b.name(ops.softmax(masked, -1), f"{name}/gates")
