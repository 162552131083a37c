"""Test beds of any number of devices: virtual devices of one CPU, by their names."""

from __future__ import annotations

import re
from typing import Any

from placement_gym.base.arrays import MAX_DEVICES
from placement_gym.base.errors import UserError

NAME = re.compile(r"cpu-testbed-(?P<number>\d{1,4})(?P<tight>-tight)?")
TOGETHER = 1.5
"""Times the model's weights that the devices of a tight test bed hold together."""


def describe_testbed(name: str) -> list[dict[str, Any]] | None:
    """The fields of the devices of ``"cpu-testbed-3"`` or ``"cpu-testbed-3-tight"``.

    They are virtual devices of one CPU with one thread each, ``CPU``, ``CPU_2``, ``CPU_3``. Those
    of a tight test bed hold 1.5 times the weights of the model together, each as much as the
    others, so that none holds the model, and there is room for copies of weights.

    Returns:
        None if it is not such a name.

    Raises:
        UserError: There are fewer than two devices, or more than an environment takes.
    """
    match = NAME.fullmatch(name)
    if match is None:
        return None
    number = int(match["number"])
    if not 2 <= number <= MAX_DEVICES:
        raise UserError(f"{name!r}: a test bed has 2 to {MAX_DEVICES} devices")
    limit = {"weight_share": round(TOGETHER / number, 6)} if match["tight"] else {}
    return [
        {"name": "CPU" if index == 0 else f"CPU_{index + 1}", "threads": 1, "plugin": "CPU"} | limit
        for index in range(number)
    ]
