"""The decoder with experts: which are chosen, and experts that a full device leaves elsewhere."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray
from testbed import needs_two_cores

import placement_gym
from placement_gym.base import UserError
from placement_gym.models import load_model
from placement_gym.problem import Placement
from placement_gym.solvers import fill_in_order

PLAIN = {"INFERENCE_PRECISION_HINT": "f32"}


def answer(compiled: ov.CompiledModel) -> list[NDArray[Any]]:
    """The outputs for six tokens."""
    places = np.arange(6)[None]
    inputs = {"input_ids": places, "attention_mask": np.ones_like(places), "position_ids": places}
    return [value.copy() for value in compiled.create_infer_request().infer(inputs).values()]


def test_two_experts_answer_each_token_in_shares_that_add_up_to_one() -> None:
    model = load_model("moe-3")
    (node,) = [one for one in model.get_ops() if one.get_friendly_name() == "layer0/router/gates"]
    model.add_outputs(node.output(0))
    _, gates = answer(ov.Core().compile_model(model, "CPU", PLAIN))
    assert (np.count_nonzero(gates, axis=2) == 2).all()
    np.testing.assert_allclose(gates.sum(axis=2), 1.0, rtol=1e-5)
    assert len({tuple(np.flatnonzero(row)) for row in gates[0]}) > 1


@pytest.mark.parametrize("name", ["moe-1", "moe-129"])
def test_a_token_takes_two_of_the_experts_that_there_are(name: str) -> None:
    with pytest.raises(UserError, match="2 to 128 experts"):
        load_model(name)


@needs_two_cores
def test_experts_leave_a_full_device_and_all_else_stays() -> None:
    """CPU_FAST holds half of the weights, of which two thirds are experts'."""
    env = placement_gym.placement_env(
        gym.make(
            "DevicePlacementSim-v0",
            model="moe-4",
            devices="cpu-testbed-limited",
            scenario="chat-6-1",
        )
    )
    problem, placed = env.problem, fill_in_order(env.problem, env.cost_table(), "fit")
    elsewhere = [
        name for name, device in zip(problem.units.names, placed, strict=True) if not device
    ]
    assert elsewhere
    assert all("/expert" in name for name in elsewhere)
    assert 0.4 < problem.memory_bytes(placed)[1] / problem.total_bytes <= 0.5
    assert problem.infeasibility(placed) == ""
    model = load_model("moe-4")
    compiled = placement_gym.compile_model(
        ov.Core(), model, Placement.from_assignment(problem, placed)
    )
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == problem.count_submodels(placed)
    (plain,), (found,) = answer(ov.Core().compile_model(model, "CPU", PLAIN)), answer(compiled)
    np.testing.assert_allclose(found, plain, atol=1e-3)
