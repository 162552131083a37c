"""Traces by the clock: plans at work, and programs that take cores from them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.envs.online.executor import PlanExecutor
from placement_gym.envs.online.kernel import find_pace
from placement_gym.envs.online.observation import Seen
from placement_gym.envs.online.plans import PlanStage, PlanTable
from placement_gym.envs.online.traces import Trace
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.models.loading import load
from placement_gym.workloads.samples import sample_inputs

RUNS = 5
"""Inferences of a stage that are timed; their median counts."""
DRAIN_S = 120.0
"""Seconds after which requests that have no answer count as failed."""


class Burners:
    """A program for each device that does nothing but take the device's core, on and off."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.processes = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cores
        ]
        for process, core in zip(self.processes, cores, strict=True):
            process.send_signal(signal.SIGSTOP)
            os.sched_setaffinity(process.pid, {core})

    def play(self, trace: Trace, pace: float, stop: Event) -> None:
        """Begin and end with the other programs of a trace; then stop."""
        load, began_s = trace.load(pace), perf_counter()
        before = [False] * len(self.processes)
        while not stop.wait(0.002):
            now_ms = (perf_counter() - began_s) * 1e3
            for device, process in enumerate(self.processes):
                taken = find_pace(load, device, now_ms) > 1.0
                if taken != before[device]:
                    process.send_signal(signal.SIGCONT if taken else signal.SIGSTOP)
                    before[device] = taken
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the programs."""
        for process in self.processes:
            process.kill()
            process.wait()


class RealTime:
    """Plays a trace on compiled plans: the measured counterpart of ``Simulation``.

    Args:
        executor: Runs the plans.
        burners: Other programs, or None.
        trace: What is played; it begins with the first call of ``arrive``.
        pace: See ``OnlineEnv``.
        observe_load: See ``OnlineEnv``.
        gap_ms: See ``Simulation``.
        inputs: Of a request of each model.
    """

    def __init__(
        self,
        executor: PlanExecutor,
        burners: Burners | None,
        trace: Trace,
        pace: float,
        observe_load: bool,
        gap_ms: float,
        inputs: Sequence[Any],
    ) -> None:
        self.executor, self.trace, self.inputs = executor, trace, inputs
        self.load, self.observe_load = trace.load(pace), observe_load
        self.request, self.pending = 0, dict[Future[Any], int]()
        self.queue_ms = np.zeros(len(executor.plans.devices))
        executor.forget(gap_ms)
        self.stop, self.began_s = Event(), perf_counter()
        if burners is not None:
            play = Thread(target=burners.play, args=(trace, pace, self.stop), daemon=True)
            play.start()

    @property
    def over(self) -> bool:
        """True after the last request."""
        return self.request == len(self.trace.models)

    @property
    def models(self) -> IntArray:
        """(1,) model of the request; after the last one that of the last."""
        models: IntArray = self.trace.models[[self.request - self.over]]
        return models

    def know(self) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, float]:
        """See ``Simulation.know``."""
        executor = self.executor
        return self.queue_ms, self.pace, executor.used, executor.mix, executor.gap_ms

    def arrive(self) -> Seen:
        """(1, n_entries) wait for the request to arrive; what is seen then."""
        now_ms = float(self.trace.arrivals_ms[self.request - self.over])
        sleep(max(self.began_s + now_ms / 1e3 - perf_counter(), 0.0))
        self.queue_ms = self.executor.queue_ms()
        paces = [find_pace(self.load, device, now_ms) for device in range(len(self.queue_ms))]
        self.pace = np.array(paces) if self.observe_load else np.ones(len(paces))
        return self.executor.observe(int(self.models[0]), self.pace)[None]

    def serve(self, plans: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Queue the request, and go on to the next.

        Returns:
            Of the requests that are done, and were not before: models, latencies in ms, nan where
            one failed; and bytes that were loaded. After the last one all are waited for.
        """
        model, before = int(self.models[0]), self.executor.used >= 0
        future = self.executor.submit(model, int(plans[0]), self.inputs[model])
        self.pending[future] = model
        loaded = ~before & (self.executor.used >= 0)
        self.request += 1
        if self.over:
            wait(self.pending, DRAIN_S)
            self.stop.set()
        done = [one for one in self.pending if one.done() or self.over]
        models = np.array([self.pending.pop(one) for one in done], dtype=np.int64)
        ms = np.array([read_ms(one) for one in done])
        return models, ms, np.array([self.executor.tables.held_bytes[loaded].sum()])


def read_ms(future: Future[Any]) -> float:
    """Latency of a request; nan if it failed, or has no answer."""
    if not future.done() or future.exception() is not None:
        return float("nan")
    return float(future.result()[1] * 1e3)


class Machine:
    """This machine's devices with plans on them, and the programs that take their cores.

    Args:
        plans: The plans.
        measure: Whether to take times of stages and of loading from this machine.
        pace: Above 1, devices have to be processors of one thread, each with a core of its own.
        models: Model or path by name, for what is not built in.

    Raises:
        UserError: The load of other programs cannot be controlled, or a plan cannot be run.
    """

    def __init__(
        self, plans: PlanTable, measure: bool, pace: float, models: Mapping[str, Any]
    ) -> None:
        import openvino as ov

        cores = find_cores(plans.devices)
        if pace > 1.0 and cores is None:
            raise UserError(
                "other programs are only controlled where each device is a CPU of one thread with "
                "a core of its own, as in 'cpu-testbed-pair': pass pace=1 for none"
            )
        self.models = {one.name: load(models.get(one.name, one.name)) for one in plans.models}
        self.inputs = [sample_inputs(model) for model in self.models.values()]
        self.core, self.cores = ov.Core(), cores
        self.plans = self.measure(plans) if measure else plans
        self.executor = PlanExecutor(self.core, self.plans, self.models, cores)
        self.burners = None if cores is None or pace == 1.0 else Burners(cores)

    def measure(self, plans: PlanTable) -> PlanTable:
        """The plans with times of this machine: medians of a stage's runs, and of its loading."""
        with PlanExecutor(self.core, plans, self.models, self.cores) as executor:
            for model, own in enumerate(plans.plans):
                for plan in range(len(own)):
                    for _ in range(1 + RUNS):
                        executor.submit(model, plan, self.inputs[model]).result()
            timings = iter([executor.timings[stage] for stage in sorted(executor.timings)])
        return replace(
            plans,
            plans=tuple(
                tuple(
                    replace(plan, stages=tuple(timed(one, next(timings)) for one in plan.stages))
                    for plan in own
                )
                for own in plans.plans
            ),
        )

    def play(self, trace: Trace, pace: float, observe_load: bool, gap_ms: float) -> RealTime:
        """Begin a trace with idle devices that hold nothing."""
        about = trace, pace, observe_load, gap_ms
        return RealTime(self.executor, self.burners, *about, self.inputs)

    def close(self) -> None:
        """End the devices' threads and the other programs."""
        if self.burners is not None:
            self.burners.close()
        self.executor.__exit__(None, None, None)


def timed(stage: PlanStage, timings: Sequence[tuple[float, float]]) -> PlanStage:
    """The stage with measured times; the first run is that which loaded."""
    run_ms = float(np.median([run_s for _, run_s in timings[1:]]) * 1e3)
    return replace(stage, ms=run_ms, load_ms=float(timings[0][0] * 1e3))


def find_cores(devices: Sequence[DeviceSpec]) -> list[int] | None:
    """A core for each device, if each is a processor of one thread."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))[: len(devices)]
    alone = all(device.kind == "CPU" and device.threads == 1 for device in devices)
    return cores if alone and len(cores) == len(devices) else None
