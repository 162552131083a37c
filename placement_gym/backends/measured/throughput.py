"""Throughput: placements with several requests in flight, single devices at their best.

Requests run on OpenVINO's own queue (``ov.AsyncInferQueue``), those of a model with state each in
its own thread, over the placement as HETERO compiles it. HETERO gives each submodel its own
threads: a device that states its threads would compute on more of them where it has several
submodels, of one model or of a union. Such a placement runs in stages that take turns; see
``stages``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count
from math import ceil
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from placement_gym.backends import EngineFailureError, Kind
from placement_gym.backends.measured.candidate import Compilation, CompiledPlacement, HostedModel
from placement_gym.backends.measured.hetero import (
    HeteroPartition,
    check_held,
    compile_members,
    count_submodels,
    watch_memory,
)
from placement_gym.backends.measured.outputs import all_finite, compare_outputs
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
from placement_gym.workloads import (
    MAX_TIMES,
    Beat,
    EngineRequest,
    Inferences,
    Inputs,
    Outputs,
    draw,
    read_outputs,
)

if TYPE_CHECKING:
    import openvino as ov

TUNING_WINDOWS = 2
"""Windows timed for each number of streams and requests of a single device. Hand-tuned: the fewest
from which ``Race`` has a spread."""
IN_FLIGHT_SAMPLES = 3
"""Samples of inputs at least that are in flight at the same time. Hand-tuned: as many as requests.
"""
MAX_STREAMS = {"GPU": 2, "NPU": 1}
"""Largest number of streams to time, by kind; devices whose threads are known get up to one a
thread. Hand-tuned: each number costs a compilation."""
Kept: TypeAlias = list[Outputs] | None
Finish: TypeAlias = Callable[[float], object]
"""Called when a request has ended, with the time at which it began, in any thread."""
Compiled: TypeAlias = "ov.CompiledModel | StagedModel"
Lane: TypeAlias = "QueueLane | ThreadLane"
"""The requests of one model, of which a fixed number run at the same time."""


class QueueLane:
    """OpenVINO's own queue, for requests of one inference without a state.

    Args:
        compiled: The model.
        requests: How many run at the same time.
        samples: (n_samples,) inputs of a request.
        beat: Called as each request begins.
    """

    def __init__(
        self, compiled: ov.CompiledModel, requests: int, samples: Sequence[Inputs], beat: Beat
    ) -> None:
        import openvino as ov

        self.beat = beat
        self.samples = [dict(enumerate(inputs)) for inputs in samples]
        self.queue = ov.AsyncInferQueue(compiled, requests)
        self.queue.set_callback(lambda request, finish: finish(request))

    def start(self, finish: Finish, kept: Kept = None, sample: int = 0) -> None:
        """Start a request with the inputs of a sample, by number, as soon as one is free.

        ``finish`` is called at its end, and ``kept`` gets the outputs of its inferences.
        """
        self.queue.get_idle_request_id()  # waits for one: a latency begins after that
        self.beat("an inference")
        start_s = perf_counter()

        def end(request: ov.InferRequest) -> None:
            if kept is not None:
                kept.append(read_outputs(request))
            finish(start_s)

        self.queue.start_async(self.samples[sample], end)

    def wait(self) -> None:
        """Wait for the requests that run.

        Raises:
            RuntimeError: OpenVINO failed.
        """
        self.queue.wait_all()


class ThreadLane:
    """A thread for each request: for sequences, which keep a state, and for stages.

    Args:
        requests: Those that run at the same time.
        samples: (n_samples, n_inferences) inputs of each inference of a request.
        beat: Called as each inference begins.
    """

    def __init__(
        self, requests: Sequence[EngineRequest], samples: Sequence[Sequence[Inputs]], beat: Beat
    ) -> None:
        self.samples = [[dict(enumerate(inputs)) for inputs in steps] for steps in samples]
        self.beat = beat
        self.threads = ThreadPoolExecutor(len(requests))
        self.running: list[Future[None]] = []
        self.free: SimpleQueue[EngineRequest] = SimpleQueue()
        for request in requests:
            self.free.put(request)

    def start(self, finish: Finish, kept: Kept = None, sample: int = 0) -> None:
        """See ``QueueLane.start``."""
        future = self.threads.submit(self.run, self.free.get(), finish, kept, sample)
        self.running.append(future)

    def run(self, request: EngineRequest, finish: Finish, kept: Kept, sample: int) -> None:
        start_s = perf_counter()
        try:
            request.reset_state()
            for inputs in self.samples[sample]:
                self.beat("an inference")
                request.infer(inputs)
                if kept is not None:
                    kept.append(read_outputs(request))
            finish(start_s)
        finally:
            self.free.put(request)

    def wait(self) -> None:
        """See ``QueueLane.wait``."""
        running, self.running = self.running, []
        for future in running:
            future.result()


@dataclass(frozen=True)
class InFlight(Inferences):
    """Several requests, or rounds of a union, in flight; see ``Inferences``.

    In a round each model of a union runs as often as its rate says. Inferences of a round wait for
    a free request of their model and for devices, never for another model.

    Attributes:
        members: The models, with their rates.
        lanes: (n_models,) the requests of each.
        requests: The maximum number of requests, or rounds, in flight.
        window: Results in a sample.
        n_samples: Samples of inputs that lanes have; requests with different ones are in flight
            when results are checked, and the first is what is timed.
        n_compared: Those whose outputs are compared with the reference device's.
    """

    members: Sequence[Member]
    lanes: Sequence[Lane]
    requests: int
    window: int
    n_samples: int = 1
    n_compared: int = 1

    @cached_property
    def latencies_ms(self) -> list[deque[float]]:
        """(n_models,) times of requests since ``forget``, from their start to their results.

        Each has ``requests`` rounds in flight.
        """
        return [deque(maxlen=MAX_TIMES) for _ in self.lanes]

    def list_round(self) -> list[int]:
        """The model of each request of a round, in the order in which they are started."""
        rates = [member.rate for member in self.members]
        return [number for turn in range(max(rates)) for number, n in enumerate(rates) if turn < n]

    def run(self) -> None:
        """Run one round, one request after another."""
        for number in self.list_round():
            self.lanes[number].start(ignore)
            self.lanes[number].wait()

    def wait(self) -> None:
        for lane in self.lanes:
            lane.wait()

    def outputs(self) -> Outputs:
        """The outputs of one request of each model for each sample, one after another."""
        alone = (self.run_and_read([sample])[0] for sample in range(self.n_compared))
        return [*chain.from_iterable(alone)]

    def run_and_read(self, samples: Sequence[int]) -> list[Outputs]:
        """(n_rounds,) the outputs of a request of each model, all of them in flight.

        Those of one inference of all models stand before those of the next.

        Args:
            samples: (n_rounds,) the number of the inputs of each round.
        """
        kept: list[list[list[Outputs]]] = [[[] for _ in self.lanes] for _ in samples]
        for sample, round_ in zip(samples, kept, strict=True):
            for lane, outputs in zip(self.lanes, round_, strict=True):
                lane.start(ignore, outputs, sample)
        self.wait()
        return [
            [array for outputs in zip(*round_, strict=True) for array in chain(*outputs)]
            for round_ in kept
        ]

    def check(self, limit: float) -> None:
        """Check requests with different inputs in flight.

        Raises:
            EngineFailureError: A result differs by over ``limit`` relative from that of the same
                inputs alone.
        """
        alone = [self.run_and_read([sample])[0] for sample in range(self.n_samples)]
        # Inputs that are varied may be ones that the model is not defined for.
        usable = [sample for sample, outputs in enumerate(alone) if all_finite(outputs)] or [0]
        samples = [usable[turn % len(usable)] for turn in range(2 * self.requests)]
        for sample, outputs in zip(samples, self.run_and_read(samples), strict=True):
            difference = compare_outputs(outputs, alone[sample], limit)
            if difference:
                raise EngineFailureError(
                    Kind.INFEASIBLE,
                    f"requests in flight: {difference}; one at a time they do not",
                )

    def find_timer(self) -> Callable[[], float]:
        return self.time_window

    def time_window(self) -> float:
        """Milliseconds between two results, or rounds, while ``requests`` are in flight.

        Neither the time until the devices are busy counts nor that in which they fall idle.
        So many results are timed as the window has, rounded up to a multiple of ``requests``.
        """
        n_timed = self.requests * ceil(self.window / self.requests)
        ends = list[float]()
        for turn in range(n_timed + 2 * self.requests):
            is_full = self.requests <= turn < self.requests + n_timed
            self.start_round(is_full, ends)
        self.wait()
        ends.sort()
        first_full = self.requests - 1
        return (ends[first_full + n_timed] - ends[first_full]) / n_timed * 1e3

    def start_round(self, is_full: bool, ends: list[float]) -> None:
        """Start the requests of a round, each when one is free; its end is noted.

        Args:
            is_full: Whether all requests are in flight; latencies count only then.
            ends: Ends of rounds.
        """
        models, finished_requests = self.list_round(), count(1)

        def finish(number: int, start_s: float) -> None:
            now = perf_counter()
            if is_full:
                self.latencies_ms[number].append((now - start_s) * 1e3)
            if next(finished_requests) == len(models):
                ends.append(now)

        for number in models:
            self.lanes[number].start(partial(finish, number))

    def models_ms(self) -> tuple[float, ...] | None:
        """(n_models,) median latency of each model of a union, see ``latencies_ms``."""
        if len(self.lanes) == 1 or not all(self.latencies_ms):
            return None
        return tuple(float(np.median(times)) for times in self.latencies_ms)

    def forget(self) -> None:
        """Forget the latencies so far."""
        for times in self.latencies_ms:
            times.clear()


def ignore(_: float) -> None:
    """Called at the end of requests that are not timed."""


class ThroughputCompiler:
    """Compiles placements for several requests in flight.

    Args:
        host: The model.
        tolerance: Largest relative error of results in flight.

    Attributes:
        best: Device -> the streams and requests with which it alone is fastest.
    """

    def __init__(self, host: HostedModel, tolerance: float) -> None:
        self.host, self.problem, self.tolerance = host, host.problem, tolerance
        self.best: dict[int, tuple[int, int]] = {}

    @cached_property
    def samples(self) -> list[list[Inputs]]:
        """(n_samples, n_inferences) those of the host, and more to be in flight with them."""
        given, request = self.host.samples, self.host.request
        more = range(len(given), IN_FLIGHT_SAMPLES)
        return [*given, *(draw(request, self.host.model, number) for number in more)]

    def compile(self, assignment: IntArray, requests: int | None, window: int) -> CompiledPlacement:
        """Compile a placement, run it with all requests in flight and compare their outputs.

        Args:
            assignment: (n_units,) device indices.
            requests: In flight, of a placement on several devices; None is one more than devices,
                and as many as devices of a model with state, whose threads disturb each other.
            window: Results in a sample.
        """
        specs, devices = list(self.problem.devices), sorted(set(assignment.tolist()))
        # What a split has to beat: a device alone, with the streams and requests that suit it best.
        if len(devices) == 1:
            streams, requests = self.find_best(devices[0], window)
            specs[devices[0]] = specs[devices[0]].with_streams(streams)
        start_s = perf_counter()  # numbers of streams are compared once for all compilations
        # GPUs say what they hold before and after: one that was given weights may stay empty.
        partition = self.divide(assignment, specs)
        find_held = watch_memory(self.host.core, partition.list_names(len(specs)))
        models = self.compile_models(assignment, specs, partition)
        n_requests = requests or len(devices) + (not is_stateful(self.host.model))
        in_flight = self.create_requests(models, n_requests, window)
        compile_s = perf_counter() - start_s
        # Requests that run at the same time must not overwrite each other's outputs.
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

    def divide(self, assignment: IntArray, specs: Sequence[DeviceSpec]) -> HeteroPartition:
        """Cut the model into the submodels of a placement, on devices with these settings."""
        units, alias = self.problem.units, self.host.alias
        return HeteroPartition.from_assignment(
            units.graph, assignment[units.of_operator], specs, alias
        )

    def compile_models(
        self, assignment: IntArray, specs: Sequence[DeviceSpec], partition: HeteroPartition
    ) -> Sequence[Compiled]:
        """Compile each model of a union, or the only one.

        By HETERO, or in stages where several submodels share a device that states its threads.
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
        """Create the requests of each model, as many as are in flight times its rate."""
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
        """The streams of a device alone, and the requests, as many or twice as many."""
        if device in self.best:
            return self.best[device]
        assignment = self.problem.single(device)
        options: dict[tuple[int, int], InFlight] = {}
        for streams in list_streams(self.problem.devices[device]):
            specs = list(self.problem.devices)
            specs[device] = specs[device].with_streams(streams)
            try:
                models = self.compile_models(assignment, specs, self.divide(assignment, specs))
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
    """List the numbers of streams to time on a device: powers of two, or the stated number."""
    if "NUM_STREAMS" in spec.properties:
        return [spec.streams]
    maximum = MAX_STREAMS.get(spec.kind, spec.threads or usable_cores())
    return [*(2**power for power in range(maximum.bit_length()) if 2**power < maximum), maximum]
