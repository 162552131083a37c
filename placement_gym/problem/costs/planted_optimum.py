"""The latency of planted optima under a cost table."""

from __future__ import annotations

import numpy as np

from placement_gym.base.errors import UserError
from placement_gym.graph.planted import SLACK, PlantedPlan
from placement_gym.problem.costs.table import CostTable


def planted_ms(model: str, costs: CostTable) -> float:
    """The optimal latency of a planted graph under schedule ``"list"``, in ms.

    Args:
        model: Its name.
        costs: Of its operators, on as many equal devices as the name states.

    Raises:
        UserError: The optimum is unknown: the number of devices is another one, they differ, or
            transfers take too long.
    """
    plan, times = PlantedPlan.parse(model), costs.operator_ms
    transfer_ms = costs.transfer_ms.max(initial=0.0)
    if len(costs.devices) != plan.devices or not np.allclose(times, times[0, 0], rtol=1e-12):
        raise UserError(
            f"the optimum of {model!r} is known on {plan.devices} equal devices, not on "
            f"{list(costs.devices)}"
        )
    if transfer_ms > SLACK * times[0, 0]:
        raise UserError(
            f"the optimum of {model!r} is known if a transfer takes at most {SLACK} times as long "
            f"as an operator, not {transfer_ms:.3g} ms next to {times[0, 0]:.3g} ms"
        )
    # Every device is busy in every slot, and no transfer is longer than its slack: a lower bound by
    # work that the planted placement reaches.
    return float(plan.slots * times[0, 0])
