"""Networks in ONNX, written node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

Shapes = Mapping[str, Sequence[int | str]]


class Writer:
    """Collects nodes and constants, each named by its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: ArrayLike) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def save(self, path: Path, inputs: Shapes, outputs: Shapes, opset: int = 17) -> Path:
        """Write the file; dimensions may be names."""
        ends = [
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
                for name, shape in one.items()
            ]
            for one in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, path.stem, *ends, self.constants)
        opsets = [helper.make_opsetid("", opset)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path
