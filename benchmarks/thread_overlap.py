"""Do stages of different requests overlap? The threads that want a core, as requests run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread, get_native_id

import numpy as np
import openvino as ov
from pipeline_arms import PAIR, PINNED

from placement_gym.backends.measured.hetero import HeteroPartition, compile_partition
from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import compile_stages
from placement_gym.graph.extract import extract
from placement_gym.models import load
from placement_gym.workloads.samples import sample_inputs

PERIOD_S = 0.003
"""Between two samples of threads."""


def sample_overlap(name: str, n_results: int) -> None:
    """Print how many threads want a core while HETERO's queue and ``Pipeline`` serve requests."""
    model = load(name)
    graph = extract(model, "folded", None)
    half = (graph.flops.cumsum() > graph.flops.sum() / 2).astype(np.int64)
    inputs = dict(enumerate(sample_inputs(model)))
    core = ov.Core()

    def run_queue(queue: ov.AsyncInferQueue) -> None:
        for _ in range(n_results):
            queue.start_async(inputs)
        queue.wait_all()

    def run_pipeline(executor: StageExecutor) -> None:
        for _ in executor.map([inputs] * n_results):
            pass

    for specs, pinned in ((PAIR, ""), (PINNED, ", pinned")):
        partition = HeteroPartition.of(graph, half, specs, alias=False)
        compiled = compile_partition(core, model, graph, partition)
        for requests in (1, 2, 3):
            run = partial(run_queue, ov.AsyncInferQueue(compiled, requests))
            show_threads(f"HETERO queue, {requests} in flight{pinned}", run)
    for requests in (1, 2, 3):
        stages, ports = compile_stages(core, model, graph, half, PAIR, requests)
        with StageExecutor(stages, ports, InputReader(model)) as executor:
            show_threads(f"Pipeline, {requests} in flight", partial(run_pipeline, executor))


def show_threads(name: str, run: Callable[[], None]) -> None:
    """Print how many threads want a core while requests run once more."""
    run()
    stop, found = Event(), list[int]()
    sampler = Thread(target=sample_threads, args=(stop, found))
    sampler.start()
    run()
    stop.set()
    sampler.join()
    threads = np.array(found)
    print(
        f"{name:40s} {threads.mean():.2f} threads want a core, two or more "
        f"{np.mean(threads >= 2):4.0%} of the time ({len(threads)} samples)",
        flush=True,
    )


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
