"""Traces by the clock: plans at work, and programs that take cores from them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.envs.online.executor import PlanExecutor
from placement_gym.envs.online.kernel import State, find_pace
from placement_gym.envs.online.observation import Seen, observe
from placement_gym.envs.online.plans import PlanStage, PlanTable
from placement_gym.envs.online.traces import Trace
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.models.loading import load
from placement_gym.models.union import parse_rate
from placement_gym.workloads.samples import sample_inputs

LOADS, RUNS = 3, 6
"""Times that a stage is loaded, and runs each time; the fastest count, as others only slow them."""
DRAIN_S = 120.0
"""Seconds after which requests that have no answer count as failed."""
BURN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(10_000))"
"""Takes a core until the program whose number it is given ends, however that ends."""


class Machine:
    """This machine's devices with plans on them, and a program for each that takes its core.

    Args:
        plans: The plans.
        models: Names or paths of their models, to take times of stages and of loading from this
            machine; None if the plans state them, and models are built in.
        pace: Above 1, devices have to be processors of one thread, each with a core of its own.

    Raises:
        UserError: The load of other programs cannot be controlled, or a plan cannot be run.
    """

    def __init__(self, plans: PlanTable, models: Sequence[str] | None, pace: float) -> None:
        cores = find_cores(plans.devices)
        if pace > 1.0 and cores is None:
            raise UserError(
                "other programs are only controlled where each device is a CPU of one thread with "
                "a core of its own, as in 'cpu-testbed-pair': pass pace=1 for none"
            )
        names = [model.name for model in plans.models]
        sources = [parse_rate(model)[0] for model in models or names]
        loaded = dict(zip(names, map(load, sources), strict=True))
        self.inputs = [sample_inputs(model) for model in loaded.values()]
        self.plans = plans
        if models is not None:
            with PlanExecutor(plans, loaded, cores) as executor:
                self.plans = measure(executor, self.inputs)
        self.executor = PlanExecutor(self.plans, loaded, cores)
        burnt = cores if cores and pace > 1.0 else []
        burn = [sys.executable, "-c", BURN, str(os.getpid())]
        self.burners = [subprocess.Popen(burn) for _ in burnt]
        for process, number in zip(self.burners, burnt, strict=True):
            process.send_signal(signal.SIGSTOP)
            os.sched_setaffinity(process.pid, {number})

    def play(self, trace: Trace, pace: float, observe_load: bool, gap_ms: float) -> RealTime:
        """Begin a trace with idle devices that hold nothing."""
        return RealTime(self, trace, pace, observe_load, gap_ms)

    def burn(self, trace: Trace, stop: Event) -> None:
        """Let the other programs begin and end as in a trace; then stop them."""
        began_s, before = perf_counter(), [False] * len(self.burners)
        while not stop.wait(0.002):
            now_ms = (perf_counter() - began_s) * 1e3
            for device, process in enumerate(self.burners):
                busy = np.searchsorted(trace.toggles_ms[device], now_ms) % 2 == 1
                if busy != before[device]:
                    process.send_signal(signal.SIGCONT if busy else signal.SIGSTOP)
                    before[device] = busy
        for process in self.burners:
            process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the devices' threads and the other programs."""
        for process in self.burners:
            process.kill()
            process.wait()
        self.executor.__exit__()


def find_cores(devices: Sequence[DeviceSpec]) -> list[int] | None:
    """A core for each device, if each is a processor of one thread."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))[: len(devices)]
    alone = all(device.kind == "CPU" and device.threads == 1 for device in devices)
    return cores if alone and len(cores) == len(devices) else None


def measure(executor: PlanExecutor, inputs: Sequence[Any]) -> PlanTable:
    """The plans with the times of stages, and of their loading, on this machine."""
    plans, n_stages = executor.plans, len(executor.tables.device)
    took_ms = np.empty((LOADS, RUNS, n_stages, 2))
    for load_number in range(LOADS):
        executor.forget(0.0)
        for run in range(RUNS):
            for model, own in enumerate(plans.plans):
                for plan in range(len(own)):
                    executor.submit(model, plan, inputs[model]).result()
            took_ms[load_number, run] = [executor.took_ms[stage] for stage in range(n_stages)]
    load_ms, run_ms = took_ms[:, 0, :, 0].min(axis=0), took_ms[:, :, :, 1].min(axis=(0, 1))
    times = iter(zip(run_ms.tolist(), load_ms.tolist(), strict=True))

    def timed(stage: PlanStage) -> PlanStage:
        ms, load_ms = next(times)
        return replace(stage, ms=ms, load_ms=load_ms)

    return replace(
        plans,
        plans=tuple(
            tuple(replace(plan, stages=tuple(map(timed, plan.stages))) for plan in own)
            for own in plans.plans
        ),
    )


class RealTime:
    """Plays a trace on compiled plans: the measured counterpart of ``Simulation``.

    Args:
        machine: What runs them.
        trace: What is played; it begins now.
        pace: See ``OnlineEnv``.
        observe_load: See ``OnlineEnv``.
        gap_ms: See ``Simulation``.
    """

    state: State

    def __init__(
        self, machine: Machine, trace: Trace, pace: float, observe_load: bool, gap_ms: float
    ) -> None:
        self.machine, self.executor, self.trace = machine, machine.executor, trace
        self.pace, self.observe_load = pace, observe_load
        self.request, self.pending = 0, dict[Future[Any], int]()
        self.executor.forget(gap_ms)
        self.stop, self.began_s = Event(), perf_counter()
        Thread(target=machine.burn, args=(trace, self.stop), daemon=True).start()

    @property
    def over(self) -> bool:
        """True after the last request."""
        return self.request == len(self.trace.models)

    @property
    def models(self) -> IntArray:
        """(1,) model of the request; after the last one that of the last."""
        models: IntArray = self.trace.models[[self.request - self.over]]
        return models

    def arrive(self) -> Seen:
        """(1, n_entries) wait for the request to arrive; what is seen then."""
        now_ms = float(self.trace.arrivals_ms[self.request - self.over])
        sleep(max(self.began_s + now_ms / 1e3 - perf_counter(), 0.0))
        toggles_ms = self.trace.toggles_ms
        pace = np.array([[find_pace(own, self.pace, now_ms) for own in toggles_ms]])
        state = self.executor.look()
        self.state = state._replace(pace=pace if self.observe_load else np.ones_like(pace))
        return observe(self.executor.tables, self.state, self.models)

    def serve(self, plans: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Queue the request, and go on to the next.

        Returns:
            Of the requests that are done, and were not before: models, latencies in ms, nan where
            one failed; and bytes that were loaded. After the last one all are waited for.
        """
        model, before = int(self.models[0]), self.executor.used >= 0
        future = self.executor.submit(model, int(plans[0]), self.machine.inputs[model])
        self.pending[future] = model
        loaded = ~before & (self.executor.used >= 0)
        self.request += 1
        if self.over:
            wait(self.pending, DRAIN_S)
            self.stop.set()
        done = [request for request in self.pending if request.done() or self.over]
        models = np.array([self.pending.pop(request) for request in done], dtype=np.int64)
        ms = np.array([read_ms(request) for request in done])
        return models, ms, np.array([self.executor.tables.held_bytes[loaded].sum()])


def read_ms(future: Future[Any]) -> float:
    """Latency of a request; nan if it failed, or has no answer."""
    failed = not future.done() or future.exception() is not None
    return float("nan") if failed else float(future.result()[1] * 1e3)
