# White-box tests of backends.measured
"""Models that the GPU plugin compiles in seconds, as each of them is a few kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from placement_gym.backends.measured import find_supported
from placement_gym.backends.measured.inspector import inspect
from placement_gym.graph import extract, group
from placement_gym.hardware import DeviceSpec
from placement_gym.models import load_model
from placement_gym.problem import Problem


def make_small() -> ov.Model:
    """A chain of three operators: ``double``, ``relu`` and ``scores``, a MatMul."""
    rng = np.random.default_rng(0)
    x = ops.parameter([4, 16], np.float32, name="x")
    double = ops.multiply(x, ops.constant(np.float32(2.0)), name="double")
    relu = ops.relu(double, name="relu")
    weights = ops.constant(rng.normal(size=(16, 8)).astype(np.float32))
    scores = ops.matmul(relu, weights, False, False, name="scores")
    return load_model(ov.Model([scores], [x], "small"))


def make_problem(
    core: ov.Core, devices: Sequence[DeviceSpec], model: ov.Model | None = None
) -> tuple[ov.Model, Problem]:
    """A model, or the small one, and its problem on devices of a core, each operator a unit."""
    model = model or make_small()
    units = group(extract(model), "op")
    found = inspect(model, devices).operators
    return model, Problem(units, tuple(devices), find_supported(units, found))
