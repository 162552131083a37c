"""Prices of devices: their bound is that of units that can be divided."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import draw_backend

from placement_gym.solvers.bounds import load_ms
from placement_gym.solvers.kinds import Kinds, interchangeable_devices
from placement_gym.solvers.pipelines.contiguous import price_devices


@pytest.mark.parametrize("seed", range(10))
def test_priced_work_is_the_least_divided_load(seed: int) -> None:
    backend = draw_backend(seed, n=9, kinds="ABBCC", refused=0.2)
    problem, costs = backend.problem, backend.costs
    kinds = Kinds(interchangeable_devices(problem, costs))
    ms = np.where(problem.supported, costs.unit_ms(problem.units), np.inf)[:, kinds.first]
    prices, work = price_devices(ms, kinds.counts)
    assert prices @ kinds.counts == pytest.approx(1.0)
    assert work.sum() == pytest.approx(load_ms(problem, costs))
    unit, kind = np.nonzero(np.isfinite(ms))
    assert (work[unit] <= ms[unit, kind] * prices[kind] + 1e-12).all()
