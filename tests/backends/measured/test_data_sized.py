# White-box tests of backends.measured
"""Models in which the data decide sizes: found by running once, split anywhere, and deployed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from data_sized import (
    MAKERS,
    SIZES,
    finish,
    make_detector,
    make_picked_rows,
    make_routed_decoder,
)
from numpy.typing import NDArray
from openvino import opset13 as ops
from processes import run_python
from testbed import build_here, worker_of

import placement_gym
from placement_gym.backends.measured import (
    MeasuredBackend,
    TimingProtocol,
    assembly,
    relative_error,
)
from placement_gym.backends.measured.engine import Inspection
from placement_gym.backends.measured.inspector import inspect
from placement_gym.base import PlacementGymWarning, UserError
from placement_gym.deployment import (
    check,
    compile_stages,
    evaluate_placement,
    export_placement,
    plan,
)
from placement_gym.graph import extract
from placement_gym.models import ModelSpec, load_model, read_values
from placement_gym.problem import Placement
from placement_gym.workloads import make_request

Arrays = Sequence[NDArray[Any]]


def build(kind: str, view: str = "folded") -> MeasuredBackend:
    return build_here(ModelSpec(MAKERS[kind](), "op", view, inputs=SIZES.get(kind)))


def run_on(request: Any, inputs: Arrays) -> Arrays:
    request.infer(list(inputs))
    return [read_values(tensor) for tensor in request.output_tensors]


def draw_inputs(model: ov.Model, number: int) -> Arrays:
    """Inputs that are larger or smaller from sample to sample, so that other numbers are found."""
    rng = np.random.default_rng(number)
    shapes = [[size.get_length() if size.is_static else 30 + number for size in port.partial_shape]
              for port in model.inputs]  # fmt: skip
    return [(rng.normal(0.0, 1.0 + number, shape)).astype(np.float32) for shape in shapes]


def expected(model: ov.Model, inputs: Arrays) -> Arrays:
    plain = ov.Core().compile_model(model.clone(), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return run_on(plain.create_infer_request(), inputs)


def assert_same(outputs: Arrays, reference: Arrays) -> None:
    assert [array.shape for array in outputs] == [array.shape for array in reference]
    assert relative_error(outputs, reference) < 1e-5


@pytest.mark.parametrize(
    "kind",
    [kind if kind == "NonZero" else pytest.param(kind, marks=pytest.mark.slow) for kind in MAKERS],
)
def test_both_sides_of_a_choice_are_placed_on_two_devices(kind: str) -> None:
    backend, model = build(kind), MAKERS[kind]()
    graph = backend.problem.units.graph
    first = min(map(graph.names.index, graph.find_deciding()))
    for last_of_cpu in (first - 1, first):
        halves = (np.arange(len(graph)) > last_of_cpu).astype(np.int64)
        measured = backend.evaluate(halves)
        assert not measured.error
        assert measured.n_submodels == measured.n_submodels_expected >= 2
        placement = Placement.from_json(
            Placement.from_assignment(backend.problem, halves).to_json()
        )
        requests = [
            compile_by(ov.Core(), model, placement).create_infer_request()
            for compile_by in (placement_gym.compile_model, compile_stages)
        ]
        for number in range(3):
            inputs = draw_inputs(model, number)
            reference = expected(model, inputs)
            for request in requests:
                assert_same(run_on(request, inputs), reference)
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("view", ["folded", "raw"])
@pytest.mark.parametrize("kind", MAKERS)
def test_scattered_placements_compute_the_same(kind: str, view: str) -> None:
    backend, model = build(kind, view), MAKERS[kind]()
    rng, inputs = np.random.default_rng(0), draw_inputs(model, 1)
    for _ in range(4):
        scattered = rng.integers(0, 2, backend.problem.n_units)
        measured = backend.evaluate(scattered)
        assert not measured.error
        assert measured.n_submodels == measured.n_submodels_expected
        placement = Placement.from_assignment(backend.problem, scattered, view)
        compiled = placement_gym.compile_model(ov.Core(), model, placement)
        assert_same(run_on(compiled.create_infer_request(), inputs), expected(model, inputs))
    backend.close()


def test_sizes_are_those_of_the_sample_inputs_in_both_views() -> None:
    folded, raw = (build("NonZero", view) for view in ("folded", "raw"))
    model = load_model(make_picked_rows())
    deep = expected(model, worker_of(folded).host.samples[0][0])[1]
    for backend in (folded, raw):
        graph = backend.problem.units.graph
        shapes = dict(zip(graph.names, graph.shapes, strict=True))
        assert shapes["picked"] == (1, len(deep))
        assert shapes["taken"] == shapes["deep"] == deep.shape
        backend.close()
    graph = folded.problem.units.graph
    size_bytes = dict(zip(graph.tensors.source.tolist(), graph.tensors.size_bytes, strict=True))
    assert size_bytes[graph.names.index("taken")] == deep.nbytes
    assert graph.flops[graph.names.index("deep")] == deep.size
    assert list(graph.find_deciding()) == ["picked"]


def test_found_sizes_are_no_part_of_the_fingerprint() -> None:
    """A program that compiles the plan has other data, and does not run the model before."""
    backend = build("NonMaxSuppression")
    graph, model = backend.problem.units.graph, load_model(make_detector())
    unknown = extract(model)
    assert unknown.shapes != graph.shapes
    assert unknown.fingerprint() == graph.fingerprint()
    other = [{name: [[1, 3]] * 3 for name in graph.found[0]}]
    other[0] = {**graph.found[0], "nms": [[1, 3], [1, 3], [1]]}
    assert extract(model, found=other).fingerprint() == graph.fingerprint()
    backend.close()


def test_what_finds_nothing_is_said_and_costs_are_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    def inspect_here(spec: ModelSpec, *_: Any, **__: Any) -> tuple[ov.Model, Inspection]:
        model = spec.load()
        return model, inspect(model, (), request=make_request(model))

    monkeypatch.setattr(assembly, "load_and_inspect", inspect_here)
    with pytest.warns(PlacementGymWarning, match="'nms' found nothing on the sample inputs"):
        env = gym.make("DevicePlacementSim-v0", model=MAKERS["finds nothing"](), devices="cpu+dgpu")
    observation, _ = env.reset(seed=0)
    assert all(np.isfinite(array).all() for array in observation.values())
    assert np.isfinite(env.step(env.action_space.sample())[4]["latency_ms"])


def test_models_without_such_operators_are_simulated_without_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(assembly, "inspect_in_new_process")
    gym.make("DevicePlacementSim-v0", model=load_model("tiny"), granularity="op").close()


def test_a_model_that_does_not_run_on_the_samples_is_an_error_with_its_reason() -> None:
    x = ops.parameter([6], np.float32, name="x")
    pattern = ops.parameter([2], np.int64, name="pattern")
    model = finish("values", [x, pattern], ops.relu(ops.reshape(x, pattern, False, name="shaped")))
    with pytest.raises(UserError, match=r"'shaped'.* does not run on the CPU"):
        build_here(ModelSpec(model, "op", inputs={"x": np.ones(6), "pattern": np.array([4, 4])}))


def test_requests_in_flight_of_a_split_detector_agree() -> None:
    protocol = TimingProtocol(warmup=0, repeats=2, objective="throughput")
    backend = build_here(ModelSpec([make_detector(), make_picked_rows()], "op"), protocol=protocol)
    halves = (np.arange(backend.problem.n_units) * 4 // backend.problem.n_units) % 2
    assert not backend.evaluate(halves).error
    backend.close()


def test_a_model_with_state_finds_sizes_at_each_step() -> None:
    backend = build_here(ModelSpec(make_routed_decoder(), "op", scenario="chat-6-4"))
    graph, rng = backend.problem.units.graph, np.random.default_rng(0)
    prompt, *tokens = (shapes["picked"][0][1] for shapes in graph.found)
    assert prompt > 1 >= max(tokens)
    for _ in range(2):
        placement = rng.integers(0, 2, backend.problem.n_units)
        assert not backend.evaluate(placement).error
    backend.close()


@pytest.mark.slow
def test_a_detector_is_checked_planned_evaluated_and_exported(tmp_path: Path) -> None:
    file, folder = tmp_path / "detector.xml", tmp_path / "export"
    ov.save_model(make_detector(), file, compress_to_fp16=False)
    assert not check(file, "cpu-testbed-pair", out=tmp_path, quiet=True)["file"]
    document = plan(file, "cpu-testbed", out=tmp_path, quiet=True, export=folder)
    assert any("output sizes of 'nms'" in note for note in document["notes"])
    assert all(not row["error"] for row in document["rows"])
    assert evaluate_placement(file, document["file"], quiet=True)["latency_ms"] > 0
    backend = build("NonMaxSuppression")
    graph = backend.problem.units.graph
    halves = np.arange(len(graph)) > graph.names.index("nms")
    export_placement(
        Placement.from_assignment(backend.problem, halves.astype(np.int64)), folder, file
    )
    program = f"import runpy; runpy.run_path('{folder}/run.py', run_name='__main__')"
    assert "submodels: 2" in run_python(program, "-I")
    backend.close()
