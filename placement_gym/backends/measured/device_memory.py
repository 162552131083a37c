"""Memory that devices hold once a placement runs, as their plugins report it.

OpenVINO 2026.4 may leave the second GPU of a HETERO empty without an error (openvino #38250,
#38253): the placement then runs on another device than it names, and its outputs are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from placement_gym.backends import EngineFailureError, Kind
from placement_gym.base import format_bytes
from placement_gym.hardware import load_plugin
from placement_gym.problem import Problem

if TYPE_CHECKING:
    import openvino as ov

STATISTICS = "GPU_MEMORY_STATISTICS"
HeldBytes = tuple[int | None, ...]
"""(n_devices,) bytes; None where a plugin does not report them."""


def watch_memory(core: ov.Core, names: Sequence[Sequence[str]]) -> Callable[[], HeldBytes]:
    """Note what devices hold now, and return what finds the bytes allocated since then.

    Args:
        core: The core that compiles the placement.
        names: (n_devices,) the registered names, aliases included, under which each is used.
    """
    before = [read_held_bytes(core, own) for own in names]

    def find_held() -> HeldBytes:
        pairs = zip([read_held_bytes(core, own) for own in names], before, strict=True)
        return tuple(
            None if now is None or then is None else max(now - then, 0) for now, then in pairs
        )

    return find_held


def read_held_bytes(core: ov.Core, names: Sequence[str]) -> int | None:
    """Bytes of all kinds of memory that this process holds on a device, under all of its names.

    Returns:
        None if the device is not used, or its plugin does not report it.
    """
    if not names or any(STATISTICS not in load_plugin(core, name) for name in names):
        return None
    return sum(sum(core.get_property(name, STATISTICS).values()) for name in names)


def check_held(problem: Problem, placed_bytes: Sequence[int], held_bytes: HeldBytes) -> None:
    """Raise if weights were placed on a device that holds nothing.

    Args:
        problem: The devices.
        placed_bytes: (n_devices,) bytes of weights that were placed on each device.
        held_bytes: (n_devices,) bytes that each holds, as ``watch_memory`` finds them.

    Raises:
        EngineFailureError: One holds nothing.
    """
    for name, weight_bytes, used_bytes in zip(
        problem.device_names, placed_bytes, held_bytes, strict=True
    ):
        if weight_bytes and used_bytes == 0:
            raise EngineFailureError(
                Kind.INFEASIBLE,
                f"{name} holds nothing, though {format_bytes(weight_bytes)} of weights were placed "
                "on it: OpenVINO ran them elsewhere. Some versions do so with two GPUs in one "
                "HETERO: place on one of them, or use compile_stages, which compiles the parts "
                "of each by themselves",
            )
