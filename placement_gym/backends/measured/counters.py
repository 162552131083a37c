"""Primitives that a device executes, and the time of each operator by its counters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.base import EngineError, FloatArray
from placement_gym.graph import OpGraph
from placement_gym.hardware import compile_on
from placement_gym.workloads import Beat, Inputs

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.backends.measured.candidate import HostedModel

WARMUP = 5
"""Inferences before the first counted one, to fill caches. Hand-tuned."""
BATCHES = 5
"""Batches of inferences; the result is the median of their means. Hand-tuned. An average in whole
microseconds over n inferences is exact to n us in total, so the mean of a batch of b is exact to
n / b: 2 to 6 us in batches of 6."""
MICROSECOND = timedelta(microseconds=1)
MAX_COUNTED = 10
"""Largest sum of counters of a batch that counts, as a multiple of the latency. Hand-tuned."""
MAX_UNOWNED_SHARE = 0.02
"""Largest share of counted time without an operator for which no message is printed. Hand-tuned."""
MAX_UNEXPLAINED_SHARE = 0.3
"""Largest relative difference between the counters' sum and the latency for which no message is
printed. Hand-tuned: on the CPU it is up to 4 %, as counters cost time."""


def measure_operator_times(
    host: HostedModel, device: int, n_inferences: int, prefill: bool = False
) -> FloatArray:
    """(n_operators,) median ms of the primitive that executes each operator, summed over a request.

    With ``prefill`` only the first inference of a request counts. A message tells of time that
    belongs to no operator, and of a latency that is far from the sum of all counters.
    """
    graph, spec = host.problem.units.graph, host.problem.devices[device]
    steps = host.samples[0][:1] if prefill else host.samples[0]
    # Counters cost time, so no latency is measured with this model.
    host.beat("compiling with counters")
    # Each stream has its own counters, and any stream may run an inference.
    alone = spec.with_streams(1) if spec.host else spec
    compiled = compile_on(host.core, host.model, alone, "the model", {"PERF_COUNT": True})
    counted = CountedRequest(compiled.create_infer_request(), spec.host, host.beat)
    counted.run(steps[:1])
    latency_ms, times_ms = time_primitives(counted, host.request.repeat(steps), n_inferences)
    times, unowned_ms = give_to_operators(graph, times_ms, members_of_primitives(compiled))
    message = describe_unexplained(float(times.sum()), unowned_ms, latency_ms)
    if message:
        host.reporter.print_message(f"{spec.name}: {message}")
    return times


class CountedRequest:
    """The only request of a model that is compiled with counters, and their totals so far.

    The CPU plugin's counters are averages over all inferences since the model was compiled, in
    whole microseconds, so only differences of totals exclude cold and interrupted inferences.
    Counters of other plugins are of the last inference.
    """

    def __init__(self, request: ov.InferRequest, averaged: bool, beat: Beat) -> None:
        self.request, self.averaged, self.beat = request, averaged, beat
        self.inferences = 0
        self.totals_us: Counter[str] = Counter()

    def run(self, steps: Sequence[Inputs]) -> float:
        """Reset the state and run each step; returns the ms of the inferences."""
        self.request.reset_state()
        latency_ms = 0.0
        for inputs in steps:
            self.beat("an inference with counters")
            start_s = perf_counter()
            self.request.infer(dict(enumerate(inputs)))
            latency_ms += (perf_counter() - start_s) * 1e3
            self.inferences += 1
            self.add_reading()
        return latency_ms

    def add_reading(self) -> None:
        reading: Counter[str] = Counter()
        # Integers, so that differences stay exact even if a clock that was set adds 1e18 us.
        for primitive in self.request.profiling_info:
            reading[primitive.node_name] += primitive.real_time // MICROSECOND
        if self.averaged:
            self.totals_us = Counter({name: us * self.inferences for name, us in reading.items()})
        else:
            self.totals_us.update(reading)


def time_primitives(
    counted: CountedRequest, steps: Sequence[Inputs], runs: int
) -> tuple[float, dict[str, float]]:
    """The ms of a run of ``steps``, and primitive -> its ms: medians of means of ``BATCHES``."""
    for _ in range(WARMUP):
        counted.run(steps)
    size = -(-runs // BATCHES)
    batches = []
    for _ in range(runs // size):
        before = counted.totals_us.copy()
        latency_ms = sum(counted.run(steps) for _ in range(size)) / size
        times_us = {name: (us - before[name]) / size for name, us in counted.totals_us.items()}
        # The CPU plugin's counters are differences of the system's time, which may be set.
        counted_us = sum(map(abs, times_us.values()))
        if not counted.averaged or counted_us < MAX_COUNTED * latency_ms * 1e3:
            batches.append((latency_ms, times_us))
    if not batches:
        raise EngineError(
            f"the counters of operators add up to more than {MAX_COUNTED} times the inference, as "
            "the system's clock is being set: measure again when it runs steadily"
        )
    latency_ms = float(np.median([ms for ms, _ in batches]))
    medians_us = {
        name: float(np.median([us.get(name, 0.0) for _, us in batches])) for name in batches[-1][1]
    }
    return latency_ms, {name: max(us, 0.0) / 1e3 for name, us in medians_us.items()}


def give_to_operators(
    graph: OpGraph, primitive_ms: Mapping[str, float], fused: Mapping[str, Sequence[str]]
) -> tuple[FloatArray, float]:
    """Attribute the times of primitives to operators.

    A primitive belongs to the operator with the most FLOPs that it fuses; if it fuses none, to the
    operator of its nodes; if the device inserted or renamed it, to the operator in its name. The
    time of others, such as a reorder of an input, is spread over all operators by their FLOPs.

    Returns:
        (n_operators,) ms, and the ms of primitives that belong to no operator.
    """
    operators = {name: i for i, name in enumerate(graph.names)}
    owner = {name: i for i, names in enumerate(graph.members) for name in names}
    times, unowned_ms = np.zeros(len(graph)), 0.0
    for primitive, ms in primitive_ms.items():
        names = [*fused.get(primitive, ()), primitive]
        # Operators first: a primitive also fuses nodes that round its output for the next operator.
        owners = [operators[name] for name in names if name in operators]
        owners = owners or [owner[name] for name in names if name in owner]
        owners = owners or [owner[base] for base in map(strip_additions, names) if base in owner]
        # Of equal work the first operator, whatever the order of names.
        if owners:
            times[max(owners, key=lambda i: (graph.flops[i], -i))] += ms
        else:
            unowned_ms += ms
    work = graph.flops if graph.flops.any() else np.ones(len(graph))
    return times + unowned_ms * work / work.sum(), unowned_ms


def strip_additions(name: str) -> str:
    """Strip the additions of the GPU plugin to the name of a node.

    They are ``reorder_input_convolution:NAME``, ``NAME.0`` for the source of a Result in f16, and
    ``NAME/transpose_b`` for a transposed weight.
    """
    return re.sub(r"(\.\d+|/transpose_[ab])$", "", name.rpartition(":")[2])


def describe_unexplained(counted_ms: float, unowned_ms: float, latency_ms: float) -> str:
    """Describe the part of a latency that counters do not explain; empty if it is small."""
    remarks = []
    if unowned_ms > MAX_UNOWNED_SHARE * counted_ms:
        remarks.append(
            f"{unowned_ms / counted_ms:.0%} of the counted {counted_ms:.3g} ms belong to no "
            "operator and were spread over all by their FLOPs"
        )
    if latency_ms and abs(counted_ms / latency_ms - 1.0) > MAX_UNEXPLAINED_SHARE:
        remarks.append(
            f"counters add up to {counted_ms:.3g} ms where an inference takes {latency_ms:.3g} ms: "
            "one factor for all operators makes up for it"
        )
    return "; ".join(remarks)


def query_primitives(
    core: ov.Core, model: ov.Model, device: str, properties: dict[str, Any]
) -> dict[str, str]:
    """Compile a model; maps the name of each remaining IR node to the name of its primitive."""
    members = members_of_primitives(core.compile_model(model, device, properties))
    return {name: primitive for primitive, names in members.items() for name in names}


def members_of_primitives(compiled: ov.CompiledModel) -> dict[str, list[str]]:
    """Primitive -> names of the IR nodes that it executes."""
    members: dict[str, list[str]] = {}
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        if "originalLayersNames" in info:
            names = info["originalLayersNames"].astype(str).split(",")
            members[node.get_friendly_name()] = [name for name in names if name]
    return members
