"""Programs that exports contain; they need OpenVINO alone."""

OWN_INPUTS = 'Path(__file__).with_name("inputs.npz")'

REGISTER = """    available = {{name.split(".")[0] for name in core.available_devices}}
    for name, library in {plugins}.items():
        if name not in available:
            core.register_plugin(library, name)
"""

EXTENSION = """    core.add_extension(path.with_name({library}))
"""
SUBMODELS = 'compiled.get_property("HETERO_NUMBER_OF_SUBMODELS")'

QUEUE = """

def make_queue(core: ov.Core, requests: int = {requests}):
    return ov.AsyncInferQueue(compile_model(core), requests)
"""

REQUESTS = """

def make_requests(core: ov.Core, requests: int = {requests}):
    compiled = compile_model(core)
    return [compiled.create_infer_request() for _ in range(requests)]
"""

MODEL = """{about}
import json
import time
from pathlib import Path

import numpy as np
import openvino as ov

INFERENCES = 20
INPUTS = {inputs}
SHAPES = {shapes}


def compile_model(core: ov.Core, path: Path = Path(__file__).with_name("model.xml")):
{register}    model = core.read_model(path)
    affinities = json.loads(model.get_rt_info({key}).astype(str))
    for node in model.get_ops():
        node.get_rt_info()["affinity"] = affinities[node.get_friendly_name()]
    settings = (
{properties}
    )
    return core.compile_model(model, {target}, settings)
{in_flight}

def make_inputs(compiled: ov.CompiledModel):
    # the arrays of inputs.npz, or zeros
    arrays = np.load(INPUTS) if INPUTS else {{}}
    tensors = []
    for (name, shape), port in zip(SHAPES.items(), compiled.inputs):
        if port.element_type == ov.Type.string and name in arrays:
            tensors.append(ov.Tensor(arrays[name]))
            continue
        shape = arrays[name].shape if name in arrays and port.element_type.bitwidth >= 8 else shape
        tensors.append(ov.Tensor(port.element_type, ov.Shape(shape)))
        if port.element_type != ov.Type.string:
            tensors[-1].data[...] = arrays[name] if name in arrays else 0
    return tensors


def time_inferences(request: ov.InferRequest, inputs: list, inferences: int = INFERENCES):
    times_ms = []
    for _ in range(inferences):
        request.reset_state()
        started = time.perf_counter()
        request.infer(inputs)
        times_ms.append(1e3 * (time.perf_counter() - started))
    return times_ms


if __name__ == "__main__":
    compiled = compile_model(ov.Core())
    parts = {parts}
    print(f"submodels: {{parts}}, on {{', '.join(compiled.get_property('EXECUTION_DEVICES'))}}")
    _, *times_ms = time_inferences(
        compiled.create_infer_request(), make_inputs(compiled), 1 + INFERENCES
    )
    what = INPUTS.name if INPUTS else "zeros"
    print(f"median of {{INFERENCES}} inferences on {{what}}: {{np.median(times_ms):.2f}} ms")
"""

PHASES = '''{about}
import runpy
from pathlib import Path

import numpy as np
import openvino as ov

INFERENCES = 20


class Request:
    """Runs the first inference after ``reset_state`` in prefill/, all others in decode/."""

    def __init__(self, core: ov.Core, folder: Path = Path(__file__).parent):
        scripts = [runpy.run_path(str(folder / one / "run.py")) for one in ("prefill", "decode")]
        models = [script["compile_model"](core) for script in scripts]
        self.inputs = scripts[0]["make_inputs"](models[0])
        self.time_inferences = scripts[0]["time_inferences"]
        self.prefill, self.decode = (model.create_infer_request() for model in models)
        self.current = None

    def reset_state(self):
        self.prefill.reset_state()
        self.decode.reset_state()
        self.current = None

    def infer(self, inputs):
        if self.current is self.prefill:
            state = {{one.name: one.state for one in self.prefill.query_state()}}
            for one in self.decode.query_state():
                one.state = state[one.name]
        self.current = self.prefill if self.current is None else self.decode
        return self.current.infer(inputs)


if __name__ == "__main__":
    request = Request(ov.Core())
    states = len(request.prefill.query_state())
    print(f"{{states}} states are transferred after the prompt")
    _, *times_ms = request.time_inferences(request, request.inputs, 1 + INFERENCES)
    print(f"median of {{INFERENCES}} prompts: {{np.median(times_ms):.2f}} ms")
'''

POOL = "from concurrent.futures import ThreadPoolExecutor\n"

UNION = """{about}
import runpy
import time
{pool}from pathlib import Path

import openvino as ov

RATES = {rates}
REQUESTS = {requests}
ROUNDS = 20


def read_scripts(folder: Path = Path(__file__).parent):
    return {{name: runpy.run_path(str(folder / name / "run.py")) for name in RATES}}


def compile_models(core: ov.Core, folder: Path = Path(__file__).parent):
    return {{
        name: script["compile_model"](core, folder / name / "model.xml")
        for name, script in read_scripts(folder).items()
    }}

{serve}

if __name__ == "__main__":
    scripts, models = read_scripts(), compile_models(ov.Core())
    inputs = {{name: scripts[name]["make_inputs"](model) for name, model in models.items()}}
    run_rounds(models, inputs, 1)
    started = time.perf_counter()
    run_rounds(models, inputs, ROUNDS)
    seconds = time.perf_counter() - started
    for name, rate in RATES.items():
        print(f"{{name}}: {{rate * ROUNDS / seconds:.1f}} a second")
"""

UNION_QUEUES = """
def make_queues(models: dict, requests: int = REQUESTS):
    return {
        name: ov.AsyncInferQueue(model, requests * RATES[name]) for name, model in models.items()
    }


def run_rounds(models: dict, inputs: dict, rounds: int):
    queues = make_queues(models)
    for _ in range(rounds):
        for name, queue in queues.items():
            for _ in range(RATES[name]):
                queue.start_async(dict(enumerate(inputs[name])))
    for queue in queues.values():
        queue.wait_all()
"""

UNION_THREADS = """
def make_requests(models: dict, requests: int = REQUESTS):
    return {
        name: [model.create_infer_request() for _ in range(requests * RATES[name])]
        for name, model in models.items()
    }


def serve(request: ov.InferRequest, zeros: list, sequences: int):
    for _ in range(sequences):
        request.reset_state()
        request.infer(zeros)


def run_rounds(models: dict, inputs: dict, rounds: int):
    jobs = [
        (request, inputs[name], len(range(number, RATES[name] * rounds, len(own))))
        for name, own in make_requests(models).items()
        for number, request in enumerate(own)
    ]
    with ThreadPoolExecutor(len(jobs)) as threads:
        list(threads.map(serve, *zip(*jobs)))
"""
