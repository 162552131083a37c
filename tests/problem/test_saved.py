"""The first line of plan, evaluate and place."""

from __future__ import annotations

import pytest

from placement_gym.problem.placement import Placement, describe_saved


@pytest.mark.parametrize(
    ("devices", "words", "said"),
    [
        (("CPU", "CPU"), {}, "Saved: CPU alone"),
        (("CPU", "CPU"), {"speedup": 1.0, "best_single": "CPU alone"}, "Saved: CPU alone"),
        (("CPU", "GPU", "CPU"), {}, "Saved: a split, 1 of 3 units on GPU"),
        (
            ("CPU", "GPU", "CPU"),
            {"speedup": 1.206, "noise": 0.025, "best_single": "CPU alone"},
            "Saved: a split, 1 of 3 units on GPU, 1.21 ±.03 x CPU alone",
        ),
        (
            ("CPU", "CPU", "CPU", "GPU", "GPU", "NPU"),
            {"speedup": 2.0, "best_single": "GPU alone"},
            "Saved: a split, 2 of 6 units on GPU and 1 on NPU, 2.00 x GPU alone",
        ),
    ],
)
def test_the_line_names_the_devices_and_the_gain(
    devices: tuple[str, ...], words: dict[str, object], said: str
) -> None:
    units = {f"unit-{i}": device for i, device in enumerate(devices)}
    placement = Placement("m", "f", "folded", (), units, members={})
    assert describe_saved(placement, **words) == said  # type: ignore[arg-type]
