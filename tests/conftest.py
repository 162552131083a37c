# White-box tests of backends.measured, backends.simulated, models
from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch, which small graphs slow down else

import ctypes
import gc
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import openvino as ov
import pytest
from hypothesis import settings

from placement_gym.backends.measured import assembly, build_measured_backend, profile_path
from placement_gym.backends.measured.engine import Inspection
from placement_gym.backends.measured.kept_profiles import keep
from placement_gym.backends.simulated import build
from placement_gym.bench.run import BenchEnv
from placement_gym.graph import OpGraph, Units, extract
from placement_gym.hardware import TESTBED, DeviceSpec, SignalStack
from placement_gym.models import ModelSpec, built_in, load_model, loading
from placement_gym.problem.costs import CostTable, analytic
from placement_gym.solvers import beams, search

LONGEST_FILES = ("test_contracts.py", "test_isolated.py", "test_executors.py")
"""They begin first."""
GPU_COMMAND = "tests/support/gpu/with_gpu python -m pytest -m gpu_plugin"
"""Sets OpenVINO's GPU plugin up on the processor, and runs the tests that need it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker waits for the other at the end.

    What needs a GPU is skipped where this process was started without one.
    """
    items.sort(key=lambda item: not item.nodeid.split("::")[0].endswith(LONGEST_FILES))
    if "GPU_LAYER_CACHE" not in os.environ:
        absent = pytest.mark.skip(reason=f"needs a GPU: {GPU_COMMAND}")
        for item in items:
            if "gpu_plugin" in item.keywords:
                item.add_marker(absent)


def pytest_collection_finish() -> None:
    """Have collections of garbage leave out what is imported, which stays."""
    gc.freeze()


SCHEDULES = (
    ("search", "dp", "serial", "list", "placeto"),
    (
        *("hill-climb", "event", "giph", "tarnawski-latency", "tarnawski-throughput", "loads"),
        "bounds",
    ),
)
"""Schedules, agents and bounds whose kernels are compiled, for each of two processes.

What both need comes first in one and last in the other.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels once, on two cores, before the workers of pytest-xdist need them."""
    if hasattr(config, "workerinput"):
        return
    remove_outdated_kernels()
    if not getattr(config.option, "numprocesses", None):
        return
    script = Path(__file__).parent / "support" / "compile_kernels.py"
    processes = [subprocess.Popen([sys.executable, str(script), *names]) for names in SCHEDULES]
    for process in processes:
        process.wait()


def remove_outdated_kernels() -> None:
    """Have kernels compiled again where a file of their folder is newer.

    numba looks at a kernel's own file alone, and would keep one whose parts have changed.
    """
    for folder in (Path(beams.__file__).parent, Path(search.__file__).parent):
        changed = max(file.stat().st_mtime for file in folder.glob("*.py"))
        for file in folder.glob("__pycache__/*.nb[ci]"):
            if file.stat().st_mtime < changed:
                file.unlink()


settings.register_profile("tests", deadline=None, max_examples=25)
settings.load_profile("tests")


@pytest.fixture
def signals_on_the_main_stack() -> None:
    """For tests that interrupt this process, in which others have used OpenVINO.

    Its plugins may have left a stack for signals that is freed (see ``keep_signal_stack``); and a
    shell starts what runs in the background with interrupts ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    disabled = SignalStack(None, 2, 0)
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(disabled), None) == 0


@pytest.fixture(scope="session", autouse=True)
def own_profiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Profiles are measured anew and kept for one run of the tests, which has its own lock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PLACEMENT_GYM_LOCK", str(tmp_path_factory.mktemp("lock") / "measure.lock"))
        yield


@pytest.fixture(scope="session", autouse=True)
def models_built_once() -> Iterator[None]:
    """Built-in models are clones of the first of their name, whose weights they share."""
    build = loading.build
    first = lru_cache(8)(lambda name: build(built_in.match_built_in(name)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "build", lambda match: first(match.string).clone())
        yield


def is_built_in(spec: ModelSpec) -> bool:
    own = spec.inputs is not None  # which specs are not compared by
    return isinstance(spec.model, str) and bool(built_in.match_built_in(spec.model)) and not own


@pytest.fixture(scope="session", autouse=True)
def inspections() -> Iterator[Callable[..., Any]]:
    """Built-in models are inspected once, as the process for it takes seconds to start.

    Tests of that process clear the cache.
    """
    load_and_inspect = assembly.load_and_inspect
    once = lru_cache(64)(load_and_inspect)

    def inspect(
        spec: ModelSpec, devices: Sequence[DeviceSpec], timeout_s: float
    ) -> tuple[ov.Model, Inspection]:
        if not is_built_in(spec):
            return load_and_inspect(spec, devices, timeout_s)
        return spec.load(), once(spec, tuple(devices), timeout_s)[1]

    with mock.patch.object(assembly, "load_and_inspect", inspect):
        yield once


@pytest.fixture(scope="session", autouse=True)
def units_grouped_once() -> Iterator[None]:
    """Units of built-in models are made once; the fused ones anew, from what is inspected once."""
    group_model = build.group_model
    once = lru_cache(32)(group_model)

    def group(spec: ModelSpec) -> Units:
        return once(spec) if is_built_in(spec) and not spec.fused else group_model(spec)

    with mock.patch.object(build, "group_model", group):
        yield


@pytest.fixture(scope="session", autouse=True)
def pictures() -> Iterator[Callable[[], AbstractContextManager[object]]]:
    """Runs leave out their pictures, which take longer than they do, but ``with pictures():``."""
    from placement_gym.view import figures

    drawing = partial(mock.patch.object, figures, "draw_if_possible", figures.draw_if_possible)
    with mock.patch.object(figures, "draw_if_possible", return_value=""):
        yield drawing


@pytest.fixture(scope="session")
def tiny_profile(own_profiles: None) -> CostTable:
    """Analytic costs of the toy on the CPU test bed, kept as if they were its profile."""
    backend = build_measured_backend(ModelSpec("tiny"), TESTBED, isolate=False)
    costs = replace(analytic(backend.problem.units.graph, TESTBED), source="profiled")
    keep(costs, profile_path(backend), "the profile")
    return costs


@pytest.fixture
def bench_env() -> BenchEnv:
    """The toy on its simulated twin."""
    return BenchEnv.make("DevicePlacementSim-v0", {"model": "tiny"})


@pytest.fixture(scope="session")
def built() -> Callable[[str], ov.Model]:
    """Built-in models by name, each built once; read them, do not change them."""
    return cache(load_model)


@pytest.fixture(scope="session")
def graph_of(built: Callable[[str], ov.Model]) -> Callable[[str, str], OpGraph]:
    """Graphs of built-in models by name and view, each extracted once."""
    return cache(lambda name, view: extract(built(name), view))
