"""Kernels: what is kept of them, and what is said while they compile."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

from placement_gym.base import kernels
from placement_gym.base.blocks import by_reference

PART = """
from placement_gym.base.kernels import part

@part
def answer(x):
    return x + {number}
"""
KERNEL = """
from placement_gym.base.kernels import kernel
from parts import answer

@kernel
def ask(x):
    return answer(x)
"""


def double(x: int) -> int:
    return 2 * x


@by_reference
class Weights(NamedTuple):
    names: np.ndarray
    factor: float
    table: np.ndarray
    signed: bool
    shift: int


@kernels.part
def weigh(weights: Weights, i: int) -> float:
    return float(weights.table[i, weights.names[i]]) * weights.factor + weights.shift


@kernels.long_part
def weigh_all(weights: Weights, totals: np.ndarray) -> None:
    for i in range(len(weights.names)):
        totals[i] = -weigh(weights, i) if weights.signed else weigh(weights, i)


@kernels.kernel
def weigh_twice(weights: Weights, totals: np.ndarray) -> int:
    for _ in range(2):
        weigh_all(weights, totals)
    return weights.table.shape[1] + len(weights.names)


def test_kernels_take_tuples_of_arrays_by_reference() -> None:
    names, table = np.array([2, 0], np.uint32), np.arange(12.0).reshape(2, 6)[:, ::2]
    for signed in (False, True):
        totals, weights = np.zeros(2), Weights(names, 0.5, table, signed, 7)
        assert weigh_twice(weights, totals) == 3 + 2
        assert totals.tolist() == [(1 - 2 * signed) * (one / 2 + 7) for one in (4, 6)]
    assert len(weigh_twice.signatures) == 1


def test_a_kernel_is_compiled_again_if_a_part_in_another_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(number: int) -> tuple[int, int]:
        """The answer, and how many kernels came from the cache."""
        (tmp_path / "parts.py").write_text(PART.format(number=number))
        os.utime(tmp_path / "parts.py", (number, number))
        for module in ("parts", "asking"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        ask = import_module("asking").ask
        return ask(40), sum(ask.stats.cache_hits.values())

    (tmp_path / "asking.py").write_text(KERNEL)
    os.utime(tmp_path / "asking.py", (1, 1))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    assert run(2) == (42, 0)
    assert run(2) == (42, 1)
    assert run(3) == (43, 0)


def test_a_bar_says_that_a_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(kernels, "show_waiting", said.append)
    monkeypatch.setattr(double, "__module__", "placement_gym.anything")
    kernels.njit(double)(2)
    assert said == ["compiling, once on this machine", ""]


def test_a_lazy_kernel_is_compiled_once_it_has_run_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "PATIENCE_S", 1e9)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    first, second = (kernels.lazy(kernels.kernel(double)) for _ in range(2))
    assert first(2) == 4
    assert not first.signatures
    monkeypatch.setattr(kernels, "PATIENCE_S", 0.0)
    assert first(2) == 4
    assert len(first.signatures) == 1
    # what is on disk is there at once
    monkeypatch.setattr(kernels, "PATIENCE_S", 1e9)
    assert second(2) == 4
    assert len(second.stats.cache_hits) == 1
