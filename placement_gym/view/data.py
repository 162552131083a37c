"""The contents of a page as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from placement_gym.backends.simulated import SimulatedBackend, schedule_transfers, uint8
from placement_gym.base import FloatArray, IntArray, make_printable
from placement_gym.graph import Units, acyclic_submodels
from placement_gym.hardware import collect_cautions
from placement_gym.view.figures import COLOURS
from placement_gym.view.layout import lay_out
from placement_gym.view.scene import DisplayedPlacement, Scene

Values = dict[str, Any]
DIGITS, START_DIGITS = 4, 8
"""Significant digits of times on the page; starts have more, so consecutive ones differ."""


def make_view_data(scene: Scene) -> Values:
    """Make the values of a page: columns of units and edges, and placements with their timelines.

    Times are in ms, sizes in bytes.
    """
    backend = scene.backend
    units = backend.problem.units
    layout = lay_out(units.quotient)
    return {
        "model": make_printable(units.graph.model),
        "costs": backend.costs.source,
        "schedule": backend.semantics.schedule,
        "cautions": collect_cautions(backend.problem.devices),
        "one_device_holds_the_model": scene.one_device_holds_the_model,
        "devices": list_devices(backend),
        "units": describe_units(backend)
        | {"layer": layout.layer.tolist(), "position": layout.position.round(2).tolist()},
        "edges": describe_edges(backend) | {"bends": layout.bends},
        "placements": [describe_placement(backend, shown) for shown in scene.placements],
    }


def list_devices(backend: SimulatedBackend) -> list[Values]:
    problem, costs, limits = backend.problem, backend.costs, backend.problem.limits_bytes
    return [
        {
            "name": device.name,
            "colour": COLOURS[index % len(COLOURS)],
            "limit": int(limits[index]) if np.isfinite(limits[index]) else None,
            "link_ms": round_values(costs.link_ms[index]),
            "link_ms_per_size": round_values(costs.link_ms_per_size[index]),
        }
        for index, device in enumerate(problem.devices)
    ]


def describe_units(backend: SimulatedBackend) -> Values:
    """Columns of the units; types and shapes are those of the operators that name them."""
    units = backend.problem.units
    graph = units.quotient
    type_of = dict(zip(units.graph.names, units.graph.types, strict=True))
    shapes = [
        f"{kind} [{', '.join(map(str, shape))}]"
        for kind, shape in zip(graph.element_types, graph.shapes, strict=True)
    ]
    return {
        "name": [make_printable(name) for name in graph.names],
        "type": number_texts(type_of[name] for name in graph.names),
        "shape": number_texts(shapes),
        "weights": graph.weight_bytes.tolist(),
        "ms": [round_values(column) for column in backend.costs.unit_ms(units).T],
        "runs_on": [column.astype(int).tolist() for column in backend.problem.supported.T],
        "operators": describe_operators(units),
    }


def describe_operators(units: Units) -> Values:
    several = np.bincount(units.of_operator, minlength=len(units)) > 1
    indices = np.flatnonzero(several[units.of_operator]).tolist()
    graph = units.graph
    return {
        "unit": units.of_operator[indices].tolist(),
        "name": [make_printable(graph.names[operator]) for operator in indices],
        "type": number_texts(graph.types[operator] for operator in indices),
    }


def number_texts(texts: Iterable[str]) -> Values:
    numbers: dict[str, int] = {}
    index = [numbers.setdefault(make_printable(text), len(numbers)) for text in texts]
    return {"texts": list(numbers), "index": index}


def describe_edges(backend: SimulatedBackend) -> Values:
    """Columns of the edges; one that is never a transfer, as to a Result, has no bytes."""
    units = backend.problem.units
    graph, movable = units.quotient, units.graph.movable_tensors
    sizes = backend.costs.transfer_size[units.graph.movable]
    tensor, reader = movable.readings()
    ends = np.stack([units.of_operator[movable.source[tensor]], units.of_operator[reader]])
    pairs, first = np.unique(np.stack([*ends, tensor]), axis=1, return_index=True)
    outside = pairs[0] != pairs[1]
    edge = graph.find_edges(*pairs[:2, outside])
    tensor = tensor[first][outside]

    def add_up(values: Any) -> FloatArray:
        return np.bincount(edge, values, graph.n_edges).astype(np.float64)

    return {
        "source": graph.edge_index[0].tolist(),
        "target": graph.edge_index[1].tolist(),
        "bytes": add_up(movable.size_bytes[tensor]).astype(np.int64).tolist(),
        "size": round_values(add_up(sizes[tensor])),
        "tensors": add_up(np.ones(len(tensor))).astype(np.int64).tolist(),
    }


def describe_placement(backend: SimulatedBackend, shown: DisplayedPlacement) -> Values:
    problem, simulator = backend.problem, backend.simulator
    units = problem.units
    placement = uint8(shown.assignment)
    _, start, finish = backend.schedule(shown.assignment)
    latency_ms, n_submodels = simulator.latency_and_submodels(placement)
    transfers = schedule_transfers(simulator, placement, finish)
    submodel, devices = np.zeros(len(units), dtype=np.int64), shown.assignment[units.of_operator]
    submodel[units.of_operator] = acyclic_submodels(units.graph, devices)
    return {
        "label": make_printable(shown.label),
        "saved": make_printable(shown.saved),
        "result": make_printable(shown.result),
        "error": make_printable(backend.infeasibility(shown.assignment)),
        "latency_ms": latency_ms,
        "measured_ms": shown.measured_ms,
        "submodels": int(n_submodels.sum()),
        "submodel_ms": float(n_submodels @ backend.costs.submodel_ms),
        "memory": backend.memory_bytes(placement).tolist(),
        "device": shown.assignment.tolist(),
        "submodel": submodel.tolist(),
        "runs": find_runs(units, start, finish),
        "transfers": {
            "unit": units.of_operator[transfers.operator].tolist(),
            "source": transfers.source.tolist(),
            "target": transfers.target.tolist(),
            "start": round_values(transfers.start_ms, START_DIGITS),
            "ms": round_values(transfers.finish_ms - transfers.start_ms),
            "bytes": transfers.size_bytes.tolist(),
        },
    }


def find_runs(units: Units, start: FloatArray, finish: FloatArray) -> Values:
    """Columns of runs: consecutive operators of a unit without a pause are one run."""
    order = np.lexsort((finish, start, units.of_operator))
    unit, begin, end = units.of_operator[order], start[order], finish[order]
    begins = np.ones(len(unit), dtype=np.bool_)
    begins[1:] = (unit[1:] != unit[:-1]) | (begin[1:] > end[:-1] + 1e-12)
    first = np.flatnonzero(begins)
    runs: IntArray = unit[first]
    return {
        "unit": runs.tolist(),
        "start": round_values(begin[first], START_DIGITS),
        "ms": round_values(np.maximum.reduceat(end, first) - begin[first]),
    }


def round_values(values: FloatArray, digits: int = DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values.tolist()]
