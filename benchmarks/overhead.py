"""What the environment adds to compiling and measuring, from inside and from outside."""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import combinations
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov

import placement_gym  # noqa: F401  registers the environments
from placement_gym.backends.measured import hetero, timing
from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.env import placement_env


def run_bare(backend: MeasuredBackend, affinities: dict[str, str], names: list[str]) -> float:
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
    n_blocks = 2 * -(-backend.protocol.repeats // (2 * timing.BLOCK))
    for _ in range(n_blocks):
        for arm in (request, reference):
            for _ in range(1 + -(-backend.protocol.repeats // n_blocks)):
                arm.infer()
    return perf_counter() - started


def node_affinities(backend: MeasuredBackend, assignment: np.ndarray) -> dict[str, str]:
    units, devices = backend.problem.units, backend.problem.devices
    graph = units.graph
    partition = hetero.Partition.of(graph, assignment[units.of_operator], devices, backend.alias)
    hetero.register(backend.core, tuple(partition.devices.values()))
    return {
        name: partition.targets[submodel]
        for names, submodel in zip(graph.members, partition.submodels.tolist(), strict=True)
        for name in names
    }


def sample_windows(n_units: int, count: int) -> list[np.ndarray]:
    """Distinct placements with one contiguous run on the second device."""
    inner = [(a, b) for a, b in combinations(range(n_units + 1), 2) if b - a < n_units]
    chosen = np.random.default_rng(0).choice(len(inner), min(count, len(inner)), replace=False)
    units = np.arange(n_units)
    return [((units >= a) & (units < b)).astype(np.int64) for a, b in (inner[i] for i in chosen)]


def time_step(env: gym.Env, action: np.ndarray) -> tuple[float, dict[str, Any]]:
    started = perf_counter()
    info = env.step(action)[-1]
    return perf_counter() - started, info


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet", help="built-in model or file")
    parser.add_argument("--placements", type=int, default=12, help="placements to try")
    options = parser.parse_args()
    env = gym.make("DevicePlacement-v0", model=options.model, devices="cpu-testbed", isolate=False)
    base = placement_env(env)
    backend = base.backend.inner  # type: ignore[attr-defined]
    backend.protocol = replace(backend.protocol, attempts=1)
    env.reset(seed=0)
    outside, bare_s, step_s, again_s, reset_s = [], [], [], [], []
    for index, action in enumerate(sample_windows(base.problem.n_units, options.placements)):
        affinities = node_affinities(backend, action)
        names = sorted(set(affinities.values()))
        if index % 2:
            bare_s.append(run_bare(backend, affinities, names))
        seconds, info = time_step(env, action)
        step_s.append(seconds)
        outside.append(1 - (info["compile_s"] + info["measure_s"]) / seconds)
        if not index % 2:
            bare_s.append(run_bare(backend, affinities, names))
        started = perf_counter()
        env.reset()
        reset_s.append(perf_counter() - started)
        seconds, info = time_step(env, action)
        again_s.append(seconds)
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
