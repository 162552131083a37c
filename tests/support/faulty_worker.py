# White-box tests of backends.measured
"""The worker of a measured backend, with faults: ``python -m faulty_worker``.

The file that ``FAULTS`` names has a line for each coming measurement: the name of a fault, or
``-``. Each measurement takes one, in whichever process; later ones have no fault.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from placement_gym.backends.measured import TimingProtocol, candidate
from placement_gym.backends.measured.candidate import CompiledPlacement
from placement_gym.backends.measured.server import Server
from placement_gym.backends.measured.timing import Race
from placement_gym.base.processes import Parent, serve

ENDS = {"segv": signal.SIGSEGV, "kill": signal.SIGKILL, "abort": signal.SIGABRT}
EXCEPTIONS: dict[str, Exception] = {
    "refused": RuntimeError("Exception from plugin.cpp:1:\nthe plugin is tired"),
    "odd": KeyError("unordered_map::at"),
    "memory": MemoryError("std::bad_alloc"),
    "later": OSError(11, "Resource temporarily unavailable"),
}
LATENCIES = {"nan": np.nan, "inf": np.inf, "negative": -1.0, "zero": 0.0}
OUTPUTS = {
    "wrong": lambda outputs: [output + 1.0 for output in outputs],
    "fewer": lambda outputs: outputs[:-1],
    "longer": lambda outputs: [np.append(output, 0.0) for output in outputs],
    "nan-outputs": lambda outputs: [np.full_like(output, np.nan) for output in outputs],
}
FAULTS = (
    *ENDS,
    "exit",
    "hang",
    "stop",
    *EXCEPTIONS,
    *LATENCIES,
    *OUTPUTS,
    "slow",
    "garbage",
    "no-room",
)
REFUSALS = ("refused", "odd", *OUTPUTS)
"""Faults that make the placement infeasible at once."""


def take_fault() -> str:
    """The fault of the coming measurement."""
    path = Path(os.environ["FAULTS"])
    first, _, rest = path.read_text().partition("\n")
    path.write_text(rest)
    return first


def strike(fault: str) -> None:
    """Do what no exception can tell of."""
    if fault in ENDS:
        os.kill(os.getpid(), ENDS[fault])
    elif fault == "exit":
        os._exit(7)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "hang":
        time.sleep(1000)
    elif fault == "slow":
        time.sleep(0.2)
    elif fault == "garbage":
        print('{"value": {"latency_ms": 0.001}}', flush=True)
        os.write(1, b'{"value": 7}\n')


@contextmanager
def corrupt(worker: Server, fault: str) -> Iterator[None]:
    """Let the engine of a measurement fail."""
    if fault in EXCEPTIONS:
        with patch.object(candidate, "compile_partition", side_effect=EXCEPTIONS[fault]):
            yield
    elif fault in LATENCIES:
        ms = LATENCIES[fault]
        with patch.object(Race, "run", lambda race, *_: see(race, ms)):
            yield
    elif fault in OUTPUTS:
        found = CompiledPlacement.outputs
        with patch.object(CompiledPlacement, "outputs", lambda one: OUTPUTS[fault](found(one))):
            yield
    elif fault == "no-room":
        with no_room():
            yield
    else:
        yield


def see(race: Race, ms: float) -> None:
    """Let a clock show the same for all arms, undisturbed."""
    race.compilations.append(np.stack([np.full((2, race.n_arms), row) for row in (ms, 0.0, 0.0)]))


@contextmanager
def no_room() -> Iterator[None]:
    """Let the system refuse this process any more memory."""
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class FaultyWorker(Server):
    def answer(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        if question != "measure_once":
            return super().answer(question, protocol, *arguments)
        with self.worker.lock():  # it strikes while it holds the lock
            self.worker.check_reference()
            fault = take_fault()
            strike(fault)
            with corrupt(self, fault):
                return super().answer(question, protocol, *arguments)


def make(start: dict[str, Any], parent: Parent) -> Any:
    return FaultyWorker(start, parent)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))
    serve(make)
