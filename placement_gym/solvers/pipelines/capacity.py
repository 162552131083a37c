"""How much work kinds of devices can do: prices that a lower bound on the largest load needs."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.minimize import minimize


def price_devices(ms: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Price a millisecond of each kind of device, and the work of each unit by the cheapest kind.

    For any prices, work of some units cannot exceed the largest load times the price of all devices
    that share it. These prices, an optimal dual solution of the load that divided units
    would give, make that tightest for all units and devices.

    Args:
        ms: (n_units, n_kinds) times, infinite where the kind does not support the unit.
        counts: (n_kinds,) number of devices; their prices add up to 1.

    Returns:
        (n_kinds,) prices; (n_units,) priced work.
    """
    program = Linear()
    price = program.variables(len(counts))
    work = program.variables(len(ms), cost=-1.0, in_ms=True)
    unit, kind = np.nonzero(np.isfinite(ms))
    program.require((work[unit], 1.0), (price[kind], -ms[unit, kind]), rows=len(unit))
    program.require((price[None], counts), rows=1, low=1.0, high=1.0)
    found = minimize(program).values
    prices = np.ones(len(counts)) if found is None else np.maximum(found[price], 0.0)
    possible = np.isfinite(ms)
    priced = np.where(possible, np.where(possible, ms, 0.0) * prices, np.inf)
    return prices, priced.min(axis=1)
