"""Several requests in flight of one compiled placement, and their timing."""

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
from placement_gym.backends.measured.outputs import all_finite, compare_outputs
from placement_gym.backends.measured.stages import StagedModel
from placement_gym.models import Member
from placement_gym.workloads import (
    MAX_TIMES,
    Beat,
    EngineRequest,
    Inferences,
    Inputs,
    Outputs,
    read_outputs,
)

if TYPE_CHECKING:
    import openvino as ov

Kept: TypeAlias = list[Outputs] | None
Finish: TypeAlias = Callable[[float], object]
"""Called in any thread when a request ends, with the time of its start."""
Compiled: TypeAlias = "ov.CompiledModel | StagedModel"
Lane: TypeAlias = "QueueLane | ThreadLane"
"""Runs the requests of one model, a fixed number at the same time."""


class QueueLane:
    """OpenVINO's ``AsyncInferQueue``, for requests of one inference without state.

    Each request runs on the inputs of one of ``samples``; ``beat`` is called as it begins.
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
        self.queue.get_idle_request_id()  # waits for a free request; latencies begin after that
        self.beat("an inference")
        start_s = perf_counter()

        def end(request: ov.InferRequest) -> None:
            if kept is not None:
                kept.append(read_outputs(request))
            finish(start_s)

        self.queue.start_async(self.samples[sample], end)

    def wait(self) -> None:
        """Wait for all requests; an error of one is raised here."""
        self.queue.wait_all()


class ThreadLane:
    """A thread for each request, for sequences, which keep a state, and for stages.

    Inferences run on the inputs ``samples[sample][inference]``; ``beat`` is called as each begins.
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
        running, self.running = self.running, []
        for future in running:
            future.result()


@dataclass(frozen=True)
class InFlight(Inferences):
    """Several requests in flight, or rounds of a union.

    In a round each model of a union runs as often as its rate states. Inferences wait for a free
    request of their model and for devices, never for another model.

    Attributes:
        members: The models with their rates.
        lanes: (n_models,) lanes.
        requests: Largest number of requests, or rounds, in flight.
        window: Number of results in a sample.
        n_samples: Number of samples of inputs in each lane. Different ones are in flight when
            outputs are checked; the first is timed.
        n_compared: Number of samples whose outputs are compared with the reference device's.
    """

    members: Sequence[Member]
    lanes: Sequence[Lane]
    requests: int
    window: int
    n_samples: int = 1
    n_compared: int = 1

    @cached_property
    def latencies_ms(self) -> list[deque[float]]:
        """(n_models,) times of requests since ``forget``, from start to result."""
        return [deque(maxlen=MAX_TIMES) for _ in self.lanes]

    def list_round(self) -> list[int]:
        """The model, by number, of each request of a round in the order of their starts."""
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
        """The outputs of one request of each model, for one sample after another."""
        alone = (self.run_and_read([sample])[0] for sample in range(self.n_compared))
        return [*chain.from_iterable(alone)]

    def run_and_read(self, samples: Sequence[int]) -> list[Outputs]:
        """(n_rounds,) outputs of one request of each model for these samples, all in flight.

        Outputs of an inference of all models precede those of the next inference.
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
        """Check, to within ``limit``, that requests do not overwrite each other's outputs."""
        alone = [self.run_and_read([sample])[0] for sample in range(self.n_samples)]
        # The model may be undefined for varied inputs.
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

        The start, until devices are busy, and the end do not count. The number of timed results is
        ``window`` rounded up to a multiple of ``requests``.
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
        """Start the requests of a round; its end is added to ``ends``.

        Latencies count if ``is_full``, that is if all requests are in flight.
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
        if len(self.lanes) == 1 or not all(self.latencies_ms):
            return None
        return tuple(float(np.median(times)) for times in self.latencies_ms)

    def forget(self) -> None:
        for times in self.latencies_ms:
            times.clear()


def ignore(_: float) -> None:
    """The ``Finish`` of requests that are not timed."""
