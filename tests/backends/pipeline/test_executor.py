"""Requests in flight: order, backpressure, failures, and the end of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from threading import Event, Semaphore
from typing import Any

import numpy as np
import openvino as ov
import pytest
from processes import run_python

from placement_gym import EngineError, StageError, UserError
from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.backends.pipeline.stage import Stage

TIMEOUT_S = 10.0
SAVED = Path(__file__).parents[2] / "data" / "saved"


class Tensor:
    element_type = ov.Type.f64

    def __init__(self, value: float) -> None:
        self.data = np.array([value])


class FakeRequest:
    """Adds what it is given, plus one, after ``gate`` lets it; fails if that is -13."""

    def __init__(self, gate: Semaphore | None) -> None:
        self.gate = gate
        self.inputs: dict[int, Tensor] = {}
        self.output = Tensor(0.0)
        self.begun = Event()
        self.resets = 0

    def set_input_tensor(self, index: int, tensor: Tensor) -> None:
        self.inputs[index] = tensor

    def get_output_tensor(self, port: int) -> Tensor:
        return self.output

    def reset_state(self) -> None:
        self.resets += 1

    def infer(self) -> None:
        self.begun.set()
        if self.gate is not None:
            assert self.gate.acquire(timeout=TIMEOUT_S)
        total = sum(float(tensor.data[0]) for tensor in self.inputs.values())
        if total == -13:
            raise RuntimeError("Exception from src/x.cpp:1:\nthe device is on fire")
        self.output = Tensor(total + 1)


class FakeReader:
    def read(self, inputs: Any) -> list[Tensor]:
        return [Tensor(inputs)]


def fake_stage(name: str, sources: Any, slots: int, gate: Semaphore | None = None) -> Stage:
    requests: Any = [FakeRequest(gate) for _ in range(slots)]
    return Stage(name, "CPU", (), None, sources, requests)


def executor(
    slots: int = 3, gates: tuple[Semaphore | None, ...] = (None, None), stateful: bool = False
) -> StageExecutor:
    """A diamond: the last stage reads the first one and the model's input, and adds 1 to both."""
    first = fake_stage("stage 0 on A", ((-1, 0),), slots, gates[0])
    last = fake_stage("stage 1 on B", ((0, 0), (-1, 0)), slots, gates[1])
    reader: Any = FakeReader()
    return StageExecutor([first, last], [(1, 0)], reader, stateful)


@pytest.fixture
def gate() -> Iterator[Semaphore]:
    """Keeps a stage from finishing until it is released; open when a test ends."""
    closed = Semaphore(0)
    yield closed
    closed.release(100)


def value(outputs: Any) -> float:
    return float(outputs[0][0])


def test_map_keeps_the_order_of_many_requests() -> None:
    with executor() as running:
        found = [value(outputs) for outputs in running.map(iter(range(50)))]
    assert found == [2 * x + 2 for x in range(50)]


def test_map_takes_inputs_only_as_slots_become_free(gate: Semaphore) -> None:
    taken: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            taken.append(len(taken))
            yield taken[-1]

    with executor(slots=2, gates=(None, gate)) as running:
        results = running.map(endless(), TIMEOUT_S)
        gate.release(3)
        assert [value(next(results)) for _ in range(3)] == [2, 4, 6]
        assert len(taken) <= 3 + 2
        gate.release(10)
        results.close()


def test_submit_waits_while_all_slots_are_in_flight(gate: Semaphore) -> None:
    with executor(slots=2, gates=(gate, None)) as running:
        first = [running.submit(x) for x in (1, 2)]
        with pytest.raises(TimeoutError, match="2 requests are still in flight"):
            running.submit(3, timeout=0.01)
        gate.release()
        third = running.submit(3, timeout=TIMEOUT_S)
        gate.release(2)
        assert [value(one.result(TIMEOUT_S)) for one in (*first, third)] == [4, 6, 8]


def test_callback_waiting_for_its_own_pipeline_is_refused(gate: Semaphore) -> None:
    submitted, refused = [], Event()

    def submit_twice(_: Any) -> None:
        submitted.append(pipeline.submit(2.0))
        with pytest.raises(EngineError, match="thread of your own"):
            pipeline.submit(3.0, timeout=0.5)
        refused.set()

    with executor(1, (gate, None)) as pipeline:
        pipeline.submit(1.0).add_done_callback(submit_twice)
        gate.release(2)
        assert refused.wait(TIMEOUT_S)
        assert value(submitted[0].result(TIMEOUT_S)) == 6.0


def test_a_callback_may_shut_its_pipeline_down(gate: Semaphore) -> None:
    pipeline, ended = executor(2, (gate, None)), Event()

    def shut_down(_: Any) -> None:
        pipeline.shutdown()
        ended.set()

    first, second = pipeline.submit(1.0), pipeline.submit(2.0)
    first.add_done_callback(shut_down)
    gate.release(2)
    assert ended.wait(TIMEOUT_S)
    assert value(second.result(TIMEOUT_S)) == 6.0


def test_stages_work_on_different_requests_at_the_same_time(gate: Semaphore) -> None:
    with executor(gates=(None, gate)) as running:
        futures = [running.submit(x) for x in range(3)]
        for request in running.stages[0].requests:
            assert request.begun.wait(TIMEOUT_S)  # the last stage has finished none
        assert not any(future.done() for future in futures)
        gate.release(3)


def test_a_failure_names_its_stage_and_the_other_requests_go_on() -> None:
    with executor() as running:
        good, bad, after = running.submit(1), running.submit(-7), running.submit(2)
        assert (value(good.result(TIMEOUT_S)), value(after.result(TIMEOUT_S))) == (4, 6)
        with pytest.raises(StageError, match="stage 1 on B failed: the device is on fire") as found:
            bad.result(TIMEOUT_S)
        assert found.value.stage == "stage 1 on B"
        assert isinstance(found.value.__cause__, RuntimeError)
        with pytest.raises(StageError, match="stage 0"):
            list(running.map([1, -13, 2]))
        assert [value(outputs) for outputs in running.map([1, 2])] == [4, 6]


def test_shutdown_finishes_what_is_in_flight_and_takes_no_more(gate: Semaphore) -> None:
    running = executor(gates=(None, gate))
    futures = [running.submit(x) for x in (1, 2, 3)]
    running.shutdown(wait=False)
    with pytest.raises(EngineError, match="shut down"):
        running.submit(4)
    gate.release(3)
    assert [value(future.result(TIMEOUT_S)) for future in futures] == [4, 6, 8]
    running.shutdown()
    running.shutdown()


def test_shutdown_cancels_what_no_stage_has_begun(gate: Semaphore) -> None:
    running = executor(gates=(gate, None))
    begun, waiting = running.submit(1), running.submit(2)
    assert running.stages[0].requests[2].begun.wait(TIMEOUT_S)  # the slot that is taken first
    running.shutdown(wait=False, cancel_futures=True)
    gate.release(2)
    assert value(begun.result(TIMEOUT_S)) == 4
    with pytest.raises(CancelledError):
        waiting.result(TIMEOUT_S)
    running.shutdown()


def test_a_waiting_submit_ends_when_the_pipeline_is_shut_down(gate: Semaphore) -> None:
    running = executor(slots=1, gates=(gate, None))
    future = running.submit(1)
    with ThreadPoolExecutor(1) as other:
        blocked = other.submit(running.submit, 2, TIMEOUT_S)
        running.shutdown(wait=False)
        with pytest.raises(EngineError, match="shut down"):
            blocked.result(TIMEOUT_S)
        gate.release()
    assert value(future.result(TIMEOUT_S)) == 4


def test_a_sequence_runs_step_by_step_on_a_state_of_its_own() -> None:
    def decode() -> Iterator[float]:
        token = 1.0
        for _ in range(3):
            outputs = yield token
            token = value(outputs)

    with executor(stateful=True) as running:
        with pytest.raises(UserError, match="submit_sequence"):
            running.submit(1)
        futures = [running.submit_sequence(decode()), running.submit_sequence([5, 6])]
        decoded, given = (future.result(TIMEOUT_S) for future in futures)
        assert [value(outputs) for outputs in decoded] == [4, 10, 22]
        assert [value(outputs) for outputs in given] == [12, 14]
        with pytest.raises(UserError, match="at least one step"):
            running.submit_sequence([])
    for stage in running.stages:
        assert sum(request.resets for request in stage.requests) == 2


def test_an_error_of_a_sequence_is_its_own() -> None:
    def broken() -> Iterator[float]:
        yield 1.0
        raise KeyError("vocabulary")

    with executor(stateful=True) as running:
        with pytest.raises(KeyError, match="vocabulary"):
            running.submit_sequence(broken()).result(TIMEOUT_S)
        assert len(running.submit_sequence([1]).result(TIMEOUT_S)) == 1


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_what_a_callback_raises_ends_no_thread(error: type[BaseException]) -> None:
    def fail(future: Any) -> None:
        raise error

    with executor() as running:
        running.submit(0.0).add_done_callback(fail)
        assert running.submit(1.0).result(TIMEOUT_S) is not None


def test_a_dropped_executor_ends_its_threads(gate: Semaphore) -> None:
    running = executor(gates=(gate, None))
    threads = running._threads._threads
    future = running.submit(0.0)
    del running
    gate.release(100)
    assert future.result(TIMEOUT_S) is not None
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)


def test_a_program_may_end_with_requests_in_flight() -> None:
    code = f"""
        import numpy as np, openvino as ov, placement_gym
        model = placement_gym.load_model({str(SAVED / "small.xml")!r})
        placed = placement_gym.Placement.load({str(SAVED / "small-placement.json")!r})
        pipeline = placement_gym.Pipeline(ov.Core(), model, placed)
        shape = list(model.inputs[0].shape)
        futures = [pipeline.submit(np.zeros(shape, np.float32)) for _ in range(3)]
        print("end")
    """
    assert run_python(dedent(code), "-W", "ignore").strip() == "end"
