"""What another process needs to make a measured backend again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.health import Session
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.devices import DeviceSpec
from placement_gym.errors import UserError
from placement_gym.files import make_temporary_folder
from placement_gym.graph.extract import extract
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.units import Units, contract
from placement_gym.machine import register
from placement_gym.models import load
from placement_gym.models.loading import match_built_in
from placement_gym.models.saving import write_model
from placement_gym.models.shapes import Shapes
from placement_gym.problem import Problem

if TYPE_CHECKING:
    import openvino as ov

Json = dict[str, Any]


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from.

    Attributes:
        model: As for ``models.load``.
        loaded: What was loaded, where ``model`` is in memory.
        shapes: As for ``models.load``.
        data_shapes: As for ``models.load``.
    """

    model: str | Path | ov.Model
    loaded: ov.Model | None = None
    shapes: Shapes | None = None
    data_shapes: Shapes | None = None

    def load(self) -> ov.Model:
        """Load the model."""
        return load(self.model, self.shapes, self.data_shapes)

    def holding(self, loaded: ov.Model) -> ModelSource:
        """The source of a model that has been loaded."""
        in_memory = not isinstance(self.model, (str, Path))
        return replace(self, loaded=loaded if in_memory else None)

    @contextmanager
    def as_file(self) -> Iterator[Json]:
        """Arguments of ``models.load`` as JSON holds them; a model in memory becomes a file.

        Raises:
            FileError: That cannot be written.
        """
        measured = {"data_shapes": dict(self.data_shapes)} if self.data_shapes else {}
        if self.loaded is None:
            name = str(self.model)
            name = name if match_built_in(name) else str(Path(name).resolve())
            bound = {"shapes": dict(self.shapes)} if self.shapes else {}
            yield {"model": name, **bound, **measured}
            return
        with make_temporary_folder() as folder:
            file = folder / "model.xml"
            write_model(self.loaded, file)
            yield {"model": str(file), **measured}


@dataclass(frozen=True)
class Recipe:
    """A problem and its way of splitting, JSON-able but for the model.

    Attributes:
        name: Name of the model.
        view: View of its operators.
        granularity: Of the units.
        devices: Their specifications.
        unit_of: Operator -> unit.
        supported: (n_units, n_devices) whether the device runs the unit.
        split: Way of splitting.
        operators: What identifies the operators, whatever their order.
        scenario: Of a model with state, else None.
        data_shapes: Sizes that inputs with dynamic dimensions are measured with.
        tolerance: See ``MeasuredEnv``.
    """

    name: str
    view: str
    granularity: str
    devices: list[Json]
    unit_of: dict[str, int]
    supported: list[list[bool]]
    split: str
    operators: str
    scenario: str | None = None
    data_shapes: dict[str, list[int]] = field(default_factory=dict)
    tolerance: float | None = None

    @classmethod
    def of(cls, problem: Problem, view: str, split: str, tolerance: float | None = None) -> Recipe:
        units = problem.units
        return cls(
            units.graph.model,
            view,
            units.granularity,
            [device.to_json() for device in problem.devices],
            dict(zip(units.graph.names, units.of_operator.tolist(), strict=True)),
            problem.supported.tolist(),
            split,
            units.graph.fingerprint(),
            units.graph.scenario or None,
            {name: list(sizes) for name, sizes in units.graph.data_shapes.items()},
            tolerance,
        )

    def to_json(self) -> Json:
        return asdict(self)

    def build(self, source: Json, session: Session, reporter: Reporter) -> MeasuredBackend:
        """Make the backend, from the arguments of ``models.load``.

        Raises:
            UserError: The model has other operators here.
        """
        import openvino as ov

        core = ov.Core()
        devices = tuple(DeviceSpec.from_json(values) for values in self.devices)
        register(core, devices)
        model = load(**source)
        model.set_friendly_name(self.name)
        graph = extract(model, self.view, self.scenario, self.data_shapes)
        self.check(graph)
        labels = np.array([self.unit_of[name] for name in graph.names], dtype=np.int64)
        units = Units(self.granularity, graph, labels, contract(graph, labels))
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
