"""Stages at work at the same time, each on another request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Self
from weakref import finalize

from placement_gym.backends.pipeline.cutting import Port
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import Stage
from placement_gym.backends.pipeline.stage_threads import Outputs, StageThreads
from placement_gym.base.errors import UserError


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
        self._threads = StageThreads(stages, outputs, reader)
        self._stateful = stateful
        self.stages, self.requests = self._threads.stages, self._threads.requests
        # threads of an executor that nobody uses any more end with what is in flight
        self._end = finalize(self, self._threads.shutdown, wait=False)

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
                "a stateful model serves whole sequences: use submit_sequence, which runs the "
                "inferences of one on a state that is reset first"
            )
        return self._threads.start(self._threads.reader.read(inputs), None, timeout)

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
        remaining = iter(steps)
        try:
            first = self._threads.reader.read(next(remaining))
        except StopIteration:
            raise UserError("a sequence needs at least one step") from None
        return self._threads.start(first, remaining, timeout)

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
            for array in inputs:
                pending.append(self.submit(array, timeout))
                if len(pending) >= self.requests:
                    yield pending.popleft().result(timeout)
            while pending:
                yield pending.popleft().result(timeout)
        finally:
            for future in pending:
                future.cancel()

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """Refuse further requests; threads end after those in flight.

        An executor that is dropped is shut down without waiting. At the end of the program all are
        shut down, and requests that no stage has begun are cancelled.

        Args:
            wait: Return when they have, which a stage that hangs never does. Ignored in a
                callback of a future, which runs in one of the threads.
            cancel_futures: Cancel requests that no stage has begun.
        """
        self._threads.shutdown(wait, cancel_futures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)
