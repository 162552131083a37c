"""Compilation of placements for several requests in flight, single devices at their best.

HETERO gives each submodel its own threads, so a device with several submodels would exceed the
threads that it states. Such a placement runs in stages that take turns; see ``stages``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from time import perf_counter

import numpy as np

from placement_gym.backends.measured.candidate import Compilation, CompiledPlacement, HostedModel
from placement_gym.backends.measured.hetero import (
    HeteroPartition,
    check_held,
    compile_members,
    count_submodels,
    watch_memory,
)
from placement_gym.backends.measured.in_flight import (
    Compiled,
    InFlight,
    Lane,
    QueueLane,
    ThreadLane,
)
from placement_gym.backends.measured.stages import (
    StagedModel,
    compile_cut,
    find_inputs,
    name_prefix,
)
from placement_gym.backends.measured.timing import Race
from placement_gym.base import CompileError, IntArray
from placement_gym.hardware import DeviceSpec, usable_cores
from placement_gym.models import Member, is_stateful
from placement_gym.workloads import Inputs, draw

TUNING_WINDOWS = 2
"""Windows timed for each number of streams and requests of a single device. Hand-tuned: the fewest
with a spread."""
IN_FLIGHT_SAMPLES = 3
"""Smallest number of different samples of inputs in flight. Hand-tuned: as many as requests."""
MAX_STREAMS = {"GPU": 2, "NPU": 1}
"""Kind -> largest number of streams to time; of other devices it is the number of threads.
Hand-tuned: each number costs a compilation."""


class ThroughputCompiler:
    """Compiles placements for several requests in flight, whose outputs are within ``tolerance``.

    Attributes:
        best: Device -> numbers of streams and requests with which it is fastest alone.
    """

    def __init__(self, host: HostedModel, tolerance: float) -> None:
        self.host, self.problem, self.tolerance = host, host.problem, tolerance
        self.best: dict[int, tuple[int, int]] = {}

    @cached_property
    def samples(self) -> list[list[Inputs]]:
        """(n_samples, n_inferences) inputs: those of the host, and more to be in flight."""
        given, request = self.host.samples, self.host.request
        more = range(len(given), IN_FLIGHT_SAMPLES)
        return [*given, *(draw(request, self.host.model, number) for number in more)]

    def compile(self, assignment: IntArray, requests: int | None, window: int) -> CompiledPlacement:
        """Compile a placement, run it with all requests in flight and compare their outputs.

        ``requests`` are those of a placement on several devices, and ``window`` the number of
        results in a sample.
        """
        specs, devices = list(self.problem.devices), sorted(set(assignment.tolist()))
        # A split has to beat a device alone with its best numbers of streams and requests.
        if len(devices) == 1:
            streams, requests = self.find_best(devices[0], window)
            specs[devices[0]] = specs[devices[0]].with_streams(streams)
        start_s = perf_counter()  # without the search for the number of streams
        partition = self.host.divide(assignment, specs)
        find_held = watch_memory(self.host.core, partition, len(specs))
        models = self.compile_models(assignment, specs, partition)
        # One more than devices, but for a model with state, whose threads disturb each other.
        n_requests = requests or len(devices) + (not is_stateful(self.host.model))
        in_flight = self.create_requests(models, n_requests, window)
        compile_s = perf_counter() - start_s
        in_flight.check(self.tolerance)
        memory_bytes = tuple(self.problem.memory_bytes(assignment).tolist())
        held_bytes = find_held()
        check_held(self.problem, memory_bytes, held_bytes)
        staged = [model for model in models if isinstance(model, StagedModel)]
        n_stages = sum(len(model.stages) for model in staged)
        compilation = Compilation(
            n_stages or sum(map(count_submodels, models)),
            n_stages or max(partition.n_submodels, len(models)),
            *self.problem.traffic(assignment),
            memory_bytes,
            compile_s,
            held_bytes,
            requests=n_requests,
            streams=max(specs[device].streams for device in devices),
        )
        return CompiledPlacement(in_flight, compilation)

    def compile_models(
        self, assignment: IntArray, specs: Sequence[DeviceSpec], partition: HeteroPartition
    ) -> Sequence[Compiled]:
        """Compile each model of a union, or the only one.

        HETERO compiles them, or stages if several submodels share a device that states its threads.
        """
        host, units = self.host, self.problem.units
        host.beat("compiling")
        is_alone = len(partition.devices) == 1 and not units.graph.models
        several = np.flatnonzero(np.bincount(partition.on) > 1).tolist()
        if not is_alone and any(specs[device].threads is not None for device in several):
            devices = assignment[units.of_operator]
            return compile_cut(host.core, host.model, units.graph, devices, specs)
        return compile_members(host.core, host.model, units.graph, partition)

    def create_requests(self, models: Sequence[Compiled], requests: int, window: int) -> InFlight:
        """Create the requests of each model: ``requests`` times its rate."""
        graph, model = self.problem.units.graph, self.host.model
        members = graph.models or (Member(graph.model),)
        lanes: list[Lane] = []
        for member, compiled in zip(members, models, strict=True):
            n_requests = requests * member.rate
            own = find_inputs(model, name_prefix(graph, member))
            samples = [
                [[inputs[index] for index in own] for inputs in steps] for steps in self.samples
            ]
            if isinstance(compiled, StagedModel) or is_stateful(model):
                slots = [compiled.create_infer_request() for _ in range(n_requests)]
                lanes.append(ThreadLane(slots, samples, self.host.beat))
            else:
                first_inferences = [steps[0] for steps in samples]
                lanes.append(QueueLane(compiled, n_requests, first_inferences, self.host.beat))
        n_samples, n_compared = len(self.samples), len(self.host.samples)
        return InFlight(members, lanes, requests, window, n_samples, n_compared)

    def find_best(self, device: int, window: int) -> tuple[int, int]:
        """The best numbers of streams and of requests, one or two per stream, of a device alone."""
        if device in self.best:
            return self.best[device]
        assignment = self.problem.single(device)
        options: dict[tuple[int, int], InFlight] = {}
        for streams in list_streams(self.problem.devices[device]):
            specs = list(self.problem.devices)
            specs[device] = specs[device].with_streams(streams)
            try:
                partition = self.host.divide(assignment, specs)
                models = self.compile_models(assignment, specs, partition)
            except CompileError:
                if not options:
                    raise
                continue
            for requests in (streams, 2 * streams):
                options[streams, requests] = self.create_requests(models, requests, window)
        for in_flight in options.values():
            in_flight.run()
        race = Race(len(options))
        race.run([in_flight.time_window for in_flight in options.values()], TUNING_WINDOWS)
        self.best[device] = list(options)[max(race.live, key=race.speedup)]
        return self.best[device]


def list_streams(spec: DeviceSpec) -> list[int]:
    """Numbers of streams to time on a device: powers of two and the maximum, or the stated one."""
    if "NUM_STREAMS" in spec.properties:
        return [spec.streams]
    maximum = MAX_STREAMS.get(spec.kind, spec.threads or usable_cores())
    return [*(2**power for power in range(maximum.bit_length()) if 2**power < maximum), maximum]
