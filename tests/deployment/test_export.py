# White-box tests of deployment
"""Exports: what is written runs the placement in programs that know OpenVINO alone."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from fakes import diamond_problem
from graphs import problem_on
from processes import run_python
from testbed import worst_relative

from placement_gym.base import FileError, PlacementGymWarning, UserError
from placement_gym.cli import main
from placement_gym.deployment import export, export_phases, export_placement, split_placement
from placement_gym.graph import extract
from placement_gym.hardware import parse_devices
from placement_gym.models import load_model
from placement_gym.problem import Placement, PlacementMismatchError
from placement_gym.workloads import draw, make_request

PROGRAM = """
import sys
sys.path.insert(0, "{folder}")
import numpy as np, openvino as ov, run
compiled = run.compile_model(ov.Core())
request = compiled.create_infer_request()
inputs, outputs = np.load("{folder}/inputs.npz"), {{}}
for step in range({steps}):
    request.infer({{port: inputs[f"{{step}}-{{port}}"] for port in range(len(compiled.inputs))}})
    for port, tensor in enumerate(request.output_tensors):
        outputs[f"{{step}}-{{port}}"] = tensor.data.copy()
np.savez("{folder}/outputs.npz", **outputs)
assert not [name for name in sys.modules if name.startswith("placement_gym")]
print(compiled.get_property("HETERO_NUMBER_OF_SUBMODELS"))
"""


def thirds(name: str, scenario: str | None = None) -> Placement:
    """The first and last third of a model's units on one device, the middle on the other."""
    problem = problem_on(
        extract(load_model(name), "folded", scenario), parse_devices("cpu-testbed")
    )
    return Placement.from_assignment(problem, np.arange(problem.n_units) * 3 // problem.n_units % 2)


def run_alone(
    folder: Path, model: ov.Model, scenario: str, program: str = PROGRAM
) -> tuple[int, float]:
    """Run an export in a program of its own; what it prints and the worst error of any step."""
    steps = draw(make_request(model, scenario or None), model)
    named = {f"{i}-{port}": x for i, step in enumerate(steps) for port, x in enumerate(step)}
    np.savez(folder / "inputs.npz", **named)
    code = program.format(folder=folder, steps=len(steps))
    printed = run_python(code, "-I")
    plain = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = plain.create_infer_request()
    found = np.load(folder / "outputs.npz")
    worst = 0.0
    for i, step in enumerate(steps):
        request.infer(dict(enumerate(step)))
        expected = [tensor.data for tensor in request.output_tensors]
        outputs = [found[f"{i}-{port}"] for port in range(len(expected))]
        worst = max(worst, worst_relative(outputs, expected))
    return int(printed), worst


def test_own_inputs_are_copied_and_the_script_infers_on_them(tmp_path: Path) -> None:
    image = {"image": np.ones((2, 1, 3, 64, 64), np.float32)}
    *_, file = export_placement(thirds("tiny"), tmp_path, inputs=image)
    assert file == tmp_path / "inputs.npz"
    np.testing.assert_array_equal(np.load(file)["image"], image["image"][0])
    assert "on inputs.npz:" in run_python(
        f"import runpy; runpy.run_path('{tmp_path}/run.py', run_name='__main__')", "-I"
    )
    with pytest.raises(UserError, match="would replace"):
        export_placement(thirds("tiny"), tmp_path, inputs=file)
    with pytest.warns(PlacementGymWarning, match="this is with generated inputs"):
        export_placement(replace(thirds("tiny"), inputs="0123"), tmp_path / "other")
    assert "INPUTS = None" in (tmp_path / "other" / "run.py").read_text()


def test_no_requests_and_no_union_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="requests must be an integer of at least 1"):
        export_placement(thirds("tiny"), tmp_path / "none", requests=0)
    assert not (tmp_path / "none").exists()
    with pytest.raises(UserError, match="not a union"):
        split_placement(load_model("tiny"), thirds("tiny"))


@pytest.mark.parametrize("model", ["tiny", "cnn-int8"])
def test_the_script_runs_the_placement_without_this_package(model: str, tmp_path: Path) -> None:
    export_placement(thirds(model), tmp_path)
    n_submodels, error = run_alone(tmp_path, load_model(model), "")
    assert n_submodels >= 3
    assert error < 1e-5


@pytest.mark.parametrize(
    ("model", "scenario"), [("tiny", None), pytest.param("gpt", "chat-8-6", marks=pytest.mark.slow)]
)
def test_the_script_infers_on_zeros_and_prints_a_latency(
    model: str, scenario: str | None, tmp_path: Path
) -> None:
    *_, script, _ = export_placement(thirds(model, scenario), tmp_path)
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    submodels, latency = run_python(code, "-I").splitlines()
    assert submodels.startswith("submodels: ")
    assert re.fullmatch(r"median of 20 inferences on zeros: \d+\.\d\d ms", latency)


def test_a_device_alone_is_exported_without_hetero(tmp_path: Path) -> None:
    problem = problem_on(extract(load_model("tiny")), parse_devices("cpu-testbed"))
    *_, script, _ = export_placement(
        Placement.from_assignment(problem, problem.single(1)), tmp_path
    )
    assert "HETERO" not in script.read_text()
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    assert run_python(code, "-I").splitlines()[0] == "submodels: 1, on CPU_FAST"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt", "gpt-int8", "gpt-int4"])
def test_a_decoder_computes_the_same_step_by_step(model: str, tmp_path: Path) -> None:
    export_placement(thirds(model, "chat-8-6"), tmp_path)
    n_submodels, error = run_alone(tmp_path, load_model(model), "chat-8-6")
    assert n_submodels >= 3
    assert error < 1e-5


QUEUE_PROGRAM = """
import sys
sys.path.insert(0, "{folder}")
import numpy as np, openvino as ov, run
queue = run.make_queue(ov.Core())
assert len(queue) == 3
inputs, outputs = np.load("{folder}/inputs.npz"), {{}}
def keep(request, turn):
    for port, tensor in enumerate(request.output_tensors):
        outputs[f"{{turn}}-{{port}}"] = tensor.data.copy()
queue.set_callback(keep)
for turn in range(6):
    queue.start_async({{0: inputs["0-0"]}}, turn)
queue.wait_all()
for name, array in outputs.items():
    assert np.array_equal(array, outputs["0-" + name.split("-")[1]])
np.savez("{folder}/outputs.npz", **outputs)
print(len(outputs))
"""


def test_a_placement_for_throughput_has_a_queue_of_requests(tmp_path: Path) -> None:
    export_placement(thirds("tiny"), tmp_path, requests=3)
    n_outputs, error = run_alone(tmp_path, load_model("tiny"), "", QUEUE_PROGRAM)
    assert n_outputs == 6
    assert error < 1e-5


REQUESTS_PROGRAM = """
import sys
sys.path.insert(0, "{folder}")
from concurrent.futures import ThreadPoolExecutor
import numpy as np, openvino as ov, run
inputs = np.load("{folder}/inputs.npz")
def decode(request):
    request.reset_state()
    return [
        array.copy()
        for step in range({steps})
        for array in request.infer([inputs[f"{{step}}-{{port}}"] for port in range(3)]).values()
    ]
requests = run.make_requests(ov.Core())
with ThreadPoolExecutor(len(requests)) as pool:
    first, *others = pool.map(decode, requests)
assert all(map(np.array_equal, first * len(others), sum(others, [])))
np.savez("{folder}/outputs.npz", **{{f"{{step}}-0": array for step, array in enumerate(first)}})
print(len(requests))
"""


@pytest.mark.slow
def test_decoder_sequences_run_together_each_on_its_state(tmp_path: Path) -> None:
    export_placement(thirds("gpt", "chat-8-6"), tmp_path, requests=3)
    n_requests, error = run_alone(tmp_path, load_model("gpt"), "chat-8-6", REQUESTS_PROGRAM)
    assert n_requests == 3
    assert error < 1e-5


PHASES_PROGRAM = """
import sys
sys.path.insert(0, "{folder}")
import numpy as np, openvino as ov, run
request = run.Request(ov.Core())
inputs, outputs = np.load("{folder}/inputs.npz"), {{}}
for turn in range(2):
    request.reset_state()
    for step in range({steps}):
        named = {{port: inputs[f"{{step}}-{{port}}"] for port in range(3)}}
        request.infer(named)
        for port, tensor in enumerate(request.output_tensors):
            outputs[f"{{step}}-{{port}}"] = tensor.data.copy()
np.savez("{folder}/outputs.npz", **outputs)
assert not [name for name in sys.modules if name.startswith("placement_gym")]
print(len(request.decode.query_state()))
"""


@pytest.mark.slow
def test_decoder_of_two_placements_computes_the_same(tmp_path: Path) -> None:
    decode = thirds("gpt", "chat-8-6")
    devices = [device.name for device in decode.devices]
    prefill = replace(decode, units=dict.fromkeys(decode.units, devices[1]))
    script, *_ = export_phases(prefill, decode, tmp_path)
    assert script == tmp_path / "run.py"
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    assert "median of 20 prompts" in run_python(code, "-I")
    n_states, error = run_alone(tmp_path, load_model("gpt"), "chat-8-6", PHASES_PROGRAM)
    assert n_states == 8
    assert error < 1e-5


@pytest.mark.slow
def test_compressed_weights_stay_compressed(tmp_path: Path) -> None:
    export_placement(thirds("gpt-int8", "chat"), tmp_path / "int8")
    export_placement(thirds("gpt", "chat"), tmp_path / "f32")
    sizes = [(tmp_path / kind / "model.bin").stat().st_size for kind in ("int8", "f32")]
    assert sizes[0] < sizes[1] / 2


def test_affinities_name_every_node_and_no_alias(tmp_path: Path) -> None:
    model, *_, path = export_placement(thirds("gpt"), tmp_path, split="alias")
    affinities = json.loads(path.read_text())
    assert set(affinities.values()) == {"CPU", "CPU_FAST"}
    read = ov.Core().read_model(model)
    assert {node.get_friendly_name() for node in read.get_ops()} == set(affinities)
    own = json.loads(read.get_rt_info(["placement_gym", "affinities"]).astype(str))
    assert set(own) == set(affinities)
    assert "CPU_ALIAS1" in own.values()


def test_names_of_a_foreign_placement_never_become_code(tmp_path: Path) -> None:
    evil = 'CPU""" and open(0) and """'
    placement = thirds("tiny")
    devices = tuple(replace(one, name=evil, plugin="") for one in placement.devices[:1])
    units = dict.fromkeys(placement.units, evil)
    *_, script, _ = export_placement(replace(placement, devices=devices, units=units), tmp_path)
    program = ast.parse(script.read_text())
    assert ast.get_docstring(program) == f"Compile tiny on {evil} as planned."
    called = {ast.unparse(one.func) for one in ast.walk(program) if isinstance(one, ast.Call)}
    assert "open" not in called


def test_the_command_writes_the_same_and_lists_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thirds("tiny").save(tmp_path / "placement.json")
    words = ["export", str(tmp_path / "placement.json"), "--out", str(tmp_path / "out")]
    assert main([*words, "--requests", "4"]) == 0
    assert "requests: int = 4" in (tmp_path / "out" / "run.py").read_text()
    listed = capsys.readouterr().out.split()
    assert [Path(one).name for one in listed] == [
        "model.xml",
        "model.bin",
        "run.py",
        "affinities.json",
    ]
    assert all(Path(one).is_file() for one in listed)


def test_an_export_that_cannot_be_finished_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, text: str) -> None:
        raise FileError(f"cannot write {str(path)!r}: No space left on device")

    placement = thirds("tiny")
    export_placement(placement, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(export, "write_text", refuse)
    with pytest.raises(FileError, match=f"cannot write '{tmp_path}/run.py'"):
        export_placement(thirds("cnn-int8"), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_placement_of_another_model_is_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(PlacementMismatchError):
        export_placement(thirds("tiny"), tmp_path, model="bert-8")
    assert not list(tmp_path.iterdir())


def test_a_placement_of_a_file_needs_the_file(tmp_path: Path) -> None:
    problem = diamond_problem()
    strange = replace(Placement.from_assignment(problem, problem.single(0)), model="mine")
    with pytest.raises(UserError, match=r"made for a file: name it by --model FILE.*'mine'"):
        export_placement(strange, tmp_path)


def test_names_that_no_file_can_hold_are_replaced(tmp_path: Path) -> None:
    model = load_model("tiny")
    for number, node in enumerate(model.get_ordered_ops()):
        node.set_friendly_name(f"node\0{number}")
    problem = problem_on(extract(model, "folded"), parse_devices("cpu-testbed"))
    export_placement(
        Placement.from_assignment(problem, np.arange(problem.n_units) % 2), tmp_path, model
    )
    submodels, error = run_alone(tmp_path, load_model("tiny"), "")
    assert submodels > 1
    assert error < 1e-4
