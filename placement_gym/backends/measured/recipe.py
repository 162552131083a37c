"""Recipe by which another process makes a measured backend again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.health import Session
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.base.errors import UserError
from placement_gym.graph.extract import extract_spec
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.units import Units, contract
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.hardware.machine import register
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.problem import Problem

Json = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """A problem and its way of splitting, JSON-able but for the model.

    Attributes:
        name: Name of the model.
        devices: Their specifications.
        unit_of: Operator -> unit.
        supported: (n_units, n_devices) whether the device runs the unit.
        split: Way of splitting.
        operators: What identifies the operators, whatever their order.
        tolerance: See ``MeasuredEnv``.
    """

    name: str
    devices: list[Json]
    unit_of: dict[str, int]
    supported: list[list[bool]]
    split: str
    operators: str
    tolerance: float | None = None

    @classmethod
    def of(cls, problem: Problem, split: str, tolerance: float | None = None) -> Recipe:
        units = problem.units
        return cls(
            units.graph.model,
            [device.to_json() for device in problem.devices],
            dict(zip(units.graph.names, units.of_operator.tolist(), strict=True)),
            problem.supported.tolist(),
            split,
            units.graph.fingerprint(),
            tolerance,
        )

    def to_json(self) -> Json:
        return asdict(self)

    def build(self, spec: ModelSpec, session: Session, reporter: Reporter) -> MeasuredBackend:
        """Make the backend of a model.

        Raises:
            UserError: The model has other operators here.
        """
        import openvino as ov

        core = ov.Core()
        devices = tuple(DeviceSpec.from_json(values) for values in self.devices)
        register(core, devices)
        model = spec.load()
        model.set_friendly_name(self.name)
        graph = extract_spec(model, spec)
        self.check(graph)
        labels = np.array([self.unit_of[name] for name in graph.names], dtype=np.int64)
        units = Units(spec.granularity, graph, labels, contract(graph, labels))
        problem = Problem(units, devices, np.array(self.supported, dtype=np.bool_))
        return MeasuredBackend(
            core,
            model,
            problem,
            self.split,
            session=session,
            reporter=reporter,
            tolerance=self.tolerance,
        )

    def check(self, graph: OpGraph) -> None:
        """Raise if a graph has other operators than the problem.

        Raises:
            UserError: It has.
        """
        if graph.fingerprint() != self.operators:
            raise UserError(
                f"the process that measures finds other operators in {self.name!r} than this one: "
                "its file has changed since the environment was made, or it cannot be saved and "
                "read again (isolate=False measures in this process)"
            )
