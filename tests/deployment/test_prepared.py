"""A placement of a file fits the model that a program has read from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from foreign_models import save_residual_onnx
from openvino import opset13 as ops

from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.deployment.compile import apply_placement, cut
from placement_gym.deployment.prepared import prepare_for
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.placement import Placement, PlacementMismatchError


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(save_residual_onnx(tmp_path_factory.mktemp("onnx") / "residual.onnx"))


@pytest.fixture(scope="module")
def placement(file: Path) -> Placement:
    problem = build_simulated_problem(ModelSpec(str(file), "op"), "cpu-testbed").problem
    return Placement.of(problem, np.arange(problem.n_units) % 2)


def names(model: ov.Model) -> list[str]:
    return [node.get_friendly_name() for node in model.get_ops()]


def test_names_that_openvino_counts_are_found_again(file: Path, placement: Placement) -> None:
    first, second = (ov.Core().read_model(file) for _ in range(2))
    assert names(first) != names(second)
    for model in (first, second):
        before = names(model)
        graph, _ = cut(prepare_for(placement, model), placement)
        assert graph.fingerprint() == placement.fingerprint
        assert names(model) == before
        apply_placement(model, placement)


def test_another_model_is_still_refused(placement: Placement) -> None:
    x = ov.opset13.parameter([1, 8], np.float32, name="x")
    other = ov.Model([ov.opset13.relu(x)], [x], "other")
    with pytest.raises(PlacementMismatchError, match="not for 'other'"):
        apply_placement(other, placement)


def save_flattened(path: Path) -> Path:
    """Write an IR whose Reshape before a MatMul OpenVINO rewrites as the model is reshaped."""
    x = ops.parameter([-1, 3, -1, -1], np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    pool = ops.reduce_mean(x, ops.constant([2, 3]), True, name="pool")
    flat = ops.reshape(pool, ops.constant([0, -1]), True, name="flat")
    last = ops.matmul(flat, np.ones((3, 2), np.float32), False, False, name="last")
    ov.save_model(ov.Model([ops.result(last)], [x], "flattened"), path, compress_to_fp16=False)
    return path


def test_reshaped_model_fits_a_placement_with_these_shapes(tmp_path: Path) -> None:
    file = save_flattened(tmp_path / "flattened.xml")
    problem = build_simulated_problem(
        ModelSpec(str(file), "op", shapes={"x": [1, 3, 4, 4]}), "cpu-testbed"
    ).problem
    placement = Placement.of(problem, np.arange(problem.n_units) % 2)
    for _ in range(2):
        model = ov.Core().read_model(file)
        model.reshape([1, 3, 4, 4])
        apply_placement(model, placement)
        assert "ShapeOf_" not in "".join(names(model))
    other = ov.Core().read_model(file)
    other.reshape([2, 3, 4, 4])
    with pytest.raises(PlacementMismatchError, match=r"shapes=\{\.\.\.\}"):
        apply_placement(other, placement)
