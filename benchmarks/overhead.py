"""What the environment adds to compiling and measuring, from inside and from outside."""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import perf_counter

import gymnasium as gym
import numpy as np
import openvino as ov

import placement_gym  # noqa: F401  registers the environments
from placement_gym.backends.measured import MeasuredBackend, hetero, timing
from placement_gym.env import placement_env


def bare(backend: MeasuredBackend, affinities: dict[str, str], names: list[str]) -> float:
    """Seconds of plain OpenVINO calls for one placement, with the environment's counts."""
    started = perf_counter()
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
    request.infer(dict(enumerate(backend.inputs)))
    reference = backend.reference.request
    for _ in range(backend.protocol.warmup):
        request.infer()
    n_blocks = max(2, -(-backend.protocol.repeats // timing.BLOCK))
    for _ in range(n_blocks):
        for arm in (request, reference):
            for _ in range(1 + backend.protocol.repeats // n_blocks):
                arm.infer()
    return perf_counter() - started


def node_affinities(backend: MeasuredBackend, assignment: np.ndarray) -> dict[str, str]:
    units, devices = backend.problem.units, backend.problem.devices
    graph = units.graph
    split = hetero.Split.of(graph, assignment[units.of_operator], devices, backend.alias)
    hetero.register(backend.core, tuple(split.devices.values()))
    return {
        name: split.targets[submodel]
        for names, submodel in zip(graph.members, split.submodels.tolist(), strict=True)
        for name in names
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet", help="built-in model or file")
    parser.add_argument("--placements", type=int, default=12, help="random-block placements")
    options = parser.parse_args()
    env = gym.make("DevicePlacement-v0", model=options.model, devices="cpu-testbed")
    base = placement_env(env)
    backend = base.backend.inner  # type: ignore[attr-defined]
    backend.protocol = replace(backend.protocol, attempts=1)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    n_units = base.problem.n_units
    outside, bare_s, step_s, again_s, reset_s = [], [], [], [], []
    for index in range(options.placements):
        start, end = np.sort(rng.choice(n_units + 1, 2, replace=False))
        action = np.zeros(n_units, dtype=np.int64)
        action[start:end] = 1
        affinities = node_affinities(backend, action)
        names = sorted(set(affinities.values()))
        if index % 2:
            bare_s.append(bare(backend, affinities, names))
        started = perf_counter()
        _, _, _, _, info = env.step(action)
        step_s.append(perf_counter() - started)
        outside.append(1 - (info["compile_s"] + info["measure_s"]) / step_s[-1])
        if not index % 2:
            bare_s.append(bare(backend, affinities, names))
        started = perf_counter()
        env.reset()
        reset_s.append(perf_counter() - started)
        started = perf_counter()
        _, _, _, _, info = env.step(action)
        again_s.append(perf_counter() - started)
        assert info["cached"]
        env.reset()
    print(f"{options.model}, {options.placements} placements, openvino {ov.__version__}")
    print(f"step                                 {np.median(step_s) * 1e3:9.1f} ms")
    print(f"bare script, same counts             {np.median(bare_s) * 1e3:9.1f} ms")
    ratios = np.array(step_s) / np.array(bare_s)
    print(f"step / bare, pair by pair            {np.median(ratios):9.3f}  "
          f"({ratios.min():.3f} to {ratios.max():.3f})")  # fmt: skip
    print(f"step outside compile and measure     {np.median(outside) * 100:9.2f} %  "
          f"(at most {max(outside) * 100:.2f} %)")  # fmt: skip
    print(f"reset                                {np.median(reset_s) * 1e3:9.3f} ms")
    print(f"step on a repeated placement         {np.median(again_s) * 1e3:9.3f} ms")


if __name__ == "__main__":
    main()
