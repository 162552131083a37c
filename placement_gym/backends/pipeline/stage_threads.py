"""The threads of a pipeline: each runs one stage on one request after another."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Queue
from threading import Condition, Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from numpy.typing import NDArray

from placement_gym.backends.pipeline.cutting import Port
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import Stage, StageError
from placement_gym.base.errors import EngineError
from placement_gym.models.tensors import read_tensor

if TYPE_CHECKING:
    import openvino as ov

Outputs = list[NDArray[Any]]
LOGGER = logging.getLogger(__name__)
RUNNING: WeakSet[StageThreads] = WeakSet()
"""All that may have requests in flight; see ``shut_all_down``."""


@dataclass
class Job:
    """A request in flight.

    Attributes:
        slot: The infer requests that it uses.
        future: Gets its outputs.
        inputs: Of the inference that runs.
        rest: Gives the inputs of more inferences; None for a request of a single one.
        done: Outputs of its inferences so far.
    """

    slot: int
    future: Future[Any]
    inputs: list[ov.Tensor]
    rest: Iterator[Any] | None = None
    done: list[Outputs] = field(default_factory=list)


class StageThreads:
    """Passes requests through stages in order, as many at a time as there are slots.

    Threads hold this object alone, so that a ``StageExecutor`` nobody uses any more can end them.

    Args:
        stages: See ``Stage``; all have the same number of infer requests.
        outputs: (n_outputs,) the stage and its output that each output of the model is.
        reader: Reads the inputs of the model.
    """

    def __init__(
        self, stages: Sequence[Stage], outputs: Sequence[Port], reader: InputReader
    ) -> None:
        self.stages, self.reader = tuple(stages), reader
        self.requests = len(stages[0].requests)
        self._outputs = outputs
        self._changed = Condition()
        self._free = list(range(self.requests))
        self._jobs: dict[int, Job] = {}
        self._closed = self._stopped = False
        self._queues: list[Queue[Job | None]] = [
            Queue(self.requests + stage.workers) for stage in stages
        ]
        self._threads = [
            Thread(target=self._serve, args=(number,), name=stage.name, daemon=True)
            for number, stage in enumerate(stages)
            for _ in range(stage.workers)
        ]
        RUNNING.add(self)
        for thread in self._threads:
            thread.start()

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """See ``StageExecutor.shutdown``."""
        with self._changed:
            self._closed = True
            jobs = list(self._jobs.values())
            self._changed.notify_all()
        if cancel_futures:
            for job in jobs:
                job.future.cancel()
        self._stop_if_idle()
        if wait and current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def start(
        self, inputs: list[ov.Tensor], remaining: Iterator[Any] | None, timeout: float | None
    ) -> Future[Any]:
        job = Job(self._take_slot(timeout), Future(), inputs, remaining)
        with self._changed:
            self._jobs[job.slot] = job
        self._queues[0].put(job)
        return job.future

    def _take_slot(self, timeout: float | None) -> int:
        end = None if timeout is None else monotonic() + timeout
        with self._changed:
            while not self._free and not self._closed:
                if current_thread() in self._threads:
                    raise EngineError(
                        "no slot is free, and a thread of the pipeline would wait for itself: call "
                        "submit in a thread of your own, not in a callback or a sequence's steps"
                    )
                remaining_s = None if end is None else end - monotonic()
                if remaining_s is not None and remaining_s <= 0:
                    raise TimeoutError(f"{self.requests} requests are still in flight")
                self._changed.wait(remaining_s)
            if self._closed:
                raise EngineError("the pipeline is shut down and takes no requests")
            return self._free.pop()

    def _serve(self, number: int) -> None:
        """Run a stage on one request after another."""
        while (job := self._queues[number].get()) is not None:
            first = number == 0 and not job.done
            if first and not job.future.set_running_or_notify_cancel():
                self._release(job)
                continue
            try:
                if first and job.rest is not None:  # a sequence begins on an empty state
                    for stage in self.stages:
                        stage.requests[job.slot].reset_state()
                self.stages[number].run(job.slot, job.inputs, self.stages)
            except BaseException as error:
                failure = StageError(self.stages[number].name, error)
                failure.__cause__ = error
                self._fail(job, failure)
                continue
            if number + 1 < len(self.stages):
                self._queues[number + 1].put(job)
            else:
                self._finish_inference(job)

    def _finish_inference(self, job: Job) -> None:
        """Go on with the next inference of a sequence, or hand over the outputs."""
        try:
            job.done.append(self._copy_outputs(job.slot))
            following = None if job.rest is None else advance(job.rest, job.done[-1])
            if following is not None:
                job.inputs = self.reader.read(following)
        except BaseException as error:
            self._fail(job, error)
            return
        if following is not None:
            self._queues[0].put(job)
            return
        self._release(job)
        settle(job.future.set_result, job.done[0] if job.rest is None else job.done)

    def _copy_outputs(self, slot: int) -> Outputs:
        return [
            read_tensor(self.stages[stage].requests[slot].get_output_tensor(port))
            for stage, port in self._outputs
        ]

    def _fail(self, job: Job, error: BaseException) -> None:
        self._release(job)
        settle(job.future.set_exception, error)

    def _release(self, job: Job) -> None:
        with self._changed:
            del self._jobs[job.slot]
            self._free.append(job.slot)
            self._changed.notify()
        self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        with self._changed:
            if not self._closed or self._stopped or len(self._free) < self.requests:
                return
            self._stopped = True
        for stage, queue in zip(self.stages, self._queues, strict=True):
            for _ in range(stage.workers):
                queue.put(None)


@atexit.register
def shut_all_down() -> None:
    """Wait for inferences that run: the engine aborts a program that ends during one."""
    for threads in list(RUNNING):
        threads.shutdown(cancel_futures=True)


def settle(resolve: Callable[[Any], None], value: Any) -> None:
    """Set a future's result or exception, and survive what its callbacks raise.

    A future logs exceptions of its callbacks, but lets ``SystemExit`` and ``KeyboardInterrupt``
    through, which would end the thread of a stage with all requests behind it.
    """
    try:
        resolve(value)
    except BaseException:
        LOGGER.exception("a callback of a pipeline's future raised")


def advance(steps: Iterator[Any], outputs: Outputs) -> Any:
    """The inputs of the next step; None when there is none."""
    try:
        return steps.send(outputs) if isinstance(steps, Generator) else next(steps)
    except StopIteration:
        return None
