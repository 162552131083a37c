"""Cost tables: times of operators, transfers and submodels, in files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from placement_gym.base import (
    BoolArray,
    FloatArray,
    IntArray,
    JsonFile,
    UserError,
    check_choice,
    compute_checksum,
    round_significant,
)
from placement_gym.graph import OpGraph, Units

FORMAT = 2
"""Version of the file; raise it when an older program would misread a newer file."""
MIN_MS = 1e-250
"""Smallest positive time. Chosen because products of smaller ones lose digits as denormal numbers,
which breaks bounds of solvers."""
TRANSFER_UNITS = ("MB", "ms")
MAX_SUM = float(2**62)
"""Largest sum of bytes, times or sizes. Chosen because int64 holds twice as much."""
ARRAYS: dict[str, tuple[type, str]] = {
    "operator_ms": (np.float64, "od"),
    "supported": (np.bool_, "od"),
    "memory_bytes": (np.int64, "o"),
    "transfer_size": (np.float64, "t"),
    "link_ms": (np.float64, "dd"),
    "link_ms_per_size": (np.float64, "dd"),
    "submodel_ms": (np.float64, "d"),
    "host": (np.bool_, "d"),
    "repeats": (np.int64, "t"),
}
"""Array of a ``CostTable`` -> its type, and its axes: operators, devices or tensors."""


class CostMismatchError(UserError):
    """A cost table was made for another model or other devices."""


@dataclass(frozen=True, eq=False)
class CostTable(JsonFile):
    """Costs of one operator graph on some devices, in milliseconds.

    Attributes:
        source: Source of the costs, such as ``"analytic"``.
        graph: Fingerprint of the operator graph.
        operators: (n_operators,) names.
        devices: (n_devices,) names.
        operator_ms: (n_operators, n_devices) time of each operator on each device.
        supported: (n_operators, n_devices) bool, whether the device can run the operator.
        memory_bytes: (n_operators,) memory that each operator takes on its device.
        transfer_size: (n_tensors,) size of each tensor's transfer, in ``transfer_unit``.
        transfer_unit: ``"MB"``: megabytes; ``"ms"``: milliseconds between an accelerator and the
            host's memory, as in published workloads.
        link_ms: (n_devices, n_devices) fixed time of a transfer, zero on the diagonal.
        link_ms_per_size: (n_devices, n_devices) additional time per unit of ``transfer_size``,
            zero on the diagonal.
        submodel_ms: (n_devices,) cost of every submodel on the device, or of every stage of a
            pipeline.
        host: (n_devices,) bool, whether the device computes in the host's memory.
        repeats: (n_tensors,) transfers of each tensor in a round of several models; None is one.
        interference: Share of the time that other programs took during the measurement.
        structure: Fingerprint of the graph without names, for models whose names change when they
            are read again; empty if names must be equal.

    Raises:
        ValueError: Shapes do not fit together, a cost is negative or not finite, or the unit is
            unknown.
    """

    kind: ClassVar = "a valid cost table"
    max_megabytes: ClassVar = 1024

    source: str
    graph: str
    operators: tuple[str, ...]
    devices: tuple[str, ...]
    operator_ms: FloatArray
    supported: BoolArray
    memory_bytes: IntArray
    transfer_size: FloatArray
    transfer_unit: str
    link_ms: FloatArray
    link_ms_per_size: FloatArray
    submodel_ms: FloatArray
    host: BoolArray
    repeats: IntArray | None = None
    interference: float = 0.0
    structure: str = ""

    def __post_init__(self) -> None:
        n = {"o": len(self.operators), "d": len(self.devices), "t": len(self.transfer_size)}
        for name in self.arrays:
            shape = tuple(n[axis] for axis in ARRAYS[name][1])
            if getattr(self, name).shape != shape:
                raise UserError(f"{name} has shape {getattr(self, name).shape}, not {shape}")
        check_choice("transfer_unit", self.transfer_unit, TRANSFER_UNITS)
        numbers = [getattr(self, name) for name in self.arrays if ARRAYS[name][0] is not np.bool_]
        if not all(np.isfinite(array).all() and (array >= 0).all() for array in numbers):
            raise UserError("costs must be finite and not negative")
        if any(
            array.max(initial=0) > MAX_SUM or array.sum(dtype=np.float64) > MAX_SUM
            for array in numbers
        ):
            raise UserError(f"costs must not exceed {MAX_SUM:.3g}, in one entry or in their sum")
        if any(((array > 0) & (array < MIN_MS)).any() for array in numbers):
            raise UserError(
                f"costs below {MIN_MS:g} ms exceed float precision: state costs in milliseconds"
            )
        if np.diagonal(self.link_ms).any() or np.diagonal(self.link_ms_per_size).any():
            raise UserError("a transfer within a device costs nothing: the diagonal must be zero")

    @classmethod
    def by_bytes(cls, graph: OpGraph, devices: tuple[str, ...]) -> CostTable:
        """A table for devices of unknown speed, where only transfers cost: 1 ms per megabyte."""
        n, d = len(graph.names), len(devices)
        return cls(
            source="bytes",
            graph=graph.fingerprint(),
            operators=graph.names,
            devices=devices,
            operator_ms=np.zeros((n, d)),
            supported=np.ones((n, d), dtype=np.bool_),
            memory_bytes=np.zeros(n, dtype=np.int64),
            transfer_size=graph.tensors.size_bytes / 1e6,
            transfer_unit="MB",
            link_ms=np.zeros((d, d)),
            link_ms_per_size=1.0 - np.eye(d),
            submodel_ms=np.zeros(d),
            host=np.zeros(d, dtype=np.bool_),
        )

    @cached_property
    def transfer_ms(self) -> FloatArray:
        """(n_tensors, n_devices, n_devices) time of each tensor's transfer."""
        transfer_ms = self.link_ms + self.transfer_size[:, None, None] * self.link_ms_per_size
        return transfer_ms if self.repeats is None else transfer_ms * self.repeats[:, None, None]

    @cached_property
    def boundary_ms(self) -> FloatArray:
        """(n_tensors, n_devices) time between each device and the host's memory.

        That is the transfer to the first host; without one, half of the cheapest transfer to
        another device, which uses the links of both.
        """
        n_devices = len(self.devices)
        hosts = np.flatnonzero(self.host)
        part = np.zeros((len(self.transfer_size), n_devices))
        for device in np.flatnonzero(~self.host):
            others = np.flatnonzero(np.arange(n_devices) != device)
            if len(hosts):
                part[:, device] = self.transfer_ms[:, device, hosts[0]]
            elif len(others):
                part[:, device] = self.transfer_ms[:, device, others].min(axis=1) / 2
        return part

    def unit_ms(self, units: Units) -> FloatArray:
        """(n_units, n_devices) time of each unit, the sum over its operators."""
        columns = [np.bincount(units.of_operator, ms, len(units)) for ms in self.operator_ms.T]
        return np.stack(columns, axis=1)

    def units_supported(self, units: Units) -> BoolArray:
        """(n_units, n_devices) bool, whether the device runs every operator of the unit."""
        n_refused = np.zeros((len(units), len(self.devices)), dtype=np.int64)
        np.add.at(n_refused, units.of_operator, ~self.supported)
        return n_refused == 0

    def scaled(self, factors: FloatArray) -> CostTable:
        """The table with operator times multiplied by (n_devices,) factors."""
        return replace(self, operator_ms=self.operator_ms * factors)

    def in_a_round(self, graph: OpGraph) -> CostTable:
        """The costs of a round, in which each model runs as often as its rate."""
        if (graph.rates == 1).all():
            return self
        rates = graph.rates[graph.model_of]
        return replace(
            self, operator_ms=self.operator_ms * rates[:, None], repeats=rates[graph.tensors.source]
        )

    def check(self, graph: OpGraph, devices: tuple[str, ...]) -> None:
        """Raise ``CostMismatchError`` if the table was made for another model or other devices."""
        if self.devices != devices:
            raise CostMismatchError(
                f"the cost table is for devices {list(self.devices)}, not {list(devices)}"
            )
        named = self.graph == graph.fingerprint() and self.operators == graph.names
        if not named and self.structure != graph.fingerprint(by_name=False):
            raise CostMismatchError(
                f"the cost table was made for another graph ({self.graph}) than "
                f"{graph.model!r} ({graph.fingerprint()}), or for its operators in another order: "
                "use the same model and view"
            )
        n_tensors = len(graph.tensors.source)
        if len(self.transfer_size) != n_tensors:
            raise CostMismatchError(
                f"transfer_size has {len(self.transfer_size)} entries, but {graph.model!r} has "
                f"{n_tensors} tensors: make the table again for this model"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits that identify the table, its numbers rounded to nine digits."""
        digest = hashlib.sha256(repr((self.graph, self.devices)).encode())
        for name in self.arrays:
            values = getattr(self, name)
            # The last digits of computed costs differ between processors.
            exact = values.dtype.kind != "f"
            digest.update((values if exact else round_significant(values, 9)).tobytes())
        return digest.hexdigest()[:16]

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays that are not None."""
        return [name for name in ARRAYS if getattr(self, name) is not None]

    def to_json(self) -> dict[str, Any]:
        """The contents of the table's file, with their checksum."""
        arrays = {name: getattr(self, name).tolist() for name in self.arrays}
        values = {
            "format": FORMAT,
            "source": self.source,
            "graph": self.graph,
            "operators": list(self.operators),
            "devices": list(self.devices),
            "transfer_unit": self.transfer_unit,
            **({"structure": self.structure} if self.structure else {}),
            **arrays,
            **({"interference": self.interference} if self.interference else {}),
        }
        return values | {"checksum": compute_checksum(values)}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        from placement_gym.base.schemas import CostFields

        fields = dict(CostFields.read(values, FORMAT))
        checksum = fields.pop("checksum")
        for name, (kind, _) in ARRAYS.items():
            if fields[name] is not None:
                fields[name] = make_array(name, fields[name], kind)
        fields |= {name: tuple(fields[name]) for name in ("operators", "devices")}
        table = cls(**fields)
        if checksum not in (None, compute_checksum(values)):
            raise UserError(
                "its contents do not match its checksum: write the file again, or remove the key "
                "'checksum' if you edited it"
            )
        return table


def name_costs_file(placement_file: str | Path) -> Path:
    """The file of the costs that a placement was solved for, next to the placement's file."""
    path = Path(placement_file)
    return path.with_name(f"{path.stem}-costs.json")


def make_array(name: str, values: list[Any], kind: type) -> Any:
    """An array from nested lists of one type."""
    try:
        return np.array(values, dtype=kind)
    except ValueError:
        raise UserError(f"the rows of {name} differ in length") from None
