# White-box tests of backends.measured
"""Models without state whose dimensions stay dynamic: split, measured and deployed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from control_flow import WIDTH, loop, parameter
from foreign_models import make_encoder, make_token_classifier, ones_of
from numpy.typing import NDArray
from openvino import opset13 as ops
from processes import run_python
from testbed import build_here, worker_of

import placement_gym
from placement_gym.backends.measured import (
    HeteroPartition,
    MeasuredBackend,
    compile_partition,
    relative_error,
)
from placement_gym.backends.measured.hetero import count_submodels
from placement_gym.base import PlacementGymWarning, UserError
from placement_gym.deployment import compile_stages, evaluate_placement, export_placement, plan
from placement_gym.graph import extract
from placement_gym.hardware import parse_devices
from placement_gym.models import ModelSpec, load_model, read_values
from placement_gym.problem import Placement

SIZES = {"input_ids": [2, 5]}
OTHERS = ((1, 3), (3, 7), (2, 5))
SCATTERED: dict[str, tuple[Callable[[], ov.Model], dict[str, Any]]] = {
    "dynamic": (make_encoder, {"inputs": ones_of(SIZES)}),
    "bound in part": (make_encoder, {"shapes": {"input_ids": [1, "1..64"]}}),
    "batch free": (
        make_encoder,
        {"shapes": {"input_ids": ["?", "1..8"]}, "inputs": ones_of(SIZES)},
    ),
    "never zero": (make_token_classifier, {"inputs": ones_of({"x": [1, 7, 16]})}),
}
"""Models with dynamic dimensions, and what is known of these."""


def encoder(**kwargs: Any) -> MeasuredBackend:
    return build_here(ModelSpec(make_encoder(), "op", **kwargs))


def tokens(shape: tuple[int, ...]) -> NDArray[np.int64]:
    return np.random.default_rng(1).integers(0, 8, shape)


def expected(shape: tuple[int, ...]) -> NDArray[Any]:
    """Of one device, computed with static shapes."""
    model = load_model(make_encoder(), shapes={"input_ids": list(shape)})
    plain = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found: NDArray[Any] = plain({0: tokens(shape)})[0]
    return found


def test_split_model_takes_other_sizes_than_the_measured_ones() -> None:
    backend = encoder(inputs=ones_of(SIZES))
    placement = (np.arange(backend.problem.n_units) * 3 // backend.problem.n_units) % 2
    assert not backend.evaluate(placement).error
    chosen = Placement.from_json(Placement.from_assignment(backend.problem, placement).to_json())
    assert chosen.data_shapes == {"input_ids": (2, 5)}
    compiled = placement_gym.compile_model(ov.Core(), make_encoder(), chosen)
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") >= 3
    request = compiled.create_infer_request()
    for shape in OTHERS:
        found = request.infer({0: tokens(shape)})[0]
        assert relative_error([found], [expected(shape)]) < 1e-5
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCATTERED)
def test_scattered_placements_run_and_compute_the_same(kind: str, tmp_path: Path) -> None:
    model, kwargs = SCATTERED[kind]
    file = tmp_path / "model.xml"
    ov.save_model(model(), file, compress_to_fp16=False)
    backend = build_here(ModelSpec(file, "op", **kwargs))
    rng = np.random.default_rng(0)
    for _ in range(6):
        measured = backend.evaluate(rng.integers(0, 2, backend.problem.n_units))
        assert not measured.error
        assert measured.n_submodels == measured.n_submodels_expected
    backend.close()


@pytest.mark.parametrize("kind", ["bound in part", "never zero"])
def test_requests_of_a_scattered_placement_begin(kind: str) -> None:
    model, kwargs = SCATTERED[kind]
    ready = load_model(model(), **kwargs)
    graph = extract(ready, inputs=kwargs.get("inputs"))
    on = np.random.default_rng(0).integers(0, 2, len(graph))
    partition = HeteroPartition.from_assignment(graph, on, parse_devices("cpu-testbed"), True)
    compiled = compile_partition(ov.Core(), ready, graph, partition)
    assert count_submodels(compiled) == partition.n_submodels
    compiled.create_infer_request()


@pytest.mark.slow
def test_a_pipeline_takes_requests_of_several_sizes() -> None:
    backend = encoder(inputs=ones_of(SIZES))
    halves = (np.arange(backend.problem.n_units) * 2 // backend.problem.n_units) % 2
    chosen = Placement.from_assignment(backend.problem, halves)
    request = compile_stages(ov.Core(), make_encoder(), chosen).create_infer_request()
    for shape in OTHERS:
        request.infer(tokens(shape))
        outputs = [read_values(tensor) for tensor in request.output_tensors]
        assert relative_error(outputs, [expected(shape)]) < 1e-5
    backend.close()


PROGRAM = """
import sys
sys.path.insert(0, "{folder}")
import numpy as np, openvino as ov, run
request = run.compile_model(ov.Core()).create_infer_request()
inputs = np.load("{folder}/inputs.npz")
found = {{name: request.infer({{0: inputs[name]}})[0].copy() for name in inputs}}
np.savez("{folder}/outputs.npz", **found)
"""


@pytest.mark.slow
def test_an_export_stays_dynamic_and_runs_with_two_sizes(tmp_path: Path) -> None:
    backend = encoder(inputs=ones_of(SIZES))
    thirds = (np.arange(backend.problem.n_units) * 3 // backend.problem.n_units) % 2
    file, *_ = export_placement(
        Placement.from_assignment(backend.problem, thirds), tmp_path, make_encoder()
    )
    assert str(ov.Core().read_model(file).inputs[0].get_partial_shape()) == "[?,?]"
    named = {f"{a}-{b}": tokens((a, b)) for a, b in OTHERS}
    np.savez(tmp_path / "inputs.npz", **named)
    run_python(PROGRAM.format(folder=tmp_path), "-I")
    found = np.load(tmp_path / "outputs.npz")
    for a, b in OTHERS:
        assert relative_error([found[f"{a}-{b}"]], [expected((a, b))]) < 1e-5
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_dynamic_model_is_planned_evaluated_and_exported(objective: str, tmp_path: Path) -> None:
    file = tmp_path / "encoder.xml"
    ov.save_model(make_encoder(6), file, compress_to_fp16=False)
    document = plan(
        file,
        "cpu-testbed",
        out=tmp_path,
        quiet=True,
        inputs=ones_of(SIZES),
        objective=objective,
        export=tmp_path / "export",
    )
    assert any("input_ids[2,5]" in note for note in document["notes"])
    assert all(not row["error"] for row in document["rows"])
    again = evaluate_placement(file, document["file"], objective=objective, quiet=True)
    assert again["latency_ms"] > 0
    done = subprocess.run([sys.executable, tmp_path / "export" / "run.py"], check=False)
    assert done.returncode == 0


def test_outputs_are_compared_on_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [{"input_ids": tokens(shape)} for shape in OTHERS]
    backend = encoder(inputs=samples)
    half = (np.arange(backend.problem.n_units) * 2 // backend.problem.n_units) % 2
    backend.check_reference()
    shapes = [array.shape[:2] for array in worker_of(backend).reference_outputs.expected]
    assert shapes == list(OTHERS)
    assert not backend.evaluate(half).error
    wrong = [*worker_of(backend).host.samples[:2], [[7 - worker_of(backend).host.samples[2][0][0]]]]
    monkeypatch.setattr(worker_of(backend).host, "samples", wrong)
    assert "outputs differ" in backend.evaluate(half[::-1].copy()).error
    backend.close()


@pytest.mark.filterwarnings("ignore:the data decide how often")
def test_a_count_is_asked_for_before_anything_is_measured() -> None:
    times = ops.parameter([], np.int64, name="times")
    start = parameter(1, WIDTH)
    model = ov.Model([ops.result(loop(start, times))], [start, times], "counted")
    with pytest.raises(UserError, match="'times' decides how much Loop 'loop' computes"):
        build_here(ModelSpec(model, "op"))
    names = [port.get_node().get_friendly_name() for port in model.inputs]
    given = dict(zip(names, (np.ones((1, WIDTH)), 3), strict=True))
    backend = build_here(ModelSpec(model, "op", inputs=given))
    assert not backend.evaluate(backend.problem.single(1)).error
    backend.close()


def test_guessed_integers_are_named_as_a_backend_is_built() -> None:
    flags = ops.parameter([4], np.int32, name="flags")
    model = ov.Model([ops.result(ops.abs(flags))], [flags], "flagged")
    with pytest.warns(PlacementGymWarning, match="the integers of 'flags' are guessed, 0 or 1"):
        build_here(ModelSpec(model, "op")).close()
