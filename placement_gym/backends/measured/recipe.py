"""The recipe of a worker, from which another process builds it, and whether devices get aliases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from placement_gym.base import SPLITS, UserError, check_choice
from placement_gym.graph import OpGraph
from placement_gym.hardware import ALIASABLE, DeviceSpec
from placement_gym.models import FoundShapes
from placement_gym.problem import Problem

Json = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """What a process needs to build a worker, apart from the model.

    Attributes:
        name: Name of the model.
        devices: Their specifications.
        unit_of: Operator -> unit.
        supported: (n_units, n_devices) whether the device runs the unit.
        split: See ``placement_gym.compile_model``.
        fingerprint: That of the graph.
        tolerance: See ``MeasuredEnv``.
        found: Shapes that the data decide, see ``Inspection``.
    """

    name: str
    devices: list[Json]
    unit_of: dict[str, int]
    supported: list[list[bool]]
    split: str
    fingerprint: str
    tolerance: float | None = None
    found: Sequence[FoundShapes] = ()

    @classmethod
    def from_problem(cls, problem: Problem, split: str, tolerance: float | None = None) -> Recipe:
        units = problem.units
        return cls(
            units.graph.model,
            [device.to_json() for device in problem.devices],
            dict(zip(units.graph.names, units.of_operator.tolist(), strict=True)),
            problem.runs.tolist(),
            split,
            units.graph.fingerprint(),
            tolerance,
            units.graph.found,
        )

    def to_json(self) -> Json:
        return asdict(self)

    def check(self, graph: OpGraph) -> None:
        """Raise ``UserError`` if a graph has other operators than the problem."""
        if graph.fingerprint() != self.fingerprint:
            raise UserError(
                f"the process that measures finds other operators in {self.name!r} than this one: "
                "its file has changed since the environment was made, or it changes when it is "
                "saved. Make the environment again, or pass isolate=False to measure here"
            )


def uses_aliases(split: str, specs: Sequence[DeviceSpec]) -> bool:
    """Return whether a split mode gives alias names to the devices that can have them.

    Raises:
        ValueError: Unknown mode, or aliases of a plugin that cannot be registered twice.
    """
    check_choice("split", split, SPLITS)
    unaliasable = [spec.name for spec in specs if spec.kind not in ALIASABLE]
    if split == "alias" and unaliasable:
        raise UserError(
            f"{unaliasable} cannot be given a second name: use split='hetero' or 'auto'"
        )
    return split != "hetero"
