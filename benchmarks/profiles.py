"""Seconds that the profile of each model of the study ``measured`` takes, on an idle machine.

    python benchmarks/profiles.py --rows profiles.jsonl

Minutes on the page of that study are those of a run and, if its agent uses one, of the median
profile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from time import perf_counter

from common import Row, combine, run_benchmark

from placement_gym import Study
from placement_gym.backends.measured import build_measured_backend, load_or_measure
from placement_gym.hardware import PRESETS
from placement_gym.models import ModelSpec

N_REPEATS = 3


def list_jobs() -> Iterator[Row]:
    study = Study.load("measured")
    return combine(model=study.models, bed=study.devices, repeat=range(N_REPEATS))


def measure(model: str, bed: str, repeat: int) -> Row:
    with closing(build_measured_backend(ModelSpec(model), PRESETS[bed])) as backend:
        _ = backend.problem  # loads the model
        start_s = perf_counter()
        profile = load_or_measure(backend, refresh=True, quick=True)
        return {"wall_s": perf_counter() - start_s, "interference": profile.interference}


if __name__ == "__main__":
    run_benchmark(__doc__, {"profiles": (list_jobs, measure)})
