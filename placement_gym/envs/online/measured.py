"""Devices of this machine that serve requests by plans, and programs that take cores from them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, wait
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.envs.online.executor import PlanExecutor
from placement_gym.envs.online.kernel import State, Trace, find_pace
from placement_gym.envs.online.plans import PlanTable
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.models.loading import load
from placement_gym.models.members import parse_rate
from placement_gym.workloads.samples import sample_inputs

LOADS, RUNS = 3, 6
"""Times that a stage is loaded, and runs each time; the fastest count, as others only slow them."""
BURN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(10_000))"
"""Takes a core until the program whose number it is given ends, however that ends."""


class MeasuredDevices:
    """Plays one trace after another by the clock: the counterpart of ``SimulatedDevices``.

    Args:
        plans: The plans.
        models: Names or paths of their models, to take times of stages and of loading from this
            machine; None if the plans state them, and models are built in.
        pace: Above 1, devices have to be processors of one thread, each with a core of its own,
            which another program takes while a trace says so.

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
        self.inputs, self.pace = [sample_inputs(model) for model in loaded.values()], pace
        self.executor = PlanExecutor(plans, loaded, cores)
        self.plans = plans if models is None else measure(self.executor, self.inputs)
        burnt = cores if cores and pace > 1.0 else []
        burn = [sys.executable, "-c", BURN, str(os.getpid())]
        self.burners = [subprocess.Popen(burn) for _ in burnt]
        for process, number in zip(self.burners, burnt, strict=True):
            process.send_signal(signal.SIGSTOP)
            os.sched_setaffinity(process.pid, {number})
        self.stop = Event()

    def begin(self, trace: Trace, gap_ms: float) -> None:
        """Begin a trace, now, with idle devices that hold nothing; see ``SimulatedDevices``."""
        self.trace, self.pending = trace, dict[Future[Any], int]()
        self.executor.use(self.plans, gap_ms)
        self.stop.set()
        self.stop, self.began_s = Event(), perf_counter()
        Thread(target=self.burn, args=(trace, self.began_s, self.stop), daemon=True).start()

    def burn(self, trace: Trace, began_s: float, stop: Event) -> None:
        """Let the other programs begin and end as in a trace; then stop them."""
        before = [False] * len(self.burners)
        while not stop.wait(0.002):
            now_ms = (perf_counter() - began_s) * 1e3
            for device, process in enumerate(self.burners):
                busy = find_pace(trace.toggles_ms[device], 2.0, now_ms) > 1.0
                if busy != before[device]:
                    process.send_signal(signal.SIGCONT if busy else signal.SIGSTOP)
                    before[device] = busy
        for process in self.burners:
            process.send_signal(signal.SIGSTOP)

    def look(self, request: int) -> State:
        """Wait for a request to arrive; the devices as it does."""
        now_ms = float(self.trace.arrivals_ms[request])
        sleep(max(self.began_s + now_ms / 1e3 - perf_counter(), 0.0))
        state = self.executor.look()
        state.pace[:] = [find_pace(own, self.pace, now_ms) for own in self.trace.toggles_ms]
        return state

    def serve(self, request: int, plan: int) -> tuple[IntArray, FloatArray, float]:
        """Queue a request; see ``SimulatedDevices``. The last one waits for all others."""
        model, used = int(self.trace.models[request]), self.executor.state.used
        before = used >= 0
        self.pending[self.executor.submit(model, plan, self.inputs[model])] = model
        loaded_bytes = float(self.executor.tables.held_bytes[~before & (used >= 0)].sum())
        over = request + 1 == len(self.trace.models)
        if over:
            wait(self.pending)  # engines that hang are replaced: each has an answer
            self.stop.set()
        done = [future for future in self.pending if future.done()]
        models = np.array([self.pending.pop(future) for future in done], dtype=np.int64)
        return models, np.array([read_ms(future) for future in done]), loaded_bytes

    def close(self) -> None:
        """End the devices' threads and the other programs."""
        self.stop.set()
        for process in self.burners:
            process.kill()
            process.wait()
        self.executor.__exit__()


def read_ms(future: Future[Any]) -> float:
    """Latency of a request; nan if it failed."""
    return float("nan") if future.exception() else float(future.result()[1] * 1e3)


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
        executor.use(plans)
        for run in range(RUNS):
            for model, own in enumerate(plans.plans):
                for plan in range(len(own)):
                    executor.submit(model, plan, inputs[model]).result()
            took_ms[load_number, run] = [executor.took_ms[stage] for stage in range(n_stages)]
    load_ms, run_ms = took_ms[:, 0, :, 0].min(axis=0), took_ms[:, :, :, 1].min(axis=(0, 1))
    values = plans.to_json()
    stages = (stage for own in values["plans"] for plan in own for stage in plan["stages"])
    for stage, ms, stage_load_ms in zip(stages, run_ms, load_ms, strict=True):
        stage |= {"ms": float(ms), "load_ms": float(stage_load_ms)}
    return PlanTable.of_json(values)
