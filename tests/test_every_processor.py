"""Results do not depend on the processor's vector instructions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digests import digest

from placement_gym.base import round_significant

SCRIPT = Path(__file__).parent / "support" / "digests.py"
LIBRARY = "glibc.cpu.hwcaps=-AVX2,-FMA"
"""Makes the C library compute exponentials by the formulas of older processors."""


def list_features() -> tuple[list[str], list[str]]:
    """Levels of vector instructions that NumPy can switch off here, and those it lacks."""
    levels = np.show_config(mode="dicts")["SIMD Extensions"]
    return levels.get("found", []), levels.get("not found", [])


def start_script(disabled: list[str], libc: str = "") -> subprocess.Popen[str]:
    """Start the script in a process with features switched off."""
    switches = {"NPY_DISABLE_CPU_FEATURES": " ".join(disabled), "GLIBC_TUNABLES": libc}
    environment = os.environ | {name: value for name, value in switches.items() if value}
    root = str(Path(__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(SCRIPT)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def digests() -> dict[str, dict[str, Any]]:
    """What the script prints with the least features and without the highest level; all here."""
    usable, _ = list_features()
    processes = {"least": start_script(usable, LIBRARY)}
    if len(usable) > 1:
        processes["without AVX-512"] = start_script([n for n in usable if n != "X86_V3"])
    printed = {name: process.communicate()[0] for name, process in processes.items()}
    return {name: json.loads(text) for name, text in {"all": digest(), **printed}.items()}


def test_generators_and_fingerprints_agree_on_processors(digests: dict[str, Any]) -> None:
    usable, absent = list_features()
    if not any("AVX512" in name or name == "X86_V4" for name in usable):
        warnings.warn(f"compared with {usable} only: no AVX-512 among {absent}", stacklevel=1)
    assert len(digests["all"]) > 100
    for name, found in digests.items():
        differing = [key for key in found if found[key] != digests["all"][key]]
        assert not differing, name


def test_known_values_are_found_on_every_processor(digests: dict[str, Any]) -> None:
    for name, found in digests.items():
        values = {key: value for key, value in found.items() if key.startswith("synthetic-layered")}
        lost = [key for key, value in values.items() if value in ([False, True], [False, False])]
        wrong = [key for key, value in values.items() if value == [True, False]]
        assert not lost + wrong, name


@pytest.mark.parametrize("digits", [1, 6, 9, 12])
def test_rounding_is_that_of_decimal_notation(digits: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=2000) * 10.0 ** rng.integers(-30, 30, 2000)
    wanted = [float(f"{value:.{digits - 1}e}") for value in values]
    assert round_significant(values, digits) == pytest.approx(wanted, rel=1e-15, abs=0.0)


def test_rounding_hides_the_last_bit() -> None:
    values = np.random.default_rng(0).lognormal(0.0, 5.0, 100_000)
    above, below = np.nextafter(values, np.inf), np.nextafter(values, 0.0)
    rounded = round_significant(values, 9)
    assert (round_significant(above, 9) == rounded).all()
    assert (round_significant(below, 9) == rounded).all()


def test_rounding_leaves_what_has_no_digits() -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324])
    np.testing.assert_array_equal(round_significant(values, 6), values)
