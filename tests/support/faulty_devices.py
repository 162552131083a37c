"""A test bed of which one device computes chosen operators wrongly, or refuses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

OFF = 1.01
"""Factor of what a wrong operator returns."""


class FaultyCore(ov.Core):
    """OpenVINO where a device has faults, whatever other devices compile.

    Args:
        device: Name of the device, of which aliases begin with it.
        wrong: Operators whose first output is 1 % too large there.
        refused: Operators that the device does not compile, although ``query_model`` lists them.
        unknown: Operators that ``query_model`` does not list.
        silent: Whether the error of a refusal names no operator.
        together: Operators of which the last is wrong, only where the device runs all of them.
    """

    def __init__(
        self,
        device: str,
        wrong: Collection[str] = (),
        refused: Collection[str] = (),
        unknown: Collection[str] = (),
        silent: bool = False,
        together: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.device, self.wrong, self.refused = device, wrong, refused
        self.unknown, self.silent, self.together = unknown, silent, together
        self.compilations = 0

    def query_model(self, model: ov.Model, device_name: str, *rest: Any) -> dict[str, str]:
        found: dict[str, str] = super().query_model(model, device_name, *rest)
        unknown = self.unknown if device_name == self.device else ()
        return {name: where for name, where in found.items() if name not in unknown}

    def compile_model(
        self, model: ov.Model, device_name: str, config: Mapping[str, Any]
    ) -> ov.CompiledModel:
        self.compilations += 1
        broken = model.clone()
        mine = [node for node in broken.get_ordered_ops() if self.runs(node, device_name)]
        joined = self.is_joined(mine)
        for node in mine:
            self.break_node(node, joined)
        return super().compile_model(broken, device_name, config)

    def runs(self, node: ov.Node, device_name: str) -> bool:
        """Return whether a node runs on the faulty device."""
        if not device_name.startswith("HETERO"):
            return device_name == self.device
        return str(node.get_rt_info()["affinity"].astype(str)).startswith(self.device)

    def is_joined(self, nodes: Sequence[ov.Node]) -> bool:
        """Return whether each of ``together`` reads the one before it, on the device."""
        names = {node.get_friendly_name(): node for node in nodes}
        return bool(self.together) and all(
            last in names
            and first in names
            and names[last].input(0).get_source_output().get_node().get_friendly_name() == first
            for first, last in pairwise(self.together)
        )

    def break_node(self, node: ov.Node, joined: bool) -> None:
        name = node.get_friendly_name()
        if name in self.refused:
            named = "an operator" if self.silent else f"operator '{name}'"
            raise RuntimeError(f"[{self.device}] {named} is not implemented")
        if name in self.wrong or (joined and name == self.together[-1]):
            output = node.output(0)
            readers = list(output.get_target_inputs())
            factor = ops.constant(np.array(OFF, dtype=np.float32))
            off = ops.multiply(output, factor)
            for number, new in enumerate((factor, off)):
                new.set_friendly_name(f"{name}/off{number}")
                if "affinity" in node.get_rt_info():
                    new.get_rt_info()["affinity"] = node.get_rt_info()["affinity"].astype(str)
            for reader in readers:
                reader.replace_source_output(off.output(0))
