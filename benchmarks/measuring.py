"""Time that the environment adds to measuring with OpenVINO.

    python benchmarks/measuring.py overhead --model resnet --steps 12
    python benchmarks/measuring.py isolation --model resnet --steps 12

``overhead`` compares steps with plain OpenVINO calls of the same counts, ``isolation`` with steps
that measure in this process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import combinations
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from common import make_parser

import placement_gym  # noqa: F401  registers the environments
from placement_gym.backends.measured import hetero
from placement_gym.backends.measured.assembly import build_measured_backend
from placement_gym.backends.measured.in_process import MeasuredBackend
from placement_gym.backends.measured.isolated import IsolatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.envs.placement_env import placement_env
from placement_gym.hardware.devices import TESTBED
from placement_gym.models.spec import ModelSpec
from placement_gym.workloads.runs import SingleInference


def main() -> None:
    parser = make_parser(__doc__)
    commands: dict[str, Callable[[argparse.Namespace], None]] = {
        "overhead": time_overhead,
        "isolation": time_isolation,
    }
    parser.add_argument("command", choices=commands)
    parser.add_argument("--model", default="tiny", help="built-in model or file (%(default)s)")
    parser.add_argument("--steps", type=int, default=12, help="of each run (%(default)s)")
    options = parser.parse_args()
    commands[options.command](options)


def time_s(action: Callable[..., Any], *arguments: Any) -> float:
    """Seconds that a call takes."""
    started = perf_counter()
    action(*arguments)
    return perf_counter() - started


def count_runs() -> list[int]:
    """A list whose one number grows with each inference from now on."""
    counted, run = [0], SingleInference.run

    def counting(inference: SingleInference) -> None:
        counted[0] += 1
        run(inference)

    SingleInference.run = counting  # type: ignore[method-assign]
    return counted


def time_overhead(options: argparse.Namespace) -> None:
    """Time steps and plain calls of the same counts, and steps on placements that are known."""
    kwargs = {"isolate": False}
    env = gym.make("DevicePlacement-v0", model=options.model, devices="cpu-testbed", **kwargs)
    base = placement_env(env)
    backend = base.backend.inner  # type: ignore[attr-defined]
    env.reset(seed=0)
    outside, seconds, runs = [], [], count_runs()
    for action in sample_windows(base.problem.n_units, options.steps):
        # a step first, as it decides how often it infers
        runs[0], started = 0, perf_counter()
        info = env.step(action)[-1]
        step_s = perf_counter() - started
        bare_s = time_s(call_openvino, backend, find_affinities(backend, action), runs[0])
        outside.append(1 - (info["compile_s"] + info["measure_s"]) / step_s)
        seconds.append((bare_s, step_s, time_s(env.reset), time_s(env.step, action)))
        env.reset()
    bare_s, step_s, reset_s, again_s = np.array(seconds).T
    ratios = step_s / bare_s
    print(f"{options.model}, {options.steps} placements")
    print(f"a step                           {np.median(step_s) * 1e3:9.1f} ms")
    print(f"plain calls with the same counts {np.median(bare_s) * 1e3:9.1f} ms")
    print(f"ratio, pair by pair              {np.median(ratios):9.3f}  "
          f"({ratios.min():.3f} to {ratios.max():.3f})")  # fmt: skip
    print(f"outside compiling and measuring  {np.median(outside) * 100:9.2f} %  "
          f"(at most {max(outside) * 100:.2f} %)")  # fmt: skip
    print(f"reset                            {np.median(reset_s) * 1e3:9.3f} ms")
    print(f"a step on a known placement      {np.median(again_s) * 1e3:9.3f} ms")


def call_openvino(backend: MeasuredBackend, affinities: dict[str, str], inferences: int) -> None:
    """Plain OpenVINO calls for one placement: compile, and infer with it and the reference."""
    names = sorted(set(affinities.values()))
    model = backend.model.clone()
    for node in model.get_ordered_ops():
        node.get_rt_info()["affinity"] = affinities[node.get_friendly_name()]
    settings = {device.name: device.compile_properties() for device in backend.problem.devices}
    properties = {
        name: settings[max((d for d in settings if name.startswith(d)), key=len)] for name in names
    }
    config = {"EXCLUSIVE_ASYNC_REQUESTS": False, "DEVICE_PROPERTIES": properties}
    compiled = backend.core.compile_model(model, f"HETERO:{','.join(names)}", config)
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(backend.steps[0])))
    reference = backend.reference.inferences.request
    for number in range(inferences - 1):
        (request if number % 2 else reference).infer()


def find_affinities(backend: MeasuredBackend, assignment: IntArray) -> dict[str, str]:
    """Node -> device of its affinity."""
    units, devices = backend.problem.units, backend.problem.devices
    placed = assignment[units.of_operator]
    partition = hetero.HeteroPartition.of(units.graph, placed, devices, backend.alias)
    hetero.register(backend.core, tuple(partition.devices.values()))
    return {
        name: partition.targets[submodel]
        for names, submodel in zip(units.graph.members, partition.submodels.tolist(), strict=True)
        for name in names
    }


def sample_windows(n_units: int, count: int) -> list[IntArray]:
    """Distinct placements with one contiguous run on the second device."""
    inner = [(a, b) for a, b in combinations(range(n_units + 1), 2) if b - a < n_units]
    chosen = np.random.default_rng(0).choice(len(inner), min(count, len(inner)), replace=False)
    units = np.arange(n_units)
    return [((units >= a) & (units < b)).astype(np.int64) for a, b in (inner[i] for i in chosen)]


def time_isolation(options: argparse.Namespace) -> None:
    """Measure the same placements in this process and in its own, in turns."""
    alone = build_measured_backend(ModelSpec(options.model), TESTBED, isolate=False)
    isolated = build_measured_backend(ModelSpec(options.model), TESTBED)
    assert isinstance(isolated, IsolatedBackend)
    problem = isolated.problem
    start_s = time_s(isolated.ask, "ready")
    request_s = float(np.median([time_s(isolated.ask, "ready") for _ in range(200)]))
    single = problem.single(0)
    for backend in (alone, isolated):
        backend.evaluate(single)
    seconds = np.empty((options.steps, 2))
    for step in range(options.steps):
        placed = single.copy()
        placed[: (step + 1) * problem.n_units // (options.steps + 1)] = 1
        for arm in (0, 1) if step % 2 == 0 else (1, 0):
            seconds[step, arm] = time_s((alone, isolated)[arm].measure_once, placed)
    here_s, there_s = np.median(seconds, axis=0)
    print(f"{options.model}: the process starts in {start_s:.1f} s, once")
    print(f"a request and its answer: {1e3 * request_s:.2f} ms, {request_s / here_s:.3%} of a step")
    print(f"a step in this process {here_s:.3f} s, in its own {there_s:.3f} s")
    print(f"ratio of the medians: {there_s / here_s:.3f}")
    isolated.close()


if __name__ == "__main__":
    main()
