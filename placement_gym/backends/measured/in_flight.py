"""Several requests in flight: the time between two results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from math import ceil
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from placement_gym.backends.failures import EngineFailureError, Kind
from placement_gym.backends.measured.outputs import compare_outputs
from placement_gym.models.members import Member
from placement_gym.models.tensors import read_values
from placement_gym.workloads.runs import MAX_TIMES, Beat, EngineRequest, Inferences, Inputs, Outputs

if TYPE_CHECKING:
    import openvino as ov

Finish: TypeAlias = Callable[[float], object]
"""Called when a request has ended, with the time at which it began, in any thread."""


class Lane(Protocol):
    """The requests of one model, of which a fixed number run at the same time."""

    def start(self, finish: Finish, kept: list[Outputs] | None = None) -> None:
        """Start a request as soon as one is free; ``kept`` gets the outputs of its inferences."""

    def wait(self) -> None:
        """Wait for the requests that run.

        Raises:
            RuntimeError: OpenVINO failed.
        """


class QueueLane:
    """OpenVINO's own queue, for requests of one inference without a state.

    Args:
        compiled: The model.
        requests: How many run at the same time.
        inputs: Of each request.
        beat: Called as each request begins.
    """

    def __init__(
        self, compiled: ov.CompiledModel, requests: int, inputs: Inputs, beat: Beat
    ) -> None:
        import openvino as ov

        self.inputs, self.beat = dict(enumerate(inputs)), beat
        self.queue = ov.AsyncInferQueue(compiled, requests)
        self.queue.set_callback(lambda request, finish: finish(request))

    def start(self, finish: Finish, kept: list[Outputs] | None = None) -> None:
        self.queue.get_idle_request_id()  # waits for one, so that a latency begins after that
        self.beat("an inference")
        start_s = perf_counter()

        def end(request: ov.InferRequest) -> None:
            if kept is not None:
                kept.append(read_outputs(request))
            finish(start_s)

        self.queue.start_async(self.inputs, end)

    def wait(self) -> None:
        self.queue.wait_all()


class ThreadLane:
    """A thread for each request: for sequences, which keep a state, and for stages.

    Args:
        requests: Those that run at the same time.
        steps: (n_inferences,) inputs of each inference of a request.
        beat: Called as each inference begins.
    """

    def __init__(
        self, requests: Sequence[EngineRequest], steps: Sequence[Inputs], beat: Beat
    ) -> None:
        self.steps, self.beat = [dict(enumerate(inputs)) for inputs in steps], beat
        self.threads = ThreadPoolExecutor(len(requests))
        self.running: list[Future[None]] = []
        self.free: SimpleQueue[EngineRequest] = SimpleQueue()
        for request in requests:
            self.free.put(request)

    def start(self, finish: Finish, kept: list[Outputs] | None = None) -> None:
        self.running.append(self.threads.submit(self.run, self.free.get(), finish, kept))

    def run(self, request: EngineRequest, finish: Finish, kept: list[Outputs] | None) -> None:
        start_s = perf_counter()
        try:
            request.reset_state()
            for inputs in self.steps:
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


def read_outputs(request: EngineRequest) -> Outputs:
    return [read_values(tensor) for tensor in request.output_tensors]


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
        latencies_ms: (n_models,) times of requests since ``forget``, from their start to their
            results, each with ``requests`` rounds in flight.
    """

    members: Sequence[Member]
    lanes: Sequence[Lane]
    requests: int
    window: int
    latencies_ms: Sequence[deque[float]]

    @classmethod
    def of(
        cls, members: Sequence[Member], lanes: Sequence[Lane], requests: int, window: int
    ) -> InFlight:
        times = [deque[float](maxlen=MAX_TIMES) for _ in lanes]
        return cls(members, lanes, requests, window, times)

    def list_round(self) -> list[int]:
        """The model of each request of a round, in the order in which they are started."""
        rates = [member.rate for member in self.members]
        turns = range(max(rates))
        return [number for turn in turns for number, rate in enumerate(rates) if turn < rate]

    def run(self) -> None:
        """Run one round, one request after another."""
        for number in self.list_round():
            self.lanes[number].start(ignore)
            self.lanes[number].wait()

    def outputs(self) -> Outputs:
        """The outputs of one request of each model."""
        (outputs,) = self.run_and_read(1)
        return outputs

    def run_and_read(self, n_rounds: int) -> list[Outputs]:
        """(n_rounds,) the outputs of a request of each model, all of them in flight.

        Those of one inference of all models stand before those of the next.
        """
        kept: list[list[list[Outputs]]] = [[[] for _ in self.lanes] for _ in range(n_rounds)]
        for round_ in kept:
            for lane, outputs in zip(self.lanes, round_, strict=True):
                lane.start(ignore, outputs)
        self.wait()
        return [
            [array for outputs in zip(*round_, strict=True) for array in chain(*outputs)]
            for round_ in kept
        ]

    def check(self, limit: float) -> None:
        """Raise ``EngineFailureError`` if results in flight differ by over ``limit`` relative."""
        expected, *others = self.run_and_read(2 * self.requests)
        for outputs in others:
            difference = compare_outputs(outputs, expected, limit)
            if difference:
                raise EngineFailureError(Kind.INFEASIBLE, f"requests in flight: {difference}")

    def wait(self) -> None:
        for lane in self.lanes:
            lane.wait()

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
            is_full: Whether all requests are in flight, so that latencies count.
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
