# White-box tests of deployment
"""A placement of a file fits the model that a program has read from it, whatever its names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from foreign_models import save_residual_onnx
from openvino import opset13 as ops
from openvino.preprocess import PrePostProcessor, ResizeAlgorithm
from tensorflow_files import save_pb, save_tflite

from placement_gym import load_model
from placement_gym.backends.simulated import build_simulated_problem
from placement_gym.deployment import (
    apply_placement,
    compile_model,
    compile_stages,
    export_placement,
)
from placement_gym.deployment.compile import cut, prepare_for
from placement_gym.models import ModelSpec
from placement_gym.problem import Placement, PlacementMismatchError

Read = Callable[[Path], ov.Model]


def save_residual_xml(path: Path) -> Path:
    model = ov.Core().read_model(save_residual_onnx(path.with_suffix(".onnx")))
    ov.save_model(model, path, compress_to_fp16=False)
    return path


WRITERS = {
    ".xml": save_residual_xml,
    ".onnx": save_residual_onnx,
    ".pb": save_pb,
    ".tflite": save_tflite,
}
READERS: dict[str, Read] = {
    "read_model": lambda file: ov.Core().read_model(file),
    "clone": lambda file: ov.Core().read_model(file).clone(),
    "load_model": load_model,
    "clone of load_model": lambda file: load_model(file).clone(),
}


@pytest.fixture(scope="module", params=WRITERS)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(WRITERS[request.param](tmp_path_factory.mktemp("files") / f"net{request.param}"))


@pytest.fixture(scope="module")
def placement(file: Path) -> Placement:
    return place(file)


def place(model: Path | ov.Model, **kwargs: object) -> Placement:
    """Every second operator on the second device."""
    spec = ModelSpec(str(model) if isinstance(model, Path) else model, "op", **kwargs)  # type: ignore[arg-type]
    problem = build_simulated_problem(spec, "cpu-testbed").problem
    return Placement.from_assignment(problem, np.arange(problem.n_units) % 2, spec.graph)


def names(model: ov.Model) -> list[str]:
    return [node.get_friendly_name() for node in model.get_ops()]


def list_devices(model: ov.Model, placement: Placement) -> list[tuple[str, int]]:
    """Type and device of each operator."""
    graph, _ = cut(prepare_for(placement, model), placement)
    return list(zip(graph.types, placement.operator_devices(graph).tolist(), strict=True))


def check_outputs(model: ov.Model, placement: Placement) -> ov.CompiledModel:
    """Raise unless a model computes under a placement what it computes on one device."""
    core, rng = ov.Core(), np.random.default_rng(0)
    compiled = compile_model(core, model, placement)
    (port,) = model.inputs
    data = (200 * rng.random(port.shape)).astype(port.element_type.to_dtype())
    alone = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for found, expected in zip(compiled(data).values(), alone(data).values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return compiled


@pytest.mark.parametrize("reader", READERS)
def test_a_placement_fits_each_way_of_reading_its_file(
    file: Path, placement: Placement, reader: str
) -> None:
    model = READERS[reader](file)
    assert list_devices(model, placement) == list_devices(load_model(file), placement)
    apply_placement(model, placement)
    assert {node.get_rt_info()["affinity"].astype(str) for node in model.get_ops()} == {
        "CPU",
        "CPU_FAST",
    }


@pytest.mark.parametrize("suffix", [".onnx", ".pb", ".tflite"])
def test_a_placement_of_a_file_fits_what_openvino_converts_it_to(
    tmp_path: Path, suffix: str
) -> None:
    file = WRITERS[suffix](tmp_path / f"net{suffix}")
    compiled = check_outputs(ov.convert_model(file), place(file))
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") > 1


@pytest.mark.parametrize("suffix", [".xml", ".onnx"])  # OpenVINO reads no bytes of others
def test_a_placement_fits_the_bytes_of_its_file(tmp_path: Path, suffix: str) -> None:
    file = Path(WRITERS[suffix](tmp_path / f"net{suffix}"))
    weights = file.with_suffix(".bin").read_bytes() if suffix == ".xml" else b""
    model, placement = ov.Core().read_model(file.read_bytes(), weights), place(file)
    assert list_devices(model, placement) == list_devices(load_model(file), placement)


def test_a_file_has_the_same_names_each_time_that_it_is_loaded(file: Path) -> None:
    first, second = load_model(file), load_model(file)
    assert names(first) == names(second)


def test_a_placement_of_a_model_in_memory_fits_its_file(file: Path, placement: Placement) -> None:
    in_memory = place(ov.Core().read_model(file).clone())
    assert list_devices(load_model(file), in_memory) == list_devices(load_model(file), placement)


def test_a_file_is_exported_and_compiled_in_stages(
    file: Path, placement: Placement, tmp_path: Path
) -> None:
    assert len(export_placement(placement, tmp_path / "out", str(file))) == 4
    model = ov.Core().read_model(file).clone()
    (port,) = model.inputs
    request = compile_stages(ov.Core(), model, placement).create_infer_request()
    request.infer([np.ones(port.shape, np.float32)])


def preprocess(model: ov.Model) -> ov.Model:
    """Take images of bytes and another size and order of axes, and return half precision."""
    processor = PrePostProcessor(model)
    image, result = processor.input(), processor.output()
    batch, height, width, channels = image_shape = list(model.inputs[0].shape)
    image.tensor().set_element_type(ov.Type.u8).set_shape([batch, 2 * height, 2 * width, channels])
    image.tensor().set_layout(ov.Layout("NHWC"))
    image.model().set_layout(ov.Layout("NHWC"))
    image.preprocess().convert_element_type(ov.Type.f32).resize(ResizeAlgorithm.RESIZE_LINEAR)
    image.preprocess().mean(3.0).scale([2.0] * image_shape[-1])
    result.tensor().set_element_type(ov.Type.f16)
    return processor.build()


@pytest.mark.parametrize("suffix", [".pb", ".tflite"])
@pytest.mark.parametrize("view", ["folded", "raw"])
def test_preprocessing_follows_its_neighbours(tmp_path: Path, suffix: str, view: str) -> None:
    file = WRITERS[suffix](tmp_path / f"net{suffix}")
    placement = place(file, graph=view)
    plain, changed = load_model(file), preprocess(ov.Core().read_model(file))
    before, after = list_devices(plain, placement), list_devices(changed, placement)
    graph, _ = cut(prepare_for(placement, changed), placement)
    flowing = [
        (kind, device)
        for (kind, device), follows in zip(after, graph.follows.tolist(), strict=True)
        if not follows
    ]
    core = [row for row in before if row[0] not in ("Constant", "Parameter", "Result")]
    kept = [
        row for row in flowing if row[0] not in ("Convert", "Interpolate", "Subtract", "Multiply")
    ]
    assert kept == core
    first, last = flowing[: flowing.index(core[0])], flowing[-1]
    assert {device for _, device in first} == {core[0][1]}
    assert last == ("Convert", core[-1][1])
    check_outputs(changed, placement)


def twins(names: str, swapped: bool = False) -> ov.Model:
    """Two equal branches of one input, whose results come in either order."""
    x = ops.parameter([1, 8], np.float32, name="x")
    ends = []
    for branch in names:
        hidden = ops.matmul(x, np.eye(8, dtype=np.float32), False, False, name=f"{branch}/a")
        hidden = ops.relu(hidden, name=f"{branch}/b")
        hidden = ops.matmul(hidden, np.eye(8, dtype=np.float32), False, False, name=f"{branch}/c")
        ends.append(ops.relu(hidden, name=f"{branch}/d"))
    results = [ops.result(end) for end in ends]
    return ov.Model(results[::-1] if swapped else results, [x], "twins")


@pytest.mark.parametrize("swapped", [False, True])
def test_branches_that_are_alike_stay_whole(swapped: bool) -> None:
    problem = build_simulated_problem(ModelSpec(twins("pq"), "op"), "cpu-testbed").problem
    assignment = np.array([name.startswith("q") for name in problem.units.names], dtype=np.int64)
    placement = Placement.from_assignment(problem, assignment)
    other = twins("rs", swapped)
    graph, partition = cut(prepare_for(placement, other), placement)
    devices = dict(zip(graph.names, placement.operator_devices(graph).tolist(), strict=True))
    assert sorted({devices[f"{branch}/a"] for branch in "rs"}) == [0, 1]
    for branch in "rs":
        assert len({devices[f"{branch}/{letter}"] for letter in "abcd"}) == 1
    assert partition.n_submodels == 2


@pytest.mark.parametrize("suffix", [".pb", ".tflite"])
def test_another_model_is_refused_with_the_first_place_that_differs(
    tmp_path: Path, suffix: str
) -> None:
    placement = place(WRITERS[suffix](tmp_path / f"net{suffix}"))
    writer = {".pb": save_pb, ".tflite": save_tflite}[suffix]
    other = ov.Core().read_model(writer(tmp_path / f"wider{suffix}", 8))
    place_of_difference = (
        r"first difference is 'Convolution_\d+' \(Convolution f32\[1,8,8,8\] 864 B\), where the "
        r"placement has 'Convolution/added3' \(Convolution f32\[1,4,8,8\] 432 B\)"
    )
    with pytest.raises(PlacementMismatchError, match=place_of_difference) as caught:
        apply_placement(other, placement)
    assert "docs/how_to/own_problem.md" in str(caught.value)
    assert "Load the model with the shapes" in str(caught.value)
    x = ops.parameter([1, 8], np.float32, name="x")
    with pytest.raises(PlacementMismatchError, match="'other' differs"):
        apply_placement(ov.Model([ops.result(ops.relu(x))], [x], "other"), placement)


def test_a_model_with_smaller_weights_is_refused() -> None:
    placement = place(load_model("tiny"))
    message = r"difference is 'stem/conv' .* 3456 B\), .*compressed to f16.* or plan this one\. Wh"
    with pytest.raises(PlacementMismatchError, match=message):
        apply_placement(load_model("tiny-fp16"), placement)


@pytest.mark.parametrize("suffix", [".xml", ".onnx"])
def test_files_of_version_0_3_fit_by_the_names_that_openvino_counts(
    tmp_path: Path, suffix: str
) -> None:
    file = WRITERS[suffix](tmp_path / f"net{suffix}")
    old = replace(place(file), structure=None)
    old.save(tmp_path / "old.json")
    assert "structure" not in (tmp_path / "old.json").read_text()
    loaded = Placement.load(tmp_path / "old.json")
    for model in (ov.Core().read_model(file), ov.Core().read_model(file).clone()):
        before = names(model)
        assert list_devices(model, loaded) == list_devices(load_model(file), loaded)
        assert names(model) == before
        apply_placement(model, loaded)
    with pytest.raises(PlacementMismatchError, match="plan it again"):
        apply_placement(load_model("tiny"), loaded)


def save_flattened(path: Path) -> Path:
    """Write an IR whose Reshape before a MatMul OpenVINO rewrites as the model is reshaped."""
    x = ops.parameter([-1, 3, -1, -1], np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    pool = ops.reduce_mean(x, ops.constant([2, 3]), True, name="pool")
    flat = ops.reshape(pool, ops.constant([0, -1]), True, name="flat")
    last = ops.matmul(flat, np.ones((3, 2), np.float32), False, False, name="last")
    ov.save_model(ov.Model([ops.result(last)], [x], "flattened"), path, compress_to_fp16=False)
    return path


@pytest.mark.parametrize("version", ["0.3", "now"])
def test_reshaped_model_fits_a_placement_with_these_shapes(tmp_path: Path, version: str) -> None:
    file = save_flattened(tmp_path / "flattened.xml")
    placement = place(file, shapes={"x": [1, 3, 4, 4]})
    if version == "0.3":
        placement = replace(placement, structure=None)
    for _ in range(2):
        model = ov.Core().read_model(file)
        model.reshape([1, 3, 4, 4])
        apply_placement(model, placement)
    other = ov.Core().read_model(file)
    other.reshape([2, 3, 4, 4])
    with pytest.raises(PlacementMismatchError, match=r"shapes=\{\.\.\.\}"):
        apply_placement(other, placement)
