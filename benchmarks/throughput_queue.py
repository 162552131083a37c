"""Do stages of different requests overlap? The threads that want a core, sampled as requests run.

What else the machine does slows them but hardly changes how many there are, unlike rates.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, get_native_id

import numpy as np
import openvino as ov

from placement_gym.backends.measured.hetero import Partition, compile_partition
from placement_gym.backends.measured.outputs import sample_inputs
from placement_gym.devices import PRESETS
from placement_gym.graph.extract import extract
from placement_gym.models import load
from placement_gym.pipeline.executor import StageExecutor
from placement_gym.pipeline.inputs import InputReader
from placement_gym.pipeline.stage import compile_stages

PERIOD_S = 0.003


def sample_threads(stop: Event, found: list[int]) -> None:
    """Append how many threads want a core.

    The sampler's own thread and the main one, which submits, are left out.
    """
    others = {get_native_id(), os.getpid()}
    while not stop.wait(PERIOD_S):
        wanting = 0
        for folder in Path("/proc/self/task").iterdir():
            thread = int(folder.name)
            with suppress(OSError):
                stat = (folder / "stat").read_text()
                if thread not in others and stat.rpartition(")")[2].split()[0] == "R":
                    wanting += 1
        found.append(wanting)


def profile(run: Callable[[], None]) -> np.ndarray:
    """(n_samples,) threads that want a core while ``run`` runs."""
    stop, found = Event(), list[int]()
    sampler = Thread(target=sample_threads, args=(stop, found))
    sampler.start()
    run()
    stop.set()
    sampler.join()
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet")
    parser.add_argument("--results", type=int, default=12, help="results of each arm")
    options = parser.parse_args()
    model = load(options.model)
    graph = extract(model, "folded", None)
    half = (graph.flops.cumsum() > graph.flops.sum() / 2).astype(np.int64)
    inputs = dict(enumerate(sample_inputs(model)))
    core, pair = ov.Core(), PRESETS["cpu-testbed-pair"]

    def show(name: str, run: Callable[[], None]) -> None:
        threads = profile(run)
        print(
            f"{name:40s} {threads.mean():.2f} threads want a core, two or more "
            f"{np.mean(threads >= 2):4.0%} of the time "
            f"({len(threads)} samples)",
            flush=True,
        )

    for pinned in (False, True):
        specs = [replace(one, properties={"ENABLE_CPU_PINNING": pinned}) for one in pair]
        compiled = compile_partition(
            core, model, graph, Partition.of(graph, half, specs, alias=False)
        )
        for requests in (1, 2, 3):
            queue = ov.AsyncInferQueue(compiled, requests)

            def run_queue(queue: ov.AsyncInferQueue = queue) -> None:
                for _ in range(options.results):
                    queue.start_async(inputs)
                queue.wait_all()

            run_queue()
            show(f"HETERO queue, {requests} in flight{', pinned' * pinned}", run_queue)
    for requests in (1, 2, 3):
        stages, ports = compile_stages(core, model, graph, half, pair, requests)
        with StageExecutor(stages, ports, InputReader(model)) as executor:

            def run_pipeline(executor: StageExecutor = executor) -> None:
                for _ in executor.map([inputs] * options.results):
                    pass

            run_pipeline()
            show(f"Pipeline, {requests} in flight", run_pipeline)


if __name__ == "__main__":
    main()
