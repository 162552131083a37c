"""Stages at work at the same time, each on another request."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Queue
from threading import Condition, Thread, current_thread
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from placement_gym.errors import EngineError, UserError
from placement_gym.pipeline.cutting import Port
from placement_gym.pipeline.inputs import InputReader
from placement_gym.pipeline.stage import Stage, StageError

if TYPE_CHECKING:
    import openvino as ov

Outputs = list[NDArray[Any]]


@dataclass
class Job:
    """A request in flight.

    Attributes:
        slot: The infer requests that it uses.
        future: Gets its outputs.
        inputs: Of the inference that runs.
        rest: Gives the inputs of further inferences; None for a request of a single one.
        done: Outputs of its inferences so far.
    """

    slot: int
    future: Future[Any]
    inputs: list[ov.Tensor]
    rest: Iterator[Any] | None = None
    done: list[Outputs] = field(default_factory=list)


class StageExecutor:
    """Passes requests through stages in order, as many at a time as there are slots.

    A request keeps its slot from the first stage to the last. ``submit`` waits for a free one, so
    that the queue before each stage holds no more than there are slots.

    Args:
        stages: See ``Stage``; all have the same number of infer requests.
        outputs: (n_outputs,) the stage and its output that each output of the model is.
        reader: Reads the inputs of the model.
        stateful: Whether the model keeps state, so that a request has to be a whole sequence.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        outputs: Sequence[Port],
        reader: InputReader,
        stateful: bool = False,
    ) -> None:
        self.stages = tuple(stages)
        self.requests = len(stages[0].requests)
        self._outputs = outputs
        self._reader = reader
        self._stateful = stateful
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
        for thread in self._threads:
            thread.start()

    def submit(self, inputs: Any, timeout: float | None = None) -> Future[Outputs]:
        """Run one inference; waits while ``requests`` of them are in flight.

        Args:
            inputs: As ``InferRequest.infer`` takes them: by name or index, in order, or a single
                array. They are copied.
            timeout: Seconds to wait; None waits for as long as it takes.

        Returns:
            The future (n_outputs,) arrays. ``StageError`` is what a stage raised.

        Raises:
            TimeoutError: As many requests are still in flight.
            UserError: The inputs are wrong, or the model keeps state.
            EngineError: The pipeline is shut down; or a callback of a future, which runs in a
                thread of the pipeline, would have to wait.
        """
        if self._stateful:
            raise UserError(
                "the model keeps state, so that one inference is no request: submit_sequence runs "
                "the inferences of a whole sequence on a state that is reset first"
            )
        return self._start(self._reader.read(inputs), None, timeout)

    def submit_sequence(
        self, steps: Iterable[Any], timeout: float | None = None
    ) -> Future[list[Outputs]]:
        """Run the inferences of one sequence one after another, on a state that is reset first.

        Other sequences run at the same time, each on a state of its own.

        Args:
            steps: The inputs of each inference. A generator is sent the outputs of the last one,
                as in ``outputs = yield inputs``, in a thread of the pipeline.
            timeout: See ``submit``.

        Returns:
            The future outputs of every inference.

        Raises:
            TimeoutError: See ``submit``.
            UserError: There are no steps, or the first one's inputs are wrong.
            EngineError: See ``submit``.
        """
        rest = iter(steps)
        try:
            first = self._reader.read(next(rest))
        except StopIteration:
            raise UserError("a sequence needs at least one step") from None
        return self._start(first, rest, timeout)

    def map(self, inputs: Iterable[Any], timeout: float | None = None) -> Iterator[Outputs]:
        """The outputs for each of several inputs, in their order.

        Inputs are taken as slots become free, so that they may be without end.

        Args:
            inputs: Of each request, as ``submit`` takes them.
            timeout: Seconds to wait for a slot, and for each result.

        Raises:
            TimeoutError: A request takes longer.
            StageError: A stage failed; results of later requests are dropped.
        """
        pending: deque[Future[Outputs]] = deque()
        try:
            for one in inputs:
                pending.append(self.submit(one, timeout))
                if len(pending) >= self.requests:
                    yield pending.popleft().result(timeout)
            while pending:
                yield pending.popleft().result(timeout)
        finally:
            for future in pending:
                future.cancel()

    def profile(self) -> list[dict[str, Any]]:
        """Of each stage ``stage``, ``device``, ``runs`` and ``mean_ms``: the slowest sets the pace.

        Stages of one device share it: its pace is the sum of theirs. A device of several streams
        runs as many inferences at a time, each of which takes ``mean_ms``.
        """
        return [
            {
                "stage": stage.name,
                "device": stage.device,
                "runs": stage.runs,
                "mean_ms": 1e3 * stage.busy_s / stage.runs if stage.runs else 0.0,
            }
            for stage in self.stages
        ]

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """Take no further requests; threads end when those in flight have.

        Args:
            wait: Return when they have, which a stage that hangs never does. Ignored in a
                callback of a future, which runs in one of the threads.
            cancel_futures: Cancel requests that no stage has begun.
        """
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown(cancel_futures=error is not None)

    def _start(
        self, inputs: list[ov.Tensor], rest: Iterator[Any] | None, timeout: float | None
    ) -> Future[Any]:
        job = Job(self._take_slot(timeout), Future(), inputs, rest)
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
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"{self.requests} requests are still in flight")
                self._changed.wait(left)
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
                if first and self._stateful:
                    self._reset_states(job.slot)
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

    def _reset_states(self, slot: int) -> None:
        for stage in self.stages:
            stage.requests[slot].reset_state()

    def _finish_inference(self, job: Job) -> None:
        """Go on with the next inference of a sequence, or hand over the outputs."""
        try:
            job.done.append(self._copy_outputs(job.slot))
            following = None if job.rest is None else advance(job.rest, job.done[-1])
            if following is not None:
                job.inputs = self._reader.read(following)
        except BaseException as error:
            self._fail(job, error)
            return
        if following is not None:
            self._queues[0].put(job)
            return
        self._release(job)
        job.future.set_result(job.done[0] if job.rest is None else job.done)

    def _copy_outputs(self, slot: int) -> Outputs:
        return [
            self.stages[stage].requests[slot].get_output_tensor(port).data.copy()
            for stage, port in self._outputs
        ]

    def _fail(self, job: Job, error: BaseException) -> None:
        self._release(job)
        job.future.set_exception(error)

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


def advance(steps: Iterator[Any], outputs: Outputs) -> Any:
    """The inputs of the next step; None when there is none."""
    try:
        return steps.send(outputs) if isinstance(steps, Generator) else next(steps)
    except StopIteration:
        return None
