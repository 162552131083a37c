# White-box tests of base
"""Kernels: structs that they take by reference, and what is said while they compile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from disks import full_disk

from placement_gym.base import (
    PlacementGymWarning,
    Struct,
    cpu_now_s,
    inlined_part,
    kernel,
    kernels,
    now_s,
    part,
    progress_bar,
    structs,
)
from placement_gym.base.kernels import (
    HomeCacheLocator,
    KernelCache,
    KernelFiles,
    KernelLocations,
)

SAID = "compiling the search for this machine, once: about"


class Weights(Struct):
    names: np.ndarray
    factor: float
    table: np.ndarray
    negative: bool
    sums: Any


@inlined_part
def weigh(weights: Weights, i: int) -> float:
    return weights.table[i, weights.names[i]] * weights.factor


@part
def weigh_all(weights: Weights, totals: np.ndarray) -> None:
    for i in range(len(weights.names)):
        totals[i] = -weigh(weights, i) if weights.negative else weigh(weights, i)
        weights.sums.total_ms += totals[i]
        weights.sums.n += 1


@kernel
def weigh_twice(weights: Weights, totals: np.ndarray) -> int:
    for _ in range(2):
        weigh_all(weights, totals)
    return weights.table.shape[1]


def make_sums() -> Any:
    return np.zeros(1, [("total_ms", np.float64), ("n", np.int64)]).view(np.recarray)[0]


def test_kernels_read_arrays_of_a_struct_and_write_its_record() -> None:
    names, table = np.array([2, 0], np.uint32), np.arange(6.0).reshape(2, 3)
    for negative in (False, True):
        totals, sums = np.zeros(2), make_sums()
        fields = {"sums": sums, "names": names, "negative": negative}
        weights = Weights(table=table, factor=0.5, **fields)
        assert weigh_twice(weights, totals) == 3
        assert totals.tolist() == [(1 - 2 * negative) * one / 2 for one in (2.0, 3.0)]
        assert (sums.total_ms, sums.n) == (2 * totals.sum(), 4)
        assert weights.names is names
    assert len(weigh_twice.signatures) == 1


def test_structs_work_where_numba_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structs, "is_jitted", lambda _: False)  # as by NUMBA_DISABLE_JIT
    fields = {"sums": make_sums(), "names": np.array([2, 0]), "negative": False}
    totals = np.zeros(2)
    weights = Weights(table=np.arange(6.0).reshape(2, 3), factor=0.5, **fields)
    assert weigh_twice.py_func(weights, totals) == 3
    assert totals.tolist() == [1.0, 1.5]


def compile_anything(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    def double(x: int) -> int:
        return 2 * x

    monkeypatch.setattr(double, "__module__", module)
    numba.njit(double)(2)


def test_a_bar_says_that_a_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(kernels, "show_waiting", said.append)
    with progress_bar(None, "steps", quiet=True):
        compile_anything(monkeypatch, "placement_gym.solvers.search.anything")
    assert [text[: len(SAID)] for text in said] == [SAID, ""]


def test_without_a_bar_a_line_on_standard_error_says_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels.LISTENER, "said", set())
    for _ in range(2):
        compile_anything(monkeypatch, "placement_gym.solvers.search.anything")
        compile_anything(monkeypatch, "placement_gym.base.anything")
    out, err = capsys.readouterr()
    assert (out, err.count(SAID), err.count("\n")) == ("", 1, 1)


def test_a_quiet_bar_keeps_the_line_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels.LISTENER, "said", set())
    with progress_bar(None, "steps", quiet=True):
        compile_anything(monkeypatch, "placement_gym.solvers.search.anything")
    assert capsys.readouterr() == ("", "")


def double(x: Any) -> Any:
    return 2 * x


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(KernelCache, "has_warned", False)
    return tmp_path


def count_compiled(*numbers: float) -> int:
    """Signatures that another process has to compile, whose results are checked."""
    compiled = kernel(double)
    assert [compiled(number) for number in numbers] == [2 * number for number in numbers]
    return sum(compiled.stats.cache_misses.values())


def kept(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.nbc"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:100],
        lambda content: content[:200] + bytes(len(content) - 200),  # blocks that were not written
    ],
)
def test_damaged_file_of_a_kernel_is_replaced(
    damage: Callable[[bytes], bytes], cache: Path
) -> None:
    assert (count_compiled(1), count_compiled(1)) == (1, 0)
    (file,) = kept(cache)
    file.write_bytes(damage(file.read_bytes()))
    assert (count_compiled(1), count_compiled(1)) == (1, 0)


def test_each_signature_has_a_file_of_its_own(cache: Path) -> None:
    """An index of all of them would be overwritten by processes that compile at the same time."""
    assert (count_compiled(1), count_compiled(1.5)) == (1, 1)
    assert (len(kept(cache)), count_compiled(1, 1.5)) == (2, 0)


@pytest.mark.parametrize("refused", ["full", "no folder"])
def test_kernels_that_cannot_be_kept_run_with_one_warning(
    refused: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if refused == "no folder":
        monkeypatch.setattr(KernelLocations, "_locator_classes", [])
    with full_disk(), pytest.warns(PlacementGymWarning, match="kernels are not kept") as warned:
        assert (count_compiled(1), count_compiled(1)) == (1, 1)
    assert (len(warned), kept(cache)) == (1, [])


def test_user_without_a_home_has_no_cache_in_the_working_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    assert HomeCacheLocator.from_function(double, __file__) is None


def test_clocks_stand_while_kernels_are_compiled_kept_and_read(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_s = [0.0]

    def slow(method: Any) -> Any:
        def run(*args: Any) -> Any:
            passed_s[0] += 10.0
            return method(*args)

        return run

    for clock in (now_s, cpu_now_s):
        monkeypatch.setattr(clock, "read", lambda: passed_s[0])
    began = now_s(), cpu_now_s()
    for method in ("load", "save"):
        monkeypatch.setattr(KernelFiles, method, slow(getattr(KernelFiles, method)))
    monkeypatch.setattr(kernels.gc, "collect", slow(kernels.gc.collect))  # what compilation left
    monkeypatch.setattr(kernels.LISTENER, "say", slow(kernels.LISTENER.say))
    assert (count_compiled(1), count_compiled(1)) == (1, 0)
    assert passed_s == [50.0]
    assert (now_s(), cpu_now_s()) == pytest.approx(began)
    passed_s[0] += 1.0
    assert now_s() == began[0] + 1.0
